"""The picture of a comparison: reports over each other, and their differences."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from gibbs_dp.auditing.plot import GAMMA, columns_in, draw_panel
from gibbs_dp.auditing.plotted import Plotted
from gibbs_dp.auditing.selection import selected_rows
from gibbs_dp.results.plotting import COLORS, Picture, mark_selected, meanings, panels, styled

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

# Differences beyond twice this need an axis that is logarithmic beyond it.
LINEAR = 5.0
# Columns of which differences are drawn, below the panel that has them: the first that is there.
DIFFERENCES = {"privacy": ("on_average_kl",), "risk": ("excess_risk", "population_risk")}
WIDTH = 34


@styled()
def plot_comparison(
    reports: Mapping[str, Plotted], table: pd.DataFrame, title: str | None = None
) -> Picture:
    """Draw privacy and risk of all reports; below, differences over their standard errors.

    Risks are left out where the losses differ.

    Parameters
    ----------
    reports, table
        Fields of :class:`gibbs_dp.Comparison`.
    title
        Of the figure.

    Returns
    -------
    Picture
        The figure: a column a unit.
    """
    compared = {
        panel: next((c for c in columns if (table["quantity"] == c).any()), None)
        for panel, columns in DIFFERENCES.items()
    }
    shown = {panel: column for panel, column in compared.items() if column is not None}
    names = list(reports)
    figure, grid = panels(
        (4.2 * len(shown) + 0.4, 5.6 + 0.2 * len(names)),
        2,
        len(shown),
        sharex="col",
        height_ratios=(2, 1),
    )
    for (panel, column), (top, bottom) in zip(shown.items(), grid.T, strict=True):
        for name, color in zip(names, _colors(names), strict=True):
            draw_panel(top, reports[name], panel, color, name)
        _draw_differences(bottom, reports, table[table["quantity"] == column], str(column))
        top.set_xlabel("")
    if title is not None:
        figure.suptitle(title)
    handles = _handles(reports, list(shown), list(grid.ravel()))
    is_wide = len(shown) > 1
    figure.legend(handles=handles, loc="outside lower center", ncols=2 if is_wide else 1)
    return figure


def _colors(names: list[str]) -> list[str]:
    return [COLORS[i % len(COLORS)] for i in range(len(names))]


def _draw_differences(
    axes: Axes, reports: Mapping[str, Plotted], table: pd.DataFrame, column: str
) -> None:
    names = list(reports)
    axes.axhspan(-1.96, 1.96, color="0.9", lw=0, zorder=0.5)
    axes.axhline(0.0, color="0.5", lw=0.8)
    for name, color in list(zip(names, _colors(names), strict=True))[1:]:
        own = table[(table["report"] == name) & (table["gamma"] > 0)]
        x, z = (own[key].to_numpy(float) for key in ("gamma", "z"))
        axes.plot(x, z, "o-", color=color, ms=4, lw=1.2)
        is_selected = np.isin(x, _selected_gammas(reports, name, column))
        mark_selected(axes, x, z, is_selected, color, "o")
    axes.set(xscale="log", xlabel=GAMMA)
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, -3.0), max(high, 3.0))
    largest = max(-low, high)
    if largest > 2 * LINEAR:
        axes.set_yscale("symlog", linthresh=LINEAR)
        powers = 10.0 ** np.arange(1, np.ceil(np.log10(largest)) + 1)
        ticks = [0.0, *powers, *-powers]
        axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.set_ylim(min(low, -3.0), max(1.2 * high, 3.0))
    axes.set_ylabel("difference\n(standard errors)")


def _selected_gammas(
    reports: Mapping[str, Plotted], name: str, column: str
) -> Float[np.ndarray, " _gammas"]:
    """Gammas at which a report or the baseline lost datasets."""
    both = (reports[name], next(iter(reports.values())))
    return np.concatenate([r["gamma"][selected_rows(r, column)] for r in both if len(r)])


def _handles(
    reports: Mapping[str, Plotted], shown: list[str], drawn: list[Axes]
) -> list[Line2D | Patch]:
    """Colours are reports and lines are columns: names once, however many reports there are."""
    names = list(reports)
    left: list[Line2D | Patch] = []
    for i, (name, color) in enumerate(zip(names, _colors(names), strict=True)):
        text = f"{name} (baseline)" if i == 0 else name
        left.append(Line2D([], [], color=color, lw=3.0, label=textwrap.fill(text, WIDTH)))
    right: list[Line2D | Patch] = []
    for panel in shown:
        styles = {k: v for r in reports.values() for k, v in columns_in(r, panel).items()}
        for style in styles.values():
            if not style.is_points:
                look: dict[str, Any] = {"ls": style.line, "marker": style.marker, "ms": 4}
                right.append(Line2D([], [], color="0.3", label=style.label, **look))
    right.append(Patch(color="0.9", label="differences of equal ones: 95%"))
    marks: dict[str, Line2D] = {}
    for axes in drawn:
        handles, texts = meanings(axes)
        marks |= dict(zip(texts, handles, strict=True))
    for text, handle in marks.items():
        handle.set_label(text)
    right += marks.values()
    if len(shown) == 1:
        return left + right
    # Legends are filled column by column: reports at the left, and what their lines are.
    rows = max(len(left), len(right))
    for entries in (left, right):
        entries += [Line2D([], [], ls="none", label=" ") for _ in range(rows - len(entries))]
    return left + right
