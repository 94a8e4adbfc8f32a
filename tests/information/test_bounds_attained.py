"""Every bound holds on a case kept here, and fails on it when its constant is made smaller.

Each case gives the exact truth, the bound, and a factor: the truth is at most the bound, and above
the factor times the bound. Factors near 1 are bounds attained (in the limit, or exactly); the
others say how loose a published constant is on the hardest case known here.
"""

import math
from itertools import combinations

import numpy as np
import pytest

from gibbs_dp.exact.finite_channel import FiniteChannel
from gibbs_dp.exact.finite_problem import FiniteProblem
from gibbs_dp.information import bounds
from gibbs_dp.information import dependence as dep
from gibbs_dp.information import divergences as dv
from gibbs_dp.information.divergences import batched

REPLACE = {"adjacency": "replace-one"}
# Two hypotheses and two values that disagree; loss range 1, R = 2.
COIN = FiniteProblem([[0.0, 1.0], [1.0, 0.0]], [0.5, 0.5], [0.5, 0.5])
# A rare example that makes a rare hypothesis likely: KL one way only, so lautum << I.
RARE = FiniteProblem([[0.0, 0.0], [0.0, math.log(1e-15)]], [1 - 1e-20, 1e-20], [1 - 1e-15, 1e-15])
# The log-ratio of a rare hypothesis reaches eta.
EXTREME = FiniteProblem([[0.0, 1.0], [1.0, 0.0]], [0.5, 0.5], [1 - 1e-6, 1e-6])


def response(eps):
    """Binary randomized response: the two output laws."""
    p = np.array([math.exp(eps), 1.0]) / (1 + math.exp(eps))
    return np.array([p, p[::-1]])


def many_valued(num, keep):
    """Joint law of a uniform value and its report, kept with some probability."""
    report = np.full((num, num), (1 - keep) / (num - 1))
    np.fill_diagonal(report, keep)
    return report / num


def subset_mechanism(num, size, eps):
    """Report a subset, e^eps likelier if it holds the value: the extreme eps-DP channel."""
    inside = np.array([[v in s for v in range(num)] for s in combinations(range(num), size)])
    law = np.exp(eps * inside)
    return law / law.sum(axis=0) / num


def two_point(eta, t):
    """Log of the pairs of laws with log-ratio t or t - eta, one row a t."""
    log_q = np.stack([np.log(-np.expm1(t - eta)) - t, np.log(-np.expm1(-t))], axis=1)
    log_q -= np.log(-np.expm1(-eta))
    return log_q + np.stack([t, t - eta], axis=1), log_q


def worst_two_point(divergence, eta):
    return float(divergence(*two_point(eta, np.linspace(0.001, 0.999, 999) * eta)).max())


def fit_sign(h):
    """A Gaussian statistic and its negative, selected by a slight preference for the larger."""
    x, log_mass = dv.quadrature_law(lambda x: -x * x / 2, -math.inf, math.inf)
    mass = np.exp(log_mass)
    plus = 1 / (1 + np.exp(-2 * h * x))
    joint = np.stack([mass * plus, mass * (1 - plus)])
    bias = float(joint[0] @ x - joint[1] @ x)
    return bias, dep.mutual_information(joint)


def weak_sign(h=1e-3):
    """Joint law of a fair bit and a guess that is slightly right."""
    return np.array([[0.25 + h / 2, 0.25 - h / 2], [0.25 - h / 2, 0.25 + h / 2]])


def centered():
    """Losses of mean zero: dropping an example is averaging over it, to first order."""
    return FiniteProblem([[0.5, -0.5], [-0.5, 0.5]], [0.5, 0.5], [0.5, 0.5])


def revealing(num, delta):
    """Say one's value with probability delta, else nothing: (0, delta)-DP."""
    table = np.column_stack([delta * np.eye(num), np.full(num, 1 - delta)])
    return FiniteChannel(table, np.full(num, 1 / num), 1)


CASES = {
    "pinsker": lambda: (
        dv.total_variation([0.5005, 0.4995], [0.5, 0.5]),
        bounds.total_variation_from_kl(dv.kl_divergence([0.5005, 0.4995], [0.5, 0.5])),
        0.999,
    ),
    "kl <= max divergence": lambda: (
        dv.kl_divergence([1.0, 0.0], [0.3, 0.7]),
        bounds.kl_from_max_divergence(dv.max_divergence([1.0, 0.0], [0.3, 0.7])),
        0.999,
    ),
    "mutual information of a Gibbs posterior": lambda: (
        RARE.table(1.0, 1).mutual_information(),
        bounds.mutual_information_from_on_average_kl(1, RARE.on_average_kl(1.0, 1)),
        0.95,
    ),
    "erasure information by on-average KL": lambda: (
        RARE.table(1.0, 1).erasure_mutual_information(),
        bounds.erasure_information_from_on_average_kl(1, RARE.on_average_kl(1.0, 1)),
        0.95,
    ),
    "erasure information by uniform KL": lambda: (
        dep.mutual_information(many_valued(1000, 0.5)),
        bounds.erasure_information_from_uniform_kl_stability(
            1, dv.kl_divergence(*(1000 * many_valued(1000, 0.5)[:2]))
        ),
        0.75,
    ),
    "erasure information by average KL": lambda: (
        centered().table(1e-3, 3).erasure_mutual_information(),
        bounds.erasure_information_from_average_kl_stability(
            3, centered().average_removal_kl(1e-3, 3)
        ),
        0.999,
    ),
    "erasure T-information by TV": lambda: (
        dep.t_information(many_valued(100, 0.5)),
        bounds.erasure_t_information_from_tv_stability(
            1, dv.total_variation(*(100 * many_valued(100, 0.5)[:2]))
        ),
        0.98,
    ),
    "generalization by T-information": lambda: (
        FiniteChannel([[0.7, 0.3], [0.2, 0.8]], [0.4, 0.6], 1).generalization_error(
            [[0.0, 1.0], [1.0, 0.0]]
        ),
        bounds.generalization_from_erasure_t_information(
            FiniteChannel([[0.7, 0.3], [0.2, 0.8]], [0.4, 0.6], 1).erasure_t_information(), 1
        ),
        0.999,
    ),
    "generalization by mutual information": lambda: (
        FiniteChannel(2 * weak_sign(), [0.5, 0.5], 1).generalization_error([[0, 1], [1, 0]]),
        bounds.generalization_from_mutual_information(
            dep.mutual_information(weak_sign()), 1, sigma=0.5
        ),
        0.999,
    ),
    "generalization by individual information": lambda: (
        FiniteChannel(2 * weak_sign(), [0.5, 0.5], 1).generalization_error([[0, 1], [1, 0]]),
        bounds.generalization_from_individual_information(
            [dep.mutual_information(weak_sign())], sigma=0.5
        ),
        0.999,
    ),
    "generalization, subexponential": lambda: (
        FiniteChannel(2 * weak_sign(), [0.5, 0.5], 1).generalization_error([[0, 1], [1, 0]]),
        bounds.generalization_subexponential(
            dep.mutual_information(weak_sign()), 1, sigma=0.5, b=0.01
        ),
        0.999,
    ),
    "generalization by eps": lambda: (
        FiniteChannel(response(0.01), [0.5, 0.5], 1).generalization_error([[0, 1], [1, 0]]),
        bounds.generalization_from_dp(0.01),
        0.24,
    ),
    "generalization by delta": lambda: (
        revealing(50, 0.1).generalization_error(
            np.vstack([1 - np.eye(50), np.zeros(50)])  # silence, the last output, loses nothing
        ),
        bounds.generalization_from_dp(0.0, float(revealing(50, 0.1).privacy_curve([0.0])[0])),
        0.97,
    ),
    "selection bias": lambda: (
        fit_sign(0.01)[0],
        bounds.selection_bias(fit_sign(0.01)[1], sigma=1.0),
        0.999,
    ),
    "gibbs I by sigma": lambda: (
        COIN.table(1e-3, 1).mutual_information(),
        bounds.gibbs_mutual_information(1, 1e-3, sigma=0.5),
        0.24,
    ),
    "gibbs gen by sigma": lambda: (
        COIN.generalization_error(1e-3, 1),
        bounds.gibbs_generalization_subgaussian(1e-3, sigma=0.5),
        0.49,
    ),
    "gibbs KL by range": lambda: (
        COIN.kl_privacy(1e-3, 1, **REPLACE),
        bounds.gibbs_kl_stability(1e-3, loss_range=1.0),
        0.999,
    ),
    "gibbs I^- by range": lambda: (
        COIN.table(1e-3, 1).erasure_mutual_information(),
        bounds.gibbs_erasure_information(1, 1e-3, loss_range=1.0),
        0.24,
    ),
    "gibbs gen by range": lambda: (
        COIN.generalization_error(1e-3, 1),
        bounds.gibbs_generalization(1e-3, loss_range=1.0),
        0.49,
    ),
    "pure DP by range": lambda: (
        EXTREME.dp_epsilon(1.0, 1, **REPLACE),
        bounds.pure_dp_from_range(2.0),
        0.999,
    ),
    "pure DP by log-density": lambda: (
        FiniteProblem([[-0.5, 0.5], [0.5, -0.5]], [0.5, 0.5], [1 - 1e-6, 1e-6]).dp_epsilon(
            1.0, 1, **REPLACE
        ),
        bounds.pure_dp_from_log_density(1.0, log_density_bound=0.5),
        0.999,
    ),
    "pure DP, fixed normalizer": lambda: (
        dv.laplace_max_divergence(0.0, 0.04, scale=0.1),
        bounds.pure_dp_fixed_normalizer(10.0, sensitivity=0.04),
        0.999,
    ),
    "range KL": lambda: (worst_two_point(batched.kl, 2.0), bounds.kl_from_range(2.0), 0.9999),
    "range TV": lambda: (
        worst_two_point(batched.total_variation, 2.0),
        bounds.total_variation_from_range(2.0),
        0.9999,
    ),
    "range zCDP": lambda: (
        worst_two_point(batched.kl, 0.01),
        bounds.zcdp_from_range(0.01),
        0.999,
    ),
    "DP erasure information": lambda: (
        dep.mutual_information(subset_mechanism(11, 4, 1.0)),
        bounds.dp_erasure_information(1, 1.0),
        0.99,
    ),
    "zCDP of Gaussian DP": lambda: (
        dv.gaussian_renyi(0.8, 1.0, 0.0, 1.0, 3.0) / 3.0,
        bounds.zcdp_from_gdp(0.8),
        0.999,
    ),
    "delta of Gaussian DP": lambda: (
        dv.gaussian_hockey_stick(0.8, 1.0, 0.0, 1.0, math.exp(0.5)),
        bounds.delta_from_gdp(0.8, 0.5),
        0.999,
    ),
    "delta of zCDP": lambda: (
        dv.gaussian_hockey_stick(0.8, 1.0, 0.0, 1.0, math.exp(2.0)),
        bounds.delta_from_zcdp(bounds.zcdp_from_gdp(0.8), 2.0),
        0.03,
    ),
    "strongly convex GDP": lambda: (
        # Potential m theta^2 / 2 + gamma G z theta: N(-gamma G z / m, 1 / m), z in {0, 1}.
        dv.gaussian_hockey_stick(-0.7 * 0.5 / 3.0, 1 / 3.0, 0.0, 1 / 3.0, math.exp(0.1)),
        bounds.delta_from_gdp(
            bounds.strongly_convex_gdp(0.7, lipschitz=0.5, strong_convexity=3.0), 0.1
        ),
        0.999,
    ),
    "GDP composition": lambda: (
        dv.gaussian_hockey_stick([0.3, 0.4], np.eye(2), [0.0, 0.0], np.eye(2), math.exp(0.1)),
        bounds.delta_from_gdp(bounds.gdp_composition([0.3, 0.4]), 0.1),
        0.999,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_bound_holds_and_a_smaller_constant_fails(name):
    truth, bound, factor = CASES[name]()
    assert truth <= bound * (1 + 1e-9)
    assert truth > factor * bound


@pytest.mark.parametrize("alpha", [1.5, 2.0, 8.0, 64.0])
@pytest.mark.parametrize("eta", [0.1, 1.0, 4.0])
def test_range_renyi_is_the_worst_two_point_law(eta, alpha):
    fine = eta * (1 - np.geomspace(1e-5, 0.999, 4000))
    truth = float(batched.renyi(*two_point(eta, fine), alpha).max())
    bound = bounds.renyi_from_range(eta, alpha)
    assert truth <= bound * (1 + 1e-9)
    assert truth > 0.9999 * bound


@pytest.mark.parametrize("eta", [0.5, 2.0])
def test_a_gibbs_posterior_attains_the_range_figures(eta):
    # One example, gamma = eta / 2, R = 2: the prior moves the two-point law through every t.
    best_kl = best_tv = 0.0
    for log_odds in np.linspace(-3, 3, 151):
        prior = 1 / (1 + math.exp(-log_odds))
        problem = FiniteProblem(COIN.loss_matrix, [0.5, 0.5], [prior, 1 - prior])
        best_kl = max(best_kl, problem.kl_privacy(eta / 2, 1, **REPLACE))
        best_tv = max(best_tv, problem.tv_privacy(eta / 2, 1, **REPLACE))
    assert 0.9999 * bounds.kl_from_range(eta) < best_kl <= bounds.kl_from_range(eta)
    tv = bounds.total_variation_from_range(eta)
    assert 0.9999 * tv < best_tv <= tv * (1 + 1e-12)


def test_lower_bounds_fail_when_larger():
    p, q = [1.0, 0.0], [0.2, 0.8]
    lower = bounds.hockey_stick_lower_from_total_variation(dv.total_variation(p, q), 2.0)
    truth = dv.hockey_stick(p, q, 2.0)
    assert lower <= truth * (1 + 1e-12)
    assert 1.001 * lower > truth
    information = RARE.table(1.0, 1).mutual_information()
    gen = RARE.generalization_error(1.0, 1)
    lower = bounds.generalization_lower_from_mutual_information(information, 1, 1.0)
    assert lower <= gen * (1 + 1e-9)
    assert 1.06 * lower > gen


@pytest.mark.parametrize(("steps", "m"), [(1, 2.0), (7, 0.5), (40, 1.0)])
def test_langevin_last_iterate_is_exact_for_quadratics(steps, m):
    h, s, gamma = 0.3, 1.7, 0.8
    shift = variance = 0.0
    for _ in range(steps):
        shift = (1 - h * m) * shift + h * gamma * s
        variance = (1 - h * m) ** 2 * variance + 2 * h
    bound = bounds.langevin_last_iterate_gdp(
        steps, h, gradient_sensitivity=s, gamma=gamma, strong_convexity=m, smoothness=m
    )
    assert bound == pytest.approx(shift / math.sqrt(variance), rel=1e-12)
    whole = bounds.langevin_trajectory_gdp(steps, h, gradient_sensitivity=s, gamma=gamma)
    assert bound <= whole * (1 + 1e-12)
    # Without curvature the last iterate knows as much as the trajectory.
    flat = steps * h * gamma * s / math.sqrt(2 * h * steps)
    assert whole == pytest.approx(flat, rel=1e-12)


def test_langevin_last_iterate_covers_unequal_curvatures():
    h, m, smooth = 0.2, 0.5, 3.0
    bound = bounds.langevin_last_iterate_gdp(
        9, h, gradient_sensitivity=1.0, gamma=1.0, strong_convexity=m, smoothness=smooth
    )
    for curvature in np.linspace(m, smooth, 7):
        c = 1 - h * curvature
        shift = h * (1 - c**9) / (1 - c)
        variance = 2 * h * (1 - c**18) / (1 - c**2)
        assert abs(shift) / math.sqrt(variance) <= bound * (1 + 1e-12)
