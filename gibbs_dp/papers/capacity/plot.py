"""Pictures of capacity-bounded privacy: Figures 1a and 1b, Theorem 6, posteriors over gamma."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gibbs_dp.papers.capacity.figures import PANELS, Capacity
from gibbs_dp.papers.tables import Row, column
from gibbs_dp.results.plotting import (
    BLUE,
    GREEN,
    PURPLE,
    SKY,
    VERMILION,
    Picture,
    legend_below,
    mark_selected,
    one_panel,
    panels,
    styled,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLORS = (BLUE, SKY, GREEN, VERMILION, PURPLE)
MARKERS = ("o", "s", "^", "D", "v")


@styled()
def plot_curves(found: Capacity) -> Picture:
    """Draw Figures 1a and 1b: Rényi parameters of the Laplace mechanism over the order."""
    eps = found.curves[0]["eps"]
    return _draw_curves(found.curves, f"Laplace mechanism, eps = {eps:g}", 1.6)


@styled()
def plot_gaussian_curves(found: Capacity) -> Picture:
    """Draw the appendix's Figures 1a and 1b: the same for the Gaussian mechanism."""
    sigma = found.gaussian[0]["sigma"]
    title = f"Gaussian mechanism, sensitivity 1, sigma = {sigma:g}"
    # Unrestricted Rényi grows without limit; the adversaries' values are what is to be seen.
    top = 1.6 * max(column(found.gaussian, "degree_3"))
    return _draw_curves(found.gaussian, title, top)


def _draw_curves(rows: list[Row], title: str, top: float) -> Picture:
    figure, grid = panels((8.4, 4.6), 1, 2, sharey=True)
    left, right = grid[0]
    alpha = column(rows, "alpha")
    unrestricted = column(rows, "unrestricted")
    names = {"degree_1": "linear", "degree_2": "degree 2", "degree_3": "degree 3"}
    for axes in (left, right):
        axes.plot(alpha, unrestricted, color="black", lw=1.8, label="unrestricted (any function)")
        axes.set(xlabel="order alpha")
    for (key, label), color in zip(reversed(names.items()), reversed(COLORS[:3]), strict=True):
        right.plot(alpha, column(rows, key), color=color, lw=1.8, label=f"{label}, exact")
    printed = column(rows, "printed_no_guarantee")
    label = "linear, bound as printed (no guarantee)"
    left.plot(alpha, printed, "--", color=COLORS[3], lw=1.8, label=label)
    left.plot(alpha, column(rows, "valid"), "-.", color=COLORS[4], label="linear, valid bound")
    left.plot(alpha, column(rows, "degree_1"), color=COLORS[0], lw=1.8, label="linear, exact")
    left.set(ylabel="Rényi divergence (nats)", ylim=(0, top))
    left.set_title("(1a) linear adversary and its bounds")
    right.set_title("(1b) polynomial adversaries")
    figure.suptitle(title)
    for axes in (left, right):
        legend_below(axes)
    return figure


@styled()
def plot_posteriors(found: Capacity) -> Picture:
    """Draw on-average capacity-bounded KL over gamma by class, under the full on-average KL."""
    figure, axes = panels((8.4, 7.4), 2, 2, sharex="col", height_ratios=(2, 1.2))
    for i, panel in enumerate(PANELS):
        rows = [row for row in found.posterior if row["panel"] == panel]
        _draw_panel(axes[0, i], axes[1, i], panel, rows)
    figure.suptitle("On-average KL that critics see: means and 95% intervals")
    axes[0, 0].set_ylabel("KL divergence (nats)")
    axes[1, 0].set_ylabel("share of on-average KL")
    return figure


def _draw_panel(top: Axes, bottom: Axes, panel: str, rows: list[Row]) -> None:
    classes = list(dict.fromkeys(row["adversary"] for row in rows))
    first = [row for row in rows if row["adversary"] == classes[0]]
    gamma = column(first, "gamma")
    full, error = column(first, "on_average_kl"), 1.96 * column(first, "on_average_kl_se")
    label = "on-average KL (any function)"
    top.errorbar(gamma, full, error, color="black", marker="x", ms=7, lw=1.8, label=label)
    bottom.axhline(1.0, color="black", lw=1.8)
    # Shares are shifted sideways, lest error bars hide each other; on a slope that would mislead.
    shifts = 1.0 + 0.06 * (np.arange(len(classes)) - (len(classes) - 1) / 2)
    for name, color, marker, shift in zip(classes, COLORS, MARKERS, shifts, strict=False):
        own = [row for row in rows if row["adversary"] == name]
        value, se = column(own, "capacity_kl"), column(own, "capacity_kl_se")
        good = value > 0
        low = np.minimum(1.96 * se, 0.9 * np.abs(value))
        style: dict[str, Any] = {"color": color, "marker": marker, "ms": 4.5, "lw": 1.4}
        top.errorbar(
            gamma[good], value[good], np.stack([low, 1.96 * se])[:, good], label=name, **style
        )
        is_selected = column(own, "failed_datasets") > 0
        mark_selected(top, gamma[good], value[good], is_selected[good], color, marker, 5.0)
        share, share_se = column(own, "share"), 1.96 * column(own, "share_se")
        bottom.errorbar(gamma * shift, share, share_se, **style)
        mark_selected(bottom, gamma * shift, share, is_selected, color, marker, 5.0)
        if "capacity_kl_exact" in own[0]:
            exact = column(own, "capacity_kl_exact")
            top.plot(gamma, exact, ":", color=color, lw=2.2, label=f"{name}, exact")
            whole = column(own, "on_average_kl_exact")
            bottom.plot(gamma, exact / whole, ":", color=color, lw=2.2)
    count, n = first[0]["num_datasets"], first[0]["n"]
    top.set(xscale="log", yscale="log")
    top.set_title(f"{panel}, n = {n}, {count} pairs")
    bottom.set(xlabel="gamma (inverse temperature)", ylim=(-0.05, 1.15))
    legend_below(bottom, of=top)


@styled()
def plot_selection(found: Capacity) -> Picture:
    """Draw the gap of a selected query over gamma, under its bounds."""
    figure, axes = one_panel(
        (6.0, 5.2),
        f"Selecting a query with values in [-1, 1], n = {found.selection[0]['n']}",
        "gamma (inverse temperature)",
        "mean on the data − population mean",
    )
    names = {
        "theorem_6": ("8 √eps, Theorem 6", "--", COLORS[3]),
        "hoeffding": ("√(2 eps), its improvement", "--", COLORS[4]),
        "bounded_range": ("gamma Δ² / 2, any population", "-.", COLORS[2]),
        "mutual_information": ("√(2 I / n), exact information", "-", COLORS[1]),
        "gap": ("true gap", "-", "black"),
    }
    gamma = column(found.selection, "gamma")
    for name, (label, line, color) in names.items():
        axes.plot(
            gamma, column(found.selection, name), line, color=color, marker="o", ms=4, label=label
        )
    axes.set(xscale="log", yscale="log")
    legend_below(axes, columns=2)
    return figure


@styled()
def plot_analysts(found: Capacity) -> Picture:
    """Draw how much two analysts overfit over the noise of their answers, under Theorem 6."""
    first = found.analyst[0]
    figure, grid = panels((8.4, 5.2), 1, 2, sharey=True)
    names = {
        "theorem_6_unrestricted": ("8 √KL, any adversary", "--", COLORS[3]),
        "theorem_6": ("8 √eps, Theorem 6, restricted", "-", COLORS[3]),
        "hoeffding_unrestricted": ("Hoeffding, any adversary", "--", COLORS[4]),
        "hoeffding": ("Hoeffding, restricted", "-", COLORS[4]),
        "mutual_information": ("√(2 I / n), exact information", "-.", COLORS[1]),
        "gap_exact": ("gap, exact", "-", "black"),
    }
    titles = {
        "linear": "linear vote of all attributes",
        "adaptive": "adaptive queries, then a majority",
    }
    for axes, (analyst, title) in zip(grid[0], titles.items(), strict=True):
        rows = [row for row in found.analyst if row["analyst"] == analyst]
        noise, is_exact = column(rows, "noise"), rows[0]["status"] == "exact"
        for name, (label, line, color) in names.items():
            # Without an exact value the restricted curves are the unrestricted ones.
            if name in rows[0] and (is_exact or not name.endswith("_unrestricted")):
                text = label if is_exact else label.replace("restricted", "chain rule")
                axes.plot(noise, column(rows, name), line, color=color, lw=1.6, label=text)
        gap, se = column(rows, "gap"), column(rows, "gap_se")
        # On a logarithmic axis the lower ends of intervals stay positive.
        low = np.minimum(1.96 * se, 0.9 * np.abs(gap))
        axes.errorbar(
            noise,
            gap,
            np.stack([low, 1.96 * se]),
            color="black",
            marker="o",
            ms=4.5,
            lw=0,
            elinewidth=1.4,
            label="gap, measured (95% intervals)",
        )
        axes.axhline(1.0, color="0.6", lw=1.0, ls=":", label="largest possible gap")
        axes.set(xscale="log", yscale="log", xlabel="noise (standard deviations of a mean, 1/√n)")
        axes.set_title(title)
        legend_below(axes)
    grid[0, 0].set_ylabel("mean on the data − population mean")
    figure.suptitle(
        f"The last of {first['num_queries'] + 1} queries of n = {first['n']} examples, "
        f"{first['num_datasets']} datasets"
    )
    return figure
