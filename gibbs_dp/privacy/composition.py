"""Composition of several releases, and its conversion to ``(epsilon, delta)``, by dp-accounting."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import numpy as np
from scipy.optimize import brentq

from gibbs_dp._extras import require
from gibbs_dp.information import checks
from gibbs_dp.information.bounds import (
    ApproximateDP,
    advanced_composition,
    advanced_composition_inverse,
    approximate_draw,
)
from gibbs_dp.privacy.figures import ALLOWANCE, NOT_COVERED, sum_up
from gibbs_dp.privacy.guarantee import Guarantee, caveats_of_delta
from gibbs_dp.privacy.routes import LARGEST, SMALLEST_DELTA, BoundedRatio, GaussianDP, epsilon_at

# Losses of a privacy-loss distribution are rounded up to multiples of this, in nats.
DISCRETIZATION = 1e-4
# Of a pair and of all Gaussians together, above which losses are too many to be convolved.
LARGEST_EPSILON, LARGEST_MU = 300.0, 15.0
# Orders of curves that are known at any.
ORDERS: tuple[float, ...] = tuple((1.0 + np.geomspace(1e-2, 1e3, 61)).tolist())
# Steps to the epsilon that pays for its own total variation; two or three are enough.
MOST_STEPS = 50


class ComposedDP(ApproximateDP):
    """A pair ``(epsilon, delta)`` of several releases, with what they rest on."""

    assumptions: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()

    def __repr__(self) -> str:
        voids = [text for text in self.caveats if text.startswith(NOT_COVERED)]
        return "; ".join([f"ComposedDP(epsilon={self.epsilon}, delta={self.delta})", *voids])

    __str__ = __repr__


def compose(guarantees: Sequence[Guarantee], *, delta: float) -> ComposedDP:
    """``(epsilon, delta)`` of several releases together, chosen adaptively or not.

    The smallest ``epsilon`` of four valid routes: adding ``(epsilon_i, delta_i)``; adding Rényi
    curves, those of pure, zero-concentrated and Gaussian DP too (dp-accounting's conversion);
    adding the squares of Gaussian DP's ``mu``, exactly (Dong, Roth & Su 2022, Corollary 3.3);
    convolving privacy-loss distributions, with Gaussian DP as one Gaussian and anything else as its
    ``(epsilon_i, delta_i)`` pair (dp-accounting, pessimistic; not above hundreds of nats).
    Draws that are near exact ones are also composed as these, within the sum of total variations.

    Parameters
    ----------
    guarantees
        At least one; all for the same adjacency.
    delta
        Of the whole, in ``[0, 1)``.

    Returns
    -------
    ComposedDP
        ``epsilon`` is infinite where nothing holds at this delta. ``delta`` is as given, but for
        deltas that add up to it: eleven times 1/11 of it, each rounded, is a little more, and the
        sum is told, rounded up. Caveats, "NOT COVERED" above all, are kept; a delta of 0.01 or more
        is one, too.

    Raises
    ------
    ValueError
        If adjacencies differ, there is nothing to compose, or dp-accounting is missing.

    Examples
    --------
    >>> one = Guarantee("add-remove", "chain", 1, 1.0, math.inf, 0.0, gdp=0.5)
    >>> round(compose([one] * 10, delta=1e-5).epsilon, 4)  # ten Gaussians of sigma 2
    7.5113
    """
    checks.unit_interval("delta", delta)
    if not guarantees:
        raise ValueError("guarantees: the list is empty; give at least one.")
    if len({g.adjacency for g in guarantees}) > 1:
        raise ValueError(
            "guarantees: they mix replace-one and add-remove; convert them to one adjacency first."
        )
    routes = _routes(guarantees)
    composed = ComposedDP(*min(routes(delta), (_near_exact(guarantees, delta), delta)))
    holds = [(f"holds {g.holds}",) if g.holds else () for g in guarantees]
    composed.assumptions = _each_once([*holds, *(g.assumptions for g in guarantees)])
    of_delta = caveats_of_delta(composed.delta)
    composed.caveats = _each_once([*(g.caveats for g in guarantees), of_delta])
    return composed


def _each_once(texts: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for some in texts for text in some))


def _routes(guarantees: Sequence[Guarantee]) -> Callable[[float], tuple[float, float]]:
    """Smallest epsilon of all routes as a function of delta; what is costly is done once."""
    convolved: list[Any] = []

    def at(delta: float) -> tuple[float, float]:
        found = [_basic(guarantees, delta)]
        if delta > 0:
            if not convolved:
                convolved.extend(_privacy_losses(guarantees))
            found += [(_gaussian(guarantees, delta), delta), (_renyi(guarantees, delta), delta)]
            found += [(float(loss.get_epsilon_for_delta(delta)), delta) for loss in convolved]
        return min(found)

    return at


def _near_exact(guarantees: Sequence[Guarantee], delta: float) -> float:
    """Compose the exact draws, at the delta that total variation leaves.

    Chosen adaptively or not, all draws together are within the sum ``T`` of exact ones (each is
    coupled with an exact one): ``(epsilon, delta' + (1 + e^epsilon) T)``.
    """
    if not any(g.exact for g in guarantees):
        return math.inf
    routes = _routes([g.exact or g for g in guarantees])
    total, epsilon = sum_up(g.distance if g.exact else 0.0 for g in guarantees), 0.0
    for _ in range(MOST_STEPS):
        left = delta - approximate_draw(epsilon, 0.0, total_variation=total).delta
        if left < 0 or (left == 0 and total > 0):
            return math.inf
        needed, _ = routes(left)
        if needed <= epsilon:
            return epsilon
        if needed > LARGEST:
            return math.inf
        epsilon = needed * (1 + 1e-6)
    return math.inf


def _basic(guarantees: Sequence[Guarantee], delta: float) -> tuple[float, float]:
    """Add the pairs, exactly and rounded up; the sum of their deltas may be ``delta``, rounded."""
    pure = [g.pure_epsilon for g in guarantees if g.pure_epsilon is not None]
    best = (sum_up(pure) if len(pure) == len(guarantees) else math.inf, delta)
    total = sum_up(g.delta for g in guarantees)
    if total > delta * (1 + ALLOWANCE):
        return best
    return min(best, (sum_up(g.epsilon for g in guarantees), max(total, delta)))


def _renyi(guarantees: Sequence[Guarantee], delta: float) -> float:
    """Sum the curves on the orders that all of them have.

    Pure, zero-concentrated and Gaussian DP are curves too, at any order (Bun & Steinke 2016,
    Proposition 1.4 and Lemma 2.4): ``epsilon^2 a / 2``, ``rho a`` and ``mu^2 a / 2``.
    """
    curves = [dict(g.renyi) for g in guarantees]
    slopes = [_slope(g) for g in guarantees]
    bound = [set(c) for c, slope in zip(curves, slopes, strict=True) if math.isinf(slope)]
    orders = sorted(set.intersection(*bound) if bound else set(ORDERS).union(*curves))
    orders = [a for a in orders if a > 1.0]
    if not orders:
        return math.inf
    rdp = require("dp_accounting.rdp")
    total = [
        math.fsum(min(c.get(a, math.inf), s * a) for c, s in zip(curves, slopes, strict=True))
        for a in orders
    ]
    return float(rdp.compute_epsilon(orders, total, delta)[0])


def _gaussian(guarantees: Sequence[Guarantee], delta: float) -> float:
    """Compose Gaussian DP; infinite where a release has none."""
    found = [math.inf if g.gdp is None else g.gdp for g in guarantees]
    total = math.hypot(*found)
    return math.inf if math.isinf(total) else epsilon_at(GaussianDP(total), delta, 1)


def _slope(g: Guarantee) -> float:
    """Least ``rho`` with which a Rényi curve is at most ``rho a``; infinite where none is known."""
    pure, zcdp, gdp = (math.inf if x is None else x for x in (g.pure_epsilon, g.zcdp, g.gdp))
    return min(pure**2 / 2, zcdp, gdp**2 / 2)


def _privacy_losses(guarantees: Sequence[Guarantee]) -> list[Any]:
    """Convolve one distribution per release; with Gaussian DP preferred, and with it avoided."""
    as_pair = [g.gdp is None for g in guarantees]
    choices = {
        tuple(as_pair),
        tuple(p or math.isfinite(g.epsilon) for p, g in zip(as_pair, guarantees, strict=True)),
    }
    found = [_convolve(guarantees, choice) for choice in choices]
    return [loss for loss in found if loss is not None]


def _convolve(guarantees: Sequence[Guarantee], as_pair: tuple[bool, ...]) -> Any:
    """Distribution of the loss of all; None where one has none."""
    pld = require("dp_accounting.pld.privacy_loss_distribution")
    common = require("dp_accounting.pld.common")
    width = {"value_discretization_interval": DISCRETIZATION}
    total = pld.identity(**width)
    chosen = list(zip(guarantees, as_pair, strict=True))
    gdp = math.hypot(*(g.gdp for g, is_pair in chosen if g.gdp is not None and not is_pair))
    pairs = Counter((g.epsilon, g.delta) for g, is_pair in chosen if is_pair or g.gdp is None)
    if gdp > LARGEST_MU or any(epsilon > LARGEST_EPSILON for epsilon, _ in pairs):
        return None
    for (epsilon, delta), count in sorted(pairs.items()):
        parameters = common.DifferentialPrivacyParameters(epsilon, delta)
        one = pld.from_privacy_parameters(parameters, **width)
        total = total.compose(one.self_compose(count))
    return total.compose(pld.from_gaussian_mechanism(1 / gdp, **width)) if gdp > 0 else total


# Many steps of one pure-DP mechanism: what they cost together, and what each may cost.


Rule = Literal["basic", "advanced", "optimal"]
RULES: tuple[Rule, ...] = ("basic", "advanced", "optimal")


def composed_pure_dp(
    num_releases: int, epsilon: float, *, delta: float, rule: Rule = "optimal"
) -> float:
    """``epsilon`` of ``(epsilon, delta)``-DP for ``k`` adaptive ``epsilon``-DP releases, in nats.

    "basic" adds (any delta). "advanced" is Dwork, Rothblum & Vadhan 2010, or adding where that is
    smaller. "optimal" is the exact answer, attained by randomized response (Kairouz, Oh &
    Viswanath 2015), never above the other two.
    """
    k = checks.count("num_releases", num_releases)
    checks.nonnegative("epsilon", epsilon)
    checks.unit_interval("delta", delta)
    _known(rule)
    basic = k * epsilon
    if rule == "basic" or delta < SMALLEST_DELTA or epsilon == 0:
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
    """Largest ``epsilon`` of each release that keeps the total, the inverse of the above."""
    k = checks.count("num_releases", num_releases)
    checks.positive("total_epsilon", total_epsilon)
    checks.unit_interval("delta", delta)
    _known(rule)
    basic = total_epsilon / k
    if rule == "basic" or delta < SMALLEST_DELTA:
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
    return BoundedRatio(epsilon).delta(total, k)


def _known(rule: str) -> None:
    if rule not in RULES:
        raise ValueError(f"rule must be one of {', '.join(RULES)}, got {rule!r}.")
