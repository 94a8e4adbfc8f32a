"""Rows that a promise needs, against a search that shares no code with the planner."""

import math

import numpy as np
import pytest

from gibbs_dp import holdout
from gibbs_dp.papers import bayesian_dp

TRANSITION = [[0.6, 0.4], [0.4, 0.6]]  # second eigenvalue 0.2


def best_tau(n, m, budget, overfit, *, beta=0.05, effective=1.0, bdp=None):
    """Least accuracy over a fine grid of noise rates, each piece of the proof written out.

    The noise has 0.3 of ``beta``, on two sides; half of the rest is the max-information's own.
    """
    splits = np.linspace(0, 400, 400_001)
    one_side = 0.3 * beta / 2

    def chance(t):  # of sum of noises above t, in units of sigma, over the best split
        first = splits[splits <= t]
        return (budget / 2 * np.exp(-first / 2) + m / 2 * np.exp(-(t - first) / 4)).min()

    low, high = 0.0, 400.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if chance(middle) > one_side else (low, middle)
    sigma = np.exp(np.arange(math.log(1e-5), math.log(0.05), 0.01))
    epsilon = 2 * budget / (sigma * n)
    if bdp is not None:
        epsilon = np.array([bdp(e) for e in epsilon])
    rest = 0.7 * beta / 2
    information = n * epsilon**2 / 8 + epsilon * np.sqrt(n * math.log(1 / rest) / 2)
    # e^information m 2 exp(-2 n D^2 / inflation) = rest
    deviation = np.sqrt((math.log(2 * m / rest) + information) / (2 * n / effective))
    return (overfit + 2 * high * sigma + deviation).min()


@pytest.mark.parametrize(
    ("m", "tau", "budget", "overfit"),
    [(1000, 0.2, 7, 0.1), (50, 0.3, 1, 0.05), (10**5, 0.25, 3, 0.0)],
)
def test_rows_needed_are_enough_and_no_more(m, tau, budget, overfit):
    n = holdout.plan_num_rows(m, tau, budget=budget, overfit=overfit)
    assert best_tau(round(1.005 * n), m, budget, overfit) < tau
    assert best_tau(round(0.995 * n), m, budget, overfit) > tau
    # To the row, by the plan itself, and what it promises.
    plan = holdout.plan_thresholdout(n, m, tau, overfit=overfit)
    assert plan.budget == budget
    promise = holdout.thresholdout_promise(
        n, m, threshold=plan.threshold, sigma=plan.sigma, budget=budget
    )
    assert promise.tau <= tau
    if budget > 1:
        assert holdout.plan_thresholdout(n - 1, m, tau, overfit=overfit).budget == budget - 1
    else:
        with pytest.raises(ValueError, match=f"; {n:,} rows would do"):
            holdout.plan_thresholdout(n - 1, m, tau, overfit=overfit)


def test_rows_of_a_chain():
    """Fan, Jiang & Sun's tail, and the Bayesian DP of a chain of that very length."""
    chain = bayesian_dp.MarkovChain(TRANSITION, 1000)
    rows = bayesian_dp.chain_rows(chain, reach=12)
    n = holdout.plan_num_rows(200, 0.3, rows=rows, overfit=0.05)

    def found(size):
        profile = bayesian_dp.quilt_profile(bayesian_dp.MarkovChain(TRANSITION, size), reach=12)
        bdp = profile.bdp_epsilon
        return best_tau(size, 200, 1, 0.05, effective=1.2 / 0.8, bdp=bdp)

    assert found(round(1.005 * n)) < 0.3 < found(round(0.995 * n))
    assert n > 1.5 * holdout.plan_num_rows(200, 0.3, overfit=0.05)
    with pytest.raises(ValueError, match=f"; {n:,} rows would do"):
        holdout.plan_thresholdout(n - 1, 200, 0.3, overfit=0.05, rows=rows)


def test_long_chains_share_their_quilts():
    """Beyond some length the profile is that of any longer chain; here against its own length."""
    rows = bayesian_dp.chain_rows(bayesian_dp.MarkovChain(TRANSITION, 9), reach=10)
    for n in (30, 56, 57, 90, 2000):
        for epsilon in (1e-6, 1e-3, 0.1, 2.0):
            exact = bayesian_dp.bdp_epsilon(
                epsilon, bayesian_dp.MarkovChain(TRANSITION, n), reach=10
            )
            assert rows.bdp_epsilon(n, epsilon) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: holdout.plan_num_rows(10, 0.1, overfit=0.1), "no number of rows below"),
        (lambda: holdout.plan_num_rows(10, 1.5), "tau must lie"),
        (lambda: holdout.plan_num_rows(0, 0.1), "num_queries must be at least 1"),
        (lambda: holdout.plan_num_rows(10, 0.1, budget=0), "budget must be at least 1"),
        (lambda: holdout.plan_num_rows(10, 0.1, beta=0.0), "beta must lie"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
