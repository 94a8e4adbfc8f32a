"""The picture of double descent: risk and on-average KL over the number of features."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from gibbs_dp.auditing.plot_selection import explained, mark_selected
from gibbs_dp.experiments.double_descent import DoubleDescent
from gibbs_dp.experiments.style import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION, column
from gibbs_dp.experiments.tables import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLORS = (BLUE, GREEN, VERMILION, PURPLE, SKY, ORANGE)


def plot_double_descent(found: DoubleDescent) -> Figure:
    """Draw risk on fresh and on training examples, and on-average KL, over the features.

    Lines are closed forms, points are sampled with 95% intervals over datasets; one colour per
    gamma. Hollow points leave out datasets that failed.
    """
    figure = Figure(figsize=(11.5, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2)
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
        ticks = sorted({row["num_features"] for row in found.rows})
        axes.set_xticks(ticks, [str(p) for p in ticks])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        axes.legend(*explained(axes), frameon=False, fontsize=9)
    left.set(ylabel="squared error of one draw", ylim=(0, None))
    left.set_title(f"risk: fresh examples (solid), own examples (dashed), n = {found.n}")
    right.set(yscale="log", ylabel="nats")
    right.set_title("on-average KL: closed form (lines), sampled (points)")
    return figure


def _draw(
    axes: Axes, rows: list[Row], name: str, color: str, line: str, marker: str, label: str | None
) -> None:
    p, value = column(rows, "num_features"), column(rows, name)
    axes.plot(p, column(rows, f"{name}_exact"), line, color=color, lw=1.5, label=label)
    error = 1.96 * column(rows, f"{name}_se")
    axes.errorbar(p, value, error, ls="none", color=color, marker=marker, ms=4, capsize=3)
    mark_selected(axes, p, value, column(rows, "failed_datasets") > 0, color, marker)
