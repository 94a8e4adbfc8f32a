"""Axes: ticks of logarithms, legends, and labels that keep apart."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter
from matplotlib.transforms import ScaledTranslation

from gibbs_dp.plotting.marks import meanings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure


# Below so many decades, powers of ten alone are too few ticks.
FEW_DECADES = 1.7
LEAST_SPAN = 10.0


def tidy_logs(axes: Axes) -> None:
    """Give logarithmic axes of few decades ticks at 1, 2 and 5, and no labels between ticks.

    A single point on the horizontal axis is its only tick. The vertical axis is widened to a
    decade.

    Parameters
    ----------
    axes
        With their data.
    """
    places = _places(axes)
    if axes.get_xscale() == "log" and places.size == 1:
        axes.set_autoscalex_on(False)  # which complains of a single point
        axes.set_xlim(places[0] / 3.0, places[0] * 3.0)
        axes.set_xticks(places, [f"{places[0]:g}"])
        axes.xaxis.set_minor_formatter(NullFormatter())
    elif axes.get_xscale() == "log":
        _tidy(axes.xaxis, axes.get_xlim())
    if axes.get_yscale() == "log":
        low, high = axes.get_ylim()
        if high < LEAST_SPAN * low:
            wider = float(np.sqrt(LEAST_SPAN * low / high))
            axes.set_ylim(low / wider, high * wider)
        _tidy(axes.yaxis, axes.get_ylim())


def _places(axes: Axes) -> Float[np.ndarray, " places"]:
    """Where on the horizontal axis lines have points."""
    drawn = [
        np.asarray(line.get_xdata(), float)
        for line in axes.lines
        if line.get_transform().contains_branch_seperately(axes.transData)[0]
    ]
    x = np.concatenate([*drawn, np.zeros(0)])
    return np.unique(x[np.isfinite(x)])


def _tidy(axis: Axis, limits: tuple[float, float]) -> None:
    axis.set_minor_formatter(NullFormatter())
    if np.log10(limits[1] / limits[0]) < FEW_DECADES:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))


# Legends beside the data, never on it.

# Points between the axes and a legend below them: ticks, their labels and the axis' label.
BELOW = 38.0
# Letters of a line of a legend below one of two panels.
LETTERS = 42


def explained(axes: Axes) -> tuple[list[Any], list[str]]:
    """Return handles and labels of a legend, with the meaning of every mark that is there."""
    handles, labels = axes.get_legend_handles_labels()
    marks, texts = meanings(axes)
    return [*handles, *marks], [*labels, *texts]


def legend_below(axes: Axes, columns: int = 1, of: Axes | None = None) -> None:
    """Put the legend below the axes, from their left edge on.

    Parameters
    ----------
    axes
        Where.
    columns
        Of the legend.
    of
        Axes with the labelled artists, if they are others.
    """
    handles, labels = explained(of or axes)
    if not handles:
        return
    down = ScaledTranslation(0.0, -BELOW / 72, axes.figure.dpi_scale_trans)
    axes.legend(
        handles,
        [textwrap.fill(label, LETTERS) for label in labels],
        loc="upper left",
        bbox_to_anchor=(0.0, 0.0),
        bbox_transform=axes.transAxes + down,
        ncols=columns,
    )


def legend_of_figure(figure: Figure, panels: Iterable[Axes], columns: int = 2) -> None:
    """Put one legend of several panels below all of them; equal texts once.

    Parameters
    ----------
    figure
        Of constrained layout.
    panels
        Axes with labelled artists.
    columns
        Of the legend.
    """
    entries: dict[str, Any] = {}
    marks: dict[str, Any] = {}
    for axes in panels:
        handles, labels = axes.get_legend_handles_labels()
        entries |= dict(zip(labels, handles, strict=True)) | entries
        drawn, texts = meanings(axes)
        marks |= dict(zip(texts, drawn, strict=True))
    entries |= marks
    if entries:
        figure.legend(
            list(entries.values()), list(entries), loc="outside lower center", ncols=columns
        )


# Names of curves at their right ends.


def label_ends(
    axes: Axes,
    ends: Sequence[tuple[str, float, str]],
    x: float,
    gap: float = 0.05,
) -> None:
    """Write names beside the right ends of curves, moved apart where they would overlap.

    Parameters
    ----------
    axes
        With all that they show.
    ends
        Name, height of the end on the axes' scale, and colour of each curve.
    x
        Where the curves end, on the axes' scale.
    gap
        Least distance of two names, as a share of the axes' height.
    """
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


def moved_apart(
    heights: Float[np.ndarray, " names"], gap: float, steps: int = 200
) -> Float[np.ndarray, " names"]:
    """Return heights of which no two are closer than a gap, near those that are given.

    Groups that are too close are spread evenly about their mean, until none is; they stay between
    0 and 1 where there is room.

    Examples
    --------
    >>> moved_apart(np.array([0.5, 0.5, 0.9]), 0.1).round(3)
    array([0.45, 0.55, 0.9 ])
    """
    order = np.argsort(heights, kind="stable")
    groups = [[float(h)] for h in heights[order]]
    for _ in range(steps):
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
