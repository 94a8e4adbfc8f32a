"""Further information: what the comparison of datasets shows beside mutual information."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, get_args

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from gibbs_dp._cautions import Warned
from gibbs_dp.engine.plan import AuditSpec
from gibbs_dp.engine.quantity import Quantity, Row
from gibbs_dp.engine.view import Explored, GammaResult, View
from gibbs_dp.estimators.average import LIMIT_Z, Average
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
from gibbs_dp.quantities.dataset_comparison import (
    MIN_INFORMATION,
    Block,
    DatasetComparison,
    Shared,
    usable,
)
from gibbs_dp.quantities.dataset_losses import Kept
from gibbs_dp.quantities.mutual_information import MutualInformation
from gibbs_dp.results.table import Column

# Kinds of information that an audit can be asked for beside the mutual one.

InformationName = Literal["alpha", "leakage", "tv", "conditional", "membership"]
NAMES: tuple[InformationName, ...] = get_args(InformationName)


def check_names(names: Sequence[str]) -> tuple[InformationName, ...]:
    """Check kinds of information."""
    given: Any = names
    if isinstance(given, str):
        raise ValueError(f"names: give a list of names, such as ({given!r},), not a text.")
    for name in given:
        if name not in NAMES:
            known = ", ".join(map(repr, NAMES[:-1]))
            raise ValueError(f"names: {name!r} is not {known} or {NAMES[-1]!r}.")
    return tuple(name for name in NAMES if name in given)


# Orders of Sibson's information.
ORDERS = (2, 8)
# Probability that tails give away.
DELTA = 0.05

_IN_MEAN = "in mean over datasets, so meant with its error"


def _of_order(a: int) -> tuple[Column, ...]:
    return (
        Column(
            f"alpha_information_{a}_lower",
            f"Lower bound of Sibson's alpha-mutual information of order {a} between dataset and "
            f"draw, {_IN_MEAN}: that of the datasets compared, at most the log of their number.",
            "nats",
        ),
        Column(
            f"alpha_information_{a}_upper",
            f"Upper bound of the same, {_IN_MEAN}: the Rényi divergence of half the datasets from "
            "what the other half guesses. Absent where its error is as large.",
            "nats",
        ),
        Column(
            f"generalization_upper_alpha_{a}",
            f"Upper bound of the generalization error from alpha_information_{a}_upper: sqrt(2 "
            "sigma^2 I / n).",
            "loss",
        ),
        Column(
            f"generalization_tail_alpha_{a}",
            f"What the gap of risks stays below with probability {1 - DELTA:.0%} over dataset and "
            f"draw, from alpha_information_{a}_upper (Esposito, Gastpar & Issa 2021).",
            "loss",
        ),
    )


ALPHA = tuple(column for a in ORDERS for column in _of_order(a))
LEAKAGE = (
    Column(
        "leakage_lower",
        "Lower bound of maximal leakage from dataset to draw (Issa, Wagner & Kamath 2020), "
        f"{_IN_MEAN}: that of the datasets compared, at most the log of their number; it grows "
        "with their number.",
        "nats",
    ),
    Column(
        "leakage_upper",
        "Upper bound of maximal leakage, without error: n gamma times the range of the loss, or "
        "the log of the number of candidates.",
        "nats",
    ),
    Column("leakage_upper_from", "Which of the two it is."),
    Column(
        "generalization_upper_leakage",
        "Upper bound of the generalization error from leakage_upper: sqrt(2 sigma^2 I / n).",
        "loss",
    ),
    Column(
        "generalization_tail_leakage",
        f"What the gap of risks stays below with probability {1 - DELTA:.0%} over dataset and "
        "draw, from leakage_upper (Esposito, Gastpar & Issa 2021).",
        "loss",
    ),
)
TV = (
    Column(
        "t_information_lower",
        "Lower bound of the total variation between dataset and draw together and apart, "
        f"{_IN_MEAN}: the advantage of a test that half the datasets set and the others pass.",
    ),
    Column("t_information_upper", f"Upper bound of the same, {_IN_MEAN}."),
    Column(
        "generalization_upper_t",
        "Upper bound of the generalization error: t_information_upper times the range of the loss.",
        "loss",
    ),
)
JENSEN_SHANNON = Column(
    "jensen_shannon",
    "Mean Jensen-Shannon divergence between posteriors with one example replaced: estimate with "
    "its bias removed to second order, too small from about one nat of on_average_kl on. At most "
    "log 2 and a quarter of on_average_kl.",
    "nats",
)
CONDITIONAL = (
    Column(
        "conditional_information_lower",
        "Lower bound of the conditional mutual information by supersamples (Steinke & Zakynthinou "
        f"2020), {_IN_MEAN}: n times what a draw says about which of two examples was used. Of a "
        "Gibbs posterior the evaluated information, through losses alone, is the same.",
        "nats",
    ),
    Column(
        "conditional_information_upper",
        "Upper bound of the same: the least of n jensen_shannon (an estimate), n on_average_kl / "
        "4 in its place where the KL is large, mutual_information_upper and n log 2.",
        "nats",
    ),
    Column("conditional_information_upper_from", "Which of them it is."),
    Column(
        "generalization_upper_conditional",
        "Upper bound of the generalization error of a loss with a known range: range sqrt(2 I / "
        "n), I the conditional_information_upper.",
        "loss",
    ),
)
MEMBERSHIP = (
    Column(
        "membership_advantage_lower",
        "Advantage, true less false positives, of an attack that sees one draw and one example and "
        "knows none of the others: log odds from other datasets, at a threshold of 0 set "
        f"beforehand. {_IN_MEAN.capitalize()}, a lower bound of the best such attacker's.",
    ),
    Column(
        "membership_auc_lower",
        f"Area under the curve of the same log odds: a lower bound of the best, {_IN_MEAN}.",
    ),
    Column(
        "membership_advantage_upper",
        "Upper bound of the best such attacker's advantage, that is of the total variation between "
        f"one example and draw together and apart, {_IN_MEAN}; as good as the normalizer ratios.",
    ),
    Column(
        "generalization_upper_membership",
        "Upper bound of the generalization error: membership_advantage_upper times the range of "
        "the loss.",
        "loss",
    ),
)
COLUMNS = (*ALPHA, *LEAKAGE, *TV, *CONDITIONAL, *MEMBERSHIP)


# What the comparison of datasets shows beside their mutual information.


class Further(NamedTuple):
    """Information of one gamma, in the order of the names; None for what was not asked for."""

    # Bounds of Sibson's information, by `ORDERS`; an upper one is None where datasets are too few.
    alpha_2_lower: Average | None = None
    alpha_2_upper: Average | None = None
    alpha_8_lower: Average | None = None
    alpha_8_upper: Average | None = None
    leakage_lower: Average | None = None  # bound of maximal leakage
    # Bounds of the T-information.
    t_lower: Average | None = None
    t_upper: Average | None = None
    # Attack from one draw; None where examples are dependent, or no sum.
    membership: Membership | None = None


class _Rows(NamedTuple):
    """Draws of a block, by the numbers of the datasets that did not fail."""

    log_density: Float[np.ndarray, "rows datasets"]
    log_likelihood: Float[np.ndarray, "rows datasets"] | None  # of first examples
    owner: Int[np.ndarray, " rows"]


def find_further(sweep: Explored, count: int, names: Sequence[str]) -> list[Further | None]:
    """Compare the datasets of every gamma; None where draws are missing or too few."""
    settings, results = sweep.settings, sweep.results
    draws = [r.kept_of("mutual_information") for r in results]
    present = [d for d in draws if d is not None and d.u.shape[0] == count]
    if len(present) < len(results) or count < MIN_INFORMATION:
        return [None] * len(results)
    good = [usable(r, d) for r, d in zip(results, present, strict=True)]
    shared = Shared(settings, jnp.asarray(results[0].tuned.inputs.anchor), count)
    return sweep.find(
        Further,
        f"further-information-{'-'.join(names)}-{count}",
        [bool(g.sum() >= MIN_INFORMATION) for g in good],
        lambda i: _further(
            DatasetComparison(settings, results[i], present[i], good[i], shared), names
        ),
    )


def has_members(settings: AuditSpec) -> bool:
    """Whether membership of one example makes sense: they are independent, the loss is a sum."""
    return settings.has_independent_examples and not settings.posterior.structured


def is_precise(result: GammaResult) -> bool:
    """Whether draws of a posterior tell what swapping an example does to its normalizer."""
    return result.settings.is_exact or result.tuned.estimator == "one-sided"


def _further(comparison: DatasetComparison, names: Sequence[str]) -> Further:
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
    grouped = sums.result()
    out: dict[str, Average | None] = {}
    for a in ORDERS if "alpha" in names else ():
        out[f"alpha_{a}_lower"] = alpha_information_lower(grouped, float(a))
        out[f"alpha_{a}_upper"] = alpha_information_upper(grouped, float(a))
    if "leakage" in names:
        out["leakage_lower"] = alpha_information_lower(grouped, np.inf)
    if "tv" in names:
        out |= {"t_lower": t_information_lower(grouped), "t_upper": t_information_upper(grouped)}
    return Further(**out, membership=None if scores is None else scores.result())


def _rows(
    comparison: DatasetComparison, blocks: list[Block], swaps: list[Swaps] | None
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
    comparison: DatasetComparison, blocks: list[Block], swaps: list[Swaps]
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

    def means(self, result: GammaResult) -> dict[str, Float[np.ndarray, " datasets"]]:
        """Return the divergence."""
        return {JENSEN_SHANNON.name: result.summary.values.supersample.value}

    def identity(self) -> bool:
        """Blocks have its values."""
        return True


# The columns, and the generalization bounds that go with them.

# Of on-average KL, nats: beyond, draws of one posterior say too little of its divergences.
LARGE_KL = 0.5


class Scales(NamedTuple):
    """What is known of the loss."""

    sigma: float | None  # subgaussian parameter, of a sum over independent examples; None: unknown
    width: float | None  # length of an interval that holds the loss; None: unknown, or not declared

    @property
    def range(self) -> float | None:
        """The width where it is a positive number."""
        return self.width if self.width is not None and 0 < self.width < math.inf else None


def further_row(
    result: GammaResult, row: Row, found: Further | None, names: tuple[str, ...], scales: Scales
) -> Row:
    """Columns of what was asked for."""
    settings = result.settings
    out: Row = {}
    if found is not None:
        for a in ORDERS:
            upper: Average | None = getattr(found, f"alpha_{a}_upper")
            out |= _number(f"alpha_information_{a}_lower", getattr(found, f"alpha_{a}_lower"))
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


def _of_range(name: str, t: Average | None, settings: AuditSpec, width: float | None) -> Row:
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


def _leakage(result: GammaResult, found: Further | None, scales: Scales) -> Row:
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


def _conditional(result: GammaResult, row: Row, found: Further | None, width: float | None) -> Row:
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
    name = min(upper, key=lambda key: upper[key].value + LIMIT_Z * upper[key].se)
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

    def resolved(self, spec: AuditSpec, learnt: Mapping[str, Quantity]) -> Sequence[Quantity]:
        """Find who keeps the draws; take supersamples along where they are needed."""
        shown = learnt.get(MutualInformation.name)
        held = shown if isinstance(shown, MutualInformation) else MutualInformation(is_shown=False)
        held = held.complete(spec)
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

    def finish(self, result: GammaResult, row: Row) -> tuple[Row, list[Warned]]:
        """Bounds, and what they say of the generalization error."""
        found: Further | None = result.found.get(self.name)
        scales = self._scales(result)
        return further_row(result, row, found, tuple(self.names), scales), []

    def _scales(self, result: GammaResult) -> Scales:
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

    def notes(self, settings: AuditSpec, rows: Sequence[Row]) -> list[str]:
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

    def request(self, settings: AuditSpec) -> list[str]:
        """Return the names."""
        del settings
        return list(self.names)

    def settings(self) -> dict[str, Any]:
        """Return the names."""
        return {"information": list(self.names)}
