"""The one source of noise for releases: the system's cryptographic bits, exact on public lattices.

Whatever adds noise to a number that is released takes it from here, and all of it is made by
`gibbs_dp.privacy.noise` from ``os.urandom``. Chains draw from keys of ChaCha20 with 256 of
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
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache
from math import isqrt
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray
from scipy.special import ndtri

from gibbs_dp._jaxlib.chacha import chacha_key
from gibbs_dp.information import checks

# Exact random numbers from random bits, in whole numbers: Laplace, Gaussian, weighted choice.
#
# Canonne, Kamath & Steinke 2020 (*The discrete Gaussian for differential privacy*) build everything
# from coins of chance ``exp(-a/b)``. Real numbers (exponentials, normals: Karney 2016, *Sampling
# exactly from the normal distribution*) have as many binary digits as a question about them needs,
# so that what is rounded is the real number itself. Nothing here is a floating-point number, except
# in `weighted_choice`, where doubles only propose and exact coins decide.


# Lower and upper bound of a number of [0, 1], in units of 2^-bits.
Enclosure = Callable[[int], tuple[int, int]]
# Digits by which an undecided question is asked again.
MORE = 64
# Weights that doubles cannot tell apart, relatively: those that are proposed are larger by it.
EXCESS = 1e-9
# Beyond it, exp(-x) is below any number of digits that is ever asked for.
FAR = 10**6


class Bits:
    """Random bits, which everything is made of; `gibbs_dp.privacy.noise` has the sources."""

    def bytes(self, count: int) -> bytes:
        """Draw bytes."""
        raise NotImplementedError

    def bits(self, count: int) -> int:
        """Draw a whole number of so many binary digits."""
        return int.from_bytes(self.bytes((count + 7) // 8), "little") >> (-count % 8)

    def below(self, end: int) -> int:
        """Draw a whole number from 0 to ``end - 1``, uniformly."""
        count = (end - 1).bit_length()
        while (found := self.bits(count)) >= end:
            pass
        return found


def is_exp(a: int, b: int, source: Bits) -> bool:
    """Return True with probability ``exp(-a / b)``, for whole numbers."""
    while a > b:
        if not _is_exp_below_one(1, 1, source):
            return False
        a -= b
    return _is_exp_below_one(a, b, source)


def _is_exp_below_one(a: int, b: int, source: Bits) -> bool:
    """Coins of chance ``(a/b)/k``: the first that fails has an odd number as often as wanted."""
    k = 1
    while source.below(b * k) < a:
        k += 1
    return k % 2 == 1


def discrete_laplace(numerator: int, denominator: int, source: Bits) -> int:
    """Draw a whole number ``k`` with probability proportional to ``exp(-|k| / scale)``."""
    while True:
        start = source.below(numerator)
        if not _is_exp_below_one(start, numerator, source):
            continue
        rounds = 0
        while _is_exp_below_one(1, 1, source):
            rounds += 1
        size = (start + numerator * rounds) // denominator
        is_negative = source.bits(1)
        if not (is_negative and size == 0):  # zero has one sign
            return -size if is_negative else size


def discrete_gaussian(numerator: int, denominator: int, source: Bits) -> int:
    """Draw a whole number ``k`` with probability proportional to ``exp(-k^2 / (2 variance))``."""
    scale = isqrt(numerator // denominator) + 1
    most = 2 * numerator * denominator * scale**2
    while True:
        k = discrete_laplace(scale, 1, source)
        if is_exp((abs(k) * scale * denominator - numerator) ** 2, most, source):
            return k


class _Uniform:
    """A uniform number in [0, 1), whose digits are drawn when they are asked for."""

    def __init__(self, source: Bits) -> None:
        self._source, self._digits, self._count = source, 0, 0

    def enclosure(self, bits: int) -> tuple[int, int]:
        if bits > self._count:
            more = bits - self._count
            self._digits = (self._digits << more) | self._source.bits(more)
            self._count = bits
        low = self._digits >> (self._count - bits)
        return low, low + 1

    def half_square(self, bits: int) -> tuple[int, int]:
        low, high = self.enclosure(bits)
        return low**2 >> (bits + 1), (high**2 >> (bits + 1)) + 1


def _is_below(chance: Enclosure, parts: int, source: Bits) -> bool:
    """Return True with probability ``chance / parts``."""
    uniform, bits = _Uniform(source), MORE
    while True:
        (low, high), (first, last) = chance(bits), uniform.enclosure(bits)
        if last * parts <= low:
            return True
        if first * parts >= high:
            return False
        bits += MORE


def _is_exp_of(exponent: Enclosure, source: Bits) -> bool:
    """Return True with probability ``exp(-exponent)``, for a real number of [0, 1]."""
    k = 1
    while _is_below(exponent, k, source):
        k += 1
    return k % 2 == 1


class _Real:
    """A whole number and a uniform fraction."""

    def __init__(self, whole: int, fraction: _Uniform) -> None:
        self._whole, self._fraction = whole, fraction

    def enclosure(self, bits: int) -> tuple[int, int]:
        low = (self._whole << bits) + self._fraction.enclosure(bits)[0]
        return low, low + 1


def _exponential(source: Bits) -> _Real:
    whole = 0
    while _is_exp_below_one(1, 1, source):
        whole += 1
    while True:
        fraction = _Uniform(source)
        if _is_exp_of(fraction.enclosure, source):
            return _Real(whole, fraction)


def _half_normal(source: Bits) -> _Real:
    """Absolute value of a normal number (Karney 2016, algorithm N)."""
    while True:
        k = 0
        while _is_exp_below_one(1, 2, source):
            k += 1
        if not is_exp(k * (k - 1), 2, source):
            continue
        fraction = _Uniform(source)
        # exp(-x (2 k + x) / 2), one coin after another.
        if all(_is_exp_of(fraction.enclosure, source) for _ in range(k)) and _is_exp_of(
            fraction.half_square, source
        ):
            return _Real(k, fraction)


def euclidean_noise(dim: int, scale: Fraction, source: Bits) -> list[int]:
    """Draw from the density ``exp(-|x| / scale)``, Euclidean norm, rounded to whole numbers.

    Length times direction, both real numbers, of which as many digits are drawn as the rounding
    needs. Added to whole numbers it is the rounding of the ideal mechanism, hence as private.
    """
    length = [_exponential(source) for _ in range(dim)]
    return _rounded(length, [_half_normal(source) for _ in range(dim)], True, scale, source)


def cube_noise(dim: int, scale: Fraction, source: Bits) -> list[int]:
    """Draw from the density ``exp(-|x| / scale)``, maximum norm, rounded to whole numbers.

    As `euclidean_noise`: the norm of a density of ``exp(-r)`` is that of a uniform point of the
    cube times a Gamma law of ``dim + 1``.
    """
    length = [_exponential(source) for _ in range(dim + 1)]
    uniform = [_Real(0, _Uniform(source)) for _ in range(dim)]
    return _rounded(length, uniform, False, scale, source)


def _rounded(
    length: Sequence[_Real], sizes: Sequence[_Real], to_unit: bool, scale: Fraction, source: Bits
) -> list[int]:
    """Round ``scale sum(length) sizes``, divided by the norm of sizes if asked, with fair signs."""
    signs = [1 - 2 * source.bits(1) for _ in sizes]
    bits = MORE
    while True:
        long = [part.enclosure(bits) for part in length]
        wide = [part.enclosure(bits) for part in sizes]
        norms = (1 << bits, 1 << bits)
        if to_unit:
            norms = isqrt(sum(low**2 for low, _ in wide)), isqrt(sum(h**2 for _, h in wide)) + 1
        if norms[0] > 0:
            total = sum(low for low, _ in long), sum(high for _, high in long)
            below, above = (
                [
                    (2 * scale.numerator * t * w[side] + (half := scale.denominator * norm << bits))
                    // (2 * half)
                    for w in wide
                ]
                for side, t, norm in ((0, total[0], norms[1]), (1, total[1], norms[0]))
            )
            if below == above:
                return [sign * size for sign, size in zip(signs, below, strict=True)]
        bits += MORE


def weighted_choice(
    sizes: Int[np.ndarray, " choices"],
    costs: Float[np.ndarray, " choices"],
    rate: Fraction,
    source: Bits,
) -> int:
    """Draw an index with probability proportional to ``size exp(-rate cost)``, exactly.

    Doubles propose with weights a little too large; a coin, whose chance is known to as many
    digits as it needs, makes up for it. Every index with a size above 0 can be drawn.
    """
    inside = np.flatnonzero(sizes > 0)
    least = float(costs[inside].min())
    with np.errstate(over="ignore", under="ignore"):
        log_mass = np.log(sizes[inside]) - float(rate) * (costs[inside] - least)
        top = float(log_mass.max())
        shift = min(40, 60 - len(inside).bit_length())
        offers = np.floor(np.exp(log_mass - top) * 2.0**shift * (1 + EXCESS)).astype(np.int64) + 1
    unit = Fraction(float(np.exp(-top))) * 2**shift
    ends = np.cumsum(offers)
    while True:
        place = int(np.searchsorted(ends, source.below(int(ends[-1])), side="right"))
        index = int(inside[place])
        exponent = rate * (Fraction(float(costs[index])) - Fraction(least))
        factor = unit * int(sizes[index]) / int(offers[place])
        if _is_below(_Chance(factor, exponent).enclosure, 1, source):
            return index


class _Chance(NamedTuple):
    """``factor exp(-exponent)``, a number of [0, 1]; decimal's exponential is rounded correctly."""

    factor: Fraction
    exponent: Fraction

    def enclosure(self, bits: int) -> tuple[int, int]:
        if self.exponent > FAR:
            return 0, 1
        context = Context(prec=bits // 3 + 60)
        numerator, denominator = self.exponent.as_integer_ratio()
        power = context.divide(Decimal(-numerator), Decimal(denominator))
        value = self.factor * Fraction(context.exp(power)) * 2**bits
        error = value / 10 ** (bits // 3 + 40)  # a million units in the last place of the power
        return int(value - error), int(value + error) + 1


# Sources of bits, and noise on public lattices.

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
    """From ``os.urandom``; there is no state and no seed."""

    def bytes(self, count: int) -> bytes:
        """Draw bytes."""
        return os.urandom(count)


class SeededNoise(Noise):
    """The same numbers for the same seed, which protect nobody: for tests."""

    def __init__(self, seed: int | Sequence[int] | Int[np.ndarray, " words"]) -> None:
        self._generator = np.random.default_rng(seed)

    def bytes(self, count: int) -> bytes:
        """Draw bytes."""
        return self._generator.bytes(count)


SECRET = SecretNoise()


def secret_key() -> PRNGKeyArray:
    """Make a key of ChaCha20 from 256 bits of the system's entropy; it is never shown or stored.

    Chains that are released draw from it by ``jax.random``, as from any other key.
    """
    return chacha_key(np.frombuffer(os.urandom(32), dtype=np.uint32))


# -- rows that are added up here -------------------------------------------------------------------


def on_lattice(values: Float[np.ndarray, "*shape"]) -> Int[np.ndarray, "*shape"]:
    """Cut off to whole numbers of steps of ``2^-30``, towards zero: no norm grows."""
    return np.trunc(values * FINENESS).astype(np.int64)


def exact_means(values: Float[np.ndarray, "rows columns"]) -> list[Fraction]:
    """Means of numbers in [0, 1], each cut off to the lattice: one row moves them by ``1/n``."""
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
    """
    steps = _steps(value) + discrete_laplace(_scale_in_steps(scale), 1, source)
    return Fraction(steps, DOUBLES)


def add_gaussian(value: Number, sigma: float, source: Noise = SECRET) -> Fraction:
    """Add ``N(0, sigma^2)`` noise to one number, on the lattice of all doubles.

    zCDP holds for this discrete law as for the continuous one (Canonne, Kamath & Steinke 2020);
    curves of ``(epsilon, delta)`` and Gaussian DP are those of the continuous law, from whose
    rounding it differs by a total variation below ``(step / sigma)^2 < 2^-140``. Parameters are
    those of `add_laplace`.

    >>> abs(add_gaussian(100.0, 0.1) - 100) < 10
    True
    """
    variance = _scale_in_steps(sigma) ** 2
    return Fraction(_steps(value) + discrete_gaussian(variance, 1, source), DOUBLES)


def laplace_release(
    values: Float[np.ndarray, " values"] | Sequence[Fraction], scale: float
) -> Float[np.ndarray, " values"]:
    """Add independent ``Lap(scale)`` noise to every value, and round to doubles."""
    checks.positive("scale", scale)
    return np.array([to_double(add_laplace(value, scale)) for value in _finite(values)])


def gaussian_release(
    values: Float[np.ndarray, " values"] | Sequence[Fraction], sigma: float, source: Noise = SECRET
) -> Float[np.ndarray, " values"]:
    """Add independent ``N(0, sigma^2)`` noise to every value; parameters as `laplace_release`."""
    checks.positive("sigma", sigma)
    return np.array([to_double(add_gaussian(value, sigma, source)) for value in _finite(values)])


def argmax_release(values: Float[np.ndarray, " values"], scale: float) -> int:
    """Index of the largest value after Laplace noise, compared before any rounding."""
    checks.positive("scale", scale)
    noisy = [add_laplace(value, scale) for value in _finite(values)]
    return max(range(len(noisy)), key=noisy.__getitem__)


def exponential_release(utilities: Float[np.ndarray, " values"], temperature: float) -> int:
    """Draw an index ``∝ exp(utility / temperature)``; parameters as `laplace_release`."""
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
