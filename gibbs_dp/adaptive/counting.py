"""Many counting queries under one budget: their error, and how many a table can answer.

A counting query asks for the fraction of rows with a property. Replacing a row moves it by
``1/n``; Laplace noise of scale ``1/(n eps_0)`` makes one answer ``eps_0``-DP under replace-one.
"""

from __future__ import annotations

import math

from gibbs_dp.adaptive.composition import Rule, composed_pure_dp, per_release_epsilon
from gibbs_dp.information import checks
from gibbs_dp.information.checks import Adjacency


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
