"""Many steps of one pure-DP mechanism: what they cost together, and what each may cost."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln

from gibbs_dp.information import checks
from gibbs_dp.information.bounds import advanced_composition, advanced_composition_inverse
from gibbs_dp.information.divergences.batched import hockey_stick

Rule = Literal["basic", "advanced", "optimal"]
RULES: tuple[Rule, ...] = ("basic", "advanced", "optimal")


def composed_pure_dp(
    num_releases: int, epsilon: float, *, delta: float, rule: Rule = "optimal"
) -> float:
    """``epsilon`` of ``(epsilon, delta)``-DP for ``k`` adaptive ``epsilon``-DP releases, in nats.

    "basic" adds (any delta). "advanced" is Dwork, Rothblum & Vadhan 2010, or adding where that is
    smaller. "optimal" is the exact answer, attained by randomized response (Kairouz, Oh &
    Viswanath 2015), never above the other two.

    Parameters
    ----------
    num_releases
        ``k``.
    epsilon
        Pure DP of each release.
    delta
        Of the whole, in ``[0, 1)``; at 0 every rule adds.
    rule
        "basic", "advanced" or "optimal".

    Returns
    -------
    float
        ``epsilon`` of the whole.

    Examples
    --------
    >>> [round(composed_pure_dp(400, 0.01, delta=1e-6, rule=rule), 4) for rule in RULES]
    [4.0, 1.0915, 0.8314]
    """
    k = checks.count("num_releases", num_releases)
    checks.nonnegative("epsilon", epsilon)
    checks.unit_interval("delta", delta)
    _known(rule)
    basic = k * epsilon
    if rule == "basic" or delta == 0 or epsilon == 0:
        return basic
    advanced = min(basic, advanced_composition(k, epsilon, delta_slack=delta).epsilon)
    if rule == "advanced" or _composed_delta(k, epsilon, advanced) >= delta:
        return advanced
    if _composed_delta(k, epsilon, 0.0) <= delta:
        return 0.0

    def excess(total: float) -> float:
        return math.log(max(_composed_delta(k, epsilon, total), 1e-300)) - math.log(delta)

    root = float(brentq(excess, 0.0, advanced, xtol=1e-12, rtol=1e-12))
    return min(root * (1 + 1e-9), advanced)  # from above


def per_release_epsilon(
    num_releases: int, total_epsilon: float, *, delta: float, rule: Rule = "optimal"
) -> float:
    """Largest ``epsilon`` of each of ``k`` releases that keeps the total, the inverse of the above.

    Parameters
    ----------
    num_releases
        ``k``.
    total_epsilon, delta
        Of the whole.
    rule
        As in `composed_pure_dp`.

    Returns
    -------
    float
        Pure DP of each release.

    Examples
    --------
    >>> [round(per_release_epsilon(400, 1.0, delta=1e-6, rule=rule), 6) for rule in RULES]
    [0.0025, 0.009189, 0.011883]
    """
    k = checks.count("num_releases", num_releases)
    checks.positive("total_epsilon", total_epsilon)
    checks.unit_interval("delta", delta)
    _known(rule)
    basic = total_epsilon / k
    if rule == "basic" or delta == 0:
        return basic
    low = max(basic, advanced_composition_inverse(k, total_epsilon, delta_slack=delta))
    if rule == "advanced":
        return low

    def excess(epsilon: float) -> float:
        return math.log(max(_composed_delta(k, epsilon, total_epsilon), 1e-300)) - math.log(delta)

    high = low
    while excess(high) <= 0:
        low, high = high, 1.5 * high
    root = float(brentq(excess, low, high, rtol=1e-12)) if high > low else low
    return max(root * (1 - 1e-8), basic)  # from below


def _composed_delta(k: int, epsilon: float, total: float) -> float:
    """Exact ``delta(total)`` of ``k`` randomized responses."""
    truths = np.arange(k + 1)
    ways = gammaln(k + 1) - gammaln(truths + 1) - gammaln(k - truths + 1)
    log_p = np.asarray(ways - k * math.log1p(math.exp(-epsilon)) - epsilon * (k - truths))
    return float(hockey_stick(log_p, log_p[::-1], math.exp(total)))


def _known(rule: str) -> None:
    if rule not in RULES:
        raise ValueError(f"rule must be one of {', '.join(RULES)}, got {rule!r}.")
