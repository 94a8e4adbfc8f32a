"""Hollow points: numbers that stand for a selection of the datasets, as some of them failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.lines import Line2D

from gibbs_dp.auditing.plotted import Plotted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# What legends call a hollow point.
LABEL = "hollow: some datasets failed, a biased selection"
_GID = "selection"


def selected_rows(report: Plotted, name: str) -> Bool[np.ndarray, " gammas"]:
    """At which gammas a column is a mean over fewer datasets than were drawn.

    Columns without an error are no means over datasets.

    Examples
    --------
    >>> from gibbs_dp.auditing.report import Report
    >>> rows = [{"gamma": g, "on_average_kl": 1.0, "on_average_kl_se": 0.1} for g in (1.0, 2.0)]
    >>> selected_rows(Report((rows[0], rows[1] | {"failed_datasets": 3}), {}), "on_average_kl")
    array([False,  True])
    """
    if f"{name}_se" not in report.columns:
        return np.zeros(len(report), bool)
    found = np.array([row.get("failed_datasets", 0) > 0 for row in report.rows])
    for i, values in enumerate(report.per_dataset):
        if name in values:  # estimates fail one by one
            found[i] = bool(np.isnan(values[name][: _drawn(report, i)]).any())
    return found


def _drawn(report: Plotted, i: int) -> int | None:
    """Datasets of one row: what was saved is padded to the longest."""
    row = report.rows[i]
    if "num_datasets" not in row or "failed_datasets" not in row:
        return None
    return int(row["num_datasets"] + row["failed_datasets"])


def mark_selected(
    axes: Axes,
    x: Float[np.ndarray, " points"],
    y: Float[np.ndarray, " points"],
    is_selected: Bool[np.ndarray, " points"],
    color: str,
    marker: str,
    size: float = 4.0,
) -> None:
    """Draw hollow points over those that stand for a selection."""
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
            zorder=3.5,
            gid=_GID,
        )


def explained(axes: Axes) -> tuple[list[Any], list[str]]:
    """Return handles and labels of the legend, with what hollow points are where there are any."""
    handles, labels = axes.get_legend_handles_labels()
    if any(line.get_gid() == _GID for line in axes.lines):
        point = Line2D([], [], ls="none", marker="o", ms=5.5, mfc="white", mec="0.3", mew=1.3)
        return [*handles, point], [*labels, LABEL]
    return handles, labels
