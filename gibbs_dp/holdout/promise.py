"""What is known about a holdout's rows: how a fixed query concentrates, and Bayesian DP.

Two things decide how far adaptively chosen answers can be from the population: the chance that a
query fixed beforehand is far off, and the Bayesian DP that a differentially private mechanism has
on these rows (section 9 of the theory; Zhao 2019, Theorems 1 to 3). For dependent rows the printed
theorems use Hoeffding's bound for the first, which fails; here it is part of the declaration.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from scipy.optimize import brentq, minimize_scalar

from gibbs_dp.information import checks
from gibbs_dp.information.bounds import max_information_bits
from gibbs_dp.information.bounds.differential_privacy import BITS_PER_NAT


@runtime_checkable
class Rows(Protocol):
    """What `thresholdout_promise` needs to know."""

    def deviation(self, n: int, log_probability: float) -> float:
        """Smallest ``tau`` with ``P[|E_S phi - P phi| > tau] <= e^log_probability``, fixed phi."""
        ...

    def bdp_epsilon(self, n: int, dp_epsilon: float) -> float:
        """Bayesian DP, on ``n`` such rows, of a ``dp_epsilon``-DP (replace-one) mechanism."""
        ...


@dataclass(frozen=True)
class IndependentRows:
    """Independent rows: Hoeffding's ``2 exp(-2 n tau^2)``, and Bayesian DP is DP."""

    def tail(self, n: int, tau: float) -> float:
        """Bound on ``P[|E_S phi - P phi| > tau]`` for one fixed query into [0, 1]."""
        return min(1.0, 2 * math.exp(-2 * n * tau**2))

    def deviation(self, n: int, log_probability: float) -> float:
        """Invert `tail`."""
        return hoeffding(float(n), log_probability)

    def bdp_epsilon(self, n: int, dp_epsilon: float) -> float:
        """Return ``dp_epsilon``."""
        checks.count("n", n)
        return dp_epsilon


@dataclass(frozen=True)
class DeclaredRows:
    """Any rows, with a tail that the user vouches for.

    Parameters
    ----------
    log_tail
        Function ``(n, tau) -> log P[|E_S phi - P phi| > tau]``, a bound for every fixed query into
        [0, 1]; decreasing in ``tau``.
    bdp
        Function ``(n, dp_epsilon) -> Bayesian DP`` of a ``dp_epsilon``-DP mechanism.

    Examples
    --------
    >>> tail = lambda n, tau: math.log(2) - n * tau**2
    >>> pairs = DeclaredRows(tail, lambda n, epsilon: 2 * epsilon)
    >>> round(pairs.deviation(1000, math.log(0.05)), 6)
    0.060736
    """

    log_tail: Callable[[int, float], float]
    bdp: Callable[[int, float], float]

    def deviation(self, n: int, log_probability: float) -> float:
        """Invert ``log_tail``; infinite where even ``tau = 1`` is too likely."""

        def excess(tau: float) -> float:
            return self.log_tail(n, tau) - log_probability

        if not excess(1.0) <= 0:
            return math.inf
        if excess(1e-12) <= 0:
            return 1e-12
        return float(brentq(excess, 1e-12, 1.0, xtol=1e-13))

    def bdp_epsilon(self, n: int, dp_epsilon: float) -> float:
        """Evaluate ``bdp``."""
        return self.bdp(n, dp_epsilon)


def hoeffding(n: float, log_probability: float) -> float:
    """Smallest ``tau`` with ``2 exp(-2 n tau^2) <= e^log_probability``."""
    return math.sqrt(max(0.0, math.log(2) - log_probability) / (2 * n))


# What Thresholdout promises: how far its adaptive answers may be from the population.
#
# The inequalities of section 9 (after Dwork et al. 2015, Thm 25), solved numerically. An
# answer is off by more than ``tau`` only if the holdout is off for that query, or a noise is large:
#
# - answers from the training set are within ``T + Lap(2 sigma) + Lap(4 sigma)`` of the holdout's
#   mean, answers from the holdout within ``Lap(sigma)``; union bounds over ``B`` thresholds, ``m``
#   queries and ``B`` answers;
# - the transcript is ``2B/(sigma n)``-DP for the holdout, hence of bounded max-information, and the
#   event that some query's holdout mean is off has at most ``2^k m tail + beta'``.


INDEPENDENT = IndependentRows()


class Promise(NamedTuple):
    """Accuracy of all answers that Thresholdout gives, proven for the declared rows."""

    tau: float
    beta: float
    deviation: float
    slack: float
    epsilon: float


def thresholdout_promise(
    n: int,
    num_queries: int,
    *,
    threshold: float,
    sigma: float,
    budget: int,
    beta: float = 0.05,
    rows: Rows = INDEPENDENT,
) -> Promise:
    """Solve for the accuracy that Thresholdout keeps over adaptive queries.

    Holds for any queries into [0, 1], chosen in any way from the training set and the answers, and
    for every answer that is given before the budget ends.

    Parameters
    ----------
    n
        Rows of the holdout.
    num_queries
        ``m``, at most this many are asked.
    threshold, sigma, budget
        ``T``, the noise rate and ``B``.
    beta
        Failure probability, in ``(0, 1)``.
    rows
        What is known about the holdout's rows.

    Returns
    -------
    Promise
        The accuracy and its parts.

    Examples
    --------
    >>> promise = thresholdout_promise(
    ...     100_000, 1000, threshold=0.05, sigma=1e-3, budget=2)
    >>> round(promise.tau, 4), round(promise.epsilon, 4)
    (0.1139, 0.04)
    """
    checks.count("n", n)
    m = checks.count("num_queries", num_queries)
    checks.nonnegative("threshold", threshold)
    checks.positive("sigma", sigma)
    checks.count("budget", budget)
    checks.unit_interval("beta", beta, open_left=True)
    eps = rows.bdp_epsilon(n, 2 * budget / (sigma * n))

    def parts(share: float) -> tuple[float, float]:
        slack = threshold + noise_slack(m, sigma=sigma, budget=budget, beta=share * beta)
        return adaptive_deviation(n, m, epsilon=eps, beta=(1 - share) * beta, rows=rows), slack

    found = minimize_scalar(lambda s: sum(parts(s)), bounds=(1e-3, 1 - 1e-3), method="bounded")
    deviation, slack = parts(float(found.x))
    return Promise(deviation + slack, beta, deviation, slack, eps)


def adaptive_deviation(
    n: int, num_queries: int, *, epsilon: float, beta: float, rows: Rows = INDEPENDENT
) -> float:
    """``tau`` with ``P[some |E_S phi_j - P phi_j| > tau] <= beta``, queries chosen ``epsilon``-DP.

    ``2^k m tail(tau) + beta/2 <= beta`` at ``k`` bits of ``beta/2``-approximate max-information.

    >>> round(adaptive_deviation(10_000, 1000, epsilon=0.01, beta=0.05), 6)
    0.025271
    """
    if not math.isfinite(epsilon):
        return math.inf
    nats = max_information_bits(n, epsilon, beta=beta / 2) / BITS_PER_NAT
    return rows.deviation(n, math.log(beta / 2) - math.log(num_queries) - nats)


def noise_slack(num_queries: int, *, sigma: float, budget: int, beta: float) -> float:
    """``t`` with ``P[some Lap(2 sigma) of B, plus some Lap(4 sigma) of m, is above t] <= beta``.

    Also covers the ``B`` answers' own ``|Lap(sigma)|``. The split between the two is optimal.

    >>> round(noise_slack(1000, sigma=0.001, budget=2, beta=0.05), 6)
    0.046658
    """
    # B/2 e^{-t1/2s} + m/2 e^{-t2/4s}: at the optimum the terms are as 1 to 2.
    # An answer's noise is above t with B e^{-t/s} < beta/1000 for such t; it takes that part.
    main = beta * (1 - 1e-3)
    thresholds = 2 * sigma * math.log(max(3 * budget / (2 * main), 1.0))
    queries = 4 * sigma * math.log(max(3 * num_queries / (4 * main), 1.0))
    return max(thresholds + queries, sigma * math.log(1e3 * budget / beta))


# Choose a holdout's threshold, noise and budget before the first query, or learn none will do.


# Share of beta that goes to the noise; the optimum is flat.
NOISE_SHARE = 0.3
MAX_ROWS = 10**12


class HoldoutPlan(NamedTuple):
    """Settings of a `gibbs_dp.Thresholdout` that keep a promise.

    Parameters
    ----------
    threshold, sigma, budget
        For `gibbs_dp.Thresholdout`; the budget is the largest that the promise allows.
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
        Known of the holdout's rows, such as `ReversibleChainRows`; independent by default.

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
