"""On-average KL-privacy: the quantity that an audit is about."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from gibbs_dp._cautions import REFUSE, Caution, Warned
from gibbs_dp._jaxlib.devices import on_device
from gibbs_dp.engine.datasets import run_once
from gibbs_dp.engine.plan import LEAST_PAIRS, MOST_PAIRS, AuditSpec, Tuned
from gibbs_dp.engine.quantity import LeadingQuantity, Row
from gibbs_dp.engine.view import GammaResult, PairView, View
from gibbs_dp.estimators import Average, average, mean_interval, students
from gibbs_dp.estimators.average import LIMIT_Z
from gibbs_dp.model.check import positive_count
from gibbs_dp.quantities import known_means
from gibbs_dp.quantities.kl_estimators import (
    LARGE_KL,
    LARGEST_SHARE,
    LEAST_DATASETS,
    LOST_LIMIT,
    Estimator,
    Ghost,
    OneSided,
    TwoSided,
    TwoSidedValues,
    choose_estimator,
    closed_form_kl,
    has_closed_form,
    is_small,
    jackknife_shift,
    lost_share,
    num_holding,
    shift_limit,
)
from gibbs_dp.quantities.known_means import KnownMeans
from gibbs_dp.results.table import Column, Style
from gibbs_dp.sampling.chains import MarkovSampler

# Where an on-average KL cannot be believed.

# Two routes to one number that differ by more than this many standard errors: of 16 gammas, a
# false alarm once in a thousand audits. Of few datasets it takes more of them (`students`).
DISAGREEMENT_Z = 4.0
# Fewer datasets are not asked: where their losses take few values, of ten the two routes' gaps are
# nearly equal now and then, and differed by 8 to 10 of their errors in 1% of audits of exact sums.
LEAST_COMPARED = 30
# Of the longer side of the interval, over 1.96 standard errors: by a quarter longer, these cover
# some 93% (lognormal data at 128 datasets: 88%, and the interval 93%).
SKEWED = 1.25

HEAVY_TAILS = Caution(
    "heavy-tails",
    "exp(-delta) has heavy tails (the jackknife moves the KL of a pair by {shift:.0%}, and about "
    "{lost:.1%} of the KL is in pairs beyond its reach): the one-sided on_average_kl is too small; "
    "use the two-sided estimator.",
    "Replacing one example moves the posterior so far that draws of one posterior hardly visit "
    "the other: their average of exp(-delta) misses what counts, and the KL comes out too small.",
    "Leave the estimator 'auto', or learn gdp.OnAverageKL('two-sided'), which samples the other "
    "posteriors too; raise num_samples; or look at smaller gammas.",
    verdict=REFUSE,
)
BEYOND_SUMS = Caution(
    "beyond-sums",
    "about {lost:.1%} of the KL is in pairs of more nats than a sum over points can tell: "
    "on_average_kl is too small; sample with gibbs_dp.HMC().",
    "A sum weighs its points by one posterior, and has no digits left for where another is that "
    "lies many nats away.",
    "Leave the estimator 'auto', which takes gamma times the generalization error where all "
    "datasets share their points; of a Line leave the sampler out, or give gdp.HMC(): its "
    "two-sided estimate samples both posteriors.",
    verdict=REFUSE,
)
RARE_EXAMPLES = Caution(
    "rare-examples",
    "at least {share:.0%} of on_average_kl comes from rare examples that weigh much, in about "
    "{holding:.0f} of {total} datasets: its standard error is itself uncertain, and "
    "on_average_kl_ghost, gen_error and the risks, which see them in few training sets, may miss "
    "most of it; read the interval, and raise num_datasets.",
    "A few examples move a posterior by many nats, as outliers do under a squared loss. However "
    "well each is measured, how often they occur is known from the few that were drawn.",
    "Raise num_datasets until the share is spread over some dozens of datasets; clip the examples "
    "or use a loss with bounded slope (losses.huber), which also bounds what they give away.",
)
ROUTES_DISAGREE = Caution(
    "routes-disagree",
    "on_average_kl {value:.3g} and gamma times the generalization error {ghost:.3g} differ by "
    "{z:.1f} standard errors, but they are equal for exact draws: {why}.",
    "Two routes to one number (Theorem 4 of Wang, Lei & Fienberg 2016) lead to different ones, so "
    "that at least one of them is wrong: usually the draws are not from the posterior.",
    "Look at the other warnings first. Raise num_warmup and num_samples; use HMC instead of a "
    "kernel without an acceptance step; where the KL is above about 2 nats, "
    "the two-sided estimator; check that the loss is a function of its arguments alone.",
    verdict=REFUSE,
)
UNSEEN_EXAMPLES = Caution(
    "unseen-examples",
    "replacing an example changes the losses by no more than their rounding: on_average_kl is 0 as "
    "far as they can tell; check that the loss uses its examples.",
    "Every dataset has the same posterior: the loss, or the model behind it, is a constant in the "
    "examples where the posterior lies.",
    "Look at what the loss returns for two different examples. If they are to weigh so little, all "
    "is well.",
)
SKEWED_DATASETS = Caution(
    "skewed-datasets",
    "the datasets' KLs are skewed, and 1.96 standard errors of on_average_kl cover less than 95%: "
    "its interval is [{low:.4g}, {high:.4g}], up to {reach:.1f} standard errors away; raise "
    "num_datasets.",
    "A few datasets have a far larger KL than the others, and the sample may hold too few of "
    "them. on_average_kl_low and on_average_kl_high allow for that, the standard error does not.",
    "Quote the interval instead of the standard error, or raise num_datasets.",
)


# Share of the KL in pairs that one side does not reach, and datasets that hold it, from and up to
# which one speaks of rare examples: an error from 20 is known to a sixth.
RARE_SHARE, RARE_DATASETS = 0.05, 20.0


class Unreached(NamedTuple):
    """What one side's draws do not reach."""

    shift: float  # how far the jackknife moves a pair's KL
    lost: float  # share of the KL in pairs beyond reach
    # num_holding, num_datasets: datasets that hold these, about, and all
    num_holding: float
    num_datasets: int


class KLRow(NamedTuple):
    """The estimate of a row, its error and interval, the second route's, and their difference's."""

    value: float
    se: float
    low: float
    high: float
    ghost: float
    ghost_se: float
    apart_se: float = math.nan
    most_apart: float = DISAGREEMENT_Z  # standard errors
    rounding: float = 0.0  # of the second route, nats

    @classmethod
    def of(cls, row: Row) -> KLRow:
        """Take them from a row; NaN where there is no second route."""
        names = ("", "_se", "_low", "_high", "_ghost", "_ghost_se")
        return cls(*(row.get(f"on_average_kl{name}", math.nan) for name in names))


def routes_apart(
    values: Float[np.ndarray, " datasets"], ghost: Float[np.ndarray, " datasets"]
) -> tuple[Average, float]:
    """Return the difference of two routes, and above how many of its errors it is flagged."""
    gaps = np.asarray(values - ghost)
    gap = average(gaps, np.isfinite(gaps))
    is_told = gap.num_datasets >= LEAST_COMPARED
    return gap, students(DISAGREEMENT_Z, gap.num_datasets) if is_told else math.inf


def kl_warnings(
    row: KLRow, estimator: str, tails: Unreached | None = None, is_heavy: bool = False
) -> list[Warned]:
    """Say where tails are heavy, routes disagree, or datasets are skewed."""
    if max(abs(row.low), abs(row.high)) < row.rounding**2:  # a KL is the square of a change
        return [UNSEEN_EXAMPLES()]
    found = []
    if tails is not None and is_heavy:
        found.append(HEAVY_TAILS(shift=tails.shift, lost=tails.lost))
    if tails is not None and tails.lost > RARE_SHARE and tails.num_holding < RARE_DATASETS:
        found.append(
            RARE_EXAMPLES(share=tails.lost, holding=tails.num_holding, total=tails.num_datasets)
        )
    # Over the same datasets, whose examples move both routes: their errors are not independent.
    if abs(row.value - row.ghost) > row.most_apart * row.apart_se + row.rounding:
        z, why = abs(row.value - row.ghost) / row.apart_se, _why(row, estimator)
        found.append(ROUTES_DISAGREE(value=row.value, ghost=row.ghost, z=z, why=why))
    reach = max(row.value - row.low, row.high - row.value)
    if reach > SKEWED * LIMIT_Z * row.se:
        low = max(row.low, 0.0) if row.value > 0 else row.low  # as the row shows it
        found.append(SKEWED_DATASETS(low=low, high=row.high, reach=reach / row.se))
    return found


def _why(row: KLRow, estimator: str) -> str:
    if estimator == TwoSided.name:
        return (
            "either the draws are not from the posterior, or on_average_kl is wrong, as two "
            "posteriors that hardly overlap make it; then trust the latter, or raise num_samples"
        )
    if max(row.value, row.ghost) > LARGE_KL and estimator != CLOSED_FORM:
        return (
            "either the draws are not from the posterior, or the one-sided on_average_kl fails, as "
            "it does for large ones; use the two-sided estimator"
        )
    return "the draws are not from the posterior"


# On-average KL-privacy: the quantity that an audit is about.

# How many pairs of a dataset the two-sided estimate samples: pilots say what they are worth.


def count_pairs(most: int, pilots: Callable[[int], Any]) -> int:
    """Fewest pairs whose choice adds no more variance than datasets have anyway.

    Every pair is a posterior to be sampled; more of them than this lower a standard error by less
    than a factor of ``sqrt(2)``, however many they are.
    """
    most = min(MOST_PAIRS, most)
    if most <= LEAST_PAIRS:
        return most
    return min(most, max(LEAST_PAIRS, pairs_worth(pilots(most).two_sided, most)))


def pairs_worth(pilots: TwoSidedValues, num_pairs: int) -> int:
    """Variance between the pairs of one dataset over that between datasets, rounded up.

    Both without what the control variate explains; ``num_pairs`` where pilots cannot tell them
    apart.
    """
    value, control = (np.asarray(a, np.float64) for a in (pilots.mean, pilots.control))
    spread = np.asarray(pilots.spread, np.float64)
    good = np.isfinite(value) & np.isfinite(control) & np.isfinite(spread).all(axis=1)
    if good.sum() < LEAST_DATASETS:
        return num_pairs
    value, control, (pairs, both, proxies) = value[good], control[good], spread[good].mean(axis=0)
    share = np.clip(both / proxies, 0.0, LARGEST_SHARE) if proxies > 0 else 0.0
    within = pairs - 2 * share * both + share**2 * proxies
    between = np.var(value - share * control, ddof=1) - within / num_pairs
    if not between > within / num_pairs:
        return num_pairs
    return math.ceil(within / between)


ESTIMATORS: tuple[Estimator, ...] = (OneSided(), TwoSided(), Ghost())
AUTO, EXACT_SUM, CLOSED_FORM = "auto", "exact sum", "closed form"
# Times the pilots' limit.
TAIL_LIMIT = 1.5

_BY_NAME = {e.name: e for e in ESTIMATORS}
# Under the name that it has in its module: blocks go to other processes and come back.
_FIELDS: Any = [(e.field, e.Values) for e in ESTIMATORS]
_FIELDS += [("closed_form", Float[Any, "*b"] | None)]  # where there is one
OnAverageKLValues: Any = NamedTuple("OnAverageKLValues", _FIELDS)  # type: ignore[misc]


@dataclass(frozen=True)
class OnAverageKL(LeadingQuantity):
    """``eps_KL = E KL(A(Z) || A(Z'))`` for replaced groups (Wang, Lei & Fienberg 2016, Def. 2).

    Parameters
    ----------
    estimator
        "one-sided" takes normalizer ratios from the posterior's own draws; "two-sided" also samples
        the posterior with examples replaced, which is unbiased for any KL but costs up to nine
        times as much; "ghost" is gamma times the generalization error (Theorem 4), steady only
        where the KL is some nats. "auto" decides per gamma on pilot datasets, and leaves one side
        where the reported datasets show that it fails on them. Of sums over points the one-sided
        estimate is exact, up to some nats a pair; where all datasets share them, "auto" takes
        "ghost" from there on. Of Gaussian posteriors (a quadratic loss, a Gaussian or flat prior)
        that chains sample, "auto" takes the closed form of every pair's KL instead.
    group_size
        Examples replaced at once, ``k``.
    num_ghosts
        Fresh examples per dataset (raised to ``group_size`` where that is larger). None: ``n``, but
        at least 64, at most 256; 64 for a structured loss, which needs a dataset with each of them;
        no more than a table drawn without replacement has left; and 16 for dependent examples,
        where each stands for a dataset.
    controlled
        Whether estimates are made less variable by what slopes of the losses at one parameter tell
        of a dataset (of a structured loss, by how far replaced examples are from the new ones),
        less their means over several times as many datasets that are drawn and not sampled. For up
        to 64 parameters (structured: numbers of an example), and 256 datasets or more. None:
        where datasets are drawn without a loop, and so cost little beside their posteriors, and
        have two examples or more for each parameter of posteriors that chains sample.

    Raises
    ------
    ValueError
        If there is no such estimator, or a number is out of range.
    """

    estimator: str = AUTO
    group_size: int = 1
    num_ghosts: int | None = None
    controlled: bool | None = None

    name = "on_average_kl"
    Values = OnAverageKLValues
    columns = (
        Column(
            "on_average_kl",
            "How much a draw tells, on average over datasets and replaced examples, about an "
            "example having been replaced by a fresh one: KL divergence between the two posteriors "
            "(Wang, Lei & Fienberg 2016, Definition 2). No guarantee for any one person.",
            "nats",
            "on-average KL",
            Style("on-average KL (direct)", "#0072B2", "-", "o"),
        ),
        Column(
            "on_average_kl_low",
            "Lower end of a 95% interval that allows for the skewness of the datasets' KLs; not "
            "below 0, as no KL is, unless the estimate is.",
            "nats",
        ),
        Column("on_average_kl_high", "Upper end of that interval.", "nats"),
        *(e.column for e in ESTIMATORS if e.column is not None),
        Column(
            "estimator",
            "Where on_average_kl comes from: one-sided (normalizer ratios from the posterior's own "
            "draws), two-sided (draws of replaced posteriors too), ghost (gamma times the "
            "generalization error), an exact sum, or the closed form of Gaussian posteriors.",
        ),
        Column(
            "tail_flag",
            "Whether log ratios have such heavy tails that a one-sided on_average_kl is too small.",
        ),
    )

    def __post_init__(self) -> None:
        if self.estimator not in (AUTO, *_BY_NAME):
            *names, last = map(repr, (AUTO, *_BY_NAME))
            raise ValueError(f"estimator: {self.estimator!r} is not {', '.join(names)} or {last}.")
        object.__setattr__(self, "group_size", positive_count("group_size", self.group_size))
        if self.num_ghosts is not None:
            object.__setattr__(self, "num_ghosts", positive_count("num_ghosts", self.num_ghosts))

    # -- of one dataset -------------------------------------------------------------------

    def traced(self) -> OnAverageKL:
        """All estimators are in the program."""
        return OnAverageKL()

    def of_pair(self, pair: PairView) -> dict[str, Any]:
        """Let estimators compare the draws of two posteriors; what they find, by name."""
        found = {e.field: e.of_pair(pair) for e in ESTIMATORS}
        return {name: value for name, value in found.items() if value is not None}

    def per_dataset(self, view: View) -> Any:
        """Every estimator's values."""
        pairs = view.pairs or {}
        found = [e.per_dataset(view.with_pairs(pairs.get(e.field))) for e in ESTIMATORS]
        return OnAverageKLValues(*[*found, closed_form_kl(view)])

    # -- which estimator --------------------------------------------------------------------

    def choose(self, pilots: Any, settings: AuditSpec) -> str:
        """Name of the estimator that was asked for, or that pilots speak for."""
        if settings.is_exact:
            has_pilots = bool(pilots.one_sided.value.size)
            better = self.reconsider(pilots, OneSided.name, settings) if has_pilots else None
            return Ghost.name if better == Ghost.name else OneSided.name
        if self.estimator != AUTO:
            return self.estimator
        return self._choice(pilots, settings)

    def is_closed(self, settings: AuditSpec) -> bool:
        """Whether the KL is a closed form; the choice then says of draws alone what they tell.

        Of chains of the posterior's law: sums are as good, others' draws may be of another law.
        """
        is_theirs = isinstance(settings.sampler, MarkovSampler)
        has_form = has_closed_form(settings.posterior, settings.group_size)
        return self.estimator == AUTO and is_theirs and has_form

    def called(self, choice: str, settings: AuditSpec) -> str:
        """Name of a choice in reports."""
        if self.is_closed(settings):
            return CLOSED_FORM
        return EXACT_SUM if settings.is_exact and choice == OneSided.name else choice

    def _choice(self, values: Any, settings: AuditSpec) -> str:
        # How noisy masses of modes are says nothing of the KL, and pairs of paths have it twice.
        if settings.sampler.traits.is_path and is_small(values.one_sided):
            return OneSided.name
        return choose_estimator(values, settings.num_draws)

    def reconsider(self, values: Any, choice: str, settings: AuditSpec) -> str | None:
        """Leave the pilots' choice where finished datasets show that it fails on them.

        Where none of them holds a pair whose KL one side cannot tell, it says these datasets' KL
        well, whatever other datasets may hold.
        """
        if self.estimator != AUTO or choice == TwoSided.name or self.is_closed(settings):
            return None
        if settings.is_exact:
            if lost_share(values.one_sided) <= LOST_LIMIT:
                return None
            # Points of a dataset's own may not even be where another posterior lies.
            return TwoSided.name if settings.sampler.traits.is_local else Ghost.name
        chosen = self._choice(values, settings)
        # A ghost's value is right whatever one side reaches: only what it does not see matters.
        is_better = chosen == TwoSided.name if choice == Ghost.name else chosen != choice
        return chosen if is_better else None

    def needs_pairs(self, choice: str, settings: AuditSpec) -> bool:
        """Of the two-sided estimate."""
        return choice == TwoSided.name and not self.is_closed(settings)

    def num_pairs(self, choice: str, settings: AuditSpec, pilots: Callable[[int], Any]) -> int:
        """Pairs that the two-sided estimate is worth; none for the others."""
        if choice != TwoSided.name:
            return 0
        most = min(settings.n, settings.num_ghosts) // settings.group_size
        return count_pairs(most, pilots)

    def values_of(
        self, values: Any, choice: str, settings: AuditSpec
    ) -> Float[np.ndarray, " datasets"]:
        """Every dataset's estimate, nats."""
        if self.is_closed(settings):
            return np.asarray(values.closed_form)
        estimator = _BY_NAME[choice]
        return estimator.value_of(getattr(values, estimator.field))

    # -- of all datasets ------------------------------------------------------------------

    def fitted(self, values: Any, is_kept: Bool[np.ndarray, " datasets"]) -> Any:
        """Fit every estimator's control variates."""
        found = {e.field: e.fitted(getattr(values, e.field), is_kept) for e in ESTIMATORS}
        return values._replace(**found)

    def means(self, result: GammaResult) -> dict[str, Float[np.ndarray, " datasets"]]:
        """Return the chosen estimate, and those that have a column of their own."""
        values = getattr(result.summary.values, self.name)
        found = {self.name: result.leading}
        for e in ESTIMATORS:
            if e.column is not None:
                found[e.column.name] = e.value_of(getattr(values, e.field))
        return found

    def finish(self, result: GammaResult, row: Row) -> tuple[Row, list[Warned]]:
        """Interval, estimator and tails; where the two routes to the number disagree."""
        settings, estimator = result.settings, result.tuned.estimator
        values = result.only_believed(result.leading)
        all_values = result.summary.values.on_average_kl
        ghost = result.only_believed(_BY_NAME[Ghost.name].value_of(all_values.ghost))
        found = mean_interval(values[np.isfinite(values)])
        gap, most = routes_apart(values, ghost)
        # Losses are this size, where it is known, and numbers of their type know so much of it.
        risk = abs(row.get("empirical_risk", 0.0))
        digits = float(np.finfo(np.asarray(all_values.ghost.value).dtype).eps)
        rounding = digits * result.gamma * settings.group_size * risk
        rounding = rounding if math.isfinite(rounding) else 0.0
        seen = KLRow.of(row)._replace(
            low=found.low, high=found.high, apart_se=gap.se, most_apart=most, rounding=rounding
        )
        # A KL is at least 0. Where the estimate is not, its interval stays around it.
        low = max(found.low, 0.0) if seen.value > 0 else found.low
        more: Row = {"on_average_kl_low": low, "on_average_kl_high": found.high}
        one_side, num_draws = result.good.values.on_average_kl.one_sided, settings.num_draws
        lost = lost_share(one_side)
        more["estimator"] = name = self.called(estimator, settings)
        if settings.is_exact:
            told = [BEYOND_SUMS(lost=lost)] if name == EXACT_SUM and lost > LOST_LIMIT else []
            return more, [*told, *kl_warnings(seen, estimator)]
        if name == CLOSED_FORM:
            more["tail_flag"] = False
            return more, kl_warnings(seen, CLOSED_FORM)
        shift = jackknife_shift(one_side, num_draws)
        is_heavy = estimator == OneSided.name and (
            shift > TAIL_LIMIT * shift_limit(num_draws) or lost > TAIL_LIMIT * LOST_LIMIT
        )
        more["tail_flag"] = is_heavy
        tails = Unreached(shift, lost, num_holding(one_side), one_side.lost.shape[0])
        return more, kl_warnings(seen, estimator, tails, is_heavy)

    def notes(self, settings: AuditSpec, rows: Sequence[Row]) -> list[str]:
        """Say what must be known of the estimators that rows use."""
        used = {row["estimator"] for row in rows}
        return [e.note for e in ESTIMATORS if e.note is not None and e.name in used]

    # -- control variates that need no draws ------------------------------------------------

    def controls(self, settings: AuditSpec, tuned: Sequence[Tuned]) -> KnownMeans | None:
        """Features of datasets whose means are known from others that are not sampled."""
        if not self._has_controls(settings):
            return None
        if settings.posterior.structured:
            return KnownMeans(settings, self._nowhere(settings))
        inputs = tuned[0].inputs
        is_known = bool(np.isfinite(np.asarray(inputs.optimum)).all())
        u = inputs.optimum if is_known else inputs.reference
        return KnownMeans(settings, jnp.asarray(u))  # a store's are arrays of NumPy

    def _nowhere(self, settings: AuditSpec) -> Array:
        """Zero in all directions."""
        return on_device(np.zeros(known_means.num_directions(settings), jnp.result_type(float)))

    def _has_controls(self, settings: AuditSpec) -> bool:
        if not 0 < known_means.num_directions(settings) <= known_means.MOST_DIM:
            return False
        most = settings.num_datasets if settings.rel_error is None else settings.max_datasets
        if most < known_means.LEAST_DATASETS:
            return False
        return known_means.is_worthwhile(settings) if self.controlled is None else self.controlled

    def rehearse(self, settings: AuditSpec) -> None:
        """Compile what control variates need."""
        if self._has_controls(settings):
            means = KnownMeans(settings, self._nowhere(settings))
            which = "known means", settings.plan, means.num_partners
            run_once(means.rehearse, settings.posterior, settings.population, *which)

    def refined(
        self,
        values: Float[np.ndarray, " datasets"],
        controls: Float[np.ndarray, "datasets controls"],
    ) -> Float[np.ndarray, " datasets"]:
        """Subtract what they tell."""
        return known_means.refined(values, controls)

    # -- what was asked for -----------------------------------------------------------------

    def identity(self) -> str:
        """Pilots choose by it."""
        return self.estimator

    def request(self, settings: AuditSpec) -> Any:
        """Say whether estimates are controlled: reports differ by it."""
        del settings
        return self.controlled

    def settings(self) -> dict[str, Any]:
        """Name the estimator that was asked for."""
        return {"estimator": self.estimator} | (
            {} if self.controlled is None else {"controlled": self.controlled}
        )
