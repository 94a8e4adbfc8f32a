"""Bounds that only papers need, beside those of `gibbs_dp.information.bounds`.

Max-information is in bits. What it buys are tails of events that were chosen after looking at the
data (Dwork, Feldman, Hardt, Pitassi, Reingold & Roth 2015, section 3), for independent examples and
pure replace-one DP of the selection. Functions whose guarantee needs a small ``epsilon`` raise when
it is too large.
"""

from __future__ import annotations

import math

from gibbs_dp.information import bounds, checks
from gibbs_dp.information.bounds.differential_privacy import BITS_PER_NAT


def generalization_from_dp(epsilon: float, delta: float = 0.0, *, loss_range: float = 1.0) -> float:
    """``(epsilon, delta)``-DP, replace-one: ``|gen| <= range * (e^epsilon - 1 + delta)``."""
    checks.nonnegative("epsilon", epsilon)
    checks.unit_interval("delta", delta)
    return checks.positive("loss_range", loss_range) * (checks.expm1(epsilon) + delta)


def advanced_composition_inverse_small_epsilon(
    num_releases: int, total_epsilon: float, *, delta_slack: float
) -> float:
    """**As printed** in lectures: ``total_epsilon / sqrt(2 k ln(1/delta'))``.

    It drops ``k epsilon (e^epsilon - 1)`` and is slightly too large: no guarantee. See
    `gibbs_dp.information.bounds.advanced_composition_inverse`.
    """
    k = checks.count("num_releases", num_releases)
    checks.unit_interval("delta_slack", delta_slack, open_left=True)
    return checks.positive("total_epsilon", total_epsilon) / math.sqrt(
        2 * k * math.log(1 / delta_slack)
    )


def dp_max_information_bits_published(n: int, epsilon: float, *, beta: float) -> float:
    """``I_inf^beta <= log2(e) (epsilon^2 n / 2 + epsilon sqrt(n ln(2/beta) / 2))``: Thm 20."""
    checks.nonnegative("epsilon", epsilon)
    checks.unit_interval("beta", beta, open_left=True)
    spread = epsilon * math.sqrt(checks.count("n", n) * math.log(2 / beta) / 2)
    return BITS_PER_NAT * (epsilon**2 * n / 2 + spread)


def dp_max_information_bits_eighth(n: int, epsilon: float, *, beta: float) -> float:
    """``I_inf^beta <= log2(e) (epsilon^2 n / 8 + epsilon sqrt(n ln(1/beta) / 2))``.

    `gibbs_dp.information.bounds.max_information_bits` has ``kappa(epsilon)`` for ``epsilon^2 / 8``.
    """
    checks.nonnegative("epsilon", epsilon)
    checks.unit_interval("beta", beta, open_left=True)
    spread = epsilon * math.sqrt(checks.count("n", n) * math.log(1 / beta) / 2)
    return BITS_PER_NAT * (epsilon**2 * n / 8 + spread)


def _require(epsilon: float, limit: float) -> None:
    if not checks.nonnegative("epsilon", epsilon) <= limit:
        raise ValueError(
            f"epsilon must be at most {limit:g} for this guarantee, got {epsilon:g}; "
            "make the algorithm more private, or use adaptive_event_tail."
        )


def statistical_query_tail(n: int, tau: float, *, epsilon: float) -> float:
    """``tau^2``-DP selects a query: ``P[|E_S phi - P phi| >= tau] <= 2 exp(-n tau^2)``.

    ``phi`` in ``[0, 1]``; from ``I_inf <= log2(e) tau^2 n`` and Hoeffding's inequality.
    """
    _require(epsilon, checks.positive("tau", tau) ** 2)
    return min(1.0, 2 * math.exp(-checks.count("n", n) * tau**2))


def statistical_query_tail_root(n: int, tau: float, *, epsilon: float) -> float:
    """``epsilon <= sqrt(tau^2 - ln 2/(2n))``: the tail is at most ``3 sqrt(2) exp(-n tau^2)``."""
    inside = checks.positive("tau", tau) ** 2 - math.log(2) / (2 * checks.count("n", n))
    _require(epsilon, math.sqrt(max(inside, 0.0)))
    return min(1.0, 3 * math.sqrt(2) * math.exp(-n * tau**2))


def low_sensitivity_tail(n: int, tau: float, *, sensitivity: float, epsilon: float) -> float:
    """``c``-sensitive function: the tail is at most ``2 exp(-(3/4) tau^2/(n c^2))``.

    For ``tau^2 / (n c^2) >= 10`` and ``epsilon <= tau / (n c)``.
    """
    checks.count("n", n)
    checks.positive("tau", tau)
    checks.positive("sensitivity", sensitivity)
    exponent = tau**2 / (n * sensitivity**2)
    if exponent < 10:
        raise ValueError(
            f"tau^2 / (n c^2) must be at least 10 for this guarantee, got {exponent:g}; raise tau."
        )
    _require(epsilon, tau / (n * sensitivity))
    return 2 * math.exp(-0.75 * exponent)


def general_event_tail(n: int, *, fixed_tail: float, epsilon: float) -> float:
    """``3 sqrt(beta)`` for ``max_y P[S in R(y)] <= beta``, ``epsilon <= sqrt(ln(1/beta)/(2n))``."""
    checks.unit_interval("fixed_tail", fixed_tail, open_left=True)
    _require(epsilon, math.sqrt(math.log(1 / fixed_tail) / (2 * checks.count("n", n))))
    return min(1.0, 3 * math.sqrt(fixed_tail))


def adaptive_event_tail(n: int, *, fixed_tail: float, epsilon: float) -> float:
    """Best ``2^k fixed_tail + beta`` over ``beta``, for any ``epsilon``: sharpest in this file."""
    checks.unit_interval("fixed_tail", fixed_tail, open_left=True)
    checks.nonnegative("epsilon", epsilon)

    def log_tail(log_beta: float) -> float:
        bits = bounds.max_information_bits(n, epsilon, beta=math.exp(log_beta))
        high, low = sorted((bits / BITS_PER_NAT + math.log(fixed_tail), log_beta), reverse=True)
        return high + math.log1p(math.exp(low - high))

    floor = 4 * math.log(fixed_tail) - 1
    from scipy.optimize import minimize_scalar  # slow to import

    found = minimize_scalar(log_tail, bounds=(floor, -1e-9), method="bounded")
    return min(1.0, math.exp(float(found.fun)))
