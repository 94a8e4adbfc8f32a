"""Ticks of logarithmic axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

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
