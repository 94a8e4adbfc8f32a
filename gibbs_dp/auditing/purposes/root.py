"""The gamma at which a column of audits reaches a goal."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from gibbs_dp.auditing.purposes.result import CurvePoint
from gibbs_dp.auditing.report import Report

Sweep = Callable[[Sequence[float]], Report]
Known = dict[float, tuple[float, float]]

# First grid of gammas, then decades beyond it where the target is not inside.
FIRST_GRID = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
MAX_DECADES = 9
MAX_STEPS = 12
# Ratio of gammas over which the curve's slope is taken.
SECANT = 1.3


class Root(NamedTuple):
    """Where a column reaches its goal.

    Attributes
    ----------
    gamma, gamma_se
        Inverse temperature and its standard error: that of the estimate over the slope of the
        curve, to first order.
    value, value_se
        The column there.
    report
        The last audit, at that gamma.
    warnings
        Of every audit on the way.
    curve
        The column at every gamma that was looked at.
    """

    gamma: float
    gamma_se: float
    value: float
    value_se: float
    report: Report
    warnings: tuple[str, ...]
    curve: tuple[CurvePoint, ...]


def find_root(
    sweep: Sweep, column: str, goal: float, argument: str, *, levels_off: bool = False
) -> Root:
    """Find gamma by root finding on a sweep."""
    known: Known = {}
    warnings: dict[str, None] = {}

    def look(gammas: Sequence[float]) -> Report:
        report = sweep(gammas)
        warnings.update(dict.fromkeys(report.warnings))
        for row in report.rows:
            if column not in row or f"{column}_se" not in row:
                raise ValueError(
                    f"{argument}: the audit at gamma={row['gamma']:g} has no column {column}; its "
                    "settings must not leave it out."
                )
            known[row["gamma"]] = (row[column], row[f"{column}_se"])
        return report

    look(FIRST_GRID)
    low, high = _bracket(look, known, goal, argument)
    for _ in range(MAX_STEPS):
        gamma = _interpolate(low, high, known, goal)
        report = look([gamma])
        value, error = known[gamma]
        # Nearer to the goal than a tenth of its own error an estimate cannot be improved.
        if abs(value - goal) <= max(0.1 * error, 1e-6 * goal):
            break
        low, high = (gamma, high) if value < goal else (low, gamma)
    else:
        raise ValueError(
            f"num_datasets: the estimates do not settle around gamma={gamma:g} (the curve is too "
            "noisy there); raise it."
        )
    if levels_off:
        look([gamma / SECANT, gamma * SECANT])
    return Root(
        gamma=gamma,
        gamma_se=gamma * error / (value * _slope(gamma, known)),
        value=value,
        value_se=error,
        report=report,
        warnings=tuple(warnings),
        curve=tuple(CurvePoint(g, *known[g]) for g in sorted(known)),
    )


def _bracket(
    look: Callable[[Sequence[float]], Report], known: Known, goal: float, argument: str
) -> tuple[float, float]:
    """Two neighbouring gammas whose estimates enclose the goal, widening by decades."""
    for _ in range(MAX_DECADES):
        ordered = sorted(known)
        for low, high in itertools.pairwise(ordered):
            if 0 < known[low][0] <= goal <= known[high][0]:
                return low, high
        look([10 * ordered[-1]] if known[ordered[-1]][0] < goal else [0.1 * ordered[0]])
    least, most = (known[g][0] for g in (min(known), max(known)))
    raise ValueError(
        f"{argument}: {goal:g} a draw is not reached (gamma from {min(known):g} to "
        f"{max(known):g} gives {least:.3g} to {most:.3g}); choose a target in between."
    )


def _interpolate(low: float, high: float, known: Known, goal: float) -> float:
    """On the line through two points in logarithms, well inside the interval."""
    share = math.log(goal / known[low][0]) / math.log(known[high][0] / known[low][0])
    share = min(max(share, 0.02), 0.98)
    return float(low * (high / low) ** share)


def _slope(gamma: float, known: Known) -> float:
    """Logarithmic slope between the nearest points that noise cannot tilt: well apart."""
    low = max(g for g in known if g <= gamma / SECANT * (1 + 1e-9))
    high = min(g for g in known if g >= gamma * SECANT * (1 - 1e-9))
    return math.log(known[high][0] / known[low][0]) / math.log(high / low)
