"""On-average KL-privacy: the quantity that an audit is about."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from gibbs_dp._cautions import Warned
from gibbs_dp.engine.jobs import Asked
from gibbs_dp.engine.quantity import LeadingQuantity, Row
from gibbs_dp.engine.result import Result
from gibbs_dp.engine.sizes import LEAST_PAIRS, MOST_PAIRS
from gibbs_dp.engine.view import PairView, View
from gibbs_dp.estimators import average, mean_interval
from gibbs_dp.model.check import positive_count
from gibbs_dp.quantities.control import LARGEST_SHARE, LEAST_DATASETS
from gibbs_dp.quantities.on_average_kl.estimators import (
    LOST_LIMIT,
    Estimator,
    Ghost,
    OneSided,
    TwoSided,
    TwoSidedValues,
    choose_estimator,
    is_small,
    jackknife_shift,
    lost_share,
    num_holding,
    shift_limit,
)
from gibbs_dp.quantities.on_average_kl.warnings import KLRow, Tails, kl_warnings
from gibbs_dp.results.table import Column, Style

# How many pairs of a dataset the two-sided estimate samples: pilots say what they are worth.


def choose_pairs(most: int, pilots: Callable[[int], Any]) -> int:
    """Fewest pairs whose choice adds no more variance than datasets have anyway.

    Every pair is a posterior to be sampled; more of them than this lower a standard error by less
    than a factor of ``sqrt(2)``, however many they are.

    Parameters
    ----------
    most
        Pairs that a dataset has.
    pilots
        From a number of pairs to pilots' values with so many.

    Returns
    -------
    int
        At least ``LEAST_PAIRS`` where a dataset has them.
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
AUTO = "auto"
# Times the pilots' limit.
TAIL_LIMIT = 1.5

_BY_NAME = {e.name: e for e in ESTIMATORS}
# Under the name that it has in its module: blocks go to other processes and come back.
_FIELDS: Any = [(e.field, e.Values) for e in ESTIMATORS]
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
        where the reported datasets show that it fails on them.
    group_size
        Examples replaced at once, ``k``.
    num_ghosts
        Fresh examples per dataset (raised to ``group_size`` where that is larger). None: ``n``, but
        at least 64, at most 256; 64 for a structured loss, which needs a dataset with each of them;
        no more than a table drawn without replacement has left; and 16 for dependent examples,
        where each stands for a dataset.

    Raises
    ------
    ValueError
        If there is no such estimator, or a number is out of range.
    """

    estimator: str = AUTO
    group_size: int = 1
    num_ghosts: int | None = None

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
            "generalization error), or an exact sum.",
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
        return OnAverageKLValues(
            *(e.per_dataset(view.with_pairs(pairs.get(e.field))) for e in ESTIMATORS)
        )

    # -- which estimator --------------------------------------------------------------------

    def choose(self, pilots: Any, settings: Asked) -> str:
        """Name of the estimator that was asked for, or that pilots speak for."""
        if settings.is_exact:
            return OneSided.name
        if self.estimator != AUTO:
            return self.estimator
        return self._choice(pilots, settings)

    def _choice(self, values: Any, settings: Asked) -> str:
        # How noisy masses of modes are says nothing of the KL, and pairs of paths have it twice.
        if settings.sampler.traits.is_path and is_small(values.one_sided):
            return OneSided.name
        return choose_estimator(values, settings.num_draws)

    def reconsider(self, values: Any, choice: str, settings: Asked) -> str | None:
        """Leave the pilots' choice where finished datasets show that it fails on them.

        Where none of them holds a pair whose KL one side cannot tell, it says these datasets' KL
        well, whatever other datasets may hold.
        """
        if self.estimator != AUTO or settings.is_exact or choice == TwoSided.name:
            return None
        chosen = self._choice(values, settings)
        # A ghost's value is right whatever one side reaches: only what it does not see matters.
        is_better = chosen == TwoSided.name if choice == Ghost.name else chosen != choice
        return chosen if is_better else None

    def num_pairs(self, choice: str, settings: Asked, pilots: Callable[[int], Any]) -> int:
        """Pairs that the two-sided estimate is worth; none for the others."""
        if choice != TwoSided.name:
            return 0
        most = min(settings.n, settings.num_ghosts) // settings.group_size
        return choose_pairs(most, pilots)

    def values_of(self, values: Any, choice: str) -> Float[np.ndarray, " datasets"]:
        """Every dataset's estimate, nats."""
        estimator = _BY_NAME[choice]
        return estimator.value_of(getattr(values, estimator.field))

    # -- of all datasets ------------------------------------------------------------------

    def fitted(self, values: Any, is_kept: Bool[np.ndarray, " datasets"]) -> Any:
        """Fit every estimator's control variates."""
        return OnAverageKLValues(
            *(e.fitted(v, is_kept) for e, v in zip(ESTIMATORS, values, strict=True))
        )

    def means(self, result: Result) -> dict[str, Float[np.ndarray, " datasets"]]:
        """Return the chosen estimate, and those that have a column of their own."""
        values = getattr(result.summary.values, self.name)
        found = {self.name: self.values_of(values, result.tuned.estimator)}
        for e in ESTIMATORS:
            if e.column is not None:
                found[e.column.name] = e.value_of(getattr(values, e.field))
        return found

    def finish(self, result: Result, row: Row) -> tuple[Row, list[Warned]]:
        """Interval, estimator and tails; where the two routes to the number disagree."""
        settings, estimator = result.settings, result.tuned.estimator
        values = result.only_believed(result.leading)
        all_values = result.summary.values.on_average_kl
        ghost = result.only_believed(_BY_NAME[Ghost.name].value_of(all_values.ghost))
        found = mean_interval(values[np.isfinite(values)])
        apart = values - ghost
        seen = KLRow.of(row)._replace(
            low=found.low, high=found.high, apart_se=average(apart, np.isfinite(apart)).se
        )
        # A KL is at least 0. Where the estimate is not, its interval stays around it.
        low = max(found.low, 0.0) if seen.value > 0 else found.low
        more: Row = {"on_average_kl_low": low, "on_average_kl_high": found.high}
        if settings.is_exact:
            more["estimator"] = "exact sum"
            return more, kl_warnings(seen, estimator)
        one_side, num_draws = result.good.values.on_average_kl.one_sided, settings.num_draws
        shift, lost = jackknife_shift(one_side, num_draws), lost_share(one_side)
        is_heavy = estimator == OneSided.name and (
            shift > TAIL_LIMIT * shift_limit(num_draws) or lost > TAIL_LIMIT * LOST_LIMIT
        )
        more |= {"estimator": estimator, "tail_flag": is_heavy}
        tails = Tails(shift, lost, num_holding(one_side), one_side.lost.shape[0])
        return more, kl_warnings(seen, estimator, tails, is_heavy)

    def notes(self, settings: Asked, rows: Sequence[Row]) -> list[str]:
        """Say what must be known of the estimators that rows use."""
        used = {row["estimator"] for row in rows}
        return [e.note for e in ESTIMATORS if e.note is not None and e.name in used]

    # -- what was asked for -----------------------------------------------------------------

    def identity(self) -> str:
        """Pilots choose by it."""
        return self.estimator

    def settings(self) -> dict[str, Any]:
        """Name the estimator that was asked for."""
        return {"estimator": self.estimator}
