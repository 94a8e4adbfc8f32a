"""Composition of several releases, and its conversion to ``(epsilon, delta)``, by dp-accounting."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gibbs_dp._extras import require
from gibbs_dp.information import checks
from gibbs_dp.information.bounds import ApproximateDP, basic_composition
from gibbs_dp.privacy.guarantee import Guarantee

# Losses of a privacy-loss distribution are rounded up to multiples of this, in nats.
DISCRETIZATION = 1e-4


def compose(guarantees: Sequence[Guarantee], *, delta: float) -> ApproximateDP:
    """``(epsilon, delta)`` of several releases together, chosen adaptively or not.

    The smallest ``epsilon`` of three valid routes: adding ``(epsilon_i, delta_i)``; adding Rényi
    curves (dp-accounting's conversion); convolving privacy-loss distributions, with Gaussian DP as
    a Gaussian and anything else as its ``(epsilon_i, delta_i)`` pair (dp-accounting, pessimistic).

    Parameters
    ----------
    guarantees
        At least one; all for the same adjacency.
    delta
        Of the whole, in ``[0, 1)``.

    Returns
    -------
    ApproximateDP
        ``epsilon`` is infinite where nothing holds at this delta.

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
    found = [_basic(guarantees, delta)]
    if delta > 0:
        found += [_renyi(guarantees, delta), _privacy_loss(guarantees, delta)]
    return ApproximateDP(min(found), delta)


def _basic(guarantees: Sequence[Guarantee], delta: float) -> float:
    pure = [g.pure_epsilon for g in guarantees]
    best = math.inf
    if None not in pure:
        best = sum(p for p in pure if p is not None)
    total = basic_composition([g.epsilon for g in guarantees], [g.delta for g in guarantees])
    return min(best, total.epsilon) if total.delta <= delta else best


def _renyi(guarantees: Sequence[Guarantee], delta: float) -> float:
    """Sum the curves on the orders that all of them have."""
    curves = [dict(g.renyi) for g in guarantees]
    orders = sorted(set.intersection(*(set(c) for c in curves)))
    if not orders:
        return math.inf
    rdp = require("dp_accounting.rdp")
    total = [math.fsum(c[a] for c in curves) for a in orders]
    return float(rdp.compute_epsilon(orders, total, delta)[0])


def _privacy_loss(guarantees: Sequence[Guarantee], delta: float) -> float:
    """Convolve one distribution per release; with Gaussian DP preferred, and with it avoided."""
    as_pair = [g.gdp is None for g in guarantees]
    choices = {
        tuple(as_pair),
        tuple(p or math.isfinite(g.epsilon) for p, g in zip(as_pair, guarantees, strict=True)),
    }
    return min(_convolve(guarantees, choice, delta) for choice in choices)


def _convolve(guarantees: Sequence[Guarantee], as_pair: tuple[bool, ...], delta: float) -> float:
    pld = require("dp_accounting.pld.privacy_loss_distribution")
    common = require("dp_accounting.pld.common")
    # Events one by one: a count beside an event would be rounded differently.
    total = pld.identity(value_discretization_interval=DISCRETIZATION)
    for g, is_pair in zip(guarantees, as_pair, strict=True):
        if is_pair or g.gdp is None:
            if math.isinf(g.epsilon):
                return math.inf
            parameters = common.DifferentialPrivacyParameters(g.epsilon, g.delta)
            one = pld.from_privacy_parameters(
                parameters, value_discretization_interval=DISCRETIZATION
            )
        elif g.gdp == 0:
            continue
        else:
            one = pld.from_gaussian_mechanism(
                1 / g.gdp, value_discretization_interval=DISCRETIZATION
            )
        total = total.compose(one)
    return float(total.get_epsilon_for_delta(delta))
