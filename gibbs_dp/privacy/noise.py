"""The one source of noise for releases: the system's cryptographic bits, exact on public lattices.

Whatever adds noise to a number that is released takes it from here, and all of it is made by
`gibbs_dp.privacy.exact_samplers` from ``os.urandom``. Chains draw from keys of ChaCha20 with 256 of
these bits (`gibbs_dp._jaxlib.chacha`). There is no state: nothing is drawn ahead, so
that forks and copies of a process share nothing.

Why not OpenDP, whose samplers are the same: it is an extra, and a core installation, where the
estimators and `gibbs_dp.release` work too, must have noise as good; one source is tested once.

Two lattices, both public. Rows that the library adds up itself are rounded to multiples of
``2^-30`` each. Numbers that come from elsewhere are multiples of ``2^-1074``, as all doubles are:
they get discrete noise on this lattice, without any rounding, and the result is rounded to a double
only then. Every double can be reached from every table.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray
from scipy.special import ndtri

from gibbs_dp._jaxlib.chacha import chacha_key
from gibbs_dp.information import checks
from gibbs_dp.privacy.exact_samplers import (
    Bits,
    discrete_gaussian,
    discrete_laplace,
    weighted_choice,
)

Shape = int | tuple[int, ...]
Number = float | Fraction

# Steps of the lattice for rows in a unit of 1.
FINENESS = 2**30
LARGEST = float(np.finfo(np.float64).max)
# All doubles are multiples of its inverse.
DOUBLES = 2**1074
# Scales are computed in doubles, as sensitivity / epsilon: what that may lose is put back.
ROOM = 1 + Fraction(1, 2**50)
# Narrower noise would be of few steps of the lattice.
LEAST_SCALE = 2.0**-1000


class Noise(Bits):
    """Random bits, and doubles made of them; `SecretNoise`, or in tests `SeededNoise`."""

    def random(self, size: Shape) -> Float[np.ndarray, ...]:
        """Draw doubles strictly between 0 and 1, of 53 random bits: for chains, not for releases.

        Beyond some ten standard deviations no number is made of them, and sums of them have gaps.
        """
        shape = (size,) if isinstance(size, int) else size
        words = np.frombuffer(self.bytes(8 * math.prod(shape)), dtype=np.uint64) >> np.uint64(11)
        return ((words + 0.5) * 2.0**-53).reshape(shape)

    def standard_normal(self, size: Shape) -> Float[np.ndarray, ...]:
        """Draw standard normal doubles by inversion: for chains, as `random`."""
        return np.asarray(ndtri(self.random(size)))


class SecretNoise(Noise):
    """From ``os.urandom``; there is no state and no seed.

    Examples
    --------
    >>> SecretNoise().standard_normal((2, 3)).shape
    (2, 3)
    """

    def bytes(self, count: int) -> bytes:
        """Draw bytes."""
        return os.urandom(count)


class SeededNoise(Noise):
    """The same numbers for the same seed, which protect nobody: for tests.

    >>> SeededNoise(0).below(10) == SeededNoise(0).below(10)
    True
    """

    def __init__(self, seed: int | Sequence[int] | Int[np.ndarray, " words"]) -> None:
        self._generator = np.random.default_rng(seed)

    def bytes(self, count: int) -> bytes:
        """Draw bytes."""
        return self._generator.bytes(count)


SECRET = SecretNoise()


def secret_key() -> PRNGKeyArray:
    """Make a key of ChaCha20 from 256 bits of the system's entropy; it is never shown or stored.

    Chains that are released draw from it by ``jax.random``, as from any other key.

    Examples
    --------
    >>> secret_key().shape
    ()
    """
    return chacha_key(np.frombuffer(os.urandom(32), dtype=np.uint32))


# -- rows that are added up here -------------------------------------------------------------------


def on_lattice(values: Float[np.ndarray, "*shape"]) -> Int[np.ndarray, "*shape"]:
    """Cut off to whole numbers of steps of ``2^-30``, towards zero: no norm grows.

    >>> on_lattice(np.array([0.5]))
    array([536870912])
    """
    return np.trunc(values * FINENESS).astype(np.int64)


def exact_means(values: Float[np.ndarray, "rows columns"]) -> list[Fraction]:
    """Means of numbers in [0, 1], each cut off to the lattice: one row moves them by ``1/n``.

    >>> exact_means(np.array([[0.5], [0.25]]))
    [Fraction(3, 8)]
    """
    totals = on_lattice(values).sum(axis=0).tolist()
    return [Fraction(total, len(values) * FINENESS) for total in totals]


def exact_product(
    matrix: Float[np.ndarray, "rows columns"], vector: Float[np.ndarray, " columns"]
) -> list[Fraction]:
    """Multiply without rounding: rounding errors would add to the sensitivity.

    >>> exact_product(np.array([[0.5, 1e-30]]), np.array([1.0, 1.0]))[0] > 0.5
    True
    """
    numbers = [Fraction(v) for v in _finite(vector)]
    return [
        sum((Fraction(float(row[i])) * numbers[i] for i in np.flatnonzero(row)), Fraction(0))
        for row in matrix
    ]


# -- numbers ---------------------------------------------------------------------------------------


def add_laplace(value: Number, scale: float, source: Noise = SECRET) -> Fraction:
    """Add ``Lap(scale)`` noise to one number, on the lattice of all doubles.

    Its law is discrete: pure DP holds for it as for the continuous one, as for all of what is
    computed from it. Compare what this returns, not its rounding: sums and differences of rounded
    numbers may tell what the exact ones do not.

    Parameters
    ----------
    value
        A finite number; a fraction is rounded to the lattice.
    scale
        Of the noise, in the unit of the value; raised by a share of ``2^-50``, so that rounding in
        ``sensitivity / epsilon`` costs nothing.
    source
        Of random bits.

    Returns
    -------
    Fraction
        The noisy number.

    Examples
    --------
    >>> abs(add_laplace(100.0, 0.1) - 100) < 10
    True
    """
    steps = _steps(value) + discrete_laplace(_scale_in_steps(scale), 1, source)
    return Fraction(steps, DOUBLES)


def add_gaussian(value: Number, sigma: float, source: Noise = SECRET) -> Fraction:
    """Add ``N(0, sigma^2)`` noise to one number, on the lattice of all doubles.

    zCDP holds for this discrete law as for the continuous one (Canonne, Kamath & Steinke 2020);
    curves of ``(epsilon, delta)`` and Gaussian DP are those of the continuous law, from whose
    rounding it differs by a total variation below ``(step / sigma)^2 < 2^-140``. Parameters are
    those of `add_laplace`.

    Examples
    --------
    >>> abs(add_gaussian(100.0, 0.1) - 100) < 10
    True
    """
    variance = _scale_in_steps(sigma) ** 2
    return Fraction(_steps(value) + discrete_gaussian(variance, 1, source), DOUBLES)


def laplace_release(
    values: Float[np.ndarray, " values"] | Sequence[Fraction], scale: float
) -> Float[np.ndarray, " values"]:
    """Add independent ``Lap(scale)`` noise to every value, and round to doubles.

    Parameters
    ----------
    values
        Finite numbers.
    scale
        Of the noise, in the unit of the values.

    Returns
    -------
    array
        The noisy values.

    Raises
    ------
    ValueError
        If ``scale`` is not positive, or a value is not finite.

    Examples
    --------
    >>> laplace_release(np.zeros(3), 1.0).shape
    (3,)
    """
    checks.positive("scale", scale)
    return np.array([to_double(add_laplace(value, scale)) for value in _finite(values)])


def gaussian_release(
    values: Float[np.ndarray, " values"] | Sequence[Fraction], sigma: float, source: Noise = SECRET
) -> Float[np.ndarray, " values"]:
    """Add independent ``N(0, sigma^2)`` noise to every value; parameters as `laplace_release`.

    Examples
    --------
    >>> gaussian_release(np.zeros(3), 1.0).shape
    (3,)
    """
    checks.positive("sigma", sigma)
    return np.array([to_double(add_gaussian(value, sigma, source)) for value in _finite(values)])


def argmax_release(values: Float[np.ndarray, " values"], scale: float) -> int:
    """Index of the largest value after Laplace noise, compared before any rounding.

    Parameters are those of `laplace_release`.

    Examples
    --------
    >>> argmax_release(np.array([0.0, 1000.0]), 1.0)
    1
    """
    checks.positive("scale", scale)
    noisy = [add_laplace(value, scale) for value in _finite(values)]
    return max(range(len(noisy)), key=noisy.__getitem__)


def exponential_release(utilities: Float[np.ndarray, " values"], temperature: float) -> int:
    """Draw an index ``∝ exp(utility / temperature)``; parameters as `laplace_release`.

    Examples
    --------
    >>> exponential_release(np.array([0.0, 1000.0]), 1.0)
    1
    """
    checks.positive("temperature", temperature)
    _scale_in_steps(temperature)  # refused where it is too small
    costs = -np.array(_finite(utilities), np.float64)
    rate = 1 / (Fraction(temperature) * ROOM)
    return weighted_choice(np.ones(len(costs), np.int64), costs, rate, SECRET)


def to_double(number: Fraction) -> float:
    """Round to the nearest double, and to the largest one beyond it: no error tells of a value.

    >>> to_double(Fraction(10) ** 400)
    1.7976931348623157e+308
    """
    try:
        return number.numerator / number.denominator
    except OverflowError:
        return LARGEST if number > 0 else -LARGEST


def _steps(value: Number) -> int:
    """Round to the lattice of doubles; a double is on it."""
    numerator, denominator = value.as_integer_ratio()
    return (2 * numerator * DOUBLES + denominator) // (2 * denominator)


@lru_cache(maxsize=64)
def _scale_in_steps(scale: float) -> int:
    if scale < LEAST_SCALE:
        raise ValueError(f"scale: {scale:g} is too small for doubles; measure in a smaller unit.")
    return math.ceil(Fraction(scale) * ROOM * DOUBLES)


def _finite(values: Float[np.ndarray, " values"] | Sequence[Fraction]) -> Sequence[Number]:
    checks.refuse_masked("values", values, is_private=True)
    if len(values) and not isinstance(values, np.ndarray):
        return values
    found = np.asarray(values, np.float64)
    if found.size == 0 or not np.all(np.isfinite(found)):
        raise ValueError("values must be finite and at least one; remove the others.")
    listed: list[float] = found.tolist()
    return listed
