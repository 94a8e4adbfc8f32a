"""Choose a holdout's threshold, noise and budget before the first query, or learn none will do."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from scipy.optimize import minimize_scalar

from gibbs_dp.holdout.promise import INDEPENDENT, adaptive_deviation, noise_slack
from gibbs_dp.holdout.rows import Rows
from gibbs_dp.information import checks

# Share of beta that goes to the noise; the optimum is flat.
NOISE_SHARE = 0.3
MAX_ROWS = 10**12


class HoldoutPlan(NamedTuple):
    """Settings of a `Thresholdout` that keep a promise.

    Parameters
    ----------
    threshold, sigma, budget
        For `Thresholdout`; the budget is the largest that the promise allows.
    tau, beta
        The promise: with probability ``1 - beta`` every answer is within ``tau`` of the population.
    overfit
        With the same probability no query whose train and holdout means differ by less than this
        spends a unit of the budget.
    epsilon
        Bayesian DP of the whole transcript on these rows (DP where they are independent), nats.
    """

    threshold: float
    sigma: float
    budget: int
    tau: float
    beta: float
    overfit: float
    epsilon: float


def plan_thresholdout(
    n: int,
    num_queries: int,
    tau: float,
    *,
    beta: float = 0.05,
    overfit: float | None = None,
    rows: Rows = INDEPENDENT,
) -> HoldoutPlan:
    """Find the settings with the largest budget that keep a promise.

    ``T = overfit + t`` where ``t`` bounds all noise, so that ``overfit + 2 t`` and the holdout's
    own deviation must fit into ``tau``; the noise rate is the one at which they need least.

    Parameters
    ----------
    n
        Rows of the holdout.
    num_queries
        ``m``, at most this many.
    tau
        Accuracy wanted, in ``(0, 1)``.
    beta
        Failure probability, in ``(0, 1)``.
    overfit
        Gap between train and holdout that must not cost budget; ``tau/2`` by default.
    rows
        What is known about the holdout's rows.

    Returns
    -------
    HoldoutPlan
        Settings, and the promise they keep.

    Raises
    ------
    ValueError
        If no settings keep the promise; it names the number of rows that would do, where there
        is one: that of `plan_num_rows`.

    Examples
    --------
    >>> plan = plan_thresholdout(200_000, 1000, 0.2)
    >>> plan.budget, round(plan.threshold, 3), round(plan.sigma, 6)
    (7, 0.123, 0.000379)
    """
    checks.count("n", n)
    gap = _checked_gap(num_queries, tau, beta, overfit)

    def needed(size: int, budget: int) -> tuple[float, float]:
        return _least_tau(size, num_queries, budget, beta, gap, rows)

    if needed(n, 1)[0] > tau:
        enough = _least_rows(lambda size: needed(size, 1)[0] <= tau)
        raise ValueError(
            f"tau: no threshold, sigma and budget keep {num_queries} answers within {tau:g} with "
            f"n = {n}; {_remedy(enough)}."
        )
    low, high = 1, 2
    while needed(n, high)[0] <= tau:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if needed(n, middle)[0] <= tau else (low, middle)
    sigma = needed(n, low)[1]
    slack = _two_sided_slack(num_queries, sigma, low, beta)
    epsilon = rows.bdp_epsilon(n, 2 * low / (sigma * n))
    return HoldoutPlan(gap + slack, sigma, low, tau, beta, gap, epsilon)


def plan_num_rows(
    num_queries: int,
    tau: float,
    *,
    budget: int = 1,
    beta: float = 0.05,
    overfit: float | None = None,
    rows: Rows = INDEPENDENT,
) -> int:
    """Count the holdout rows that a promise needs, before they are collected.

    With so many rows `plan_thresholdout` finds settings with at least ``budget``; with one fewer
    it does not. Sufficient, by the inequalities of `thresholdout_promise` (Dwork et al. 2015, Thm
    25; Zhao 2019, Thm 2, with a tail that holds for the rows); necessary for this proof alone.

    Parameters
    ----------
    num_queries, tau, beta, overfit
        The promise, as in `plan_thresholdout`.
    budget
        Answers that the holdout may have to correct.
    rows
        What is known about the holdout's rows, such as `chain_rows`; independent by default.

    Returns
    -------
    int
        Rows of the holdout.

    Raises
    ------
    ValueError
        If an argument is out of range, or no number of rows below 10^12 would do.

    Examples
    --------
    >>> n = plan_num_rows(1000, 0.2, budget=7)
    >>> n, plan_thresholdout(n, 1000, 0.2).budget, plan_thresholdout(n - 1, 1000, 0.2).budget
    (182135, 7, 6)
    """
    gap = _checked_gap(num_queries, tau, beta, overfit)
    checks.count("budget", budget)
    found = _least_rows(lambda n: _least_tau(n, num_queries, budget, beta, gap, rows)[0] <= tau)
    if found is None:
        raise ValueError(
            f"tau: {_remedy(found)}, got tau = {tau:g} with overfit = {gap:g} and budget = "
            f"{budget}."
        )
    return found


def _checked_gap(num_queries: int, tau: float, beta: float, overfit: float | None) -> float:
    """Check what both plans are given, and return ``overfit``."""
    checks.count("num_queries", num_queries)
    checks.unit_interval("tau", tau, open_left=True)
    checks.unit_interval("beta", beta, open_left=True)
    return tau / 2 if overfit is None else checks.nonnegative("overfit", overfit)


def _two_sided_slack(m: int, sigma: float, budget: int, beta: float) -> float:
    return noise_slack(m, sigma=sigma, budget=budget, beta=NOISE_SHARE * beta / 2)


def _least_tau(
    n: int, m: int, budget: int, beta: float, gap: float, rows: Rows
) -> tuple[float, float]:
    """Least ``tau`` over the noise rate, and that rate."""

    def total(log_sigma: float) -> float:
        sigma = math.exp(log_sigma)
        eps = rows.bdp_epsilon(n, 2 * budget / (sigma * n))
        deviation = adaptive_deviation(n, m, epsilon=eps, beta=(1 - NOISE_SHARE) * beta, rows=rows)
        # Finite where nothing is promised, so that the search keeps its direction.
        return gap + 2 * _two_sided_slack(m, sigma, budget, beta) + min(deviation, 1e3 / sigma)

    found = minimize_scalar(total, bounds=(math.log(1e-7), 0.0), method="bounded")
    return float(found.fun), math.exp(float(found.x))


def _least_rows(is_enough: Callable[[int], bool]) -> int | None:
    """Return an ``n`` that is enough where ``n - 1`` is not; None above `MAX_ROWS`."""
    low, high = 0, 1
    while not is_enough(high):
        low, high = high, 2 * high
        if high > MAX_ROWS:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def _remedy(num_rows: int | None) -> str:
    if num_rows is None:
        return "no number of rows below 10^12 would do; raise tau or lower overfit"
    return f"{num_rows:,} rows would do (plan_num_rows); or raise tau, lower overfit, or ask less"
