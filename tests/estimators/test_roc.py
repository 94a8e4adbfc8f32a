"""The pooled ROC and the profile between thresholds: Gaussians, and pairs of atoms."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from gibbs_dp.estimators.privacy_loss import EPSILONS
from gibbs_dp.estimators.roc import Roc, linearized


def gaussian_roc(mu):
    above = stats.norm.sf((EPSILONS - mu**2 / 2) / mu)
    return Roc(EPSILONS, above, above - stats.norm.sf((EPSILONS + mu**2 / 2) / mu))


@pytest.mark.parametrize("mu", [0.05, 0.5, 2.0, 4.0])
def test_gaussian(mu):
    roc = gaussian_roc(mu)
    gain = stats.norm.cdf(mu / np.sqrt(2)) - 0.5
    assert abs(roc.auc() - 0.5 - gain) < 2e-3 * gain
    fpr = np.array([1e-3, 0.01, 0.1, 0.5, 0.9, 0.99])
    truth = stats.norm.cdf(mu + stats.norm.ppf(fpr))
    np.testing.assert_allclose(roc.curve(fpr) - fpr, truth - fpr, rtol=0.002)
    for epsilon in (0.0, 0.03, 0.3, 1.7):
        h = stats.norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * stats.norm.cdf(
            -mu / 2 - epsilon / mu
        )
        assert abs(roc.profile(epsilon) - h) < 0.01 * h + 1e-9


@pytest.mark.parametrize("mu", [1.0, 2.0])
def test_area_between_few_thresholds(mu):
    """Slopes are known at thresholds: errors go with the fourth power of their distance."""
    off = []
    for distance in (1.0, 0.5):
        at = np.arange(0.0, 12.0, distance)
        above = stats.norm.sf((at - mu**2 / 2) / mu)
        roc = Roc(at, above, above - stats.norm.sf((at + mu**2 / 2) / mu))
        off.append(abs(roc.auc() - stats.norm.cdf(mu / np.sqrt(2))))
    assert off[1] < off[0] / 8


def test_several_curves_are_read_as_each_alone():
    one = [gaussian_roc(mu) for mu in (0.3, 1.0, 40.0)]
    several = Roc(EPSILONS, *(np.stack([getattr(r, f) for r in one]) for f in ("above", "excess")))
    rates = np.array([0.0, 1e-12, 0.01, 0.5, 1.0])
    for read in (
        lambda r: r.profile(np.array([0.0, 0.3, 50.0])),
        lambda r: r.profile(0.3),
        lambda r: r.curve(rates),
        lambda r: r.best(rates)[1],
        lambda r: r.auc(),
    ):
        np.testing.assert_allclose(read(several), [read(r) for r in one], rtol=1e-12)
    values = linearized(lambda means: means.max(axis=1), np.ones((3, 2)))
    np.testing.assert_array_equal(values, np.ones(3))  # nothing moves


def test_corners_of_losses_of_few_values():
    """Three examples of two values each, a bounded loss: the best attacker by enumeration."""
    n, grid = 3, np.linspace(-12, 12, 24_001)
    low, high = (np.tanh((grid - z) ** 2) for z in (-1.0, 1.0))

    def law(ones):
        exponent = -(grid**2) / 8 - 3.0 * ((n - ones) * low + ones * high)
        density = np.exp(exponent - exponent.max())
        return density / density.sum()

    losses, true, false = [], [], []
    for ones in range(n + 1):
        for old, new in itertools.product((0, 1), (0, 1)):
            chance = math.comb(n, ones) / 2**n * (ones if old else n - ones) / n / 2
            if chance:
                p, other = law(ones), law(ones - old + new)
                losses.append(np.log(p / other) if old != new else 0 * grid)
                true.append(chance * p)
                false.append(chance * other)
    losses, true, false = map(np.concatenate, (losses, true, false))
    order = np.argsort(-losses)
    above = np.array([true[losses > e].sum() for e in EPSILONS])
    roc = Roc(EPSILONS, above, above - np.array([false[losses > e].sum() for e in EPSILONS]))
    for fpr, most in ((0.01, 0.002), (0.001, 0.02)):
        truth = np.interp(fpr, np.cumsum(false[order]), np.cumsum(true[order]))
        assert abs(roc.tpr(fpr) / truth - 1.0) < most


def test_ends():
    roc = gaussian_roc(1.0)
    np.testing.assert_allclose(roc.curve(np.array([0.0, 1.0])), [0.0, 1.0], atol=1e-3)
    assert roc.profile(1e3) == 0.0
    same = Roc(EPSILONS, np.zeros(EPSILONS.size), np.zeros(EPSILONS.size))
    assert same.auc() == 0.5
    np.testing.assert_allclose(same.curve(np.array([0.2, 0.7])), [0.2, 0.7])


def test_losses_beyond_the_last_threshold_are_not_taken_for_none():
    roc = gaussian_roc(40.0)
    assert np.isnan(roc.profile(30.0))
    assert np.isnan(roc.tpr(0.0))
    assert abs(roc.profile(20.0) - 1.0) < 1e-6
    assert abs(roc.tpr(1e-6) - 1.0) < 1e-6


def test_rounding_of_rates_is_not_made_much_of():
    exact = gaussian_roc(40.0)
    rounded = Roc(EPSILONS, exact.above, exact.excess - 1e-7 * (EPSILONS > 12))
    assert abs(rounded.tpr(0.01) - 1.0) < 1e-6


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.floats(0.01, 1.0), min_size=2, max_size=6),
    st.lists(st.floats(1e-3, 5.0), min_size=1, max_size=4),
)
def test_area_and_advantage_of_atoms(weights, losses):
    """Losses with atoms, symmetric as exchangeable pairs are: ``1/2 + TV/2 <= AUC <= ...``."""
    size = np.array(losses)
    mass = np.array((weights * 4)[: size.size])
    mass = mass / mass.sum()
    true, false = mass / (1 + np.exp(-size)), mass / (1 + np.exp(size))
    above = np.array([true[size > e].sum() for e in EPSILONS])
    roc = Roc(EPSILONS, above, above - np.array([false[size > e].sum() for e in EPSILONS]))
    tv = roc.profile(0.0)
    assert abs(tv - (true - false).sum()) < 1e-12
    # Within a step of thresholds atoms are taken for a spread.
    assert 0.5 + tv / 2 - 0.01 <= roc.auc() <= 0.5 + tv - tv**2 / 2 + 0.01
    rates = np.linspace(0, 1, 21)
    curve = roc.curve(rates)
    assert (np.diff(curve) > -1e-9).all()
    assert (curve - rates).max() <= tv + 1e-9


def test_errors_of_functions_of_means():
    """The delta method: intervals cover a ratio of means about as often as they say."""
    rng = np.random.default_rng(7)
    covered = []
    for _ in range(400):
        x = rng.normal([2.0, 4.0], [1.0, 0.5], size=(200, 2))
        values = linearized(lambda means: means[:, 0] / means[:, 1], x)
        se = values.std(ddof=1) / np.sqrt(200)
        covered.append(abs(values.mean() - 0.5) < 1.96 * se)
    assert 0.91 < np.mean(covered) < 0.985  # four binomial errors
