"""The picture of double descent: risk and on-average KL over the number of features."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gibbs_dp.experiments.double_descent import DoubleDescent
from gibbs_dp.experiments.tables import Row, column
from gibbs_dp.results.plotting import (
    COLORS,
    Picture,
    legend_of_figure,
    mark_selected,
    panels,
    styled,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Neighbouring tick labels below this ratio of their places would touch.
LEAST_RATIO = 1.25


@styled()
def plot_double_descent(found: DoubleDescent) -> Picture:
    """Draw risk on fresh and on training examples, and on-average KL, over the features.

    Lines are closed forms, points are sampled with 95% intervals over datasets; one colour per
    gamma. Hollow points leave out datasets that failed.
    """
    figure, grid = panels((8.4, 4.1), 1, 2)
    left, right = grid[0]
    gammas = sorted({row["gamma"] for row in found.rows})
    for i, gamma in enumerate(gammas):
        rows = [row for row in found.rows if row["gamma"] == gamma]
        color, label = COLORS[i % len(COLORS)], f"gamma = {gamma:g}"
        _draw(left, rows, "population_risk", color, "-", "o", label)
        _draw(left, rows, "empirical_risk", color, "--", "v", None)
        _draw(right, rows, "on_average_kl", color, "-", "o", label)
    for axes in (left, right):
        axes.axvline(found.n, color="0.6", lw=1, ls=":")
        axes.text(found.n, 1.0, " p = n", transform=axes.get_xaxis_transform(), va="top", size=9)
        axes.set(xlabel="number of random features p", xscale="log")
        ticks = _apart(sorted({row["num_features"] for row in found.rows}))
        axes.set_xticks(ticks, [str(p) for p in ticks])
        axes.minorticks_off()
    left.set(ylabel="risk of a draw (squared error)", ylim=(0, None))
    left.set_title(f"fresh (solid) and training examples (dashed), n = {found.n}")
    right.set(yscale="log", ylabel="on-average KL (nats)")
    right.set_title("closed form (lines) and sampled (points)")
    legend_of_figure(figure, (left, right), columns=len(gammas))
    return figure


def _apart(numbers: list[int]) -> list[int]:
    """Those that are far enough from the one before."""
    kept = numbers[:1]
    for number in numbers[1:]:
        if number >= LEAST_RATIO * kept[-1]:
            kept.append(number)
    return kept


def _draw(
    axes: Axes, rows: list[Row], name: str, color: str, line: str, marker: str, label: str | None
) -> None:
    p, value = column(rows, "num_features"), column(rows, name)
    axes.plot(p, column(rows, f"{name}_exact"), line, color=color, lw=1.5, label=label)
    error = 1.96 * column(rows, f"{name}_se")
    axes.errorbar(p, value, error, ls="none", color=color, marker=marker, ms=4)
    mark_selected(axes, p, value, column(rows, "failed_datasets") > 0, color, marker)
