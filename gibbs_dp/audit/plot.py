"""The picture of an audit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gibbs_dp.audit.report import Report

# One look a quantity, in every figure of the package (Okabe-Ito colours).
STYLES = {
    "dp_epsilon": ("DP epsilon (worst case)", "#D55E00", "--", "s"),
    "on_average_kl": ("on-average KL (direct)", "#0072B2", "-", "o"),
    "on_average_kl_ghost": ("gamma x generalization error", "#56B4E9", ":", "D"),
    "excess_risk": ("excess risk", "#009E73", "-", "^"),
}


def plot_report(report: Report) -> Figure:
    """Draw DP epsilon, on-average KL, gamma times gen and excess risk over gamma; log-log."""
    figure = Figure(figsize=(7.0, 5.0), layout="constrained")
    axes = figure.add_subplot()
    draw_report(axes, report)
    return figure


def draw_report(axes: Axes, report: Report, title: str | None = None) -> None:
    """Draw a report on given axes."""
    gamma = report["gamma"]
    shown = gamma > 0  # gamma = 0 is the prior: no place on a logarithmic axis
    for name, (label, color, line, marker) in STYLES.items():
        if name not in report.columns:
            continue
        value = report[name].astype(float)
        good = shown & np.isfinite(value) & (value > 0)
        if not good.any():
            continue
        axes.plot(gamma[good], value[good], line, color=color, marker=marker, ms=4, label=label)
        if f"{name}_se" in report.columns:
            half = 1.96 * report[f"{name}_se"][good].astype(float)
            # A band that reaches zero has no bottom on this axis; cut it a decade below.
            low = np.maximum(value[good] - half, 0.1 * value[good])
            axes.fill_between(
                gamma[good], low, value[good] + half, color=color, alpha=0.2, linewidth=0
            )
    axes.set(xscale="log", yscale="log", xlabel="gamma (inverse temperature)")
    axes.set_ylabel("nats (privacy), loss (risk)")
    n = report.settings.get("n")
    axes.set_title(title or f"{report.settings.get('loss', 'Gibbs posterior')}, n = {n}")
    axes.grid(which="major", alpha=0.3)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=9)
