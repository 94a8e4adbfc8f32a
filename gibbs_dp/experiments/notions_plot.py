"""What implies what: a diagram of inequalities, and the verdict of every pair."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from matplotlib.patches import FancyArrowPatch

from gibbs_dp.experiments.notions import Notions
from gibbs_dp.experiments.notions_arrows import ARROWS
from gibbs_dp.experiments.notions_measures import NOTIONS
from gibbs_dp.results.plotting import BLUE, ORANGE, SKY, VERMILION, Picture, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
