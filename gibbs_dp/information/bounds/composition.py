"""Composition of ``(epsilon, delta)`` guarantees, and what an approximate draw costs."""

from __future__ import annotations

import math
from typing import NamedTuple

from gibbs_dp.information import checks


class ApproximateDP(NamedTuple):
    """A pair ``(epsilon, delta)``, for the adjacency of what it is computed from."""

    epsilon: float
    delta: float


def advanced_composition(
    num_releases: int, epsilon: float, delta: float = 0.0, *, delta_slack: float
) -> ApproximateDP:
    """``k`` adaptive ``(epsilon, delta)`` releases (Dwork, Rothblum & Vadhan 2010).

    ``epsilon sqrt(2 k ln(1/delta')) + k epsilon (e^epsilon - 1)`` at ``k delta + delta'``.

    Parameters
    ----------
    num_releases
        ``k``.
    epsilon, delta
        Of each release.
    delta_slack
        ``delta'``, in ``(0, 1)``.

    Returns
    -------
    ApproximateDP
        Guarantee of all releases together.

    Examples
    --------
    >>> round(advanced_composition(100, 0.1, delta_slack=1e-5).epsilon, 6)
    5.850235
    """
    k = checks.count("num_releases", num_releases)
    checks.nonnegative("epsilon", epsilon)
    checks.unit_interval("delta", delta)
    checks.unit_interval("delta_slack", delta_slack, open_left=True)
    total = math.sqrt(2 * k * math.log(1 / delta_slack)) * epsilon + k * epsilon * checks.expm1(
        epsilon
    )
    return ApproximateDP(total, min(1.0, k * delta + delta_slack))


def advanced_composition_inverse(
    num_releases: int, total_epsilon: float, *, delta_slack: float
) -> float:
    """Per-release ``epsilon`` at which `advanced_composition` reaches ``total_epsilon``.

    Examples
    --------
    >>> epsilon = advanced_composition_inverse(10000, 1.0, delta_slack=math.exp(-32))
    >>> round(1 / epsilon)  # against 10000 by basic composition
    812
    """
    checks.positive("total_epsilon", total_epsilon)

    def excess(epsilon: float) -> float:
        return (
            advanced_composition(num_releases, epsilon, delta_slack=delta_slack).epsilon
            - total_epsilon
        )

    # The linear term alone already exceeds the total at the upper end.
    high = total_epsilon / math.sqrt(2 * num_releases * math.log(1 / delta_slack))
    from scipy.optimize import brentq  # slow to import

    return float(brentq(excess, 0.0, high, xtol=1e-300, rtol=1e-14))


def approximate_draw(epsilon: float, delta: float, *, total_variation: float) -> ApproximateDP:
    """``(epsilon, delta + (1 + e^epsilon) tau)`` of a draw within total variation ``tau``.

    ``tau`` must hold for every dataset, and for a Markov chain it is rarely known.

    Examples
    --------
    >>> round(approximate_draw(0.0, 0.0, total_variation=0.01).delta, 6)
    0.02
    """
    checks.nonnegative("epsilon", epsilon)
    checks.unit_interval("delta", delta)
    tau = checks.nonnegative("total_variation", total_variation)
    return ApproximateDP(
        epsilon, min(1.0, delta + (2 + checks.expm1(epsilon)) * tau if tau > 0 else delta)
    )
