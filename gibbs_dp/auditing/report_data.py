"""The data of a report: what it may be warned of, rows and columns, curves, tables of rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from scipy import special

from gibbs_dp import io
from gibbs_dp._cautions import Caution
from gibbs_dp.engine.quantity import RowTable
from gibbs_dp.estimators.roc import Roc
from gibbs_dp.quantities.attacker import PROFILE
from gibbs_dp.quantities.exposure import COLUMNS as ROW_COLUMNS
from gibbs_dp.quantities.registry import COLUMNS
from gibbs_dp.results.table import Column, in_paper

if TYPE_CHECKING:
    import pandas as pd

# What a report as a whole, or a gamma found from audits, may be warned of.

INTERRUPTED = Caution(
    "interrupted",
    "interrupted: only finished blocks of datasets are in this report.",
    "The audit was stopped. What is here is right, over fewer datasets or gammas than were asked.",
    "Run it again; with store= (--store) it goes on where it stopped.",
)
FAILED_DATASETS = Caution(
    "failed-datasets",
    "{failed} of {total} datasets failed ({why}); the estimates are conditional on the others, "
    "which biases them.",
    "Chains of some datasets never moved, were not finite, or had an improper posterior. Their "
    "datasets are not in the averages, and they are no random selection.",
    "Improper: give a proper prior. Stuck or not finite: a smaller step size, a prior that keeps "
    "parameters where the loss is finite, float64. A tenth of failures makes a row useless; how "
    "much a single one matters depends on whether it is the rare person that you ask about.",
)
FEW_DATASETS = Caution(
    "few-datasets",
    "{count} datasets are few: standard errors are themselves too small now and then, and what is "
    "rare may be missing; raise num_datasets to {least} or more.",
    "A standard error over so few datasets is an estimate that is often much too small, most of "
    "all where losses take few values: of ten datasets 1.96 of them covered 82% to 92%. The "
    "interval of on_average_kl allows for that, those that one makes of other columns do not; and "
    "the two routes to on_average_kl are not held against each other.",
    "Raise num_datasets: an audit of 30 costs hardly more than one of 10.",
)
PARTLY_UNDEFINED = Caution(
    "partly-undefined",
    "{name} is the mean over {count} of {total} datasets, without those where it is not finite, "
    "which biases it.",
    "One estimate overflowed or was undefined on some datasets; the other columns have them all.",
    "Use float64; bound the loss; or do not use this column.",
)
UNDEFINED = Caution(
    "undefined",
    "{name}, a column of your own, is finite on {count} of {total} datasets: left out.",
    "A mean needs two datasets where per_dataset of your quantity returns a number.",
    "Look at what it returns for one dataset, under jax.debug_nans; use float64.",
)
CHANGED_SAMPLER = Caution(
    "changed-sampler",
    "at gamma={gamma:g}, {found}: chains do not pass from one mode to the other, and the audit "
    "went on with {sampler} for all gammas.",
    "Pilots found several modes that matter. Chains of HMC stay in one of them. The points of a "
    "lattice over a bounded support are in all modes, each with its mass, where theta is one "
    "number; elsewhere particles of SMC come from the prior and are in all that they met, with "
    "masses as noisy as counts. The numbers of this report are of what it went on with.",
    "Nothing, if the symmetry or the modes are meant. sampler=gdp.HMC() keeps to chains, which are "
    "right for what is the same in all modes (losses of a mixture whose labels switch); "
    "sampler=gdp.SMC(num_particles=1024) is less noisy than gdp.SMC().",
)
REL_ERROR_MISSED = Caution(
    "rel-error-missed",
    "rel_error={rel_error:g} was not reached with {most} datasets (standard error {se:.2g}).",
    "The audit stopped at the number of datasets that it may use, before the error was as small "
    "as asked. The numbers are right, with the errors shown.",
    "Raise the second number of num_datasets (--max-datasets), or accept the error.",
)
MINIMUM_AT_END = Caution(
    "minimum-at-end",
    "the {what} is least at gamma={gamma:.4g}, an end of the gammas looked at ({low:.4g} to "
    "{high:.4g}): the least of all may lie beyond.",
    "No minimum was enclosed. For many models the risk goes on falling, ever less, as gamma grows.",
    "Look at the curve; give gammas=(low, ..., high) that reach further. Where the curve is level "
    "there, the smallest gamma that is not told from the best is as good and more private: "
    "gamma_low, if that is not 0.",
)
NEAR_CERTAINTY = Caution(
    "near-certainty",
    "an advantage of {value:.5g} ± {value_se:.2g} is so near 1 that a few pairs of examples decide "
    "how near: gamma={gamma:.4g} may be far off.",
    "Nearly all pairs of posteriors are told apart without doubt. What is left rests on the few "
    "that are alike, too few for a standard error to be believed.",
    "Give a smaller attack_advantage, or raise num_datasets until 1 - attack_advantage is many "
    "standard errors.",
)
FLAT_CURVE = Caution(
    "flat-curve",
    "the {what} hardly depends on gamma around {gamma:.4g}, within its errors; gammas from "
    "{low:.4g} to {high:.4g} are not told from each other.",
    "The curve is level, or too noisy to see where it bends: gamma has no error bar but a range.",
    "Raise num_datasets. If the range matters little, take the end of it that is more private: the "
    "smallest gamma.",
)


@dataclass(frozen=True, repr=False)
class ReportData:
    """The data of a report; see :class:`gibbs_dp.Report`."""

    rows: tuple[dict[str, Any], ...]
    settings: dict[str, Any]
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    per_dataset: tuple[dict[str, Float[np.ndarray, " _datasets"]], ...] = field(
        default=(), compare=False
    )
    curves: tuple[dict[str, dict[str, Float[np.ndarray, " _points"]]], ...] = field(
        default=(), compare=False
    )
    row_tables: tuple[RowTable, ...] = field(default=(), compare=False)
    own_columns: tuple[Column, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, column: str) -> np.ndarray:
        """One column over gamma, NaN where absent."""
        if column not in self.columns:
            raise KeyError(f"{column!r} is not in the report; it has {', '.join(self.columns)}")
        return np.array([row.get(column, np.nan) for row in self.rows])

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that were computed, in order."""
        names: dict[str, None] = {}
        for row in self.rows:
            names |= dict.fromkeys(row)
        return tuple(names)

    @property
    def _known_columns(self) -> dict[str, Column]:
        """Every column that it may have, by name: the library's, and one's own."""
        return COLUMNS | {column.name: column for column in self.own_columns}

    def _texts(self, most: int | None = None) -> dict[str, list[str]]:
        """Return the columns of a page's table, by their names: a text a gamma."""
        rows, present = self.rows[:most], set(chain.from_iterable(self.rows[:most]))
        found = {"gamma": [f"{row['gamma']:g}" for row in rows]}
        for column in self._known_columns.values():
            if column.title is not None and column.name in present:
                found[column.name] = [cell(row, column.name) for row in rows]
        return found

    def to_dataframe(self) -> pd.DataFrame:
        """All columns, indexed by gamma."""
        import pandas as pd  # slow to import

        return pd.DataFrame(list(self.rows), columns=list(self.columns)).set_index("gamma")


def cell(row: Mapping[str, Any], name: str) -> str:
    """Return a column's text in one row; "-" where it is absent."""
    if name not in row:
        return "-"
    value = row[name]
    if f"{name}_se" in row:
        return in_paper(value, row[f"{name}_se"])
    return f"{value:.3g}" if isinstance(value, float) else str(value)


# The average attacker: its profile over epsilon, and its pooled ROC.

ProfileArrays = dict[str, Float[np.ndarray, " points"]]


def profiles(report: ReportData) -> list[tuple[float, ProfileArrays]]:
    """Gammas and their profiles, as an audit left them."""
    found = [
        (float(row["gamma"]), curve[PROFILE])
        for row, curve in zip(report.rows, report.curves, strict=False)
        if PROFILE in curve
    ]
    if not found:
        raise ValueError(
            "report: it has no privacy profile (older versions made none); learn gdp.Attacker()."
        )
    return found


def roc_of(curve: ProfileArrays) -> Roc:
    """Pooled ROC of a profile."""
    return Roc(curve["epsilon"], curve["above"], curve["excess"])


def curve_with_errors(
    curve: ProfileArrays, fpr: Sequence[float] | np.ndarray
) -> list[tuple[float, float]]:
    """Read true positive rates at false ones, with standard errors.

    The curve is the least ``c fpr + E H_c`` over ``c``, so that its error is that of the profile at
    the best ``c``, whatever that one's own error (the envelope theorem).
    """
    roc = roc_of(curve)
    rates = np.asarray(fpr, np.float64)
    values, best = roc.curve(rates), roc.best(rates)[1]
    # Over the mirror line the same thresholds serve, turned.
    errors = np.interp(np.abs(best), curve["epsilon"], curve["delta_se"])
    errors *= np.exp(np.minimum(best, 0.0))
    errors = np.where(np.isnan(values), np.nan, errors)
    return [(float(v), float(e)) for v, e in zip(values, errors, strict=True)]


# Figures of single rows of a table.

# Most exposed rows that are printed and on pages.
LISTED = 10
ESTIMATES = ("on_average_kl", "advantage")
# What figures of single rows are called in files, after their names.
PER_ROW = "_per_row"
Tables = Sequence[RowTable]


def exposure_frame(gammas: Sequence[float], tables: Tables) -> pd.DataFrame:
    """Return all rows of the table for each gamma, most exposed first."""
    import pandas as pd  # slow to import

    if not tables:
        raise ValueError(
            "exposure: this report has no figures of rows; audit with learn=[*gdp.DEFAULT, "
            "gdp.Exposure()] (--exposure)."
        )
    frames = []
    for gamma, table in zip(gammas, tables, strict=True):
        order = np.argsort(-table["ranked_by"], kind="stable")  # NaN is last
        frame = pd.DataFrame({"gamma": gamma, "rank": np.arange(1, order.size + 1)})
        for name, values in table.items():
            frame[name] = values[order]
        frames.append(frame)
    found = pd.concat(frames, ignore_index=True)
    for name in ESTIMATES:
        low, high = _interval(found[name], found[f"{name}_se"], found["num_datasets"])
        place = list(found.columns).index(f"{name}_se")
        found.insert(place + 1, f"{name}_low", low)
        found.insert(place + 2, f"{name}_high", high)
    return found


def _interval(value: Any, se: Any, count: Any) -> tuple[Any, Any]:
    """Student's 95% interval; not below 0, as none of these is, unless the estimate is."""
    reach = se * special.stdtrit(np.maximum(count - 1.0, 1.0), 0.975)
    low = value - reach
    return low.where(value <= 0, low.clip(lower=0.0)), value + reach


def listed(gamma: float, table: RowTable) -> list[dict[str, Any]]:
    """Return the most exposed rows of one gamma as JSON can hold them."""
    frame = exposure_frame([gamma], [table]).drop(columns="gamma").head(LISTED)
    return [io.json_row({str(k): v for k, v in row.items()}) for row in frame.to_dict("records")]


def row_variables(tables: Tables) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return figures of rows as variables of a file, and the rows' numbers as its coordinate."""
    if not tables:
        return {}, {}
    variables: dict[str, Any] = {
        name + PER_ROW: (("gamma", "row"), np.stack([table[name] for table in tables]), {})
        for name in tables[0]
        if name != "row"
    }
    return variables, {"row": tables[0]["row"]}


def rows_title(gamma: float, table: RowTable) -> str:
    """Return the heading of the most exposed rows of one gamma."""
    shown = min(LISTED, table["row"].size)
    return f"most exposed rows at gamma = {gamma:g} ({shown} of {table['row'].size:,})"


def cells_of_rows(gamma: float, table: RowTable) -> dict[str, list[str]]:
    """Return the cells of the most exposed rows, by the titles of their columns."""
    frame = exposure_frame([gamma], [table]).head(LISTED)
    records = frame.to_dict("records")
    return {c.title: [_row_cell(row, c.name) for row in records] for c in ROW_COLUMNS if c.title}


def _row_cell(row: Mapping[Any, Any], name: str) -> str:
    value = row[name]
    if isinstance(value, float) and math.isnan(value):
        return "-"
    if f"{name}_se" in row:
        return in_paper(value, row[f"{name}_se"])
    return f"{value:.4g}" if isinstance(value, float) else str(value)
