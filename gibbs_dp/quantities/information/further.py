"""Further information: what the comparison of datasets shows beside mutual information."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from gibbs_dp._cautions import Warned
from gibbs_dp.engine.plan import Asked
from gibbs_dp.engine.quantity import Quantity, Row
from gibbs_dp.engine.view import Explored, Result, View
from gibbs_dp.estimators.average import Average
from gibbs_dp.estimators.further_information import (
    Membership,
    MembershipScores,
    alpha_information_lower,
    alpha_information_upper,
    mean_jensen_shannon,
    of_pairs,
    t_information_lower,
    t_information_upper,
)
from gibbs_dp.estimators.jackknife import GroupSums
from gibbs_dp.estimators.table_sums import Swaps
from gibbs_dp.information import bounds
from gibbs_dp.privacy.constants import declared_range
from gibbs_dp.quantities.information.columns import (
    COLUMNS,
    DELTA,
    JENSEN_SHANNON,
    NAMES,
    ORDERS,
    InformationName,
    check_names,
)
from gibbs_dp.quantities.mutual_information import MutualInformation
from gibbs_dp.quantities.mutual_information.comparison import (
    MIN_INFORMATION,
    Block,
    Comparison,
    Shared,
    usable,
)
from gibbs_dp.quantities.mutual_information.tables import Kept

# What the comparison of datasets shows beside their mutual information.


class Further(NamedTuple):
    """Information of one gamma, in the order of the names; None for what was not asked for.

    Attributes
    ----------
    alpha_2_lower, alpha_2_upper, alpha_8_lower, alpha_8_upper
        Bounds of Sibson's information; an upper one is None where datasets are too few for it.
    leakage_lower
        Bound of maximal leakage.
    t_lower, t_upper
        Bounds of the T-information.
    membership
        Attack from one draw; None where examples are dependent, or no sum.
    """

    alpha_2_lower: Average | None = None
    alpha_2_upper: Average | None = None
    alpha_8_lower: Average | None = None
    alpha_8_upper: Average | None = None
    leakage_lower: Average | None = None
    t_lower: Average | None = None
    t_upper: Average | None = None
    membership: Membership | None = None


class _Rows(NamedTuple):
    """Draws of a block, by the numbers of the datasets that did not fail."""

    log_density: Float[np.ndarray, "rows datasets"]
    log_likelihood: Float[np.ndarray, "rows datasets"] | None  # of first examples
    owner: Int[np.ndarray, " rows"]


def find_further(sweep: Explored, count: int, names: Sequence[str]) -> list[Further | None]:
    """Compare the datasets of every gamma; None where draws are missing or too few."""
    settings, results = sweep.settings, sweep.results
    draws = [None if r.kept is None else r.kept.mutual_information for r in results]
    present = [d for d in draws if d is not None and d.u.shape[0] == count]
    if len(present) < len(results) or count < MIN_INFORMATION:
        return [None] * len(results)
    good = [usable(r, d) for r, d in zip(results, present, strict=True)]
    shared = Shared(settings, jnp.asarray(results[0].tuned.inputs.anchor), count)
    return sweep.find(
        Further,
        f"further-information-{'-'.join(names)}-{count}",
        [bool(g.sum() >= MIN_INFORMATION) for g in good],
        lambda i: _further(Comparison(settings, results[i], present[i], good[i], shared), names),
    )


def has_members(settings: Asked) -> bool:
    """Whether membership of one example makes sense: they are independent, the loss is a sum."""
    population = settings.population
    is_iid = not (population.is_dependent or population.is_conditional)
    return is_iid and not settings.posterior.structured


def is_precise(result: Result) -> bool:
    """Whether draws of a posterior tell what swapping an example does to its normalizer."""
    return result.settings.is_exact or result.tuned.estimator == "one-sided"


def _further(comparison: Comparison, names: Sequence[str]) -> Further:
    powers = [*(map(float, ORDERS) if "alpha" in names else ())]
    powers += [np.inf] if "leakage" in names else []
    count = int(comparison.good.sum())
    sums = GroupSums(count, tuple(powers))
    has_examples = has_members(comparison.settings) and bool(
        {"membership", "conditional"} & set(names)
    )
    blocks = list(comparison.blocks())
    swaps = [comparison.swaps(block) for block in blocks] if has_examples else None
    scores = None if swaps is None else MembershipScores(_gain(comparison, blocks, swaps))
    for rows in _rows(comparison, blocks, swaps):
        sums.add(rows.log_density, rows.owner)
        if scores is not None and rows.log_likelihood is not None:
            scores.add(rows.log_density, rows.log_likelihood, rows.owner)
    grouped, out = sums.result(), Further()
    if "alpha" in names:
        pairs = [
            (alpha_information_lower(grouped, a), alpha_information_upper(grouped, a))
            for a in map(float, ORDERS)
        ]
        out = out._replace(
            alpha_2_lower=pairs[0][0],
            alpha_2_upper=pairs[0][1],
            alpha_8_lower=pairs[1][0],
            alpha_8_upper=pairs[1][1],
        )
    if "leakage" in names:
        out = out._replace(leakage_lower=alpha_information_lower(grouped, np.inf))
    if "tv" in names:
        out = out._replace(
            t_lower=t_information_lower(grouped), t_upper=t_information_upper(grouped)
        )
    return out if scores is None else out._replace(membership=scores.result())


def _rows(
    comparison: Comparison, blocks: list[Block], swaps: list[Swaps] | None
) -> Iterator[_Rows]:
    """Every block's draws under all datasets that did not fail, in double precision."""
    kept: Kept = comparison.kept
    level = np.asarray(kept.log_normalizer, np.float64) + comparison.consistent(blocks)[0]
    gamma, position = comparison.result.gamma, comparison.layout.position
    number = np.cumsum(comparison.good) - 1
    for b, block in enumerate(blocks):
        losses = np.asarray(comparison.table(block, level).losses, np.float64)
        each = None
        if swaps is not None:
            of_first = np.asarray(swaps[b].losses, np.float64)
            each = -gamma * of_first[block.is_used][:, position]
        owner = number[block.owner[block.is_used]]
        density = -gamma * losses[block.is_used][:, position] - level[comparison.good]
        yield _Rows(density, each, owner)


def _gain(
    comparison: Comparison, blocks: list[Block], swaps: list[Swaps]
) -> Float[np.ndarray, "owners datasets"]:
    """Put together what swapping first examples adds to log normalizers, datasets by datasets."""
    found = np.zeros((comparison.count, comparison.layout.datasets.size))
    for block, swap in zip(blocks, swaps, strict=True):
        found[block.datasets] = np.asarray(swap.gain, np.float64)
    return found[comparison.good][:, comparison.layout.position]


# Jensen-Shannon divergence of replaced examples: conditional mutual information from above.


class SupersampleValues(NamedTuple):
    """Of each dataset: mean Jensen-Shannon divergence over replaced examples, nats."""

    value: Float[Any, "*b"]


@dataclass(frozen=True)
class Supersample(Quantity):
    """``I(theta; U_i | U_-i, supersample) = E JS``, from a posterior's own draws.

    A dataset and a fresh example are a supersample in which all but one coin is known. ``n E JS``
    is at least the conditional mutual information (Steinke & Zakynthinou 2020; chain rule).
    """

    name = "supersample"
    Values = SupersampleValues
    columns = (JENSEN_SHANNON,)

    def per_dataset(self, view: View) -> SupersampleValues:
        """Average over pairs of an example and a ghost."""
        losses, inputs, weight = view.losses, view.inputs, view.draws.weight
        if view.posterior.structured:
            delta = inputs.gamma * (losses.ghost - losses.train)
            return SupersampleValues(of_pairs(delta, weight))
        return SupersampleValues(
            mean_jensen_shannon(losses.train, losses.ghost, weight, inputs.gamma)
        )

    def means(self, result: Result) -> dict[str, Float[np.ndarray, " datasets"]]:
        """Return the divergence."""
        return {JENSEN_SHANNON.name: result.summary.values.supersample.value}

    def identity(self) -> bool:
        """Blocks have its values."""
        return True


# The quantity of further information: what is asked for, and its columns.

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
    """Columns of what was asked for."""
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
