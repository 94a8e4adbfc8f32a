"""What rows of a table cost, as reports show it: a data frame, lines, a picture, a section."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from gibbs_dp import io
from gibbs_dp.auditing.report_data import ReportData
from gibbs_dp.engine.quantity import RowTable
from gibbs_dp.quantities.exposure import COLUMNS, SENSITIVE
from gibbs_dp.results import page
from gibbs_dp.results.table import Heading, TextTable, visible, with_error

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Most exposed rows that are printed and on pages.
LISTED = 10
ESTIMATES = ("on_average_kl", "advantage")
# So many gammas have a table each on a page.
MOST_GAMMAS = 6
# What figures of single rows are called in files, after their names.
PER_ROW = "_per_row"
Tables = Sequence[RowTable]
# Inches of the picture, and what its panels are called.
SIZE = (9.0, 4.6)
PANELS = {
    "on_average_kl": ("on-average KL", "on-average KL (nats)"),
    "advantage": ("attacker's advantage", "total variation"),
}
# Above so many rows, markers are small and without error bars.
MANY = 400


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


class WithExposure(ReportData):
    """What a report says of single rows of a table."""

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

    def plot_exposure(self, title: str | None = None, gamma: float | None = None) -> Figure:
        """Draw what every row of the table costs over its rank: on-average KL, and advantage.

        Parameters
        ----------
        title
            Of the figure.
        gamma
            One of the report's. None: the largest.

        Returns
        -------
        Figure
            Two panels, with 95% intervals where rows are few. It shows as much as the list.

        Raises
        ------
        ValueError
            If the audit was without ``Exposure()``, or the report has no such gamma.
        """
        from gibbs_dp.results import plotting  # slow to import

        frame = self.exposure
        chosen = max(self._gammas) if gamma is None else gamma
        if chosen not in self._gammas:
            known = ", ".join(f"{g:g}" for g in self._gammas)
            raise ValueError(f"gamma: {gamma!r} is not in the report; it has {known}.")
        figure, grid = plotting.panels(SIZE, columns=2)
        with plotting.styled():
            for axes, name in zip(grid[0], ESTIMATES, strict=True):
                _draw(axes, frame[frame["gamma"] == chosen], name)
            if title is not None:
                figure.suptitle(title)
        return figure

    def exposure_summary(self) -> str:
        """Return the ten most exposed rows of every gamma as text, with errors."""
        import pandas as pd

        parts = []
        for gamma, table in zip(self._gammas, self.row_tables, strict=True):
            text = pd.DataFrame(_cells(gamma, table)).to_string(index=False)
            parts.append(f"{_title(gamma, table)}\n{visible(text)}")
        return "\n\n".join(parts)


def exposure_section(report: WithExposure) -> page.Section:
    """Return the most exposed rows as a section of a page; an empty one where there are none."""
    if not report.row_tables:
        return page.section("Most exposed rows")
    gammas = [row["gamma"] for row in report.rows]
    parts = [page.paragraphs([SENSITIVE.meaning])]
    for gamma, table in list(zip(gammas, report.row_tables, strict=True))[-MOST_GAMMAS:]:
        cells = _cells(gamma, table)
        parts.append(page.paragraphs([_title(gamma, table)]))
        headings = [Heading(name) for name in cells]
        parts.append(TextTable(headings, list(zip(*cells.values(), strict=True))).to_html())
    caption = f"What each row costs at gamma = {max(gammas):g}, over its rank."
    parts.append(
        page.pictures([(page.inline_svg(report.plot_exposure(), caption, "exposure-"), caption)])
    )
    parts.append(page.meanings((c.title, c.meaning) for c in COLUMNS if c.title is not None))
    return page.section("Most exposed rows", *parts)


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


def _title(gamma: float, table: RowTable) -> str:
    shown = min(LISTED, table["row"].size)
    return f"most exposed rows at gamma = {gamma:g} ({shown} of {table['row'].size:,})"


def _cells(gamma: float, table: RowTable) -> dict[str, list[str]]:
    frame = exposure_frame([gamma], [table]).head(LISTED)
    records = frame.to_dict("records")
    return {c.title: [_cell(row, c.name) for row in records] for c in COLUMNS if c.title}


def _cell(row: Mapping[Any, Any], name: str) -> str:
    value = row[name]
    if isinstance(value, float) and math.isnan(value):
        return "-"
    if f"{name}_se" in row:
        return with_error(value, row[f"{name}_se"])
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _draw(axes: Axes, frame: pd.DataFrame, name: str) -> None:
    from gibbs_dp.results import plotting

    heading, label = PANELS[name]
    color = plotting.BLUE if name == "on_average_kl" else plotting.GREEN
    known = frame[np.isfinite(frame[name])]
    rank, values = known["rank"].to_numpy(float), known[name].to_numpy()
    is_few = rank.size <= MANY
    axes.set_yscale("log")
    shown = values > 0
    plotting.mark_edge(axes, rank[~shown], "not positive", color)
    if is_few:
        high = np.nan_to_num(known[f"{name}_high"].to_numpy() - values)
        low = np.minimum(np.nan_to_num(values - known[f"{name}_low"].to_numpy()), 0.9 * values)
        bars = np.stack([low, high])[:, shown]
        axes.errorbar(rank[shown], values[shown], bars, ls="none", color=color, lw=1.0, alpha=0.5)
    axes.plot(
        rank[shown],
        values[shown],
        ls="none",
        marker="o",
        ms=4.0 if is_few else 2.0,
        mew=0.0,
        color=color,
        label="each row" + (", 95% intervals" if is_few else ""),
    )
    mean = float(values.mean()) if values.size else 0.0
    if mean > 0:
        axes.axhline(mean, color=plotting.VERMILION, lw=1.5, label="mean of the rows")
    axes.set(title=heading, xlabel="rank, by the other half of the datasets", ylabel=label)
    plotting.tidy_logs(axes)
    plotting.legend_below(axes)
