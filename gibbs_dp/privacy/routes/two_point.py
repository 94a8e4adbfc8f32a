"""Pairs of laws on two outcomes: the worst pairs whose log-ratio is confined to an interval.

If ``log P/Q`` lies in ``[low, high]`` almost surely, every convex function of the likelihood ratio
has an expectation at most that of the law on the two ends with mean one: the two-point pair
dominates (P, Q) for every divergence, and so do its products (Blackwell).
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.special import gammaln

Row = Float[np.ndarray, " pairs"]


def log_laws(low: Row, high: Row) -> tuple[Row, Row, Row, Row]:
    """``log P(high), log P(low), log Q(high), log Q(low)`` of the pairs, ``low <= 0 <= high``.

    Examples
    --------
    >>> p, _, q, _ = log_laws(np.array([-1.0]), np.array([1.0]))
    >>> float(p[0] - q[0])
    1.0
    """
    width = -np.expm1(low - high)
    with np.errstate(divide="ignore"):
        q_high = np.log(-np.expm1(low)) - high - np.log(width)
        q_low = np.log(-np.expm1(-high)) - np.log(width)
    return q_high + high, q_low + low, q_high, q_low


def hockey_stick(low: Row, high: Row, epsilon: float, num_draws: int) -> Row:
    """``delta(epsilon)`` of ``num_draws`` independent draws of each pair, exactly: a binomial sum.

    Examples
    --------
    >>> round(float(hockey_stick(np.array([-1.0]), np.array([1.0]), 0.0, 1)[0]), 12)  # tanh(1/2)
    0.46211715726
    """
    p_high, p_low, q_high, q_low = (a[:, None] for a in log_laws(low, high))
    k = np.arange(num_draws + 1.0)
    choose = gammaln(num_draws + 1) - gammaln(k + 1) - gammaln(num_draws - k + 1)
    # A log of -inf times a count of 0 is 0: a huge finite number does as well.
    p_high, p_low, q_high, q_low = (np.maximum(a, -1e300) for a in (p_high, p_low, q_high, q_low))
    log_p = choose + k * p_high + (num_draws - k) * p_low
    log_q = choose + k * q_high + (num_draws - k) * q_low
    gap = np.minimum(epsilon + log_q - log_p, 0.0)
    return np.asarray(np.sum(np.exp(log_p) * -np.expm1(gap), axis=1))


def renyi(low: float, high: float, alpha: float) -> float:
    """Rényi divergence of order ``alpha > 1`` of one pair, in nats."""
    _, _, q_high, q_low = (float(a[0]) for a in log_laws(np.array([low]), np.array([high])))
    terms = np.logaddexp(q_high + alpha * high, q_low + alpha * low)
    return float(terms) / (alpha - 1)
