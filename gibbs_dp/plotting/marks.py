"""Marks of estimates: error bars, and numbers that are less than they seem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.lines import Line2D

from gibbs_dp.engine.quantity import Style

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


# Estimates with 95% intervals on logarithmic and linear axes.

Numbers = Float[np.ndarray, " points"]
# Sizes of markers: on a line, and of a second route, which a line's marker fits into.
ON_LINE, SECOND = 4.0, 8.0


@dataclass(frozen=True)
class Points:
    """A column over gamma.

    Parameters
    ----------
    x, value
        Where, and the estimates; NaN for none.
    low, high
        Ends of 95% intervals; NaN for none.
    is_selected
        Which of them stand for a selection of the datasets, as some failed.
    """

    x: Numbers
    value: Numbers
    low: Numbers
    high: Numbers
    is_selected: Bool[np.ndarray, " points"]


def draw_estimate(axes: Axes, points: Points, style: Style) -> None:
    """Draw a line with a band, or bare points with error bars, as the style says.

    A single point has an error bar in any case. Infinite numbers are marks at the upper edge; on
    a logarithmic axis, those that are not above zero are marks at the lower edge.

    Parameters
    ----------
    axes
        Their scales are set already.
    points
        What to draw.
    style
        How.
    """
    is_log = axes.get_yscale() == "log"
    x, value = points.x, points.value
    shown = np.isfinite(value) & ((value > 0) | (not is_log))
    is_marked = style.is_points or shown.sum() == 1
    order = 2.0 if style.is_points else 3.0
    size = SECOND if style.is_points else ON_LINE
    axes.plot(
        x[shown],
        value[shown],
        ls="none" if style.is_points else style.line,
        marker=style.marker,
        ms=size,
        mew=0.0,
        color=style.color,
        label=style.label,
        zorder=order,
    )
    low, high = points.low, points.high
    if is_log:  # an interval that reaches zero has no lower end here: a decade below the value
        low = np.where(shown, np.maximum(low, 0.1 * value), low)
    has_ends = np.isfinite(low) & np.isfinite(high)
    if is_marked:
        _draw_bars(axes, points, low, shown & has_ends, style.color, order)
    elif (shown & has_ends).any():
        x_band, ends = x[shown & has_ends], (low[shown & has_ends], high[shown & has_ends])
        axes.fill_between(x_band, *ends, color=style.color, alpha=0.2, lw=0, zorder=1.5)
    selected = points.is_selected & shown
    mark_selected(axes, x, value, selected, style.color, style.marker, size, order + 0.5)
    mark_edge(axes, x[value == np.inf], TOP, style.color)
    if is_log:
        mark_edge(axes, x[value <= 0], BOTTOM, style.color)


def _draw_bars(
    axes: Axes,
    points: Points,
    low: Numbers,
    shown: Bool[np.ndarray, " points"],
    color: str,
    order: float,
) -> None:
    if not shown.any():
        return
    value = points.value[shown]
    lengths = np.stack([value - low[shown], points.high[shown] - value])
    axes.errorbar(
        points.x[shown],
        value,
        np.maximum(lengths, 0.0),
        ls="none",
        color=color,
        lw=1.2,
        zorder=order - 0.1,
    )
