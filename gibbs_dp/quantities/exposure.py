"""What each row of a table costs, on average over the datasets that hold it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from gibbs_dp import estimators
from gibbs_dp._cautions import OK, Caution, Warned
from gibbs_dp._jaxlib.compile import on_default_backend
from gibbs_dp.engine.datasets import Stream, num_fresh, root
from gibbs_dp.engine.plan import AuditSpec
from gibbs_dp.engine.quantity import Quantity, RowTable
from gibbs_dp.engine.view import GammaResult, View
from gibbs_dp.estimators.on_average_kl import MOST_NATS_OF_PRODUCTS
from gibbs_dp.model.populations import Population, Table
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.quantities.kl_estimators import LARGE_KL, SMALL_KL, shift_limit
from gibbs_dp.quantities.on_average_kl import TAIL_LIMIT
from gibbs_dp.results.table import Column

# Datasets that hold a row, of each half, from which its standard error says something.
LEAST_DATASETS = 8
# Datasets whose rows are drawn again at a time.
AT_ONCE = 1024

COLUMNS = (
    Column(
        "row",
        "Number of the row in the table, from 0 (of a file: below its header), or the number that "
        "the table was given for it.",
        title="row",
    ),
    Column("rank", "Place of the row by ranked_by, 1 for the most exposed.", title="rank"),
    Column(
        "ranked_by",
        "On-average KL of the row by the datasets of even number: for ranking alone, as the "
        "largest of many estimates overstates itself.",
        "nats",
        "ranked by",
    ),
    Column(
        "on_average_kl",
        "KL of the posterior to the one with the row replaced by a fresh one, a mean over fresh "
        "rows and over the datasets of odd number that hold the row, which the ranking has not "
        "seen.",
        "nats",
        "on-average KL",
    ),
    Column(
        "advantage",
        "The same mean of the total variation: largest true positive minus false positive rate of "
        "whoever guesses from one draw whether the row was in the data or a fresh one instead, "
        "knowing the others.",
        "",
        "advantage",
    ),
    Column(
        "num_datasets",
        "Datasets of odd number that hold the row: the units of the errors.",
        title="datasets",
    ),
    Column(
        "tail_flag",
        "Whether replacing the row moves the posterior so far that its draws do not tell the KL: "
        "the figures are too small.",
    ),
)
"""Columns of ``Report.exposure``, beside gamma, standard errors (``_se``) and intervals."""

SENSITIVE = Caution(
    "sensitive-rows",
    "what single rows cost is computed from the table without noise: the list tells who is "
    "unusual, and is as confidential as the table.",
    "Exposures name the rows that the data would betray. Publishing a row's figure, or that it is "
    "on the list, tells of the row, and no guarantee of the posterior covers that.",
    "Keep the list, and reports and pages that hold it, where the table is kept. Publish averages "
    "over all rows, from an audit without exposure; there is nothing to be done to the numbers.",
    verdict=OK,
)
FEW_HOLDERS = Caution(
    "few-holders",
    "half of the rows are held by {count:.0f} of the reported datasets or fewer: their standard "
    "errors say little; raise num_datasets.",
    "A row's figure is a mean over the datasets that hold it, of half of them all. Of n examples "
    "from many more rows, each row is in few datasets, and the ranking is mostly noise.",
    "Raise num_datasets, to 20 or 30 times the rows over n, or n.",
)
HEAVY_ROWS = Caution(
    "heavy-rows",
    "{count} of {total} rows cost so much that one posterior's draws do not tell it (up to "
    "{largest:.2g} nats): their figures are too small; raise num_samples.",
    "Replacing such a row moves the posterior so far that its draws hardly visit the other one. "
    "Exposures are always one-sided, whatever on_average_kl is estimated from.",
    "Read these figures as lower ends. Raise num_samples; look at smaller gammas; where an example "
    "has such an influence, bound the loss or clip the data.",
)


class ExposureValues(NamedTuple):
    """Of each dataset, by the place of the example; see ``ExampleExposure``."""

    kl: Float[Array, "*b places"]
    advantage: Float[Array, "*b places"]
    tail: Float[Array, "*b places"]


@dataclass(frozen=True)
class Exposure(Quantity):
    """What each row of a table costs: per-instance privacy (Wang 2019), averaged over the draw.

    :attr:`Report.exposure` shows it. Only for a population that is a ``Table``, a loss of single
    examples and ``group_size=1``. It needs three numbers a gamma, dataset and example (12 kB a
    dataset of 1,000; of larger datasets the first 4,096 examples are looked at), and a few
    operations a draw, example and each of 16 ghosts: an audit of a mean takes two to three times
    as long, others less than that. A row is in some ``num_datasets * n / rows`` datasets, half of
    which choose the list, half of which report; 40 or more are worth having. The list is as
    sensitive as the table.
    """

    name = "exposure"
    Values = ExposureValues

    def resolved(self, spec: AuditSpec, learnt: Mapping[str, Quantity]) -> Sequence[Quantity]:
        """Check that there are rows, replaced one by one."""
        check_exposure(spec.posterior, spec.population, spec.group_size)
        return (self,)

    def per_dataset(self, view: View) -> ExposureValues:
        """Of the examples whose losses are there, which are the first few thousand."""
        losses = view.losses
        found = estimators.example_exposure(
            losses.train, losses.ghost, view.draws.weight, view.inputs.gamma
        )
        return ExposureValues(*found)

    def identity(self) -> str:
        """Blocks without the examples' values are others."""
        return "by example"

    def request(self, settings: AuditSpec) -> bool:
        """Say that reports without it are others."""
        del settings
        return True

    def settings(self) -> dict[str, Any]:
        """Say that it was asked for."""
        return {"exposure": True}

    def cautions(self, settings: AuditSpec) -> list[Warned]:
        """Whatever the numbers are, the list is sensitive."""
        del settings
        return [SENSITIVE()]

    def by_row(self, results: Sequence[GammaResult]) -> tuple[RowTable, ...]:
        """Return figures of every row of the table, for each gamma."""
        rows = training_rows(results)
        return tuple(table_of_rows(result, rows[: result.is_good.size]) for result in results)

    def of_rows(self, result: GammaResult, table: RowTable) -> list[Warned]:
        """Say where rows are in too few datasets, or cost more than draws can tell."""
        told = []
        count = float(np.median(table["num_datasets"]))
        if count < LEAST_DATASETS:
            told.append(FEW_HOLDERS(count=count))
        is_heavy = table["tail_flag"]
        if is_heavy.any():
            largest = float(np.nanmax(table["on_average_kl"][is_heavy]))
            told.append(HEAVY_ROWS(count=int(is_heavy.sum()), total=is_heavy.size, largest=largest))
        return told


def check_exposure(posterior: GibbsPosterior, population: Population, group_size: int) -> None:
    """Check that rows of a table can be told apart."""
    if not isinstance(population, Table):
        raise ValueError(
            "exposure: only rows of a table can be told apart; give "
            "gibbs_dp.populations.Table(...) as the population, or leave exposure out."
        )
    if posterior.structured:
        raise ValueError(
            "exposure: a structured loss has no losses of single examples; give a loss of one "
            "example, or leave exposure out."
        )
    if group_size > 1:
        raise ValueError(
            f"exposure: rows are replaced one by one, not {group_size} at once; leave group_size "
            "at 1, or exposure out."
        )


def table_of_rows(result: GammaResult, rows: Int[np.ndarray, "datasets n"]) -> RowTable:
    """Figures of every row at one gamma; ``rows`` are those that its datasets hold."""
    table = result.settings.population
    assert isinstance(table, Table)
    values: ExposureValues = result.summary.values.exposure
    places = values.kl.shape[1]
    is_finite = np.isfinite(values.kl).all(axis=1) & np.isfinite(values.advantage).all(axis=1)
    is_used = result.is_good & is_finite
    is_odd = np.arange(is_used.size) % 2 == 1

    def averages(of: Any, chosen: Bool[np.ndarray, " datasets"]) -> estimators.RowAverages:
        return estimators.average_by_row(
            np.asarray(of)[chosen], rows[chosen, :places], table.num_rows
        )

    ranked = averages(values.kl, is_used & ~is_odd)
    kl, advantage = (averages(v, is_used & is_odd) for v in (values.kl, values.advantage))
    tail = averages(values.tail, is_used & is_odd)
    numbers = table.row_numbers
    return {
        "row": np.arange(table.num_rows) if numbers is None else numbers,
        "ranked_by": ranked.value,
        "on_average_kl": kl.value,
        "on_average_kl_se": kl.se,
        "advantage": advantage.value,
        "advantage_se": advantage.se,
        "num_datasets": kl.num_datasets,
        "tail_flag": _is_heavy(kl, tail.value, result.settings),
    }


def _is_heavy(
    kl: estimators.RowAverages, tail: Float[np.ndarray, " rows"], settings: AuditSpec
) -> Bool[np.ndarray, " rows"]:
    """Where the jackknife moves a row's KL as far as it may not move on-average KL.

    Of sums, where it is about what they have the range for.
    """
    if settings.is_exact:
        return np.asarray(kl.value > MOST_NATS_OF_PRODUCTS)
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = np.sqrt(tail / kl.value) - 1.0 / settings.num_draws
    is_known = (kl.num_datasets >= LEAST_DATASETS) & (kl.value > SMALL_KL)
    is_far = shift > TAIL_LIMIT * shift_limit(settings.num_draws)
    return np.asarray(is_known & (is_far | (kl.value > LARGE_KL)))


def training_rows(results: Sequence[GammaResult]) -> Int[np.ndarray, "datasets n"]:
    """Draw again which rows of the table the datasets of a sweep hold."""
    s = results[0].settings
    key = root(s.key, Stream.MAIN)
    count = max(result.is_good.size for result in results)
    fresh = num_fresh(s.posterior, s.n, s.num_ghosts)
    parts = []
    for first in range(0, count, AT_ONCE):
        # As many each time: a remainder would be compiled for itself.
        numbers = first + np.arange(min(AT_ONCE, count))
        parts.append(np.asarray(_rows(s.population, s.n, fresh, key, numbers)))
    return np.concatenate(parts)[:count]


def _rows_of(
    population: Any, n: int, num_ghosts: int, key: Key[Array, ""], numbers: Int[Array, " some"]
) -> Int[Array, "some n"]:
    def one(number: Int[Array, ""]) -> Int[Array, " n"]:
        return population.draw_rows(jax.random.fold_in(key, number), n, num_ghosts)[:n]

    return jax.lax.map(one, numbers, batch_size=64)


_rows = on_default_backend(_rows_of, "n", "num_ghosts")
