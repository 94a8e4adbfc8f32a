"""Every bound holds on a case kept here, and fails on it when its constant is made smaller.

The table is whole: a public bound without a case fails, and so does a case that is neither near its
bound nor says why it cannot be.
"""

import inspect
import math

import numpy as np
import pytest

from gibbs_dp.exact.finite_problem import FiniteProblem
from gibbs_dp.information import bounds
from gibbs_dp.papers import bounds as paper_bounds
from gibbs_dp.papers.channels import composed_privacy_curve
from gibbs_dp.papers.verify import attained_generalization, attained_privacy
from gibbs_dp.papers.verify.cases import COIN, REPLACE
from gibbs_dp.papers.verify.verify import CASES as TABLE
from gibbs_dp.papers.verify.verify import REACHED, attained_check

FILES = (attained_privacy, attained_generalization)
FUNCTIONS = {
    name: module
    for module in (bounds, paper_bounds)
    for name, found in inspect.getmembers(module, inspect.isfunction)
    if module is bounds or (found.__module__ == module.__name__ and name[0] != "_")
}
ROWS = [(name, i) for name, cases in TABLE.items() for i in range(len(cases))]
OF_FUNCTIONS = [(name, i) for name, i in ROWS if name in FUNCTIONS]


def holds(case):
    left, right = case.sides()
    assert math.isfinite(left)
    return left <= right + 1e-9 * abs(right)


@pytest.mark.parametrize(("name", "i"), OF_FUNCTIONS)
def test_bound_holds_and_a_smaller_constant_fails(name, i, monkeypatch):
    case = TABLE[name][i]
    assert holds(case)
    module = FUNCTIONS[name]
    monkeypatch.setattr(module, name, case.scale(getattr(module, name)))
    assert not holds(case)


@pytest.mark.parametrize("factor", [0.99, 1.01])
@pytest.mark.parametrize(("name", "i"), OF_FUNCTIONS)
def test_verify_notices_a_constant_that_is_one_percent_off(name, i, factor, monkeypatch):
    case, reached = TABLE[name][i], REACHED.get((name, i), 1.0)
    if factor < 1:
        assert attained_check(name, case, reached).holds
    module = FUNCTIONS[name]
    monkeypatch.setattr(module, name, case.scale(getattr(module, name), factor))
    assert not attained_check(name, case, reached).holds


def test_every_bound_has_a_kept_case():
    assert not FUNCTIONS.keys() - TABLE.keys()
    assert sum(len(file.CASES) for file in FILES) == len(TABLE)  # no name twice
    for name, cases in TABLE.items():
        several = {case.part for case in cases} - {None}
        # A bound of two numbers has a case for each.
        assert several in (set(), {0, 1}), name


@pytest.mark.parametrize(("name", "i"), ROWS)
def test_what_is_not_near_says_why(name, i):
    case = TABLE[name][i]
    assert case.is_near != bool(case.loose)


def test_the_printed_inverse_overdraws():
    k, total, slack = 100, 20.0, 0.1
    eps = paper_bounds.advanced_composition_inverse_small_epsilon(k, total, delta_slack=slack)
    p = np.array([math.exp(eps), 1.0]) / (1 + math.exp(eps))
    assert composed_privacy_curve(p, p[::-1], k, [total])[0] > 2 * slack


def test_the_kept_loss_is_subexponential():
    chance, x = attained_generalization.RARE_LOSS, attained_generalization.X
    s = np.concatenate([-np.geomspace(1e-6, 1, 200), 1 - np.geomspace(1e-9, 1, 2000)])
    moment = np.log1p(chance * np.expm1(s * x)) - s * chance * x
    limit = (s * attained_generalization.SIGMA) ** 2 / 2
    assert (moment <= limit * (1 + 1e-12)).all()


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
