"""Names of curves at their right ends."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
