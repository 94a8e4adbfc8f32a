"""The result of an audit: one row per gamma, every estimate with its standard error."""

from __future__ import annotations

import inspect
import json
import os
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from gibbs_dp import io
from gibbs_dp._version import __version__
from gibbs_dp.auditing import shown
from gibbs_dp.auditing.exposed import WithExposure, exposure_section, listed, row_variables
from gibbs_dp.auditing.with_attacker import WithAttacker
from gibbs_dp.engine.quantity import RowTable
from gibbs_dp.quantities.registry import COLUMNS
from gibbs_dp.results.table import Column, plain, visible

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# What the values of single datasets are called in files, after the name of their mean.
PER_DATASET = "_per_dataset"
# Between the name of a curve and of its column.
OF_CURVE = "_curve_"


@dataclass(frozen=True)
class Report(WithAttacker, WithExposure):
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

    rows: tuple[dict[str, Any], ...]
    settings: dict[str, Any]
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    per_dataset: tuple[dict[str, Float[np.ndarray, " _datasets"]], ...] = field(
        default=(), repr=False, compare=False
    )
    curves: tuple[dict[str, dict[str, Float[np.ndarray, " _points"]]], ...] = field(
        default=(), repr=False, compare=False
    )
    row_tables: tuple[RowTable, ...] = field(default=(), repr=False, compare=False)
    own_columns: tuple[Column, ...] = field(default=(), repr=False)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, column: str) -> np.ndarray:
        """One column over gamma, NaN where absent.

        Raises
        ------
        KeyError
            If no row has it.
        """
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
    def trust(self) -> tuple[str, ...]:
        """One verdict a row: "checked" or "doubtful", what was checked, and what it showed.

        Examples
        --------
        >>> Report(({"gamma": 1.0, "trust": "checked: R-hat 1.001"},), {}).trust
        ('gamma=1: checked: R-hat 1.001',)
        """
        return tuple(f"gamma={row['gamma']:g}: {row.get('trust', 'unknown')}" for row in self.rows)

    # -- views ----------------------------------------------------------------------------

    def to_dataframe(self) -> pd.DataFrame:
        """All columns, indexed by gamma."""
        import pandas as pd  # slow to import

        return pd.DataFrame(list(self.rows), columns=list(self.columns)).set_index("gamma")

    def to_xarray(self) -> xr.Dataset:
        """All columns over the dimension ``gamma``; settings, warnings and notes as attributes."""
        import xarray as xr  # slow to import

        frame, known = self.to_dataframe(), shown.known_columns(self.own_columns)
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

    def summary(self) -> str:
        """Return a readable table with errors, then warnings and notes.

        Examples
        --------
        >>> row = {"gamma": 1.0, "on_average_kl": 0.5, "on_average_kl_se": 0.01}
        >>> Report((row,), {}).summary().splitlines()[-1].split()
        ['1', '0.5', '±', '0.01']
        """
        import pandas as pd

        known = shown.known_columns(self.own_columns)
        texts = shown.cells(self.rows, self.own_columns)
        table = {known[name].title or name: column for name, column in texts.items()}
        text = visible(pd.DataFrame(table).to_string(index=False))
        marks = [f"WARNING  {plain(w)}" for w in self.warnings]
        marks += [f"note     {plain(n)}" for n in self.notes]
        return "\n".join([text, *marks])

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        return f"Report({shown.one_line(self.rows, self.settings, self.warnings)})"

    def _repr_html_(self) -> str:
        return shown.as_html(repr(self), self.rows, self.warnings, self.notes, self.own_columns)

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

    def to_html(
        self,
        path: str | os.PathLike[str],
        title: str | None = None,
        about: Iterable[str] = (),
    ) -> None:
        """Write a page for a browser in one file, whole or not at all; it loads nothing else.

        Parameters
        ----------
        path
            The file, which ends in ``.html``.
        title
            Its heading.
        about
            Sentences on what was audited, to be shown with it.

        Raises
        ------
        ValueError
            If the name does not end so.
        OSError
            If the folder cannot be written.
        """
        from gibbs_dp.auditing.paged import report_page

        section = exposure_section(self)
        report_page(self, self.warnings, self.notes, title, about, section).save(path)

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
