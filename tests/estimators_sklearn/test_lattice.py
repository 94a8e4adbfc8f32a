"""Releases lie on a lattice that every table reaches: last bits tell nothing."""

import jaxtyping
import numpy as np
import pytest
from scipy import optimize, stats

from gibbs_dp.privacy.noise import FINENESS, SeededNoise, on_lattice
from gibbs_dp.sklearn import GibbsClassifier, GibbsMean
from gibbs_dp.sklearn.location import _plan_mean, draw_median
from gibbs_dp.sklearn.mechanisms import coded_sum, plan_direction
from gibbs_dp.sklearn.plan import Facts


@pytest.fixture(autouse=True)
def without_type_checks():
    """Thousands of draws: the checks of types would take most of the time."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def is_on_lattice(values):
    return bool((np.asarray(values) * FINENESS % 1 == 0).all())


@pytest.mark.trust
@pytest.mark.parametrize("value", [0.3, 1 / 3, 0.1 + 1e-17, 1.0])
def test_medians_and_means_are_multiples_of_a_step_whatever_the_rows_are(value):
    """A row of many digits among zeros used to be told by the digits of a draw."""
    rng = SeededNoise(0)
    rows = np.array([value, *[0.0] * 8])
    for _ in range(200):
        assert is_on_lattice(draw_median(rows, 0.1, rng))
        mean = GibbsMean(1.0, bounds=(0, 1)).fit(rows[:, None]).mean_
        assert is_on_lattice(mean * 9) or mean[0] in (0.0, 1.0)


def test_medians_have_the_law_of_the_exponential_mechanism():
    """Against the density, constant between values, by Kolmogorov and Smirnov's test."""
    values, gamma = np.array([0.1, 0.4, 0.45, 0.9, 0.9]), 0.8
    rng = SeededNoise(3)
    draws = [draw_median(values, gamma, rng) for _ in range(5000)]
    edges = np.concatenate([[0.0], values, [1.0]])
    mass = np.diff(edges) * np.exp(-gamma * np.abs(np.arange(6) - 2.5))
    law = np.concatenate([[0.0], np.cumsum(mass / mass.sum())])
    keep = np.concatenate([[True], np.diff(edges) > 0])
    found = stats.kstest(draws, lambda t: np.interp(t, edges[keep], law[keep]))
    assert found.pvalue > 1e-4


def test_noisy_sums_are_multiples_and_have_their_law():
    x = np.random.default_rng(1).normal(size=(6, 2)) / 9
    y = np.array([0.0, 1.0, 1.0, 0.0, 1.0, 1.0])
    plan = plan_direction(Facts(6, 2, 1.0, 0.0), (0.0, 1.0))
    rng = SeededNoise(2)
    draws = np.concatenate([plan.draw(x, y, rng) for _ in range(4000)])
    assert is_on_lattice(draws)
    center = (y - 0.5) @ x
    np.testing.assert_allclose(coded_sum(x, y - 0.5, 1) / FINENESS, center, atol=1e-8)
    lengths = np.linalg.norm(draws - center, axis=1)
    assert stats.kstest(lengths, stats.gamma(2, scale=1 / plan.guarantee.gamma).cdf).pvalue > 1e-4


def test_a_mean_has_the_noise_that_its_epsilon_and_delta_need():
    """Against the analytic Gaussian mechanism (Balle & Wang 2018), solved here."""
    epsilon, delta, n, dim = 0.1, 1e-5, 6, 40  # of fewer columns pure noise is less
    rows = np.random.default_rng(4).uniform(size=(n, dim))

    def lost(mu):
        ahead, behind = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
        return stats.norm.cdf(ahead) - np.exp(epsilon) * stats.norm.cdf(behind) - delta

    sd = np.sqrt(dim) / n / optimize.brentq(lost, 1e-3, 1.0)
    _, draw = _plan_mean(Facts(n, dim, epsilon, delta))
    rng = SeededNoise(7)
    draws = np.concatenate([draw(rows, None, rng) for _ in range(1000)])
    off = (draws - rows.mean(axis=0)) / sd
    # Four standard errors of an sd of 40,000 numbers, 1.4%, and of a mean: false alarm 1.3e-4.
    assert abs(off.std() - 1.0) < 4.0 / np.sqrt(2 * off.size)
    assert np.abs(off.mean()) < 4.0 / np.sqrt(off.size)


def test_rounded_rows_stay_within_their_bound():
    """Rounding a row to the lattice moves it by less than features are below norm 1."""
    rows = np.random.default_rng(5).normal(size=(200, 60)) * 10
    model = GibbsClassifier(0.1, bounds=(-2.5, 2.5), classes=[0, 1]).fit(rows, np.arange(200) % 2)
    features = model.scaling_.features(rows)
    rounded = on_lattice(features) / FINENESS
    assert np.linalg.norm(rounded, axis=1).max() <= 1.0
