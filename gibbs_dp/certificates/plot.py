"""The picture of a certificate: bounds over gamma, and the empirical risk below them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gibbs_dp.certificates.shown import BOUNDS, probability
from gibbs_dp.results import plotting
from gibbs_dp.results.plotting import BLACK, BLUE, GREEN, ORANGE, VERMILION

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE = (6.4, 4.8)
LINES = dict(zip(BOUNDS, ((VERMILION, "o"), (ORANGE, "v"), (BLUE, "s"), (GREEN, "^")), strict=True))


def plot_certificate(
    rows: Sequence[Mapping[str, float]], settings: Mapping[str, Any], title: str | None
) -> Figure:
    """Draw four bounds, the certificate thicker, and the empirical risk."""
    name = settings["bound"]
    figure, axes = plotting.one_panel(
        SIZE,
        f"probability {probability(settings['delta'])}" if title is None else title,
        "gamma",
        "risk (units of the loss)",
    )
    x = np.array([row["gamma"] for row in rows])
    with plotting.styled():
        axes.set_xscale("log")
        for bound, (color, marker) in LINES.items():
            label = f"{bound} (the certificate)" if bound == name else bound
            y = [row[bound] for row in rows]
            width = 2.4 if bound == name else 1.2
            axes.plot(x, y, color=color, marker=marker, ms=4.0, lw=width, label=label)
        risk = np.array([row["empirical_risk"] for row in rows])
        error = 1.96 * np.array([row["empirical_risk_se"] for row in rows])
        axes.plot(x, risk, color=BLACK, ls="--", marker="d", ms=4.0, label="empirical risk")
        if (error > 0).any():
            axes.errorbar(x, risk, error, ls="none", color=BLACK, lw=1.0)
        best = min(rows, key=lambda row: row[name])
        axes.axvline(best["gamma"], color=VERMILION, lw=1.0, ls=":", label="least certificate")
        plotting.tidy_logs(axes)
        plotting.legend_below(axes, columns=2)
    return figure
