"""Uniform and normal real numbers: doubles to compute with, digits to decide by.

A sampler in floating-point numbers can decide as one in real numbers would. A `Uniforms` is real:
it has as many binary digits as a question about it needs, and they are drawn when they are asked
for; so is a normal number, the inverse of the normal distribution function at one. What is
computed with are doubles near them, and whoever compares two of these knows how far they may be
off (`ACCURACY`): where that decides nothing, `is_below` takes more digits until it does. (Karney
2016 draws exactly rounded normal numbers in this way.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Context, Decimal, getcontext, localcontext
from functools import lru_cache

import numpy as np
from jaxtyping import Float, Int, UInt
from scipy.special import ndtri

from gibbs_dp.privacy.noise import Bits, Noise

# SciPy's inverse of the normal distribution function errs by less, in units of max(1, |z|); 5e-16
# is seen, a seventh of it.
ACCURACY = 2.0**-48
# NumPy's logarithms, and this library's of its losses, err by less, in the same units.
LOGARITHM = 2.0**-46
# Digits of a uniform number behind its leading zeros, so that its double is as good as any.
SIGNIFICANT = 2**54
WORD = 64
# Mean of the Poisson numbers.
RATE = 32
# Error of a double near a uniform number or a chance.
POISSON_DOUBT = 2.0**-50

Enclosed = tuple[Decimal, Decimal]  # a real number and the most that it may differ from it


class Uniforms:
    """Real numbers, uniform on [0, 1), each with 54 significant digits and more to come."""

    def __init__(self, shape: tuple[int, ...], source: Noise) -> None:
        words = np.frombuffer(source.bytes(8 * math.prod(shape)), np.uint64)
        self._fill(words.reshape(shape), source)

    def _fill(self, words: UInt[np.ndarray, "*shape"], source: Bits) -> None:
        self._words, self._source = words, source
        self._digits: dict[tuple[int, ...], tuple[int, int]] = {}
        self.values: Float[np.ndarray, ...] = (words + 0.5) * 2.0**-WORD
        for place in np.flatnonzero(words < SIGNIFICANT):
            index = tuple(map(int, np.unravel_index(place, words.shape)))
            digits, count = int(words[index]), WORD
            while digits < SIGNIFICANT:
                digits, count = (digits << WORD) | source.bits(WORD), count + WORD
            self._digits[index] = digits, count
            self.values[index] = math.ldexp(digits + 0.5, -count)

    def digits(self, index: tuple[int, ...], bits: int) -> tuple[int, int]:
        """Return the first digits of one number, at least ``bits`` of them, and how many."""
        digits, count = self._digits.get(index, (int(self._words[index]), WORD))
        if bits > count:
            digits = (digits << (bits - count)) | self._source.bits(bits - count)
            count = bits
            self._digits[index] = digits, count
        return digits, count

    def uniform(self, index: tuple[int, ...], bits: int) -> Enclosed:
        """Return one number, and how far it may be from what further digits would make it."""
        digits, count = self.digits(index, bits)
        return (digits + Decimal("0.5")) / (1 << count), 1 / Decimal(1 << count)

    def exponential(self, index: tuple[int, ...], bits: int) -> Enclosed:
        """``-log u``, an exponential number."""
        digits, count = self.digits(index, bits)
        return -((digits + Decimal("0.5")) / (1 << count)).ln(), 1 / Decimal(max(digits, 1))


class Normals(Uniforms):
    """Standard normal numbers, by the inverse distribution function of a tail and a sign."""

    def _fill(self, words: UInt[np.ndarray, "*shape"], source: Bits) -> None:
        self._is_high = words >> np.uint64(WORD - 1) == 1
        # The lower tail of u or of 1 - u: below one half, as precise as doubles are.
        super()._fill(np.where(self._is_high, ~words, words), source)
        lower = ndtri(self.values)
        self.values = np.where(self._is_high, -lower, lower)

    def normal(self, index: tuple[int, ...], bits: int) -> Enclosed:
        """Return one number, and how far it may be from what further digits would make it."""
        digits, count = self.digits(index, bits)
        tail = (digits + Decimal("0.5")) / (1 << count)
        lower = normal_quantile(tail)
        # Mills' ratio is below 1.26: the quantile moves by less than 1.26 times the tail's share.
        error = Decimal("0.64") / digits if digits > 3 else Decimal("Infinity")
        return (-lower if self._is_high[index] else lower), error


def poissons(count: int, source: Noise) -> Int[np.ndarray, " count"]:
    """Draw independent Poisson numbers of mean `RATE`: the first whose chance exceeds a uniform."""
    law, uniforms = _poisson_law(), Uniforms((count,), source)
    found = np.searchsorted(law, uniforms.values - POISSON_DOUBT)
    for i in np.flatnonzero(law[found] <= uniforms.values + POISSON_DOUBT).tolist():

        def margin(bits: int, i: int = i) -> Enclosed:
            value, error = uniforms.uniform((i,), bits)
            chance = _poisson_chances(int(found[i]) + 1)[-1]
            return value - chance, error + Decimal(10) ** (9 - getcontext().prec)

        while not is_below(margin):
            found[i] += 1
    return found


def _poisson_chances(count: int) -> list[Decimal]:
    """Chances of at most 0, 1, ... events, to decimal's digits."""
    chances, term, total = [], Decimal(-RATE).exp(), Decimal(0)
    for k in range(count):
        total += term
        chances.append(total)
        term = term * RATE / (k + 1)
    return chances


@lru_cache(maxsize=1)
def _poisson_law() -> Float[np.ndarray, " k"]:
    """Return the chances in doubles: the last one is 1."""
    with localcontext(Context(prec=60)):
        return np.array([float(chance) for chance in _poisson_chances(6 * RATE)])


def whole_numbers(end: int, count: int, source: Noise) -> Int[np.ndarray, " count"]:
    """Draw whole numbers from 0 to ``end - 1``, uniformly: those of a power of two that are below.

    >>> from gibbs_dp.privacy.noise import SeededNoise
    >>> np.bincount(whole_numbers(3, 9, SeededNoise(0)), minlength=4).tolist()
    [4, 1, 4, 0]
    """
    shift, found = np.uint64(WORD - max(1, (end - 1).bit_length())), np.empty(0, np.int64)
    while len(found) < count:
        words = np.frombuffer(source.bytes(16 * (count - len(found))), np.uint64) >> shift
        found = np.append(found, words[words < end].astype(np.int64))
    return found[:count]


def is_below(margin: Callable[[int], Enclosed]) -> bool:
    """Return True if a real number is below 0, from as many binary digits as that takes.

    ``margin`` turns a number of digits to spend into an enclosure; it runs in a context of
    `decimal` with as many, and 40 decimal ones more.

    >>> two = Decimal(2)
    >>> is_below(lambda bits: (two.sqrt() ** 2 - two - Decimal(10) ** -50, two**-bits))
    True
    """
    bits = 2 * WORD
    while True:
        context = Context(
            prec=40 + bits // 3, rounding=ROUND_HALF_EVEN, Emin=-(10**9), Emax=10**9, traps=[]
        )
        with localcontext(context):
            value, error = margin(bits)
            if abs(value) > error:
                return value < 0
        bits *= 2


def normal_quantile(tail: Decimal) -> Decimal:
    """Inverse of the normal distribution function below one half, to the digits of `decimal`."""
    digits = max(0, -tail.adjusted())  # that a sum near one half loses
    with localcontext() as context:
        context.prec += digits + 10
        z, root = Decimal(float(ndtri(float(tail)))), (2 * _pi(context.prec)).sqrt()
        goal = Decimal(10) ** (digits + 8 - context.prec)
        while True:
            density = (-z * z / 2).exp() / root
            step = (_lower(z, density, context.prec) - tail) / density
            z -= step
            if step * step < goal:  # the next one would be smaller
                break
    return +z


def _lower(z: Decimal, density: Decimal, digits: int) -> Decimal:
    """Distribution function by the series ``1/2 + density (z + z^3/3 + z^5/15 + ...)``."""
    term, total, k = z, z, 1
    while term and term.adjusted() > -digits - 5:
        k += 2
        term = term * z * z / k
        total += term
    return Decimal("0.5") + density * total


@lru_cache(maxsize=16)
def _pi(digits: int) -> Decimal:
    """Machin's formula."""
    with localcontext(Context(prec=digits + 10)):

        def arctangent(inverse: int) -> Decimal:
            power = total = Decimal(1) / inverse
            k = 1
            while power.adjusted() > -digits - 10:
                power, k = -power / inverse**2, k + 2
                total += power / k
            return total

        return 4 * (4 * arctangent(5) - arctangent(239))
