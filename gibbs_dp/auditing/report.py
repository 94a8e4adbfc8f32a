"""The result of an audit: one row per gamma, every estimate with its standard error."""

from __future__ import annotations

import inspect
import json
import math
import os
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from gibbs_dp import io
from gibbs_dp._version import __version__
from gibbs_dp.auditing.report_attack import WithAttacker
from gibbs_dp.auditing.report_exposure import (
    PER_ROW,
    WithExposure,
    exposure_section,
    listed,
    row_variables,
)
from gibbs_dp.engine.quantity import RowTable
from gibbs_dp.quantities.registry import COLUMNS, check_own_column
from gibbs_dp.results import page
from gibbs_dp.results.base import Remarks, ResultWithPage, damage_told, sentences
from gibbs_dp.results.table import (
    Column,
    Heading,
    TextTable,
    counted,
    plain,
    warnings_below,
    with_error,
)

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# What the values of single datasets are called in files, after the name of their mean.
PER_DATASET = "_per_dataset"
# Between the name of a curve and of its column.
OF_CURVE = "_curve_"
# A caption holds a name this long.
WIDTH = 40
# So many gammas have a column each on a page.
FEW_GAMMAS = 6
TITLE = "Privacy and generalization of a Gibbs posterior"
NO_PROMISE = (
    "On-average KL is an average over datasets and people: it is no guarantee for any one person, "
    "and an unusual one can lose far more.",
    "A worst-case epsilon, where there is one, is for one exact draw, of data inside the declared "
    "domain. The draws of a Markov chain are approximate, and floating-point arithmetic is not "
    "hardened.",
    "All of it is about one draw of the posterior. Several draws give away more, and so may the "
    "posterior's mean, this page, or whatever else is computed from the data.",
    "The numbers are about the population that was audited, and about no other.",
)
OF_A_TABLE = (
    "The numbers and whatever is told of the table are computed from it without noise: this page "
    "is as confidential as the table."
)


@dataclass(frozen=True, repr=False)
class Report(WithAttacker, WithExposure, ResultWithPage):
    """Privacy and generalization of one Gibbs posterior over a grid of gammas.

    Every number is an average over datasets, and every ``_se`` its standard error over them.
    ``dp_epsilon`` is for one *exact* draw and declared neighbours; ``on_average_kl`` is an
    estimate for the declared population and no worst-case guarantee.

    Parameters
    ----------
    rows
        One dict per gamma. ``on_average_kl`` is the direct estimate (nats),
        ``on_average_kl_ghost`` is gamma times the generalization error by control variate. Where
        ``estimator`` is "one-sided" (or an exact sum) these are independent routes to one number,
        and their agreement tests the draws; the "two-sided" estimate rests on the same symmetry
        as Theorem 4, so there the agreement tests much less, and "ghost" rows use the theorem. A
        quantity that was not computed is absent; an infinite one is ``inf``.
        ``on_average_kl_low`` and ``on_average_kl_high`` are a 95% interval that allows for the
        skewness of the datasets' KLs (`gibbs_dp.estimators.mean_interval`).
    settings
        What was asked for, as plain numbers and strings.
    warnings
        One sentence for everything that makes a row less than it seems.
    notes
        What the numbers are conditional on.
    per_dataset
        Per row, one number per dataset for every estimate that is a mean over datasets (NaN:
        failed), so that reports on the same datasets can be compared pair by pair.
    curves
        Per row, functions of something else than gamma: what `privacy_profile` reads.
    row_tables
        Per row, figures of every row of the population's table, where ``Exposure()`` was learnt;
        :attr:`exposure` shows them.
    own_columns
        Columns of quantities that are not the library's.
    """

    @property
    def trust(self) -> tuple[str, ...]:
        """One verdict a row: "checked" or "doubtful", what was checked, and what it showed.

        Examples
        --------
        >>> Report(({"gamma": 1.0, "trust": "checked: R-hat 1.001"},), {}).trust
        ('gamma=1: checked: R-hat 1.001',)
        """
        return tuple(f"gamma={row['gamma']:g}: {row.get('trust', 'unknown')}" for row in self.rows)

    # -- views ----------------------------------------------------------------------------

    def to_xarray(self) -> xr.Dataset:
        """All columns over the dimension ``gamma``; settings, warnings and notes as attributes."""
        import xarray as xr  # slow to import

        frame, known = self.to_dataframe(), self._known_columns
        variables: dict[str, Any] = {}
        for name in frame.columns:
            values = frame[name].to_numpy()
            if values.dtype == object:
                values = values.astype(str)
            variables[name] = ("gamma", values, _attributes(name, known))
        for name in self.per_dataset[0] if self.per_dataset else ():
            columns = [found[name] for found in self.per_dataset]
            padded = np.full((len(self), max(map(len, columns))), np.nan)
            for line, column in zip(padded, columns, strict=True):
                line[: len(column)] = column
            variables[name + PER_DATASET] = (("gamma", "dataset"), padded, {})
        for name, curve in (self.curves[0] if self.curves else {}).items():
            for part in curve:
                table = np.stack([found[name][part] for found in self.curves])
                variables[f"{name}{OF_CURVE}{part}"] = (("gamma", name), table, {})
        of_rows, rows = row_variables(self.row_tables)
        coordinates = {"gamma": frame.index.to_numpy()} | rows
        attributes = {
            "gibbs_dp_kind": "report",
            "gibbs_dp_version": __version__,
            "settings": json.dumps(self.settings),
            "warnings": json.dumps(self.warnings),
            "notes": json.dumps(self.notes),
        }
        if self.own_columns:
            attributes["columns"] = json.dumps([column.plain() for column in self.own_columns])
        return xr.Dataset(variables | of_rows, coordinates, attributes)

    def to_json_rows(self) -> list[str]:
        """One JSON object per gamma; infinite is the string ``"inf"``, absent stays absent.

        Where ``Exposure()`` was learnt the ten most exposed rows are in it as ``exposure``.
        """
        found = [io.json_row(row) for row in self.rows]
        for row, table in zip(found, self.row_tables, strict=bool(self.row_tables)):
            row["exposure"] = listed(row["gamma"], table)
        return [json.dumps(row) for row in found]

    def _begin(self) -> list[str]:
        return []

    def _head(self) -> str:
        rows, settings, warnings = self.rows, self.settings, self.warnings
        loss = plain(str(settings.get("loss", "")), WIDTH)
        n = settings.get("n", rows[0].get("n") if rows else None)
        parts = [loss] if loss else []
        parts += [f"n={plain(str(n), WIDTH)}"] if n is not None else []
        parts.append(_span([row.get("gamma", math.nan) for row in rows]))
        counts = [c for row in rows if isinstance(c := row.get("num_datasets"), Integral)]
        if counts:
            few = "" if min(counts) == max(counts) else f"{min(counts):,} to "
            parts.append(few + counted(int(max(counts)), "dataset"))
        parts += [counted(len(warnings), "warning")] if warnings else []
        return ", ".join(parts)

    def _table(self, most: int | None = None) -> TextTable:
        texts, known = self._texts(most), self._known_columns
        headings = [
            Heading(c.title or c.name, f"{c.name_and_unit}: {c.meaning}")
            for c in (known[name] for name in texts)
        ]
        lines = list(zip(*texts.values(), strict=True))
        return TextTable(headings, lines, len(self) - len(lines), "gammas")

    def _remarks(self) -> Remarks:
        marks = [("WARNING", text) for text in self.warnings]
        return marks + [("note", text) for text in self.notes]

    def plot(
        self,
        title: str | None = None,
        ax: Axes | None = None,
        label: str | None = None,
        panels: str | Sequence[str] | None = None,
    ) -> Figure:
        """Draw privacy and risk over gamma, in a panel each: an axis has one unit.

        Bands and bars are 95% intervals over datasets. Hollow points stand for a selection of the
        datasets, as some failed. Infinite numbers are marks at the upper edge, estimates that are
        not above zero at the lower edge of a logarithmic axis.

        Parameters
        ----------
        title
            Of the figure, or of ``ax``.
        ax
            Draw one panel over what these axes show already: several reports in one figure, a
            colour each. Of privacy, that is on-average KL and DP epsilon.
        label
            Only with ``ax``: what the legend calls this report.
        panels
            Some of "privacy" (DP epsilon, and on-average KL in two ways, in nats), "risk" (excess
            risk; where there is none, the risk on fresh examples and on the training examples),
            "information" (bounds of the mutual information) and "generalization" (its error
            between the bounds of Corollary 10); or "all". Two stand beside each other. By default
            privacy and risk; with ``ax``, privacy.

        Returns
        -------
        Figure
            The figure; with ``ax``, the one that it belongs to. It needs no pyplot, and notebooks
            show it.

        Raises
        ------
        ValueError
            For a label without ``ax``, several panels with it, panels that do not exist or that
            the report has nothing for, and axes that show reports in another unit.
        """
        from gibbs_dp.auditing.plot import DEFAULT, overlay_report, plot_report

        if ax is not None:
            chosen = [panels] if isinstance(panels, str) else list(panels or DEFAULT[:1])
            if len(chosen) != 1 or chosen == ["all"]:
                raise ValueError(f"panels: one ax has room for one panel, got {panels!r}.")
            return overlay_report(ax, self, title, label, chosen[0])
        if label is not None:
            raise ValueError("label: it names this report among others on the same ax; pass ax=.")
        return plot_report(self, title, DEFAULT if panels is None else panels)

    # -- files ----------------------------------------------------------------------------

    def _page(self, title: str | None, about: Iterable[str]) -> page.Page:
        from gibbs_dp.auditing.explain import CAUTIONS

        of_table = [OF_A_TABLE] if self.settings.get("population") == "Table" else []
        return page.Page(
            title or TITLE,
            self._head(),
            verdict(self.rows, self.warnings),
            (
                page.warned(self.warnings, [c for kinds in CAUTIONS.values() for c in kinds]),
                page.section("What was audited", page.bullets(about)),
                page.section("Results", _results(self)),
                page.section("Pictures", page.pictures(_pictures(self))),
                exposure_section(self),
                page.section("What was checked", page.bullets(_checked(self.rows))),
                page.section("What the numbers rest on", page.bullets(self.notes)),
                page.section("What it does not promise", page.bullets([*NO_PROMISE, *of_table])),
                page.section("What the columns are", page.meanings(_meanings(self))),
                page.settings(self.settings),
            ),
            is_warned=bool(self.warnings),
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to NetCDF, whole or not at all.

        Raises
        ------
        OSError
            If the folder cannot be written.
        """
        io.save_netcdf(self.to_xarray(), path)


def _columns_section() -> str:
    """Write all columns as a section of a docstring."""
    wrap = textwrap.TextWrapper(96, initial_indent="    ", subsequent_indent="    ")
    lines = ["Columns", "-------"]
    for column in COLUMNS.values():
        lines += [column.name_and_unit, wrap.fill(column.meaning)]
    return "\n".join([*lines, ""])


# Python 3.13 takes the indentation away, older ones do not.
Report.__doc__ = f"{inspect.cleandoc(Report.__doc__ or '')}\n\n{_columns_section()}"


def _attributes(name: str, known: dict[str, Column]) -> dict[str, str]:
    column = known.get(name.removesuffix("_se"))
    if column is None:
        return {}
    text = "Standard error, over datasets, of " if name.endswith("_se") else ""
    found = {"long_name": text + (column.title or column.name), "description": column.meaning}
    return found | ({"units": column.unit} if column.unit else {})


# What a page says.


def _span(gammas: Sequence[float]) -> str:
    if len(gammas) < 2:
        return f"gamma {gammas[0]:g}" if gammas else "no gammas"
    return f"gammas {min(gammas):g} .. {max(gammas):g} ({len(gammas)})"


def verdict(rows: Sequence[Mapping[str, Any]], warnings: Sequence[str] = ()) -> str:
    """Say in one sentence what a draw gives away."""
    known = sorted(
        (row for row in rows if _is_number(row.get("on_average_kl"))), key=lambda row: row["gamma"]
    )
    mark = warnings_below(warnings)
    if not known:
        return f"What a draw gives away could not be estimated{mark}."
    size = known[0].get("group_size", 1)
    whom = "an example" if size == 1 else f"a group of {size} examples"
    ends = known[:1] if len(known) == 1 else [known[0], known[-1]]
    text = f"One draw gives away {_with_error(ends[0])} nats about {whom} on average at gamma = "
    text += f"{ends[0]['gamma']:g}"
    if len(ends) > 1:
        text += f" and {_with_error(ends[1])} at gamma = {ends[1]['gamma']:g}"
    return f"{text}; {_worst(ends)}{mark}."


def _worst(rows: Sequence[Mapping[str, Any]]) -> str:
    found = [row.get("dp_epsilon") for row in rows]
    told = [f"{x:.4g}" for x in found if _is_number(x) and x is not None]
    if all(x is None for x in found):
        return "no bound of the worst case is known"
    if len(told) < len(found):
        return "the worst case has no bound"
    return f"the worst case allows {' and '.join(dict.fromkeys(told))}"


def _with_error(row: Mapping[str, Any]) -> str:
    value, se = row["on_average_kl"], row.get("on_average_kl_se")
    return f"{value:.4g}" if se is None else with_error(value, se)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _results(report: Report) -> TextTable | str:
    """Make a table with a column a gamma where they are few, which fits a phone and paper."""
    if not report.rows:
        return page.paragraphs(["There are no rows."])
    columns: dict[str, list[str]] = {}
    for name, texts in report._texts(page.MOST_ROWS).items():
        columns[report._known_columns[name].title or name] = texts
        intervals = [_interval(row) for row in report.rows[: page.MOST_ROWS]]
        if name == "on_average_kl" and any(intervals):
            columns["95% interval"] = intervals
    hidden = len(report) - page.MOST_ROWS
    if len(report) > FEW_GAMMAS:
        lines = list(zip(*columns.values(), strict=True))
        return TextTable(list(map(Heading, columns)), lines, hidden, "gammas")
    first, *others = columns.items()
    headings = [Heading(first[0], is_text=True), *map(Heading, first[1])]
    return TextTable(headings, [[title, *texts] for title, texts in others])


def _interval(row: Mapping[str, Any]) -> str:
    low, high = row.get("on_average_kl_low"), row.get("on_average_kl_high")
    return f"{low:.4g} to {high:.4g}" if _is_number(low) and _is_number(high) else ""


def _pictures(report: Report) -> list[tuple[str, str]]:
    if not report.rows:
        return []
    from gibbs_dp.auditing.plot import PANELS, plot_panels

    return [
        (
            page.inline_svg(figure, f"{PANELS[name].label} over gamma", f"{name}-"),
            f"{PANELS[name].label.capitalize()} over gamma, with 95% intervals over datasets.",
        )
        for name, figure in plot_panels(report).items()
    ]


def _meanings(report: Report) -> list[tuple[str, str]]:
    found = []
    for name in report._texts():
        column = report._known_columns[name]
        known = column.title or name
        unit = f" ({column.unit})" if column.unit else ""
        also = f": {name}" if name != known else ""
        found.append((f"{known}{unit}{also}", column.meaning))
    return found


def _checked(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Verdicts of all rows that have one."""
    return [f"gamma={row['gamma']:g}: {row['trust']}" for row in rows if "trust" in row]


# Files, which may come from anyone.


def load_report(path: str | os.PathLike[str]) -> Report:
    """Read a report that :meth:`Report.save` wrote; runs no code from the file.

    Only what the file itself holds is read, and no more bytes than it has: links to other files,
    virtual and compressed arrays are refused.

    Raises
    ------
    ValueError
        If the file is missing or no report; :class:`gibbs_dp.io.DamagedFileError`, one of them,
        if it is damaged or not as :meth:`Report.save` writes it.
    """
    contents = io.load_netcdf(path, "report")
    with damage_told(path, "is a damaged report"):
        settings = io.parse_json(contents.attributes["settings"], dict)
        warnings = sentences(contents.attributes["warnings"])
        notes = sentences(contents.attributes["notes"])
        own = _own_columns(contents.attributes.get("columns", "[]"))
        rows, values, curves = _rows(contents, own), _per_dataset(contents), _curves(contents)
        tables = _row_tables(contents)
    return Report(rows, settings, warnings, notes, values, curves, tables, own)


def _own_columns(text: Any) -> tuple[Column, ...]:
    """Columns that are not the library's; never in the place of one that is."""
    found = tuple(Column.from_plain(held) for held in io.parse_json(text, list))
    for column in found:
        check_own_column(column, "it")
    return found


def _rows(contents: io.Contents, own: tuple[Column, ...]) -> tuple[dict[str, Any], ...]:
    gammas = contents.coordinates["gamma"]
    if gammas.ndim != 1 or gammas.dtype.kind != "f" or not gammas.size or contents.groups:
        raise ValueError("its gammas are no list of numbers")
    others = (PER_DATASET, PER_ROW)
    columns = {
        k: v for k, v in contents.variables.items() if not k.endswith(others) and OF_CURVE not in k
    }
    for name, column in columns.items():
        if column.shape != gammas.shape:
            raise ValueError(f"{name!r} has not one value for every gamma")
        if column.dtype.kind == "O" and not _may_be_text(name, own):
            raise ValueError(f"{name!r} is text where numbers should be")
    rows = []
    for i, gamma in enumerate(gammas):
        row: dict[str, Any] = {"gamma": float(gamma)}
        for name, column in columns.items():
            value = column[i : i + 1].tolist()[0]
            if not (isinstance(value, float) and np.isnan(value)):
                row[name] = value
        rows.append(row)
    return tuple(rows)


def _may_be_text(name: str, own: tuple[Column, ...]) -> bool:
    """Whether a column is no number: one without unit or title, or one of another version."""
    column = (COLUMNS | {c.name: c for c in own}).get(name)
    is_number = column is not None and bool(column.unit or column.title)
    return not (is_number or name.endswith("_se"))


def _per_dataset(contents: io.Contents) -> tuple[dict[str, Float[np.ndarray, " _datasets"]], ...]:
    tables = {k: v for k, v in contents.variables.items() if k.endswith(PER_DATASET)}
    if not tables:
        return ()
    shapes = {table.shape for table in tables.values()}
    gammas = contents.coordinates["gamma"].size
    is_table = all(table.dtype.kind == "f" and table.ndim == 2 for table in tables.values())
    if not is_table or len(shapes) > 1 or shapes.pop()[0] != gammas:
        raise ValueError("its values of single datasets are no tables of numbers")
    return tuple(
        {name.removesuffix(PER_DATASET): table[i] for name, table in tables.items()}
        for i in range(gammas)
    )


def _curves(
    contents: io.Contents,
) -> tuple[dict[str, dict[str, Float[np.ndarray, " _points"]]], ...]:
    tables = {k: v for k, v in contents.variables.items() if OF_CURVE in k}
    gammas = contents.coordinates["gamma"].size
    found: list[dict[str, dict[str, Any]]] = [{} for _ in range(gammas if tables else 0)]
    shapes: dict[str, tuple[int, ...]] = {}
    for name, table in tables.items():
        curve, _, column = name.partition(OF_CURVE)
        is_table = table.dtype.kind == "f" and table.ndim == 2 and table.shape[0] == gammas
        if not is_table or shapes.setdefault(curve, table.shape) != table.shape:
            raise ValueError(f"{name!r} is no table of numbers over gamma")
        for held, line in zip(found, table, strict=True):
            held.setdefault(curve, {})[column] = line
    return tuple(found)


# Figures of every row of a table, and the kinds of their arrays.
_OF_ROWS = {
    "ranked_by": "f",
    "on_average_kl": "f",
    "on_average_kl_se": "f",
    "advantage": "f",
    "advantage_se": "f",
    "num_datasets": "i",
    "tail_flag": "b",
}


def _row_tables(contents: io.Contents) -> tuple[RowTable, ...]:
    held = {k: v for k, v in contents.variables.items() if k.endswith(PER_ROW)}
    if not held:
        return ()
    gammas, rows = contents.coordinates["gamma"].size, contents.coordinates["row"]
    tables = {name.removesuffix(PER_ROW): table for name, table in held.items()}
    is_table = rows.ndim == 1 and rows.dtype.kind == "i" and tables.keys() == _OF_ROWS.keys()
    if not is_table or any(
        table.shape != (gammas, rows.size) or table.dtype.kind != _OF_ROWS[name]
        for name, table in tables.items()
    ):
        raise ValueError("its figures of single rows are no tables of numbers")
    # In the order of the columns, whatever that of the file.
    return tuple(
        {"row": rows} | {name: tables[name][i] for name in _OF_ROWS} for i in range(gammas)
    )
