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
from numpy.typing import ArrayLike

from gibbs_dp import io
from gibbs_dp._version import __version__
from gibbs_dp.auditing.report_data import (
    ReportData,
    cells_of_rows,
    curve_with_errors,
    exposure_frame,
    listed,
    profiles,
    roc_of,
    row_variables,
    rows_title,
)
from gibbs_dp.quantities.registry import COLUMNS
from gibbs_dp.results import page
from gibbs_dp.results.base import Remarks, ResultWithExplorer, ResultWithPage
from gibbs_dp.results.table import WIDTH, Column, TextTable, counted, plain, remark_lines, visible

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# What the values of single datasets are called in files, after the name of their mean.
PER_DATASET = "_per_dataset"
# Between the name of a curve and of its column.
OF_CURVE = "_curve_"
# A caption holds a name this long.
NAME = 40
MORE = "{}: report.table(all=True), or --all from a shell."


@dataclass(frozen=True, repr=False)
class Report(ReportData, ResultWithPage, ResultWithExplorer):
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

    @property
    def verdicts(self) -> tuple[str, ...]:
        """A word a row, by its warnings: "ok", "look" or "do not use"; "unknown" if unchecked.

        Examples
        --------
        >>> Report(({"gamma": 1.0, "trust": "checked: R-hat 1.001"},), {}).verdicts
        ('ok',)
        """
        from gibbs_dp.auditing.summary import verdicts_on

        return tuple(verdicts_on(self.rows, self.warnings))

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
        width = max((len(values) for row in self.per_dataset for values in row.values()), default=0)
        for name in self.per_dataset[0] if self.per_dataset else ():
            columns = [found[name] for found in self.per_dataset]
            padded = np.full((len(self), width), np.nan)
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

    def to_latex(self) -> str:
        r"""Return the summary as a LaTeX table, by the packages booktabs and siunitx.

        Numbers have their errors in parentheses and stand under each other by their points; notes
        and warnings are left to the text around it.

        Examples
        --------
        >>> row = {"gamma": 1.0, "on_average_kl": 0.0067402, "on_average_kl_se": 4.2e-5}
        >>> print(Report((row | {"trust": "checked: R-hat 1.001"},), {}).to_latex())
        % \usepackage{booktabs, siunitx}
        \begin{tabular}{S[table-format=1] S[table-format=1.5(1)] l}
        \toprule
        {gamma} & {on-average KL} & {verdict} \\
        \midrule
        1 & 0.00674(4) & ok \\
        \bottomrule
        \end{tabular}
        """
        from gibbs_dp.auditing.export import latex_of

        return latex_of(self)

    def to_excel(self, path: str | os.PathLike[str]) -> None:
        """Write the summary as a sheet for Excel, whole or not at all; it needs openpyxl.

        Numbers are numbers, with errors in columns of their own; below are warnings and notes. All
        columns: ``report.to_dataframe().to_excel(path)``.

        Parameters
        ----------
        path
            The file, which ends in ``.xlsx``.

        Raises
        ------
        ValueError
            If the name does not end so, or openpyxl is not installed.
        OSError
            If the folder cannot be written.
        """
        from gibbs_dp.auditing.export import save_excel

        save_excel(self, path)

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
        loss = plain(str(settings.get("loss", "")), NAME)
        n = settings.get("n", rows[0].get("n") if rows else None)
        parts = [loss] if loss else []
        parts += [f"n={plain(str(n), NAME)}"] if n is not None else []
        parts.append(_span([row.get("gamma", math.nan) for row in rows]))
        counts = [c for row in rows if isinstance(c := row.get("num_datasets"), Integral)]
        if counts:
            few = "" if min(counts) == max(counts) else f"{min(counts):,} to "
            parts.append(few + counted(int(max(counts)), "dataset"))
        parts += [counted(len(warnings), "warning")] if warnings else []
        return ", ".join(parts)

    def table(self, all: bool = False) -> TextTable:
        """Return the numbers as a table of texts, errors in parentheses as in papers.

        Parameters
        ----------
        all
            Every column under its name, one a line and a gamma a column. By default what
            ``print(report)`` shows, which fits a terminal of 100 columns: a line a gamma.

        Returns
        -------
        TextTable
            Printed as it is; notebooks show it as a table. `to_dataframe` has the numbers.

        Examples
        --------
        >>> row = {"gamma": 1.0, "on_average_kl": 0.0067402, "on_average_kl_se": 4.2e-5}
        >>> print(Report((row | {"trust": "checked: R-hat 1.001"},), {}).table())
        gamma on-average KL verdict
            1    0.00674(4)      ok
        """
        from gibbs_dp.auditing.summary import all_columns, summary_of

        return all_columns(self) if all else summary_of(self)

    def _table(self, most: int | None = None) -> TextTable:
        from gibbs_dp.auditing.summary import summary_of

        return summary_of(self, most)

    def summary(self, all: bool = False) -> str:
        """Return :meth:`table` as text, then warnings and notes; it is what ``print`` shows.

        Parameters
        ----------
        all
            Every column, as in :meth:`table`.

        Returns
        -------
        str
            Lines of at most 100 characters, unless ``all``.
        """
        if not all:
            return super().summary()
        return "\n".join([str(self.table(all=True)), *remark_lines(self._told(), WIDTH)])

    def _told(self) -> Remarks:
        marks = [("WARNING", text) for text in self.warnings]
        return marks + [("note", text) for text in self.notes]

    def _remarks(self) -> Remarks:
        from gibbs_dp.auditing.summary import left_out

        count = left_out(self)
        more = [("more", MORE.format(counted(count, "other column")))] if count else []
        return self._told() + more

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
            The figure; with ``ax``, the one that it belongs to. Notebooks show it, and
            ``plt.show()`` where pyplot was imported before.

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

    # -- the average attacker, and single rows -----------------------------------------------

    def privacy_profile(self, epsilon: ArrayLike | float | Sequence[float]) -> pd.DataFrame:
        """Average privacy profile ``d(epsilon) = E H``, the hockey-stick divergence of a pair.

        For a mean over datasets and replaced examples what ``delta`` is for the worst case: an
        average ``(epsilon, delta)`` curve, no guarantee for any one person. At 0 it is
        ``on_average_tv``; ``int d(e) (1 + exp(-e)) de`` over all ``e > 0`` is ``on_average_kl``.

        Parameters
        ----------
        epsilon
            Nats, at least 0: one number or several.

        Returns
        -------
        pandas.DataFrame
            ``delta`` and ``delta_se``, indexed by gamma and epsilon. Where no draw's privacy loss
            reached epsilon, delta is 0 and its error NaN: it is too small to be seen. Both are NaN
            above 23.7 nats where losses go beyond them: how far, was not kept.

        Raises
        ------
        ValueError
            For epsilons that are negative or not finite, and reports without a profile.
        """
        import pandas as pd  # slow to import

        asked = np.atleast_1d(np.asarray(epsilon, np.float64))
        if asked.ndim != 1 or not asked.size or not (np.isfinite(asked) & (asked >= 0)).all():
            raise ValueError(
                f"epsilon: must be one or more finite numbers >= 0, nats, got {epsilon!r}; at "
                "negative ones, d(-e) = 1 - exp(-e) + exp(-e) d(e)."
            )
        rows: list[dict[str, Any]] = []
        for gamma, curve in profiles(self):
            roc = roc_of(curve)
            for e, value in zip(asked, np.asarray(roc.profile(asked)), strict=True):
                se = float(np.interp(e, curve["epsilon"], curve["delta_se"], right=0.0))
                # Nothing was seen so far out: how much there is, the draws do not say.
                seen = {"delta": float(value), "delta_se": se if se > 0 else np.nan}
                rows.append({"gamma": gamma, "epsilon": float(e), **seen})
        return pd.DataFrame(rows).set_index(["gamma", "epsilon"])

    def attack_roc(self, fpr: ArrayLike | float | Sequence[float]) -> pd.DataFrame:
        """Tabulate the average attacker's ROC, pooled over datasets and replaced examples.

        Parameters
        ----------
        fpr
            False positive rates, on average: one or several in [0, 1].

        Returns
        -------
        pandas.DataFrame
            ``tpr`` and ``tpr_se``, indexed by gamma and fpr; NaN at rates that need thresholds
            above 23.7 nats, which were not kept.

        Raises
        ------
        ValueError
            For rates that are none, and reports without a profile.
        """
        import pandas as pd  # slow to import

        asked = np.atleast_1d(np.asarray(fpr, np.float64))
        if asked.ndim != 1 or not asked.size or not ((asked >= 0) & (asked <= 1)).all():
            raise ValueError(f"fpr: must be one or more rates between 0 and 1, got {fpr!r}.")
        rows: list[dict[str, Any]] = []
        for gamma, curve in profiles(self):
            for rate, (tpr, se) in zip(asked, curve_with_errors(curve, asked), strict=True):
                rows.append({"gamma": gamma, "fpr": float(rate), "tpr": tpr, "tpr_se": se})
        return pd.DataFrame(rows).set_index(["gamma", "fpr"])

    def plot_attack(
        self,
        gammas: Sequence[float] | None = None,
        title: str | None = None,
        axes: Sequence[Axes] | np.ndarray | None = None,
    ) -> Figure:
        """Draw the average attacker's ROC with 95% bands, and what DP epsilon allows over it.

        Parameters
        ----------
        gammas
            Some of the report's; by default up to five of them.
        title
            Of the figure.
        axes
            Two to draw on, in their style; by default those of a new figure.

        Returns
        -------
        Figure
            Two panels: all rates, and few false alarms on logarithmic axes.

        Raises
        ------
        ValueError
            For gammas that the report has not, reports without a profile, and other than two axes.
        """
        from gibbs_dp.auditing.plot import plot_attack

        return plot_attack(self, gammas, title, axes)

    @property
    def exposure(self) -> pd.DataFrame:
        """What every row of the table costs, on average over the datasets that hold it.

        Per-instance privacy (Wang 2019) averaged over the draw: the row is replaced by a fresh
        one. For each gamma the rows are in the order of ``ranked_by`` (nats), their on-average KL
        by the datasets of even number. The other columns are from the datasets of odd number: the
        largest of many estimates overstates its row, and these have not chosen it. For a row that
        was chosen otherwise, the mean of ``ranked_by`` and ``on_average_kl`` uses all datasets.
        The list is as sensitive as the table.

        Returns
        -------
        DataFrame
            A line a gamma and row: ``gamma``, ``rank``, ``row`` (its number in the table),
            ``ranked_by``, ``on_average_kl`` (nats), ``advantage`` (the best attacker's true
            positive minus false positive rate), each with its standard error over datasets
            (``_se``) and Student's 95% interval (``_low``, ``_high``), ``num_datasets`` that these
            are over, and ``tail_flag``: draws cannot tell so large a KL, which is too small.

        Raises
        ------
        ValueError
            If the audit was without ``Exposure()``.
        """
        return exposure_frame(self._gammas, self.row_tables)

    @property
    def _gammas(self) -> list[float]:
        return [row["gamma"] for row in self.rows]

    def plot_exposure(
        self,
        title: str | None = None,
        gamma: float | None = None,
        axes: Sequence[Axes] | np.ndarray | None = None,
    ) -> Figure:
        """Draw what every row of the table costs over its rank: on-average KL, and advantage.

        Parameters
        ----------
        title
            Of the figure.
        gamma
            One of the report's. None: the largest.
        axes
            Two to draw on, in their style; by default those of a new figure.

        Returns
        -------
        Figure
            Two panels, with 95% intervals where rows are few. It shows as much as the list.

        Raises
        ------
        ValueError
            If the audit was without ``Exposure()``, the report has no such gamma, or there are
            other than two axes.
        """
        from gibbs_dp.auditing.plot import plot_exposure

        frame = self.exposure
        chosen = max(self._gammas) if gamma is None else gamma
        if chosen not in self._gammas:
            known = ", ".join(f"{g:g}" for g in self._gammas)
            raise ValueError(f"gamma: {gamma!r} is not in the report; it has {known}.")
        return plot_exposure(frame[frame["gamma"] == chosen], title, axes)

    def exposure_summary(self) -> str:
        """Return the ten most exposed rows of every gamma as text, with errors."""
        import pandas as pd

        parts = []
        for gamma, table in zip(self._gammas, self.row_tables, strict=True):
            text = pd.DataFrame(cells_of_rows(gamma, table)).to_string(index=False)
            parts.append(f"{rows_title(gamma, table)}\n{visible(text)}")
        return "\n\n".join(parts)

    # -- files ----------------------------------------------------------------------------

    def _page(self, title: str | None, about: Iterable[str]) -> page.Page:
        from gibbs_dp.auditing.report_page import page_of

        return page_of(self, self._head(), title, about)

    def _explorer(
        self, title: str | None, about: Iterable[str], files: Mapping[str, str] | None = None
    ) -> page.Page:
        from gibbs_dp.auditing.explore import explore_page

        named = dict.fromkeys(files or ("audit",), self)
        return explore_page(named, self._head(), title, about, files)

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


def _span(gammas: Sequence[float]) -> str:
    if len(gammas) < 2:
        return f"gamma {gammas[0]:g}" if gammas else "no gammas"
    return f"gammas {min(gammas):g} .. {max(gammas):g} ({len(gammas)})"


def _attributes(name: str, known: dict[str, Column]) -> dict[str, str]:
    column = known.get(name.removesuffix("_se"))
    if column is None:
        return {}
    text = "Standard error, over datasets, of " if name.endswith("_se") else ""
    found = {"long_name": text + (column.title or column.name), "description": column.meaning}
    return found | ({"units": column.unit} if column.unit else {})
