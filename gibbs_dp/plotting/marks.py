"""Marks of numbers that are less than they seem, or have no place on the axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.lines import Line2D

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# What legends call them, by the gid of the lines that draw them.
Edge = Literal["infinite", "not positive"]
TOP: Edge = "infinite"
BOTTOM: Edge = "not positive"
SELECTED, NOTE = "selected", "note"
MEANINGS = {
    SELECTED: "hollow: biased, as some datasets failed",
    TOP: "at the upper edge: infinite",
    BOTTOM: "at the lower edge: estimate not above zero",
}
_SYMBOLS = {SELECTED: "o", TOP: "^", BOTTOM: "v"}


def mark_selected(
    axes: Axes,
    x: Float[np.ndarray, " points"],
    y: Float[np.ndarray, " points"],
    is_selected: Bool[np.ndarray, " points"],
    color: str,
    marker: str,
    size: float = 4.5,
    zorder: float = 3.5,
) -> None:
    """Draw hollow points over those that stand for a selection of the datasets."""
    if is_selected.any():
        axes.plot(
            x[is_selected],
            y[is_selected],
            ls="none",
            marker=marker,
            ms=size + 1.5,
            mfc="white",
            mec=color,
            mew=1.3,
            zorder=zorder,
            gid=SELECTED,
        )


def mark_edge(
    axes: Axes,
    x: Float[np.ndarray, " points"],
    edge: Edge,
    color: str,
) -> None:
    """Draw triangles at the upper edge for infinite numbers, at the lower one for no logarithm."""
    if x.size:
        axes.plot(
            x,
            np.full(x.size, 1.0 if edge == TOP else 0.0),
            ls="none",
            marker=_SYMBOLS[edge],
            ms=7.0,
            color=color,
            mec="white",
            mew=0.5,
            transform=axes.get_xaxis_transform(),
            clip_on=False,
            zorder=4.0,
            gid=edge,
        )


def note(axes: Axes, text: str) -> None:
    """Let the legend say something of what the axes do not show."""
    axes.add_line(Line2D([], [], ls="none", label=f"_{text}", gid=NOTE))


def meanings(axes: Axes) -> tuple[list[Line2D], list[str]]:
    """Return what a legend says of the marks that the axes show, and the notes."""
    shown = {line.get_gid() for line in axes.lines}
    used = [mark for mark in MEANINGS if mark in shown]
    handles = [
        Line2D([], [], ls="none", marker=_SYMBOLS[m], ms=6.0, mec="0.3", mew=1.2, mfc="white")
        if m == SELECTED
        else Line2D([], [], ls="none", marker=_SYMBOLS[m], ms=6.0, color="0.3")
        for m in used
    ]
    notes = [str(line.get_label())[1:] for line in axes.lines if line.get_gid() == NOTE]
    handles += [Line2D([], [], ls="none") for _ in notes]
    return handles, [*(MEANINGS[m] for m in used), *notes]
