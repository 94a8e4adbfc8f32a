"""Figure 2 of Wang, Lei & Fienberg (2016), redrawn from sampled posteriors, beside quadrature."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from gibbs_dp.auditing.audit import audit
from gibbs_dp.auditing.plot import draw_panel
from gibbs_dp.auditing.report import Report
from gibbs_dp.papers.on_average_kl import linear_regression_figure2b_exact
from gibbs_dp.papers.tables import Row
from gibbs_dp.problems.linear_regression import linear_regression
from gibbs_dp.problems.private_mean import private_mean
from gibbs_dp.quantities.mutual_information import MutualInformation
from gibbs_dp.quantities.on_average_kl import OnAverageKL
from gibbs_dp.quantities.registry import DEFAULT
from gibbs_dp.results.plotting import BLACK, Picture, legend_of_figure, panels, styled
from gibbs_dp.results.table import with_error

NUM_NODES = 96


class Reference(NamedTuple):
    """Reference values at one gamma, with numerical errors; risks may be absent."""

    value: float
    se: float
    excess_risk: float | None = None
    excess_risk_se: float | None = None


def private_mean_kl(gamma: float, n: int, example_bound: float = 2.0) -> Reference:
    """On-average KL of the Laplace mechanism on the mean of truncated normals, exactly.

    ``E[D + e^-D - 1]`` over two independent examples, ``D = gamma |z - z'| / n``, by Gauss
    quadrature.

    >>> round(private_mean_kl(100.0, 100).value, 6)
    0.461411
    """
    # Of two nodes x < y of [-b, b]: an integral over z, and one over the gap that starts at z.
    nodes, weights = np.polynomial.legendre.leggauss(NUM_NODES)
    law = stats.truncnorm(-example_bound, example_bound)
    z = example_bound * nodes
    half = 0.5 * (example_bound - z)
    gap = half[:, None] * (nodes + 1.0)
    density = law.pdf(z)[:, None] * law.pdf(np.minimum(z[:, None] + gap, example_bound))
    scaled = gamma * gap / n
    kl = scaled + np.expm1(-scaled)
    inner = (density * kl) @ weights * half
    return Reference(float(2.0 * example_bound * weights @ inner), 0.0)


def linear_regression_reference(gamma: float, n: int, theta_bound: float) -> Reference:
    """On-average KL and excess risk of 1-D regression, prior flat on ``[-bound, bound]``.

    >>> round(linear_regression_reference(10.0, 100, 2.0).value, 7)
    0.0669791
    """
    support = (-theta_bound, theta_bound)
    return Reference(*linear_regression_figure2b_exact(gamma, n, support=support))


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
        """One dict per gamma: the report's columns, the reference, and z-scores against it.

        ``z`` is for the direct estimate, ``z_ghost`` for gamma times the generalization error and
        ``z_excess_risk`` for the excess risk; each allows for the reference's error too.
        """
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
        return private_mean_kl(gamma, NUM_EXAMPLES)
    return linear_regression_reference(gamma, NUM_EXAMPLES, THETA_BOUND)
