"""The quantity of further information: what is asked for, and its columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from gibbs_dp._cautions import Warned
from gibbs_dp.engine.plan import Asked
from gibbs_dp.engine.quantity import Quantity, Row
from gibbs_dp.engine.view import Explored, Result
from gibbs_dp.estimators.average import Average
from gibbs_dp.information import bounds
from gibbs_dp.privacy.constants import declared_range
from gibbs_dp.quantities.information.columns import COLUMNS, DELTA, ORDERS
from gibbs_dp.quantities.information.found import (
    Further,
    Supersample,
    find_further,
    is_precise,
)
from gibbs_dp.quantities.information.names import NAMES, InformationName, check_names
from gibbs_dp.quantities.mutual_information import MutualInformation

# Further information: columns, and the generalization bounds that go with them.

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


@dataclass(frozen=True)
class FurtherInformation(Quantity):
    """What the datasets that are compared for mutual information tell beside it.

    Parameters
    ----------
    names
        Some of: Sibson's "alpha" information of orders 2 and 8, maximal "leakage", T-information
        ("tv"), "conditional" information by supersamples, and "membership", what a draw says about
        one example where the others are unknown; each with its bound of the generalization error.
    mutual
        Keeps the draws, and knows the subgaussian parameter; None: the audit's
        ``MutualInformation``, or one whose columns are not shown.

    Raises
    ------
    ValueError
        If there is no such kind.
    """

    names: Sequence[InformationName] = NAMES
    mutual: MutualInformation | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", check_names(self.names))

    def resolved(self, asked: Asked, learnt: Mapping[str, Quantity]) -> Sequence[Quantity]:
        """Find who keeps the draws; take supersamples along where they are needed."""
        shown = learnt.get(MutualInformation.name)
        held = shown if isinstance(shown, MutualInformation) else MutualInformation(is_shown=False)
        held = held.complete(asked)
        beside = (Supersample(),) if "conditional" in self.names else ()
        return (held, *beside, replace(self, mutual=held))

    name = "further_information"
    columns = COLUMNS

    @property
    def kept_by(self) -> MutualInformation:
        """Who keeps the draws, as resolved."""
        assert self.mutual is not None
        return self.mutual

    def explore(self, sweep: Explored) -> list[Further | None]:
        """Compare the datasets at every gamma."""
        if not self.names or self.kept_by.count == 0:
            return [None] * len(sweep.results)
        return find_further(sweep, self.kept_by.count, self.names)

    def finish(self, result: Result, row: Row) -> tuple[Row, list[Warned]]:
        """Bounds, and what they say of the generalization error."""
        found: Further | None = result.found.get(self.name)
        scales = self._scales(result)
        return further_row(result, row, found, tuple(self.names), scales), []

    def _scales(self, result: Result) -> Scales:
        settings = result.settings
        information = result.found.get(MutualInformation.name)
        sigma = None
        if information is not None and not settings.population.is_dependent:
            known = self.kept_by.subgaussian_sigma(settings, information)
            # These bounds need every s, which a subexponential loss does not have.
            if known is not None and known.b is None and not settings.posterior.structured:
                sigma = known.sigma
        limits = declared_range(settings.posterior, settings.domain)
        return Scales(sigma, None if limits is None else limits[1] - limits[0])

    def notes(self, settings: Asked, rows: Sequence[Row]) -> list[str]:
        """Say why a column is absent."""
        found = []
        for a in ORDERS:
            lower, upper = (f"alpha_information_{a}_{end}" for end in ("lower", "upper"))
            missing = [f"{r['gamma']:g}" for r in rows if lower in r and upper not in r]
            if missing:
                found.append(
                    f"{upper} is absent at gamma={', '.join(missing)}: too few datasets for so "
                    "much information; raise num_information."
                )
        if "conditional" in self.names and settings.group_size != 1:
            found.append(
                "conditional_information_upper is absent: it is of single examples replaced; pass "
                "group_size=1."
            )
        wanted = "membership" in self.names and self.kept_by.count > 0
        if wanted and not any("membership_advantage_lower" in row for row in rows):
            found.append(
                "membership is absent: it needs independent examples and a loss that is a sum "
                "over them."
            )
        return found

    def request(self, settings: Asked) -> list[str]:
        """Return the names."""
        del settings
        return list(self.names)

    def settings(self) -> dict[str, Any]:
        """Return the names."""
        return {"information": list(self.names)}
