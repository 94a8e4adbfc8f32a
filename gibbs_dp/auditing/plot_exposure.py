"""The picture of what rows of a table cost: KL and advantage of each, most exposed first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gibbs_dp.results import plotting
from gibbs_dp.results.plotting import BLUE, GREEN, VERMILION

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE = (9.0, 4.6)
# Above so many rows, markers are small and without error bars.
MANY = 400
PANELS = {
    "on_average_kl": ("on-average KL", "on-average KL (nats)", BLUE),
    "advantage": ("attacker's advantage", "total variation", GREEN),
}


def plot_exposure(frame: pd.DataFrame, title: str | None) -> Figure:
    """Draw both figures of every row over its rank.

    Parameters
    ----------
    frame
        Of one gamma, as ``Report.exposure`` has it.
    title
        Of the figure.

    Returns
    -------
    Figure
        Two panels beside each other.
    """
    figure, grid = plotting.panels(SIZE, columns=2)
    with plotting.styled():
        for axes, name in zip(grid[0], PANELS, strict=True):
            _draw(axes, frame, name)
        if title is not None:
            figure.suptitle(title)
    return figure


def _draw(axes: Axes, frame: pd.DataFrame, name: str) -> None:
    heading, label, color = PANELS[name]
    known = frame[np.isfinite(frame[name])]
    rank, values = known["rank"].to_numpy(float), known[name].to_numpy()
    is_few = rank.size <= MANY
    axes.set_yscale("log")
    shown = values > 0
    plotting.mark_edge(axes, rank[~shown], "not positive", color)
    if is_few:
        high = np.nan_to_num(known[f"{name}_high"].to_numpy() - values)
        low = np.minimum(np.nan_to_num(values - known[f"{name}_low"].to_numpy()), 0.9 * values)
        bars = np.stack([low, high])[:, shown]
        axes.errorbar(rank[shown], values[shown], bars, ls="none", color=color, lw=1.0, alpha=0.5)
    axes.plot(
        rank[shown],
        values[shown],
        ls="none",
        marker="o",
        ms=4.0 if is_few else 2.0,
        mew=0.0,
        color=color,
        label="each row" + (", 95% intervals" if is_few else ""),
    )
    mean = float(values.mean()) if values.size else 0.0
    if mean > 0:
        axes.axhline(mean, color=VERMILION, lw=1.5, label="mean of the rows")
    axes.set(title=heading, xlabel="rank, by the other half of the datasets", ylabel=label)
    plotting.tidy_logs(axes)
    plotting.legend_below(axes)
