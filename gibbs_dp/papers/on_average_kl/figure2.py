"""Figure 2 of Wang, Lei & Fienberg (2016), redrawn from sampled posteriors, beside quadrature."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy import integrate

from gibbs_dp.auditing.audit import audit
from gibbs_dp.auditing.plot import draw_panel
from gibbs_dp.auditing.report import Report
from gibbs_dp.information import checks
from gibbs_dp.papers.on_average_kl.closed_forms import (
    private_mean_excess_risk,
    private_mean_on_average_kl,
)
from gibbs_dp.papers.tables import Row
from gibbs_dp.problems.location import private_mean
from gibbs_dp.problems.regression import linear_regression
from gibbs_dp.quantities.mutual_information import MutualInformation
from gibbs_dp.quantities.on_average_kl import OnAverageKL
from gibbs_dp.quantities.registry import DEFAULT
from gibbs_dp.results.plotting import BLACK, Picture, legend_of_figure, panels, styled
from gibbs_dp.results.table import with_error


class Reference(NamedTuple):
    """Reference values at one gamma, with numerical errors; risks may be absent."""

    value: float
    se: float
    excess_risk: float | None = None
    excess_risk_se: float | None = None


NUM_EXAMPLES = 100
THETA_BOUND = 2.0
# Two a decade, over all that there is to see: from no privacy lost to all of it.
GAMMAS = {
    "private mean": (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0),
    "linear regression": (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0),
}


@dataclass(frozen=True)
class Panel:
    """One panel: a report, and the reference for each of its gammas."""

    name: str
    report: Report
    references: tuple[Reference, ...]

    def rows(self) -> list[Row]:
        """One dict per gamma: the report's columns, the reference, and z-scores against it."""
        rows = []
        for row, reference in zip(self.report.rows, self.references, strict=True):
            exact = {"on_average_kl_exact": reference.value, "on_average_kl_exact_se": reference.se}
            scores = {
                "z": _score(row, "on_average_kl", reference.value, reference.se),
                "z_ghost": _score(row, "on_average_kl_ghost", reference.value, reference.se),
            }
            risk, error = reference.excess_risk, reference.excess_risk_se
            if risk is not None and error is not None:
                exact |= {"excess_risk_exact": risk, "excess_risk_exact_se": error}
                scores["z_excess_risk"] = _score(row, "excess_risk", risk, error)
            rows.append({"panel": self.name, **row, **exact, **scores})
        return rows


def _risk_cells(row: Row) -> dict[str, str]:
    if "excess_risk_exact" not in row:
        return {"excess risk": "-", " exact": "-", "z  ": "-"}
    return {
        "excess risk": with_error(row["excess_risk"], row["excess_risk_se"]),
        " exact": f"{row['excess_risk_exact']:.6g}",
        "z  ": f"{row['z_excess_risk']:+.1f}",
    }


def _score(row: Row, column: str, exact: float, error: float) -> float:
    return float((row[column] - exact) / math.hypot(row[f"{column}_se"], error))


@dataclass(frozen=True)
class Figure2:
    """Both panels: (a) the private mean, (b) linear regression."""

    panels: tuple[Panel, ...]

    def rows(self) -> list[Row]:
        """Rows of all panels."""
        return [row for panel in self.panels for row in panel.rows()]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings of both audits."""
        return tuple(f"{p.name}, {w}" for p in self.panels for w in p.report.warnings)

    def summary(self) -> str:
        """Return the numbers as a table, with exact values, their errors and z-scores."""
        table = [
            {
                "panel": row["panel"],
                "gamma": f"{row['gamma']:g}",
                "on-average KL": with_error(row["on_average_kl"], row["on_average_kl_se"]),
                "exact": f"{row['on_average_kl_exact']:.6g}",
                "error": f"{row['on_average_kl_exact_se']:.0e}",
                "z": f"{row['z']:+.1f}",
                "gamma*gen": with_error(row["on_average_kl_ghost"], row["on_average_kl_ghost_se"]),
                "z ": f"{row['z_ghost']:+.1f}",
                **_risk_cells(row),
                "DP eps": f"{row['dp_epsilon']:g}",
            }
            for row in self.rows()
        ]
        text = pd.DataFrame(table).to_string(index=False)
        return "\n".join([text, *(f"WARNING  {w}" for w in self.warnings)])

    @styled()
    def plot(self) -> Picture:
        """Draw privacy above risk, a column a problem; exact values are crosses over the curves."""
        figure, grid = panels((8.4, 7.0), 2, 2, sharex="col")
        for (top, bottom), panel, letter in zip(grid.T, self.panels, "ab", strict=True):
            draw_panel(top, panel.report, "privacy")
            draw_panel(bottom, panel.report, "risk")
            top.set(title=f"({letter}) {panel.name}, n = {NUM_EXAMPLES}", xlabel="")
            references = panel.references
            for axes, exact in (
                (top, [found.value for found in references]),
                (bottom, [found.excess_risk for found in references]),
            ):
                shown = [value is not None for value in exact]
                if any(shown):
                    axes.plot(
                        panel.report["gamma"][shown],
                        [value for value in exact if value is not None],
                        ls="none",
                        marker="x",
                        ms=8,
                        mew=1.2,
                        color=BLACK,
                        label="exact",
                        zorder=4,
                    )
        legend_of_figure(figure, grid.ravel(), columns=3)
        return figure


def figure2(
    num_datasets: int = 512,
    num_ghosts: int | None = None,
    gammas: Sequence[float] | Mapping[str, Sequence[float]] | None = None,
    key: int = 0,
    progress: bool = True,
) -> Figure2:
    """Audit both problems of Figure 2 and compute their references.

    (a) the mean of truncated normals with loss ``|mean(z) - theta|`` and a flat prior: the
    Laplace mechanism; (b) one-dimensional linear regression with theta in ``[-2, 2]``, where the
    worst-case epsilon is ``32 gamma``.

    Parameters
    ----------
    num_datasets, num_ghosts
        As in :func:`gibbs_dp.audit`.
    gammas
        Inverse temperatures of both panels, or of a panel by its name, "private mean" or "linear
        regression"; two a decade where none are given.
    key
        Integer seed.
    progress
        Tell of every audit on stderr.

    Returns
    -------
    Figure2
        Reports of both panels beside their references.

    Raises
    ------
    ValueError
        If an argument is out of range, or there is no panel of a name.
    AuditInterrupted
        On Ctrl-C.
    """
    grids = _grids(gammas)
    problems = {
        "private mean": private_mean(),
        "linear regression": linear_regression(theta_bound=THETA_BOUND),
    }
    panels = []
    for name, problem in problems.items():
        report = audit(
            problem.posterior,
            problem.population,
            n=NUM_EXAMPLES,
            gammas=grids[name],
            num_datasets=num_datasets,
            learn=[*DEFAULT, OnAverageKL(num_ghosts=num_ghosts), MutualInformation(0)],
            key=key,
            domain=problem.domain,
            progress=progress,
        )
        found = tuple(_reference(name, float(g)) for g in report["gamma"])
        panels.append(Panel(name, report, found))
    return Figure2(tuple(panels))


def _grids(
    gammas: Sequence[float] | Mapping[str, Sequence[float]] | None,
) -> dict[str, Sequence[float]]:
    if gammas is None:
        return dict(GAMMAS)
    if not isinstance(gammas, Mapping):
        return dict.fromkeys(GAMMAS, gammas)
    if not gammas.keys() <= GAMMAS.keys():
        raise ValueError(
            f"gammas: panels are {' and '.join(map(repr, GAMMAS))}; name these, got "
            f"{sorted(gammas)}."
        )
    return {**GAMMAS, **gammas}


def _reference(name: str, gamma: float) -> Reference:
    if name == "private mean":
        kl, risk = private_mean_on_average_kl, private_mean_excess_risk
        return Reference(kl(gamma, NUM_EXAMPLES), 0.0, risk(gamma, NUM_EXAMPLES), 0.0)
    support = (-THETA_BOUND, THETA_BOUND)
    return Reference(*linear_regression_figure2b_exact(gamma, NUM_EXAMPLES, support=support))


# Figure 2b of Wang, Lei & Fienberg (2016), by random datasets and by integrals.


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(96)
_CHUNK = 4000


class Figure2b(NamedTuple):
    """Monte Carlo averages over datasets and their standard errors; KL in nats."""

    on_average_kl: float
    on_average_kl_se: float
    excess_risk: float
    excess_risk_se: float


def linear_regression_figure2b(
    gamma: float,
    n: int,
    num_datasets: int,
    seed: int,
    *,
    support: tuple[float, float] | None = None,
    num_pairs: int = 8,
) -> Figure2b:
    """Average the closed-form KL and excess risk over datasets."""
    checks.positive("gamma", gamma)
    checks.count("n", n, minimum=2)
    checks.count("num_datasets", num_datasets, minimum=2)
    checks.count("num_pairs", num_pairs)
    if num_pairs > n:
        raise ValueError(f"num_pairs must be at most n = {n}, got {num_pairs}; lower it.")
    if support is not None and not support[0] < support[1]:
        raise ValueError(f"support must be (lower, upper) with lower < upper, got {support}.")
    rng = np.random.default_rng(seed)
    kl, risk = [], []
    for start in range(0, num_datasets, _CHUNK):
        rows = min(_CHUNK, num_datasets - start)
        x, noise = rng.uniform(-1, 1, size=(2, rows, n))
        ghost_x, ghost_noise = rng.uniform(-1, 1, size=(2, rows, num_pairs))
        y, ghost_y = x + noise, ghost_x + ghost_noise
        sxx, sxy = (x * x).sum(axis=1), (x * y).sum(axis=1)
        square = ghost_x**2 - x[:, :num_pairs] ** 2
        cross = ghost_x * ghost_y - x[:, :num_pairs] * y[:, :num_pairs]
        if support is None:
            pair_kl, pair_risk = _gaussian(gamma, sxx, sxy, square, cross)
        else:
            pair_kl, pair_risk = _truncated(gamma, sxx, sxy, square, cross, support)
        kl.append(pair_kl.mean(axis=1))
        risk.append(pair_risk)
    return Figure2b(*_mean_and_error(np.concatenate(kl)), *_mean_and_error(np.concatenate(risk)))


Rows = Float[np.ndarray, " datasets"]
Pairs = Float[np.ndarray, "datasets pairs"]


def _mean_and_error(values: Rows) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(values.size))


def _gaussian(
    gamma: float, sxx: Rows, sxy: Rows, square: Pairs, cross: Pairs
) -> tuple[Pairs, Rows]:
    """KL of ``N(m, 1/P)`` to ``N(m', 1/P')``, in the changes of ``sum x^2`` and ``sum x y``."""
    mean = sxy / sxx
    relative = square / sxx[:, None]
    shift = (cross - mean[:, None] * square) / (sxx[:, None] + square)
    precision = 2 * gamma * (sxx[:, None] + square)
    kl = 0.5 * (relative - np.log1p(relative)) + 0.5 * precision * shift**2
    return kl, ((mean - 1) ** 2 + 1 / (2 * gamma * sxx)) / 3


def _truncated(
    gamma: float, sxx: Rows, sxy: Rows, square: Pairs, cross: Pairs, support: tuple[float, float]
) -> tuple[Pairs, Rows]:
    """Return the same on an interval, by nodes over ten deviations of the posterior."""
    deviation = 1 / np.sqrt(2 * gamma * sxx)
    center = np.clip(sxy / sxx, *support)
    low = np.maximum(support[0], center - 10 * deviation)
    high = np.minimum(support[1], center + 10 * deviation)
    theta = (low + high)[:, None] / 2 + (high - low)[:, None] / 2 * _NODES
    exponent = -gamma * (sxx[:, None] * theta**2 - 2 * sxy[:, None] * theta)
    weight = np.exp(exponent - exponent.max(axis=1, keepdims=True)) * _WEIGHTS
    weight /= weight.sum(axis=1, keepdims=True)
    # KL = log E exp(-(delta - E delta)), delta = gamma (loss at the ghost - loss at the example).
    delta = gamma * (
        square[:, :, None] * theta[:, None, :] ** 2 - 2 * cross[:, :, None] * theta[:, None, :]
    )
    delta -= np.einsum("dpt,dt->dp", delta, weight)[:, :, None]
    kl = np.log1p(np.einsum("dpt,dt->dp", np.expm1(-delta), weight))
    return kl, (weight * (theta - 1) ** 2).sum(axis=1) / 3


# Points of the lattice of (sum x^2, sum x e) in each direction, and half its width in standard
# deviations; the coarser lattice shows the error.
LATTICES = ((128, 10.0), (96, 9.0))
# Where the characteristic function is cut off it must be below this.
_NEGLIGIBLE = 1e-9


def linear_regression_figure2b_exact(
    gamma: float, n: int, *, support: tuple[float, float] | None = None
) -> Figure2b:
    """On-average KL and excess risk of Figure 2b, by integration instead of random datasets.

    ``x`` and the noise ``e`` are uniform on ``(-1, 1)``, ``y = x + e``, ``loss = (y - x theta)^2``.
    With ``S = sum x^2`` and ``u = theta - 1`` Theorem 4 gives ``eps_KL = gamma gen`` with
    ``gen = E u^2 / 3 + E(2 u sum x e - u^2 S) / n``, and the excess risk is ``E u^2 / 3``.

    For the flat prior on the line the posterior is Gaussian and all follows from
    ``E[1/S] = int_0^inf (E exp(-t x^2))^n dt``. On an interval posteriors depend on ``S`` and
    ``sum x e`` alone, whose joint law comes from its characteristic function on a lattice.
    """
    checks.positive("gamma", gamma)
    if support is None:
        checks.count("n", n, minimum=3)
        inverse, error = _mean_inverse(n)
        flat_kl = gamma * ((inverse / 3 + 1 / n) / 3 + (inverse / 3 - 1 / n) / (2 * gamma))
        slope = 1 / 3 + 1 / (2 * gamma)
        risk = inverse * slope / 3
        return Figure2b(flat_kl, gamma * error * slope / 3, risk, error * slope / 3)
    checks.count("n", n, minimum=30)
    if not support[0] < support[1]:
        raise ValueError(f"support must be (lower, upper) with lower < upper, got {support}.")
    fine, coarse = (_on_interval(gamma, n, support, *lattice) for lattice in LATTICES)
    rounding = 1e-12 * fine[1]
    kl_error = abs(fine[0] - coarse[0]) + gamma * rounding
    return Figure2b(fine[0], kl_error, fine[1], abs(fine[1] - coarse[1]) + rounding)


def _mean_inverse(n: int) -> tuple[float, float]:
    """``E[1/S]`` and the error of the quadrature: ``1/S = int_0^inf exp(-t S) dt``."""

    def laplace(w: float) -> float:
        # t = w^2: E exp(-t x^2) = sqrt(pi) erf(w) / (2 w).
        one = 0.5 * math.sqrt(math.pi) * math.erf(w) / w if w > 1e-8 else 1.0
        return 2.0 * w * one**n

    near = integrate.quad(laplace, 0.0, 5.0, epsabs=1e-15, epsrel=1e-12, limit=200)
    # Beyond, erf is 1 but for 2e-12 and the integrand is a power of w.
    far = 2.0 * (0.5 * math.sqrt(math.pi)) ** n * 5.0 ** (2 - n) / (n - 2)
    return near[0] + far, near[1] + 2e-12 * n * far


def _on_interval(
    gamma: float, n: int, support: tuple[float, float], size: int, width: float
) -> tuple[float, float]:
    density, s, t = _law_of_sums(n, size, width)
    low, high = support[0] - 1.0, support[1] - 1.0
    second, both = np.empty_like(density), np.empty_like(density)
    for i, total in enumerate(s):
        # u is N(t / s, 1 / (2 gamma s)) on the interval; nodes over ten deviations around its mode.
        deviation = 1.0 / math.sqrt(2.0 * gamma * total)
        mode = np.clip(t / total, low, high)
        left = np.maximum(low, mode - 10.0 * deviation)
        right = np.minimum(high, mode + 10.0 * deviation)
        u = 0.5 * (left + right)[:, None] + 0.5 * (right - left)[:, None] * _NODES
        exponent = -gamma * (total * u**2 - 2.0 * t[:, None] * u)
        weight = np.exp(exponent - exponent.max(axis=1, keepdims=True)) * _WEIGHTS
        weight /= weight.sum(axis=1, keepdims=True)
        mean, square = (weight * u).sum(axis=1), (weight * u**2).sum(axis=1)
        second[i], both[i] = square, 2.0 * t * mean - total * square
    risk = float((density * second).sum()) / 3.0
    return gamma * (risk + float((density * both).sum()) / n), risk


def _law_of_sums(
    n: int, size: int, width: float
) -> tuple[Float[np.ndarray, "s t"], Float[np.ndarray, " s"], Float[np.ndarray, " t"]]:
    """Probabilities of a lattice of ``(sum x^2, sum x e)``, from their characteristic function."""
    spread_s, spread_t = math.sqrt(n * (1 / 5 - 1 / 9)), math.sqrt(n / 9)
    step_s, step_t = 2.0 * width * spread_s / size, 2.0 * width * spread_t / size
    offsets = np.arange(size) - size // 2
    s, t = n / 3 + step_s * offsets, step_t * offsets
    a = 2.0 * math.pi * np.fft.fftfreq(size, step_s)
    b = 2.0 * math.pi * np.fft.fftfreq(size, step_t)
    # Nodes enough for the fastest oscillation over half of the even integrand.
    nodes, weights = np.polynomial.legendre.leggauss(192)
    x, half = 0.5 * (nodes + 1.0), 0.5 * weights
    wave = np.exp(1j * a[:, None] * (x**2 - 1 / 3)) * half
    one = wave @ np.sinc(x[:, None] * b / math.pi)
    law = one**n
    edge = max(np.abs(law[size // 2]).max(), np.abs(law[:, size // 2]).max())
    if edge > _NEGLIGIBLE:
        raise ValueError(f"n = {n} is too small for a lattice; use random datasets.")
    centred = np.exp(1j * (a[:, None] * step_s + b * step_t) * (size // 2))
    density = np.fft.fft2(law * centred).real / size**2
    # Where a lattice point has no sum of squares there is no probability either.
    return density, np.maximum(s, 1e-3 * n), t
