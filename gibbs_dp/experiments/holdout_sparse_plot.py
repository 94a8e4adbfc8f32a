"""Pictures of sparse vector's variants and of its approximate calibration."""

from __future__ import annotations

from typing import Any

import numpy as np

from gibbs_dp.experiments.holdout_result import Found
from gibbs_dp.experiments.sparse_variants import RELEASED
from gibbs_dp.experiments.tables import column
from gibbs_dp.plotting import BLACK, COLORS, Picture, legend_below, one_panel, panels

MARKERS = "o^sDvPX*"
GREYS = ("0.25", "0.6")


def plot_variants(found: Found) -> Picture:
    """Draw losses against the number of queries; infinite ones at the upper edge."""
    first = found.rows[0]
    title = (
        f"Sparse vector and its variants: c = {first['positives']}, "
        f"claimed epsilon = {first['claimed_epsilon']:g}"
    )
    figure, axes = one_panel(
        (7.2, 6.2), title, "queries (legend: loss at the last)", "privacy loss (nats)"
    )
    losses = column(found.rows, "loss")
    top = 2.5 * float(losses[np.isfinite(losses)].max())
    names = list(dict.fromkeys(row["variant"] for row in found.rows))
    infinite = {row["variant"] for row in found.rows if np.isinf(row["loss"])}
    endless = [name for name in names if name in infinite]
    for name, color, marker in zip(names, (*COLORS[:6], *GREYS), MARKERS, strict=True):
        own = [row for row in found.rows if row["variant"] == name]
        queries, loss = column(own, "queries"), column(own, "loss")
        is_endless = np.isinf(loss)
        # Beside each other where several are infinite.
        shift = 1.06 ** (2 * endless.index(name) - len(endless) + 1) if name in endless else 1.0
        x = np.where(is_endless, queries * shift, queries)
        worst = "unbounded" if name in endless else f"{loss[-1]:.3g}"
        style: dict[str, Any] = {"color": color, "marker": marker, "ms": 5.5, "lw": 1.4}
        if name == RELEASED:  # as steep as without a stop
            style |= {"ls": "--", "ms": 9.0, "mfc": "none"}
        axes.plot(x, np.where(is_endless, top, loss), label=f"{name}: {worst}", **style)
    axes.axhline(first["claimed_epsilon"], color=BLACK, ls="--", lw=1.2, label="claimed")
    axes.set(xscale="log", yscale="log")
    axes.set_xticks(np.unique(column(found.rows, "queries")))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.minorticks_off()
    ticks = [t for t in (0.2, 0.5, 1, 2, 5, 10, 20, 50) if losses.min() * 0.7 < t < top / 1.5]
    axes.set_yticks([*ticks, top], [*(f"{t:g}" for t in ticks), "∞"])
    legend_below(axes, columns=2)
    return figure


def plot_approximate(found: Found) -> Picture:
    """Draw epsilon proven and measured over epsilon claimed, and both noises."""
    first = found.rows[0]
    figure, grid = panels((9.0, 4.8), 1, 2)
    ratio, noise = grid[0]
    for name, color, marker in (("printed", COLORS[1], "^"), ("accountant", COLORS[0], "o")):
        own = [row for row in found.rows if row["sigma_from"] == name]
        claimed = column(own, "claimed_epsilon")
        for what, line in (("proven", "-"), ("measured", ":")):
            style: dict[str, Any] = {"color": color, "marker": marker, "ms": 5.0, "ls": line}
            label = f"{name}, {what}"
            ratio.plot(claimed, column(own, f"{what}_epsilon") / claimed, label=label, **style)
        noise.plot(claimed, column(own, "sigma"), color=color, marker=marker, ms=5.0, label=name)
    ratio.axhline(1.0, color=BLACK, ls="--", lw=1.2, label="claimed")
    ratio.set(ylabel="epsilon at delta / epsilon claimed", ylim=(0, None))
    noise.set(ylabel="sigma, in units of the sensitivity", yscale="log")
    for axes in (ratio, noise):
        axes.set(xscale="log", xlabel="epsilon claimed")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        legend_below(axes)
    figure.suptitle(
        f"Approximate sparse vector, c = {first['positives']}, delta = {first['delta']:g}"
    )
    return figure
