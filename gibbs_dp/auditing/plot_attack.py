"""The picture of the average attacker: ROC with bands, and what the worst case allows over it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gibbs_dp.auditing.attack import curve_with_errors, profiles
from gibbs_dp.auditing.plotted import Plotted
from gibbs_dp.results.plotting import COLORS, Picture, legend_below, literal, panels, styled

if TYPE_CHECKING:
    pass

SIZE = (8.6, 4.6)
# Curves that one picture tells apart.
MOST_CURVES = 5
LEAST_FPR = 1e-3
POINTS = 65
# Above it the exponential is no float; everything is allowed long before.
LARGEST_EPSILON = 700.0


@styled()
def plot_attack(
    report: Plotted, gammas: Sequence[float] | None = None, title: str | None = None
) -> Picture:
    """Draw pooled ROCs of some gammas, on linear axes and on logarithmic ones; see `Report`."""
    known = dict(profiles(report))
    chosen = _chosen(list(known), gammas)
    figure, grid = panels(SIZE, columns=2)
    left, right = grid[0]
    epsilons = {row["gamma"]: row.get("dp_epsilon") for row in report.rows}
    releases = int(report.settings.get("num_releases", 1))
    low = np.concatenate([[0.0], np.geomspace(LEAST_FPR / 10, 1.0, POINTS)])
    for axes, fpr in (
        (left, np.unique(np.append(low, np.linspace(0, 1, POINTS)))),
        (right, low[1:]),
    ):
        for color, gamma in zip(COLORS, chosen, strict=False):
            found = np.array(curve_with_errors(known[gamma], fpr))
            value, half = found[:, 0], 1.96 * found[:, 1]
            axes.plot(fpr, value, color=color, label=f"gamma = {gamma:g}")
            axes.fill_between(
                fpr, np.maximum(value - half, fpr), value + half, color=color, alpha=0.2, lw=0
            )
            epsilon = epsilons.get(gamma)
            if epsilon is not None and math.isfinite(epsilon):
                axes.plot(fpr, _allowed(fpr, releases * epsilon), color=color, ls="--", lw=1)
        axes.plot(fpr, fpr, color="0.6", lw=1, ls=":", label="guessing")
        axes.set(xlabel="false positive rate", ylabel="true positive rate")
    if any(e is not None and math.isfinite(e) for e in map(epsilons.get, chosen)):
        left.plot([], [], color="0.3", ls="--", lw=1, label="most that DP epsilon allows")
    left.set(xlim=(0, 1), ylim=(0, 1))
    right.set(xscale="log", yscale="log", xlim=(LEAST_FPR, 1), ylim=(LEAST_FPR, 1.1))
    left.set_title("one draw, everyone else known")
    right.set_title("few false alarms")
    legend_below(left)
    size = f", n = {report.settings['n']}" if "n" in report.settings else ""
    default = f"what an attacker sees: {report.settings.get('loss', 'Gibbs posterior')}{size}"
    figure.suptitle(title or literal(default))
    return figure


def _allowed(fpr: np.ndarray, epsilon: float) -> np.ndarray:
    """Largest true positive rate under pure DP (Kairouz, Oh & Viswanath 2015, Theorem 2.1)."""
    factor = np.exp(min(epsilon, LARGEST_EPSILON))
    return np.asarray(np.minimum(1.0, np.minimum(factor * fpr, 1 - (1 - fpr) / factor)))


def _chosen(known: list[float], asked: Sequence[float] | None) -> list[float]:
    if asked is None:
        places = np.unique(np.linspace(0, len(known) - 1, min(len(known), MOST_CURVES)).round())
        return [known[int(i)] for i in places]
    found = [next((g for g in known if math.isclose(g, a, rel_tol=1e-6)), None) for a in asked]
    if not found or any(g is None for g in found):
        told = ", ".join(f"{g:g}" for g in known)
        raise ValueError(f"gammas: choose some of the report's, {told}, got {list(asked)!r}.")
    if len(found) > len(COLORS):
        raise ValueError(f"gammas: at most {len(COLORS)} are told apart, got {len(found)}.")
    return [g for g in found if g is not None]
