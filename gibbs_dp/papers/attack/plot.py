"""Pictures of attacks: what was reached, what was computed, what the worst case allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gibbs_dp.papers.tables import Row, column
from gibbs_dp.results.plotting import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    VERMILION,
    Picture,
    legend_of_figure,
    panels,
    styled,
    tidy_logs,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKS = {
    "optimal": ("optimal attack", BLUE, "o", -1),
    "loss": ("loss threshold", ORANGE, "s", 0),
    "lira": ("shadow draws (LiRA)", GREEN, "^", 1),
}
# Points of one gamma stand beside each other, this share of the axis' decades apart.
APART, LEAST_DECADES = 0.025, 1.5
CHANCE = 0.01


@styled()
def plot_attack(rows: Sequence[Row], title: str | None = None) -> Picture:
    """Draw advantages and true positive rates at 1% over gamma, with 95% intervals over trials."""
    figure, grid = panels((8.4, 4.4), 1, 2)
    left, right = grid[0]
    draw_advantage(left, rows)
    draw_rate(right, rows)
    if title is not None:
        figure.suptitle(title)
    legend_of_figure(figure, (left, right), columns=3)
    return figure


@styled()
def plot_attack_panels(found: Mapping[str, Sequence[Row]]) -> Picture:
    """Draw several attacks beside each other: advantages above true positive rates at 1%.

    Parameters
    ----------
    found
        Rows by title. Where they have ``on_average_tv_exact``, that is a cross.

    Returns
    -------
    Picture
        A column each.
    """
    figure, grid = panels((4.2 * len(found), 7.0), 2, len(found), sharex="col", sharey="row")
    for (top, bottom), (title, rows) in zip(grid.T, found.items(), strict=True):
        draw_advantage(top, rows)
        draw_rate(bottom, rows)
        exact = column(rows, "on_average_tv_exact")
        if np.isfinite(exact).any():
            top.plot(
                *(column(rows, "gamma"), exact),
                ls="none",
                marker="x",
                ms=6,
                mew=1.0,
                color=BLACK,
                label="best possible, by quadrature",
                zorder=4,
            )
        top.set(title=title, xlabel="")
    for axes in grid[:, 1:].ravel():
        axes.set(ylabel="")
    legend_of_figure(figure, grid.ravel(), columns=3)
    return figure


def draw_advantage(axes: Axes, rows: Sequence[Row]) -> None:
    """Draw the measured advantages over the computed one."""
    _draw(axes, rows, "advantage", "on_average_tv", "dp_advantage")
    axes.set(ylabel="advantage (TPR − FPR)", ylim=(-0.03, 1.03))


def draw_rate(axes: Axes, rows: Sequence[Row]) -> None:
    """Draw true positive rates where the false one is 1%."""
    _draw(axes, rows, "tpr_1pct", "attack_tpr_1pct", "dp_tpr_1pct")
    axes.axhline(CHANCE, color="0.6", lw=1, ls=":", label="guessing")
    axes.set(ylabel="true positive rate at 1% false ones", yscale="log", ylim=(0.006, 1.2))


def _draw(axes: Axes, rows: Sequence[Row], measured: str, computed: str, bound: str) -> None:
    axes.set(xscale="log", xlabel="gamma (inverse temperature)")
    first = [row for row in rows if row["attacker"] == rows[0]["attacker"]]
    gamma = column(first, "gamma")
    value, error = column(first, computed), 1.96 * column(first, f"{computed}_se")
    # A line of one point is not seen.
    mark: dict[str, Any] = {"marker": "_", "ms": 22, "mew": 1.8} if len(gamma) == 1 else {}
    axes.plot(gamma, value, color=BLACK, lw=1.8, label="best possible, computed", **mark)
    axes.fill_between(gamma, value - error, value + error, color=BLACK, alpha=0.15, lw=0)
    decades = max(LEAST_DECADES, float(np.log10(gamma.max() / gamma.min())))
    limit = column(first, bound)
    if np.isfinite(limit).any():
        axes.plot(gamma, limit, "--", color=VERMILION, lw=1.5, label="DP epsilon allows", **mark)
    for name, (label, color, marker, place) in MARKS.items():
        own = [row for row in rows if row["attacker"] == name]
        if own:
            axes.errorbar(
                column(own, "gamma") * 10 ** (place * APART * decades),
                column(own, measured),
                1.96 * column(own, f"{measured}_se"),
                ls="none",
                color=color,
                marker=marker,
                ms=5,
                label=label,
                zorder=3,
            )
    tidy_logs(axes)
