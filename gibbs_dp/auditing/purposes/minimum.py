"""The gamma at which a column of audits is least, from datasets that all gammas share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from gibbs_dp._cautions import Warned
from gibbs_dp.auditing.purposes.result import (
    FLAT_CURVE,
    MINIMUM_AT_END,
    CurvePoint,
    PurposeCalibration,
    Z,
    interval,
)
from gibbs_dp.auditing.purposes.root import Sweep
from gibbs_dp.auditing.report import Report

# Half decades: between two of them a risk is smooth on a logarithmic scale.
GAMMAS = tuple(float(g) for g in np.geomspace(1e-3, 1e3, 13))
# Points of the finer grid between the neighbours of the least, the degree of the polynomial that
# is fitted to them in log gamma, and how often the grid is moved.
FINE, DEGREE, ROUNDS = 7, 3, 2

Values = Float[np.ndarray, "datasets gammas"]


class Curve:
    """A column at the gammas looked at so far, dataset by dataset."""

    def __init__(self, sweep: Sweep, column: str, argument: str) -> None:
        self._sweep, self._column, self._argument = sweep, column, argument
        self._values: dict[float, Float[np.ndarray, " datasets"]] = {}
        self._warnings: dict[str, None] = {}
        self.report: Report | None = None

    def look(self, gammas: Sequence[float]) -> None:
        """Audit gammas that are new."""
        new = [g for g in gammas if g not in self._values]
        if not new:
            return
        self.report = self._sweep(new)
        self._warnings |= dict.fromkeys(self.report.warnings)
        for gamma, values in zip(new, self.report.per_dataset, strict=True):
            if self._column not in values:
                raise ValueError(
                    f"{self._argument}: the audit at gamma={gamma:g} has no {self._column} of "
                    "single datasets; its settings must not leave it out."
                )
            self._values[gamma] = np.asarray(values[self._column], np.float64)

    @property
    def gammas(self) -> list[float]:
        """All that were looked at."""
        return sorted(self._values)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Of all audits."""
        return tuple(self._warnings)

    def at(self, gammas: Sequence[float]) -> Values:
        """Values of the datasets that have one at all these gammas."""
        count = min(self._values[g].size for g in gammas)
        whole = np.stack([self._values[g][:count] for g in gammas], axis=1)
        return whole[np.isfinite(whole).all(axis=1)]

    def points(self) -> tuple[CurvePoint, ...]:
        """Means and standard errors, each over the datasets of its gamma."""
        found = []
        for gamma in self.gammas:
            values = self.at([gamma])[:, 0]
            se = values.std(ddof=1) / math.sqrt(values.size)
            found.append(CurvePoint(gamma, float(values.mean()), float(se)))
        return tuple(found)

    def least(self) -> float:
        """Gamma of the smallest mean."""
        gammas = self.gammas
        return gammas[int(np.argmin(self.at(gammas).mean(axis=0)))]

    def as_good(self, best: float) -> tuple[float, float]:
        """Return the ends of the gammas around the best whose values are not told from its."""
        gammas = self.gammas
        values = self.at(gammas)
        excess = values - values[:, [gammas.index(best)]]
        error = excess.std(axis=0, ddof=1) / math.sqrt(len(excess))
        is_good = excess.mean(axis=0) <= Z * error
        low = high = gammas.index(best)
        while low > 0 and is_good[low - 1]:
            low -= 1
        while high < len(gammas) - 1 and is_good[high + 1]:
            high += 1
        return gammas[low], gammas[high]


class Minimum(NamedTuple):
    """The least point of a polynomial through a mean curve, and what its datasets say of it."""

    place: float
    place_se: float
    value: float
    value_se: float
    is_curved: bool


def fitted_minimum(x: Float[np.ndarray, " gammas"], values: Values) -> Minimum:
    """Fit a cubic to every dataset's values; minimize their mean; errors by first order.

    A least point moves by minus a dataset's slope there over the mean curvature: the standard error
    is that of the mean of the datasets' slopes, over the curvature.
    """
    center, half = 0.5 * (x[0] + x[-1]), 0.5 * (x[-1] - x[0])
    powers = np.vander((x - center) / half, DEGREE + 1, increasing=True)
    each = values @ np.linalg.pinv(powers).T  # coefficients, a row a dataset
    t, root = _least_point(each.mean(axis=0)), math.sqrt(len(values))
    if not abs(t) <= 1:
        return Minimum(center, math.nan, math.nan, math.nan, False)
    basis = np.array([t**k for k in range(DEGREE + 1)])
    slope = np.array([k * t ** (k - 1) if k else 0.0 for k in range(DEGREE + 1)])
    bend = np.array([k * (k - 1) * t ** (k - 2) if k > 1 else 0.0 for k in range(DEGREE + 1)])
    curvature = (each @ bend).mean()
    is_curved = bool(curvature > 2 * (each @ bend).std(ddof=1) / root)
    return Minimum(
        place=center + half * t,
        place_se=float(half * (each @ slope).std(ddof=1) / root / curvature),
        value=float((each @ basis).mean()),
        value_se=float((each @ basis).std(ddof=1) / root),
        is_curved=is_curved,
    )


def _least_point(c: Float[np.ndarray, " powers"]) -> float:
    """Return where a cubic has its minimum; NaN where it has none.

    The formula that loses no digits when the cubic is nearly a parabola.
    """
    inner = float(4 * c[2] ** 2 - 12 * c[1] * c[3])
    if inner < 0 or (c[2] <= 0 and c[3] == 0):
        return math.nan
    bend = math.sqrt(inner)
    if c[2] > 0:
        return float(-2 * c[1] / (2 * c[2] + bend))
    return float((bend - 2 * c[2]) / (6 * c[3]))


def calibrate_lowest(
    sweep: Sweep, gammas: Sequence[float] | None = None, column: str = "population_risk"
) -> PurposeCalibration:
    """Find the gamma at which a risk is least."""
    grid = sorted({float(g) for g in (GAMMAS if gammas is None else gammas)})
    if len(grid) < 3 or not grid[0] > 0:
        raise ValueError("gammas: give at least three different ones above 0, to look between.")
    curve = Curve(sweep, column, "lowest")
    curve.look(grid)
    what = column.replace("_", " ")
    best = curve.least()
    if best in (grid[0], grid[-1]):
        low, high = curve.as_good(best)
        told = MINIMUM_AT_END(what=what, gamma=best, low=grid[0], high=grid[-1])
        return _unresolved(curve, column, best, (low, high), told)
    place = grid.index(best)
    width = math.log(grid[place + 1] / grid[place - 1]) / 2
    center, found = math.log(best), None
    for _ in range(ROUNDS):
        x = np.linspace(center - width, center + width, FINE)
        x = x[(x > math.log(grid[0]) - 1e-9) & (x < math.log(grid[-1]) + 1e-9)]
        fine = [float(g) for g in np.exp(x)]
        curve.look(fine)
        found = fitted_minimum(x, curve.at(fine))
        if not found.is_curved:
            break
        center = found.place
    assert found is not None
    if not found.is_curved:
        best = curve.least()
        low, high = curve.as_good(best)
        told = FLAT_CURVE(what=what, gamma=best, low=low, high=high)
        return _unresolved(curve, column, best, (low, high), told)
    gamma = math.exp(found.place)
    return PurposeCalibration(
        column,
        gamma,
        gamma * found.place_se,
        *interval(gamma, gamma * found.place_se),
        found.value,
        found.value_se,
        curve.points(),
        curve.warnings,
        curve.report,
    )


def _unresolved(
    curve: Curve, column: str, best: float, ends: tuple[float, float], told: Warned
) -> PurposeCalibration:
    point = next(p for p in curve.points() if p.gamma == best)
    warnings = (told, *curve.warnings)
    return PurposeCalibration(
        column, best, math.nan, *ends, point.value, point.se, curve.points(), warnings, curve.report
    )
