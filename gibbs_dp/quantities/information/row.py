"""Further information: columns, and the generalization bounds that go with them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from gibbs_dp.engine.asked import Asked
from gibbs_dp.engine.quantity import Row
from gibbs_dp.engine.result import Result
from gibbs_dp.estimators.average import Average
from gibbs_dp.information import bounds
from gibbs_dp.quantities.information.columns import DELTA
from gibbs_dp.quantities.information.found import Further, is_precise

# Of on-average KL, nats: beyond, draws of one posterior say too little of its divergences.
LARGE_KL = 0.5


class Scales(NamedTuple):
    """What is known of the loss.

    Attributes
    ----------
    sigma
        Subgaussian parameter, of a sum over independent examples; None: unknown.
    width
        Length of an interval that holds the loss; None: unknown, or not declared.
    """

    sigma: float | None
    width: float | None

    @property
    def range(self) -> float | None:
        """The width where it is a positive number."""
        return self.width if self.width is not None and 0 < self.width < math.inf else None


def further_row(
    result: Result, row: Row, found: Further | None, names: tuple[str, ...], scales: Scales
) -> Row:
    """Columns of what was asked for.

    Parameters
    ----------
    result, row
        The gamma, and its row so far.
    found
        What the comparison of datasets showed; None: nothing was compared.
    names
        What is asked for.
    scales
        What is known of the loss.

    Returns
    -------
    Row
        The columns.
    """
    settings = result.settings
    out: Row = {}
    if found is not None:
        of_alpha = {
            2: (found.alpha_2_lower, found.alpha_2_upper),
            8: (found.alpha_8_lower, found.alpha_8_upper),
        }
        for a, (lower, upper) in of_alpha.items():
            out |= _number(f"alpha_information_{a}_lower", lower)
            out |= _number(f"alpha_information_{a}_upper", upper)
            out |= _of_sigma(f"alpha_{a}", upper, settings.n, scales.sigma, float(a))
        out |= _number("t_information_lower", found.t_lower)
        out |= _number("t_information_upper", found.t_upper)
        out |= _of_range("generalization_upper_t", found.t_upper, settings, scales.range)
    if "leakage" in names:
        out |= _leakage(result, found, scales)
    if "membership" in names and found is not None and found.membership is not None:
        seen = found.membership
        out |= _number("membership_advantage_lower", seen.advantage)
        out |= _number("membership_auc_lower", seen.auc)
        if is_precise(result):
            above = seen.advantage_upper
            out |= _number("membership_advantage_upper", above)
            out |= _of_range("generalization_upper_membership", above, settings, scales.range)
    if "conditional" in names:
        out |= _conditional(result, row, found, scales.range)
    return out


def _number(name: str, value: Average | None) -> Row:
    return {} if value is None else {name: value.value, f"{name}_se": value.se}


def _of_range(name: str, t: Average | None, settings: Asked, width: float | None) -> Row:
    if t is None or width is None or settings.population.is_dependent:
        return {}
    share = min(max(t.value, 0.0), 1.0)
    bound = bounds.generalization_from_t_information([share], loss_range=width)
    return {name: bound, f"{name}_se": width * t.se}


def _of_sigma(
    name: str, information: Average | None, n: int, sigma: float | None, alpha: float
) -> Row:
    """Mean and tail of the gap, with errors by the delta method."""
    if information is None or sigma is None or not sigma > 0:
        return {}
    out = _root(
        f"generalization_upper_{name}",
        information,
        lambda nats: bounds.generalization_from_mutual_information(nats, n, sigma=sigma),
    )
    return out | _root(
        f"generalization_tail_{name}",
        information,
        lambda nats: gap_of_tail(nats, n, sigma, alpha, DELTA),
    )


def gap_of_tail(information: float, n: int, sigma: float, alpha: float, delta: float) -> float:
    """Gap that Esposito's tail bound of this information gives the probability ``delta``.

    `gibbs_dp.information.bounds.generalization_tail_from_alpha_information`, solved for the gap.

    Examples
    --------
    >>> gap = gap_of_tail(0.5, 100, 0.5, 2.0, 0.05)
    >>> round(bounds.generalization_tail_from_alpha_information(
    ...     gap, 0.5, 100, alpha=2.0, sigma=0.5), 9)
    0.05
    """
    order = 1.0 if math.isinf(alpha) else alpha / (alpha - 1.0)
    nats = information + math.log(2.0) - order * math.log(delta)
    return sigma * math.sqrt(2.0 * nats / n)


def _root(name: str, information: Average, bound: Callable[[float], float]) -> Row:
    nats = max(information.value, 0.0)
    value = bound(nats)
    return {name: value, f"{name}_se": bound(nats + information.se) - value}


def _leakage(result: Result, found: Further | None, scales: Scales) -> Row:
    settings = result.settings
    out: Row = {}
    if found is not None:
        out |= _number("leakage_lower", found.leakage_lower)
    limits = {}
    if scales.range is not None and not settings.posterior.structured:
        limits["n gamma range"] = settings.n * result.gamma * scales.range
    points = settings.sampler.points(settings.posterior)
    if points is not None:
        limits["log candidates"] = math.log(points.shape[0])
    if not limits:
        return out
    name = min(limits, key=lambda key: limits[key])
    out |= {"leakage_upper": limits[name], "leakage_upper_from": name}
    known = Average(limits[name], 0.0, 0)
    bounded = _of_sigma("leakage", known, settings.n, scales.sigma, math.inf)
    return out | {key: value for key, value in bounded.items() if not key.endswith("_se")}


def _conditional(result: Result, row: Row, found: Further | None, width: float | None) -> Row:
    settings = result.settings
    out: Row = {}
    n = settings.n
    if found is not None and found.membership is not None:
        pair = found.membership.pair_information
        out |= _number("conditional_information_lower", Average(n * pair.value, n * pair.se, 0))
    if settings.population.is_dependent or settings.group_size != 1:
        return out
    upper = {"n log 2": Average(n * math.log(2.0), 0.0, 0)}
    if "jensen_shannon" in row and (settings.is_exact or row["on_average_kl"] <= LARGE_KL):
        upper["n jensen_shannon"] = _times(row, "jensen_shannon", float(n))
    else:
        upper["n on_average_kl / 4"] = _times(row, "on_average_kl", 0.25 * n)
    if "mutual_information_upper" in row:
        upper["mutual_information_upper"] = _times(row, "mutual_information_upper", 1.0)
    name = min(upper, key=lambda key: upper[key].value + 1.96 * upper[key].se)
    value = upper[name]
    out |= _number("conditional_information_upper", value)
    out["conditional_information_upper_from"] = name
    if width is None:
        return out
    return out | _root(
        "generalization_upper_conditional",
        value,
        lambda nats: bounds.generalization_from_cmi(nats, n, loss_range=width),
    )


def _times(row: Row, name: str, factor: float) -> Average:
    return Average(factor * row[name], factor * row[f"{name}_se"], 0)
