"""Sums of rows get no less noise than their privacy needs, and no more."""

import jaxtyping
import numpy as np
import pytest
from scipy import optimize, stats

from gibbs_dp.privacy.noise import SeededNoise
from gibbs_dp.sklearn.mechanisms import plan_direction, plan_gaussian
from gibbs_dp.sklearn.plan import Facts


@pytest.fixture(autouse=True)
def without_type_checks():
    """Thousands of numbers: the checks of types would take most of the time."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


NUM_ROWS = 2000


def rows_all_alike(num_features, num_outputs):
    """A table of one row of norm 1, its sum, and how far one row of norm 1 can move any sum.

    The square of ``|x code - x' code'|`` is linear in the cosine of ``x`` and ``x'``, hence
    largest where it is -1 or 1; all pairs of labels are tried.
    """
    x = np.random.default_rng(4).normal(size=num_features)
    x /= np.linalg.norm(x)
    two, more = np.array([[-0.5], [0.5]]), np.eye(num_outputs) - 1 / num_outputs
    codes = two if num_outputs == 1 else more
    parts = [sign * np.outer(x, code).ravel() for sign in (-1, 1) for code in codes]
    farthest = max(np.linalg.norm(a - b) for a in parts for b in parts)
    table = np.tile(x, (NUM_ROWS, 1)), np.ones(NUM_ROWS)
    return table, NUM_ROWS * np.outer(x, codes[1]).ravel(), farthest


def labels(num_outputs):
    return (0.0, max(1.0, num_outputs - 1.0))


@pytest.mark.parametrize(("num_features", "num_outputs", "num_draws"), [(40, 1, 600), (10, 3, 300)])
def test_a_sum_has_the_gaussian_noise_that_its_epsilon_and_delta_need(
    num_features, num_outputs, num_draws
):
    """Against the analytic Gaussian mechanism (Balle & Wang 2018), solved here.

    Draws are a multiple of the noisy sum: of which, is taken from a sum so long that noise hides
    less than a thousandth of it.
    """
    epsilon, delta = 0.5, 1e-5
    table, total, farthest = rows_all_alike(num_features, num_outputs)

    def lost(mu):
        ahead, behind = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
        return stats.norm.cdf(ahead) - np.exp(epsilon) * stats.norm.cdf(behind) - delta

    sd = farthest / optimize.brentq(lost, 1e-3, 1.0)
    facts = Facts(NUM_ROWS, num_features, epsilon, delta, num_outputs)
    plan = plan_gaussian(facts, labels(num_outputs))
    rng = SeededNoise(7)
    draws = np.concatenate([plan.draw(*table, rng) for _ in range(num_draws)])
    multiple = draws.mean(axis=0) @ total / (total @ total)
    off = (draws / multiple - total) / sd
    # Four standard errors, of an sd of 24,000 or 9,000 numbers 1.8% or 3%: false alarm 1.3e-4.
    assert abs(off.std() - 1.0) < 4.0 / np.sqrt(2 * off.size)
    assert abs(off.mean()) < 4.0 / np.sqrt(off.size)


@pytest.mark.trust(but="40-1-850")
@pytest.mark.parametrize(("num_features", "num_outputs", "num_draws"), [(40, 1, 850), (10, 3, 450)])
def test_a_sum_has_the_noise_of_uniform_direction_that_its_epsilon_needs(
    num_features, num_outputs, num_draws
):
    """``exp(-|t| / s)`` changes by a factor of at most ``exp(farthest / s)``, and does so."""
    epsilon = 0.5
    table, total, farthest = rows_all_alike(num_features, num_outputs)
    facts = Facts(NUM_ROWS, num_features, epsilon, 0.0, num_outputs)
    plan = plan_direction(facts, labels(num_outputs))
    rng = SeededNoise(8)
    draws = np.concatenate([plan.draw(*table, rng) for _ in range(num_draws)])
    off = (draws - total) / (farthest / epsilon)
    # A length has the law of a sum of exponentials, one for each number of a draw. Four standard
    # errors, of 34,000 or 13,500 of them 2.2% or 3.4%: false alarm 1.3e-4.
    dim = len(total)
    assert abs(np.linalg.norm(off, axis=1).mean() / dim - 1.0) < 4.0 / np.sqrt(off.size)
    assert abs(off.mean()) < 4.0 * np.sqrt((dim + 1) / off.size)
