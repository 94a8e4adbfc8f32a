"""The gamma at which a column of audits reaches a goal, or is least."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float

from gibbs_dp._cautions import Warned, last_of_each
from gibbs_dp.auditing.report import Report
from gibbs_dp.auditing.report_data import FLAT_CURVE, MINIMUM_AT_END, NEAR_CERTAINTY
from gibbs_dp.estimators.average import LIMIT_Z
from gibbs_dp.information import checks
from gibbs_dp.results.table import (
    MOST_LINES,
    Heading,
    TextTable,
    block,
    counted,
    remarks,
    with_error,
)

if TYPE_CHECKING:
    import pandas as pd


class CurvePoint(NamedTuple):
    """An estimate at one gamma, and its standard error over datasets."""

    gamma: float
    value: float
    se: float


NO_GUARANTEE = "an average over the population is no guarantee for any person."
# What is calibrated: its title, and what is to be noted of it.
KINDS = {
    "on_average_kl": ("on-average KL", NO_GUARANTEE),
    "attack_advantage": ("on-average advantage of the best attacker", NO_GUARANTEE),
    "population_risk": (
        "population risk",
        "an average over datasets; the least gamma of one dataset may differ.",
    ),
}


@dataclass(frozen=True)
class AverageCalibration:
    """The gamma of a target on average, or of the least risk, as well as it is known.

    It is of an average over the population, no guarantee for any one person or dataset.

    Parameters
    ----------
    purpose
        "on_average_kl", "attack_advantage" or "population_risk".
    gamma, gamma_se
        Inverse temperature and its standard error, to first order; NaN where a least gamma is not
        resolved.
    gamma_low, gamma_high
        95% interval of gamma. Where a least gamma is not resolved: the gammas looked at whose risk
        is not told from the least one's, and all beyond the end where that one is.
    value, value_se
        The quantity of the purpose there, of all ``num_draws`` draws together: on-average KL
        (nats), an advantage (a probability) or a risk (units of the loss); its standard error over
        datasets.
    curve
        The same at every gamma that was looked at.
    warnings
        Of the audits on the way, each kind once: at the gamma that was looked at last.
    report
        The last audit.
    num_draws
        Independent draws that are released together.
    """

    purpose: str
    gamma: float
    gamma_se: float
    gamma_low: float
    gamma_high: float
    value: float
    value_se: float
    curve: tuple[CurvePoint, ...] = field(repr=False)
    warnings: tuple[str, ...]
    report: Report | None = field(repr=False)
    num_draws: int = 1

    def to_dataframe(self) -> pd.DataFrame:
        """Return the curve, indexed by gamma."""
        import pandas as pd  # slow to import

        return pd.DataFrame(list(self.curve)).set_index("gamma")

    def __repr__(self) -> str:
        told = f", {counted(len(self.warnings), 'warning')}" if self.warnings else ""
        return f"AverageCalibration({self._head()}{told})"

    def _repr_html_(self) -> str:
        title, note = KINDS[self.purpose]
        named = [("WARNING", text) for text in self.warnings] + [("note", note)]
        headings = [Heading(name) for name in ("gamma", title)]
        rows = [[f"{p.gamma:.4g}", _with_se(p.value, p.se)] for p in self.curve[:MOST_LINES]]
        table = TextTable(headings, rows, len(self.curve) - MOST_LINES, "gammas")
        return block(self._head(), remarks(named), table)

    def _head(self) -> str:
        if math.isfinite(self.gamma_se) and self.gamma_se > 0:
            gamma = with_error(self.gamma, self.gamma_se)
        else:
            gamma = f"{self.gamma:.4g} (between {self.gamma_low:.4g} and {self.gamma_high:.4g})"
        told = f"{KINDS[self.purpose][0]} of {counted(self.num_draws, 'draw')}"
        unit = " nats" if self.purpose == "on_average_kl" else ""
        return f"gamma={gamma}, {told} {_with_se(self.value, self.value_se)}{unit}"


def _with_se(value: float, se: float) -> str:
    return with_error(value, se) if se > 0 else f"{value:.4g}"


def interval(gamma: float, gamma_se: float) -> tuple[float, float]:
    """95% interval of gamma on a logarithmic scale."""
    factor = math.exp(min(LIMIT_Z * gamma_se / gamma, 700.0))
    return gamma / factor, gamma * factor


Sweep = Callable[[Sequence[float]], Report]
Known = dict[float, tuple[float, float]]

# First grid of gammas, then decades beyond it where the target is not inside.
FIRST_GRID = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
MAX_DECADES = 9
MAX_STEPS = 12
# Ratio of gammas over which the curve's slope is taken.
SECANT = 1.3


def find_root(
    sweep: Sweep, column: str, goal: float, purpose: str, *, levels_off: bool = False
) -> AverageCalibration:
    """Find the gamma at which a growing column is at a goal; its error by the slope."""
    known: Known = {}
    warnings: list[str] = []

    def look(gammas: Sequence[float]) -> Report:
        report = sweep(gammas)
        warnings.extend(report.warnings)
        for row in report.rows:
            if column not in row or f"{column}_se" not in row:
                raise ValueError(
                    f"{purpose}: the audit at gamma={row['gamma']:g} has no column {column}; its "
                    "settings must not leave it out."
                )
            known[row["gamma"]] = (row[column], row[f"{column}_se"])
        return report

    look(FIRST_GRID)
    low, high = _bracket(look, known, goal, purpose)
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
    gamma_se = gamma * error / (value * _slope(gamma, known))
    return AverageCalibration(
        purpose,
        gamma,
        gamma_se,
        *interval(gamma, gamma_se),
        value,
        error,
        tuple(CurvePoint(g, *known[g]) for g in sorted(known)),
        last_of_each(warnings),
        report,
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


# Standard errors that an advantage is at least from 1, for the errors to be believed.
LEAST_DOUBT = 5.0


def calibrate_on_average_kl(
    sweep: Sweep, target: float, *, num_draws: int = 1
) -> AverageCalibration:
    """Find the gamma of a target on-average KL of independent draws, which adds up."""
    m = checks.count("num_draws", num_draws)
    found = find_root(
        sweep, "on_average_kl", checks.positive("target", target) / m, "on_average_kl"
    )
    return replace(
        found,
        value=m * found.value,
        value_se=m * found.value_se,
        curve=tuple(CurvePoint(p.gamma, m * p.value, m * p.se) for p in found.curve),
        num_draws=m,
    )


def calibrate_attack_advantage(sweep: Sweep, target: float) -> AverageCalibration:
    """Find the gamma of a target advantage of the best attacker, on average, of one draw."""
    goal = checks.unit_interval("attack_advantage", target, open_left=True)
    found = find_root(sweep, "on_average_tv", goal, "attack_advantage", levels_off=True)
    if 1.0 - found.value >= LEAST_DOUBT * found.value_se:
        return found
    told = NEAR_CERTAINTY(value=found.value, value_se=found.value_se, gamma=found.gamma)
    return replace(found, warnings=(told, *found.warnings))


LOWEST = "population_risk"
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
        self._warnings: list[str] = []
        self.report: Report | None = None

    def look(self, gammas: Sequence[float]) -> None:
        """Audit gammas that are new."""
        new = [g for g in gammas if g not in self._values]
        if not new:
            return
        self.report = self._sweep(new)
        self._warnings += self.report.warnings
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
        """Of all audits, each kind once: at the gamma that was looked at last."""
        return last_of_each(self._warnings)

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
        is_good = excess.mean(axis=0) <= LIMIT_Z * error
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
    """Return where a cubic has its minimum, exact for near parabolas; NaN where it has none."""
    inner = float(4 * c[2] ** 2 - 12 * c[1] * c[3])
    if inner < 0 or (c[2] <= 0 and c[3] == 0):
        return math.nan
    bend = math.sqrt(inner)
    if c[2] > 0:
        return float(-2 * c[1] / (2 * c[2] + bend))
    return float((bend - 2 * c[2]) / (6 * c[3]))


def calibrate_lowest(sweep: Sweep, gammas: Sequence[float] | None = None) -> AverageCalibration:
    """Find the gamma at which a risk is least."""
    grid = sorted({float(g) for g in (GAMMAS if gammas is None else gammas)})
    if len(grid) < 3 or not grid[0] > 0:
        raise ValueError("gammas: give at least three different ones above 0, to look between.")
    curve = Curve(sweep, LOWEST, "lowest")
    curve.look(grid)
    what = LOWEST.replace("_", " ")
    best = curve.least()
    if best in (grid[0], grid[-1]):
        low, high = curve.as_good(best)
        told = MINIMUM_AT_END(what=what, gamma=best, low=grid[0], high=grid[-1])
        low, high = (0.0, high) if best == grid[0] else (low, math.inf)  # what was not looked at
        return _unresolved(curve, best, (low, high), told)
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
        return _unresolved(curve, best, (low, high), told)
    gamma = math.exp(found.place)
    return AverageCalibration(
        LOWEST,
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
    curve: Curve, best: float, ends: tuple[float, float], told: Warned
) -> AverageCalibration:
    point = next(p for p in curve.points() if p.gamma == best)
    warnings = (told, *curve.warnings)
    return AverageCalibration(
        LOWEST, best, math.nan, *ends, point.value, point.se, curve.points(), warnings, curve.report
    )
