"""Adaptive queries on dependent rows: what holds, and the printed theorem that does not.

Max-information of a Bayesian-DP algorithm is bounded whatever the rows' law (Zhao 2019, Thm 3).
What remains is how one fixed query concentrates, and there Hoeffding's inequality for independent
rows fails.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

from gibbs_dp.holdout.composition import Rule, composed_pure_dp, per_release_epsilon
from gibbs_dp.information import checks
from gibbs_dp.information.bounds import adaptive_event_tail
from gibbs_dp.information.checks import Adjacency
from gibbs_dp.papers.bayesian_dp.markov_chain import MarkovChain


def dependent_event_tail(n: int, *, fixed_tail: float, bdp_epsilon: float) -> float:
    """Bound ``P[S in R(A(S))]``: the best ``2^k fixed_tail + beta`` over ``beta``.

    `adaptive_event_tail` with Bayesian DP in place of DP, which is all that its max-information
    needs of the rows' dependence; the tail of the fixed event must hold for the dependent law.

    Parameters
    ----------
    n
        Number of rows.
    fixed_tail
        ``max_y P[S in R(y)]`` on these rows, in ``(0, 1)``.
    bdp_epsilon
        Bayesian DP of the algorithm on these rows.

    Returns
    -------
    float
        Bound on the probability, at most 1.

    Examples
    --------
    >>> round(dependent_event_tail(1000, fixed_tail=1e-6, bdp_epsilon=0.05), 6)
    7.1e-05
    """
    return adaptive_event_tail(n, fixed_tail=fixed_tail, epsilon=bdp_epsilon)


def chain_tail(chain: MarkovChain, tau: float) -> float:
    """``2 exp(-2 n tau^2 (1 - l)/(1 + l))`` for a fixed query, ``l = 1 - absolute gap``.

    Fan, Jiang & Sun 2021, Thm 1: a stationary reversible chain, any query into [0, 1].

    Parameters
    ----------
    chain
        The rows.
    tau
        Deviation.

    Returns
    -------
    float
        Bound on the probability, at most 1.

    Raises
    ------
    ValueError
        If the chain is not stationary or not reversible.

    Examples
    --------
    >>> chain = MarkovChain([[0.95, 0.05], [0.05, 0.95]], 2000)
    >>> round(chain_tail(chain, 0.1), 6)
    0.243627
    """
    checks.nonnegative("tau", tau)
    if not chain.is_stationary:
        raise ValueError("chain: it does not start from its stationary law; leave start out.")
    gap = chain.absolute_gap
    return min(1.0, 2 * math.exp(-2 * chain.length * tau**2 * gap / (2 - gap)))


def printed_fixed_tail(n: int, tau: float) -> float:
    """**As printed**: ``2 exp(-2 n tau^2)`` for a fixed query on arbitrarily dependent rows.

    False without independence: `copied_rows_tail` and `two_state_tail` exceed it.

    Examples
    --------
    >>> round(printed_fixed_tail(200, 0.1), 3)
    0.037
    """
    return min(1.0, 2 * math.exp(-2 * checks.count("n", n) * tau**2))


def copied_rows_tail(tau: float, probability: float = 0.5) -> float:
    """``P[|E_S phi - P phi| >= tau]``, exactly, where all rows are copies of one bit.

    An algorithm that ignores the rows has Bayesian DP of 0, and nothing concentrates.

    Examples
    --------
    >>> copied_rows_tail(0.4)
    1.0
    """
    p = checks.unit_interval("probability", probability)
    return p * float(1 - p >= tau) + (1 - p) * float(p >= tau)


def two_state_tail(flip: float, n: int, tau: float) -> float:
    """``P[|mean - 1/2| >= tau]``, exactly, for a stationary bit that flips at this rate.

    By the law of the count of ones, a convolution over rows.

    Parameters
    ----------
    flip
        Probability that a row differs from the one before, in ``(0, 1)``.
    n
        Number of rows.
    tau
        Deviation.

    Returns
    -------
    float
        The probability.

    Examples
    --------
    >>> round(two_state_tail(0.05, 200, 0.1), 3)
    0.53
    """
    checks.unit_interval("flip", flip, open_left=True)
    checks.count("n", n)
    law = np.zeros((2, n + 1))  # [bit, ones so far]
    law[0, 0] = law[1, 1] = 0.5
    for _ in range(n - 1):
        zero = (1 - flip) * law[0] + flip * law[1]
        one = flip * law[0] + (1 - flip) * law[1]
        law = np.stack([zero, np.concatenate([[0.0], one[:-1]])])
    return _outside(law.sum(axis=0), tau)


def independent_tail(n: int, tau: float) -> float:
    """`two_state_tail` for independent fair bits.

    Examples
    --------
    >>> independent_tail(200, 0.1) < printed_fixed_tail(200, 0.1)
    True
    """
    from scipy.stats import binom  # slow to import

    return _outside(np.asarray(binom.pmf(np.arange(n + 1), n, 0.5)), tau)


def _outside(count_law: Float[np.ndarray, " counts"], tau: float) -> float:
    n = count_law.size - 1
    far = np.abs(np.arange(n + 1) / n - 0.5) >= tau - 1e-12
    return float(count_law[far].sum())


# Many counting queries under one budget: their error, and how many a table can answer.
#
# A counting query asks for the fraction of rows with a property. Replacing a row moves it by
# ``1/n``; Laplace noise of scale ``1/(n eps_0)`` makes one answer ``eps_0``-DP under replace-one.


def counting_sensitivity(
    num_queries: int, adjacency: Adjacency, *, is_disjoint: bool = False
) -> float:
    """L1 sensitivity of ``m`` counts taken together.

    Disjoint counts (a histogram): 1 under add/remove, 2 under replace-one; any others: ``m``.

    Parameters
    ----------
    num_queries
        ``m``.
    adjacency
        Which datasets count as neighbours.
    is_disjoint
        Whether every row is in at most one of the counts.

    Returns
    -------
    float
        Largest change of all counts together.

    Examples
    --------
    >>> counting_sensitivity(10, "replace-one", is_disjoint=True)
    2.0
    """
    m = checks.count("num_queries", num_queries)
    checks.adjacency(adjacency)
    if not is_disjoint:
        return float(m)
    # A single count moves by 1 when a row is exchanged; two disjoint ones move by 1 each.
    return 2.0 if adjacency == "replace-one" and m > 1 else 1.0


def counting_error(
    num_queries: int, n: int, *, epsilon: float, delta: float, rule: Rule, worst: bool = False
) -> float:
    """Compute the expected absolute error of the noise in ``m`` fractions, under one total budget.

    ``1/(n eps_0)`` for each answer, and ``H_m/(n eps_0)`` (harmonic number, exact) for the worst.

    Parameters
    ----------
    num_queries, n
        Queries ``m`` and rows.
    epsilon, delta
        Total budget, replace-one.
    rule
        How the budget is split, as in `composed_pure_dp`.
    worst
        Expected largest error of the ``m`` instead of the mean one.

    Returns
    -------
    float
        Error of one fraction.

    Examples
    --------
    >>> round(counting_error(100, 1000, epsilon=1.0, delta=1e-6, rule="basic"), 6)
    0.1
    >>> counting_error(100, 1000, epsilon=1.0, delta=1e-6, rule="optimal") < 0.05
    True
    """
    each = per_release_epsilon(num_queries, epsilon, delta=delta, rule=rule)
    scale = 1 / (checks.count("n", n) * each)
    return scale * (math.fsum(1 / j for j in range(1, num_queries + 1)) if worst else 1.0)


def answerable_queries(n: int, *, epsilon: float, delta: float, rule: Rule) -> int:
    """Count the queries that ``n`` rows answer before noise exceeds sampling error.

    The standard deviation of the noise, ``sqrt(2)/(n eps_0)``, against the largest one of a
    fraction of ``n`` independent rows, ``1/(2 sqrt(n))``.

    Parameters
    ----------
    n
        Rows.
    epsilon, delta
        Total budget, replace-one.
    rule
        How the budget is split.

    Returns
    -------
    int
        0 where even one query is too noisy.

    Examples
    --------
    >>> [answerable_queries(10_000, epsilon=1.0, delta=1e-6, rule=r)
    ...  for r in ("basic", "optimal")]
    [35, 73]
    """
    needed = 2 * math.sqrt(2 / checks.count("n", n))  # smallest eps_0

    def enough(m: int) -> bool:
        return composed_pure_dp(m, needed, delta=delta, rule=rule) <= epsilon

    if not enough(1):
        return 0
    low, high = 1, 2
    while enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if enough(middle) else (low, middle)
    return low
