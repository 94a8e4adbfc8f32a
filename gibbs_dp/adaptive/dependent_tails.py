"""Adaptive queries on dependent rows: what holds, and the printed theorem that does not.

Max-information of a Bayesian-DP algorithm is bounded whatever the rows' law (Zhao 2019, Thm 3).
What remains is how one fixed query concentrates, and there Hoeffding's inequality for independent
rows fails.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

from gibbs_dp.adaptive.markov_chain import MarkovChain
from gibbs_dp.information import checks
from gibbs_dp.information.bounds import adaptive_event_tail


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
