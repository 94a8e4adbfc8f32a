"""Pictures of the notions: over gamma, what implies what, and the verdict of every pair."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from matplotlib.patches import FancyArrowPatch

from gibbs_dp.papers.notions.implications import ARROWS
from gibbs_dp.papers.notions.measures import DELTA, NOTIONS, OMEGA
from gibbs_dp.papers.notions.notions import Notions
from gibbs_dp.results.plotting import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    Picture,
    one_panel,
    styled,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Key -> (label, colour, line). Worst cases are warm, averages are cold.
STYLES = {
    "dp_epsilon": ("DP eps = largest personalized eps", VERMILION, "-"),
    "random_dp": (f"random DP, omega = {OMEGA:g}", ORANGE, "--"),
    "approximate_dp": (f"eps at delta = {DELTA:g}", ORANGE, ":"),
    "kl_privacy": ("KL-privacy", BLACK, "-"),
    "zcdp": ("zCDP rho", PURPLE, "--"),
    "on_average_kl": ("on-average KL = gamma × gen. error", BLUE, "-"),
    "max_information_per_example": ("max-information / n", GREEN, "-"),
    "mutual_information_per_example": ("mutual information / n", SKY, "-"),
}


@styled()
def plot_curves(notions: Notions) -> Picture:
    """Draw notions over gamma, log-log, each named at its right end."""
    title = f"Notions of privacy of one Gibbs posterior, n = {notions.n}, replace-one"
    labels = title, "gamma (inverse temperature)", "privacy or information (nats)"
    figure, axes = one_panel((8.4, 4.6), *labels)
    gamma = np.array(notions.gammas)
    axes.set(xscale="log", yscale="log")
    ends = []
    for name, (label, color, line) in STYLES.items():
        value = notions.curves[name]
        shown = value > 0  # approximate quantities reach zero and below
        axes.plot(gamma[shown], value[shown], line, color=color, lw=1.8, label=label)
        if shown[-1]:
            ends.append((label, float(value[-1]), color))
    axes.margins(x=0)
    if len(gamma) == 1:
        axes.set_xlim(gamma[0] / 3.0, gamma[0])
    label_ends(axes, ends, float(gamma[-1]), gap=0.06)
    return figure


# Where the boxes of the diagram stand.
PLACES = {
    "dp": (5.2, 9.0),
    "zcdp": (1.2, 8.0),
    "renyi": (1.2, 6.4),
    "kl": (1.2, 4.8),
    "tv": (1.2, 2.6),
    "approx": (1.2, 0.5),
    "personalized": (5.2, 7.0),
    "on_average": (5.2, 4.8),
    "mutual": (5.2, 2.6),
    "random": (8.8, 5.2),
    "max": (11.8, 5.2),
    "generalization": (6.0, 0.5),
}
# How far along its arrow, and beside it, a formula stands; by default at the middle.
LABELS = {
    ("tv", "approx"): (0.5, -0.75),
    ("approx", "tv"): (0.32, 1.2),
    ("tv", "generalization"): (0.45, 0.0),
    ("random", "generalization"): (0.72, 0.9),
    ("mutual", "generalization"): (0.55, -0.1),
    ("kl", "on_average"): (0.45, 0.0),
    ("max", "mutual"): (0.3, 0.0),
    ("personalized", "random"): (0.45, 0.0),
}
MARKS = {
    "self": ("", "#DDDDDD"),
    "arrow": ("=>", SKY),
    "implied": ("=>", "#BFE3F7"),
    "counterexample": ("x", ORANGE),
    "refuted": ("x", "#F9E0AE"),
    "open": ("?", "#FFFFFF"),
}


@styled()
def plot_implications(notions: Notions) -> Picture:
    """Draw the arrows that generate all implications."""
    figure = Picture(figsize=(9.0, 6.8))
    _draw_diagram(figure.add_axes((0.0, 0.0, 1.0, 0.94)), notions)
    return figure


@styled()
def plot_verdicts(notions: Notions) -> Picture:
    """Draw for every pair whether one notion implies the other."""
    figure = Picture(figsize=(6.8, 6.8), layout="constrained")
    _draw_matrix(figure.add_subplot(), notions)
    return figure


def _draw_diagram(axes: Axes, notions: Notions) -> None:
    held = {(r.start, r.end): r.holds for r in notions.arrows}
    axes.set(xlim=(-0.7, 13.3), ylim=(-0.1, 9.6))
    axes.axis("off")
    axes.set_title("Every implication follows from these inequalities", loc="center")
    sizes = {}
    for name, (x, y) in PLACES.items():
        text = axes.text(
            x,
            y,
            NOTIONS[name].title,
            fontsize=9.5,
            ha="center",
            va="center",
            weight="bold",
            bbox={"boxstyle": "round,pad=0.45", "facecolor": "#F4F4F4", "edgecolor": "#555555"},
        )
        extent = text.get_window_extent().transformed(axes.transData.inverted())
        sizes[name] = (extent.width / 2 + 0.25, extent.height / 2 + 0.2)
    for arrow in ARROWS:
        pair = (arrow.start, arrow.end)
        start, end = np.array(PLACES[arrow.start]), np.array(PLACES[arrow.end])
        if (arrow.end, arrow.start) in held:  # two arrows, side by side
            shift = (0.4 * np.sign(end[1] - start[1]), 0.0)
            start, end = start + shift, end + shift
        way = end - start
        first, last = _to_edge(way, sizes[arrow.start]), _to_edge(way, sizes[arrow.end])
        axes.add_patch(
            FancyArrowPatch(
                tuple(start + first * way),
                tuple(end - last * way),
                arrowstyle="-|>",
                mutation_scale=16,
                color=BLUE if held[pair] else VERMILION,
                lw=1.6,
                shrinkA=0,
                shrinkB=0,
            )
        )
        along, beside = LABELS.get(pair, (0.5, 0.0))
        axes.text(
            start[0] + along * (end[0] - start[0]) + beside,
            start[1] + along * (end[1] - start[1]),
            arrow.formula.replace(" + 2", "\n+ 2"),
            fontsize=8.5,
            ha="center",
            va="center",
            color="#333333",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
        )


def _to_edge(way: Float[np.ndarray, " 2"], half: tuple[float, float]) -> float:
    """Share of the way from the centre of a box at which it leaves the box."""
    with np.errstate(divide="ignore"):
        return float(np.min(np.array(half) / np.abs(way)))


def _draw_matrix(axes: Axes, notions: Notions) -> None:
    names = list(NOTIONS)
    for row, start in enumerate(names):
        for column, end in enumerate(names):
            text, color = MARKS[notions.verdicts[start, end]]
            axes.fill_between([column, column + 1], row, row + 1, color=color, lw=0)
            axes.text(column + 0.5, row + 0.5, text, ha="center", va="center")
    size = len(names)
    centres = np.arange(size) + 0.5
    titles = [NOTIONS[name].title for name in names]
    axes.set_xticks(centres, titles, rotation=50, ha="left", rotation_mode="anchor")
    axes.set_yticks(centres, titles)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.set_xticks(np.arange(size + 1), minor=True)
    axes.set_yticks(np.arange(size + 1), minor=True)
    axes.spines[:].set_visible(False)
    axes.set_axisbelow(False)
    axes.grid(visible=False)
    axes.grid(which="minor", color="white", lw=1.5)
    axes.tick_params(which="minor", length=0)
    axes.set(xlim=(0, size), ylim=(size, 0), aspect="equal")
    axes.set_xlabel(
        "small in the row: is it small in the column?  => yes (dark: a checked inequality)\n"
        "x no (dark: a counterexample found; light: follows from one)"
    )


# Names of curves at their right ends.


def label_ends(
    axes: Axes, ends: Sequence[tuple[str, float, str]], x: float, gap: float = 0.05
) -> None:
    """Write names beside the right ends of curves, moved apart where they would overlap."""
    axes.autoscale_view()
    to_axes = axes.transData + axes.transAxes.inverted()
    heights = np.array([to_axes.transform((x, y))[1] for _, y, _ in ends])
    for (name, y, color), place in zip(ends, moved_apart(heights, gap), strict=True):
        axes.annotate(
            name,
            (x, y),
            (1.04, place),
            textcoords=axes.transAxes,
            color="0.15",
            fontsize=9,
            va="center",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": color,
                "lw": 1.0,
                "shrinkA": 0,
                "shrinkB": 1,
                "relpos": (0.0, 0.5),
            },
        )


def moved_apart(heights: Float[np.ndarray, " names"], gap: float) -> Float[np.ndarray, " names"]:
    """Return heights of which no two are closer than a gap, near those that are given."""
    order = np.argsort(heights, kind="stable")
    groups = [[float(h)] for h in heights[order]]
    while True:
        for i, (a, b) in enumerate(pairwise(groups)):
            if _lowest(b, gap) - _highest(a, gap) < gap - 1e-12:
                groups[i : i + 2] = [a + b]
                break
        else:
            break
    placed = [_lowest(group, gap) + gap * place for group in groups for place in range(len(group))]
    found = np.empty(heights.size)
    found[order] = placed
    return found


def _lowest(group: list[float], gap: float) -> float:
    extent = gap * (len(group) - 1)
    return max(min(float(np.mean(group)) - extent / 2, 1.0 - extent), 0.0)


def _highest(group: list[float], gap: float) -> float:
    return _lowest(group, gap) + gap * (len(group) - 1)
