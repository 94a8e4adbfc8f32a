"""Exact random numbers from random bits, in whole numbers: Laplace, Gaussian, weighted choice.

Canonne, Kamath & Steinke 2020 (*The discrete Gaussian for differential privacy*) build everything
from coins of chance ``exp(-a/b)``. Real numbers (exponentials, normals: Karney 2016, *Sampling
exactly from the normal distribution*) have as many binary digits as a question about them needs, so
that what is rounded is the real number itself. Nothing here is a floating-point number, except in
`weighted_choice`, where doubles only propose and exact coins decide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from math import isqrt
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

# Lower and upper bound of a number of [0, 1], in units of 2^-bits.
Enclosure = Callable[[int], tuple[int, int]]
# Digits by which an undecided question is asked again.
MORE = 64
# Weights that doubles cannot tell apart, relatively: those that are proposed are larger by it.
ROOM = 1e-9
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
    """Return True with probability ``exp(-a / b)``, for whole numbers.

    Parameters
    ----------
    a, b
        Not negative, and positive.
    source
        Of random bits.

    Returns
    -------
    bool
        An exact coin.
    """
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
    """Draw a whole number ``k`` with probability proportional to ``exp(-|k| / scale)``.

    Parameters
    ----------
    numerator, denominator
        The scale, positive.
    source
        Of random bits.

    Returns
    -------
    int
        Exact (Canonne, Kamath & Steinke 2020, algorithm 2).
    """
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
    """Draw a whole number ``k`` with probability proportional to ``exp(-k^2 / (2 variance))``.

    Parameters
    ----------
    numerator, denominator
        The variance, positive.
    source
        Of random bits.

    Returns
    -------
    int
        Exact (Canonne, Kamath & Steinke 2020, algorithm 3).
    """
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

    Parameters
    ----------
    dim
        Number of coordinates.
    scale
        Positive.
    source
        Of random bits.

    Returns
    -------
    list
        ``dim`` whole numbers.
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

    Parameters
    ----------
    sizes
        Not negative, one of them positive.
    costs
        Finite numbers, taken as they are.
    rate
        Not negative.
    source
        Of random bits.

    Returns
    -------
    int
        An index.
    """
    inside = np.flatnonzero(sizes > 0)
    least = float(costs[inside].min())
    with np.errstate(over="ignore", under="ignore"):
        log_mass = np.log(sizes[inside]) - float(rate) * (costs[inside] - least)
        top = float(log_mass.max())
        shift = min(40, 60 - len(inside).bit_length())
        offers = np.floor(np.exp(log_mass - top) * 2.0**shift * (1 + ROOM)).astype(np.int64) + 1
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
