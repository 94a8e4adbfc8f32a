"""What max-information buys: tails of events that were chosen after looking at the data.

Dwork et al. 2015, section 3, for **independent examples** and replace-one DP. Functions whose
guarantee needs a small ``epsilon`` raise when it is too large.
"""

from __future__ import annotations

import math

from gibbs_dp.information import checks
from gibbs_dp.information.bounds.max_information import (
    BITS_PER_NAT,
    dp_approx_max_information_bits_kappa,
)


def event_probability(product_probability: float, *, bits: float, beta: float) -> float:
    """``P[(S, A(S)) in O] <= 2^k P[S x A(S) in O] + beta``, the definition of ``I_inf^beta <= k``.

    Parameters
    ----------
    product_probability
        Probability of the event when the output is drawn for an independent dataset; or a bound.
    bits, beta
        ``I_inf^beta(A, n) <= bits``.

    Returns
    -------
    float
        Bound on the probability, at most 1.

    Examples
    --------
    >>> event_probability(0.01, bits=2.0, beta=0.05)
    0.09
    """
    if not 0 <= product_probability <= 1:
        raise ValueError(f"product_probability must lie in [0, 1], got {product_probability}.")
    checks.unit_interval("beta", beta)
    return min(1.0, math.exp2(bits) * product_probability + beta)


def _require(name: str, value: float, limit: float) -> None:
    if not value <= limit:
        raise ValueError(
            f"{name} must be at most {limit:g} for this guarantee, got {value:g}; "
            "make the algorithm more private, or use adaptive_event_tail."
        )


def statistical_query_tail(n: int, tau: float, *, epsilon: float) -> float:
    """``tau^2``-DP selects a query: ``P[|E_S phi - P phi| >= tau] <= 2 exp(-n tau^2)``.

    ``phi`` in ``[0, 1]``; from ``I_inf <= log2(e) tau^2 n`` and Hoeffding's inequality.

    Parameters
    ----------
    n, tau
        Number of independent examples and the deviation.
    epsilon
        Pure DP of the selection, at most ``tau^2``.

    Returns
    -------
    float
        Bound on the probability, at most 1.

    Raises
    ------
    ValueError
        If ``epsilon > tau^2``.

    Examples
    --------
    >>> round(statistical_query_tail(1000, 0.1, epsilon=0.01), 9)
    9.08e-05
    """
    _require("epsilon", checks.nonnegative("epsilon", epsilon), checks.positive("tau", tau) ** 2)
    return min(1.0, 2 * math.exp(-checks.count("n", n) * tau**2))


def statistical_query_tail_root(n: int, tau: float, *, epsilon: float) -> float:
    """``epsilon <= sqrt(tau^2 - ln 2/(2n))``: the tail is at most ``3 sqrt(2) exp(-n tau^2)``.

    `general_event_tail` with Hoeffding's ``2 exp(-2 n tau^2)``. Parameters are those of
    `statistical_query_tail`.

    Examples
    --------
    >>> round(statistical_query_tail_root(1000, 0.1, epsilon=0.09), 9)
    0.000192616
    """
    checks.nonnegative("epsilon", epsilon)
    inside = checks.positive("tau", tau) ** 2 - math.log(2) / (2 * checks.count("n", n))
    _require("epsilon", epsilon, math.sqrt(max(inside, 0.0)))
    return min(1.0, 3 * math.sqrt(2) * math.exp(-n * tau**2))


def low_sensitivity_tail(n: int, tau: float, *, sensitivity: float, epsilon: float) -> float:
    """``c``-sensitive function: the tail is at most ``2 exp(-(3/4) tau^2/(n c^2))``.

    Parameters
    ----------
    n, tau
        Number of independent examples and the deviation of the function from its mean.
    sensitivity
        ``c``, with ``tau^2 / (n c^2) >= 10``.
    epsilon
        Pure DP of the selection, at most ``tau / (n c)``.

    Returns
    -------
    float
        Bound on the probability.

    Examples
    --------
    >>> round(low_sensitivity_tail(1000, 0.2, sensitivity=0.001, epsilon=0.2), 15)
    1.87e-13
    """
    checks.count("n", n)
    checks.positive("tau", tau)
    checks.positive("sensitivity", sensitivity)
    exponent = tau**2 / (n * sensitivity**2)
    if exponent < 10:
        raise ValueError(
            f"tau^2 / (n c^2) must be at least 10 for this guarantee, got {exponent:g}; raise tau."
        )
    _require("epsilon", checks.nonnegative("epsilon", epsilon), tau / (n * sensitivity))
    return 2 * math.exp(-0.75 * exponent)


def general_event_tail(n: int, *, fixed_tail: float, epsilon: float) -> float:
    """``3 sqrt(beta)`` for ``max_y P[S in R(y)] <= beta``, ``epsilon <= sqrt(ln(1/beta)/(2n))``.

    Parameters
    ----------
    n
        Number of independent examples.
    fixed_tail
        ``beta``, bounding the event for every fixed output.
    epsilon
        Pure DP of the selection.

    Returns
    -------
    float
        Bound on the probability, at most 1.

    Examples
    --------
    >>> round(general_event_tail(100, fixed_tail=1e-6, epsilon=0.2), 6)
    0.003
    """
    checks.unit_interval("fixed_tail", fixed_tail, open_left=True)
    limit = math.sqrt(math.log(1 / fixed_tail) / (2 * checks.count("n", n)))
    _require("epsilon", checks.nonnegative("epsilon", epsilon), limit)
    return min(1.0, 3 * math.sqrt(fixed_tail))


def adaptive_event_tail(n: int, *, fixed_tail: float, epsilon: float) -> float:
    """Best ``2^k fixed_tail + beta`` over ``beta``, for any ``epsilon``: the sharpest in this file.

    ``k`` is `dp_approx_max_information_bits_kappa`. Parameters are those of `general_event_tail`.

    Examples
    --------
    >>> round(adaptive_event_tail(100, fixed_tail=1e-6, epsilon=0.2), 6)
    0.000188
    """
    checks.unit_interval("fixed_tail", fixed_tail, open_left=True)
    checks.nonnegative("epsilon", epsilon)

    def log_tail(log_beta: float) -> float:
        beta = math.exp(log_beta)
        bits = dp_approx_max_information_bits_kappa(n, epsilon, beta=beta)
        high, low = sorted((bits / BITS_PER_NAT + math.log(fixed_tail), log_beta), reverse=True)
        return high + math.log1p(math.exp(low - high))

    floor = 4 * math.log(fixed_tail) - 1
    from scipy.optimize import minimize_scalar  # slow to import

    found = minimize_scalar(log_tail, bounds=(floor, -1e-9), method="bounded")
    return min(1.0, math.exp(float(found.fun)))
