"""Real numbers behind doubles: their digits, their laws, and what is decided by them."""

import math
from decimal import Context, Decimal, localcontext

import numpy as np
import pytest
from scipy import stats

from gibbs_dp.privacy import reals
from gibbs_dp.privacy.noise import SeededNoise
from gibbs_dp.privacy.reals import (
    ACCURACY,
    RATE,
    Normals,
    Uniforms,
    is_below,
    normal_quantile,
    poissons,
    whole_numbers,
)

PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628621")


def distribution(z):
    """Normal distribution function by other formulas than the code's, to some 40 digits."""
    with localcontext(Context(prec=70)):
        if z > -3:  # the alternating series of the error function
            total, term, k = z, z, 0
            while abs(term) > Decimal(10) ** -65:
                k += 1
                term = -term * z * z / (2 * k)
                total += term / (2 * k + 1)
            return Decimal("0.5") + total / (2 * PI).sqrt()
        ratio = -z  # Laplace's continued fraction of Mills' ratio
        for k in range(1500, 0, -1):
            ratio = -z + k / ratio
        return (-z * z / 2).exp() / (2 * PI).sqrt() / ratio


@pytest.mark.parametrize("tail", ["0.49999", "0.3", "0.025", "0.00135", "1e-6", "1e-18", "1e-40"])
def test_quantiles_have_as_many_digits_as_are_asked_for(tail):
    with localcontext(Context(prec=40)):
        z = normal_quantile(Decimal(tail))
        assert abs(distribution(z) / Decimal(tail) - 1) < Decimal("1e-34")


def test_doubles_are_as_near_their_real_numbers_as_is_said():
    """Normal numbers of every size against their digits; a 7th of the bound is seen."""
    normals = Normals((3000,), SeededNoise(1))
    normals._fill(normals._words >> np.repeat(np.arange(60, dtype=np.uint64), 50), SeededNoise(2))
    worst = 0.0
    for i, value in enumerate(normals.values.tolist()):
        with localcontext(Context(prec=50)):
            real, error = normals.normal((i,), 160)
            off = float(abs(real - Decimal(value)) + error)
        worst = max(worst, off / max(1.0, abs(value)))
    assert ACCURACY / 50 < worst < ACCURACY / 4


def test_laws():
    """Kolmogorov & Smirnov's test of 50,000 numbers each; a false alarm has 1e-6."""
    normals, uniforms = (kind((50, 1000), SeededNoise(3)).values for kind in (Normals, Uniforms))
    assert stats.kstest(normals.ravel(), stats.norm.cdf).pvalue > 1e-6
    assert stats.kstest(uniforms.ravel(), stats.uniform.cdf).pvalue > 1e-6
    assert stats.kstest(1.02 * normals.ravel(), stats.norm.cdf).pvalue < 1e-3


class Zeros(SeededNoise):
    """Sixty-four bits that are zero; those that are asked for later are not."""

    def bytes(self, count):
        return bytes(count)

    def bits(self, count):
        return 3 << (count - 2)


def test_small_numbers_get_significant_digits():
    uniform = Uniforms((1,), Zeros(0))
    assert uniform.values[0] == 0.75 * 2.0**-64
    assert Normals((1,), Zeros(0)).values[0] == pytest.approx(stats.norm.ppf(0.75 * 2.0**-64))


def test_digits_go_on_as_they_began():
    uniforms = Uniforms((2,), SeededNoise(4))
    first, count = uniforms.digits((1,), 64)
    more, bits = uniforms.digits((1,), 300)
    again, _ = uniforms.digits((1,), 64)
    assert (count, bits, again, more >> 236) == (64, 300, more, first)
    with localcontext(Context(prec=100)):
        wait, error = uniforms.exponential((1,), 300)
        assert abs(float(wait) + math.log(uniforms.values[1])) < 1e-14
        assert error < Decimal("1e-85")


def test_close_calls_take_more_digits():
    spent = []

    def margin(bits):
        spent.append(bits)
        return Decimal(10) ** -60, Decimal(2) ** -bits

    assert not is_below(margin)
    assert spent == [128, 256]


class Later(SeededNoise):
    """Digits that are asked for later come from elsewhere: the first ones stay the same."""

    def bits(self, count):
        return SeededNoise(9).bits(count)


@pytest.mark.parametrize("is_by_digits", [False, True])
def test_poisson_numbers_have_their_law(monkeypatch, is_by_digits):
    """Against SciPy's by chi-squared; a false alarm has 1e-6. The same numbers by digits alone."""
    count = 60 if is_by_digits else 20_000
    plain = poissons(count, SeededNoise(5))
    if is_by_digits:
        monkeypatch.setattr(reals, "POISSON_DOUBT", 0.3)
        np.testing.assert_array_equal(poissons(count, Later(5)), plain)
        return
    edges = np.array([22, 26, 29, 31, 33, 36, 40])
    shares = np.diff(stats.poisson(RATE).cdf(edges), prepend=0.0, append=1.0)
    seen = np.bincount(np.searchsorted(edges, plain), minlength=8)
    assert stats.chisquare(seen, shares * count).pvalue > 1e-6
    assert stats.chisquare(np.roll(seen, 1), shares * count).pvalue < 1e-6


@pytest.mark.parametrize("end", [1, 2, 5, 1000])
def test_whole_numbers_are_uniform(end):
    """By chi-squared; a false alarm has 1e-6."""
    found = whole_numbers(end, 40 * end, SeededNoise(3))
    seen = np.bincount(found, minlength=end)
    assert len(seen) == end
    assert end == 1 or stats.chisquare(seen).pvalue > 1e-6
