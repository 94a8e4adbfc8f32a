"""Capacity-bounded privacy: curves, maps, analysts who select queries, two Gibbs posteriors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from gibbs_dp import capacity, io
from gibbs_dp.experiments.capacity_analyst import analyst_rows
from gibbs_dp.experiments.capacity_curves import (
    curve_rows,
    gaussian_curve_rows,
    map_rows,
    matrix_rows,
)
from gibbs_dp.experiments.capacity_selection import selection_rows
from gibbs_dp.experiments.figure2_reference import private_mean_kl
from gibbs_dp.experiments.tables import Row
from gibbs_dp.problems.base import Problem
from gibbs_dp.problems.logistic_regression import logistic_regression
from gibbs_dp.problems.private_mean import private_mean

NUM_NODES = 96
# Dataset sizes and gammas of the two panels.
PANELS = {
    "private mean": (100, (10.0, 20.0, 50.0, 100.0, 200.0)),
    "logistic regression": (20, (0.1, 0.3, 1.0, 3.0)),
}


@dataclass(frozen=True)
class Capacity:
    """Everything that the pictures and tables show; one list of rows each."""

    curves: list[Row]
    gaussian: list[Row]
    regimes: list[Row]
    matrix: list[Row]
    selection: list[Row]
    analyst: list[Row]
    posterior: list[Row]
    warnings: tuple[str, ...]

    def parts(self) -> dict[str, list[Row]]:
        """Rows by kind."""
        return {
            "curve": self.curves,
            "gaussian_curve": self.gaussian,
            "printed": self.regimes,
            "matrix": self.matrix,
            "selection": self.selection,
            "analyst": self.analyst,
            "posterior": self.posterior,
        }


def private_mean_linear_kl(gamma: float, n: int, example_bound: float = 2.0) -> float:
    """Return what a linear adversary sees of the private mean, on average and exactly, in nats.

    ``E f(gamma |z - z'| / n)`` over two independent truncated normals, ``f`` the closed form of
    `capacity.laplace_linear_kl`, by Gauss quadrature.

    Examples
    --------
    >>> round(private_mean_linear_kl(100.0, 100), 4)
    0.2999
    """
    nodes, weights = np.polynomial.legendre.leggauss(NUM_NODES)
    law = stats.truncnorm(-example_bound, example_bound)
    z, mass = example_bound * nodes, example_bound * weights * law.pdf(example_bound * nodes)
    # Even and smooth in z - z', unlike the KL itself.
    e = gamma * np.abs(z[:, None] - z) / n
    excess = e**2 / (1 + np.sqrt(1 + e**2))
    return float(mass @ (excess - np.log1p(excess / 2)) @ mass)


def run_capacity(
    num_datasets: int = 128,
    key: int = 0,
    gammas: Sequence[float] | None = None,
    say: io.Say = io.silent,
) -> Capacity:
    """Compute everything.

    Parameters
    ----------
    num_datasets
        Pairs of datasets behind each point of the posteriors' panels.
    key
        Integer seed of the posteriors and of the analysts' data.
    gammas
        Grid of both panels; by default each has its own.
    say
        Called with a line of text at every step.

    Returns
    -------
    Capacity
        Rows of every table and picture, and the warnings of the sampled ones.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    problems = {"private mean": private_mean(), "logistic regression": logistic_regression(dim=2)}
    # Bad arguments are refused here, before the long computations.
    posterior, warnings = _posteriors(problems, gammas, num_datasets, key, say)
    say("computing adversaries of Laplace and of normal noise over alpha")
    curves, gaussian = curve_rows(), gaussian_curve_rows()
    say("mapping where printed bounds fail")
    regimes = map_rows()
    say("computing the matrix mechanism and the selection of a query")
    say("letting analysts ask hundreds of queries")
    analysts = analyst_rows(key=key)
    return Capacity(
        curves=curves,
        gaussian=gaussian,
        regimes=regimes,
        matrix=matrix_rows(),
        selection=selection_rows(),
        analyst=analysts,
        posterior=posterior,
        warnings=warnings,
    )


def _posteriors(
    problems: dict[str, Problem],
    gammas: Sequence[float] | None,
    num_datasets: int,
    key: int,
    say: io.Say,
) -> tuple[list[Row], tuple[str, ...]]:
    rows: list[Row] = []
    warnings: list[str] = []
    for name, problem in problems.items():
        n, own = PANELS[name]
        found = capacity.on_average_capacity_kl(
            problem.posterior,
            problem.population,
            n,
            own if gammas is None else gammas,
            num_datasets=num_datasets,
            key=key,
            say=lambda text, name=name: say(f"{name}, {text}"),  # type: ignore[misc]
        )
        warnings += [f"{name}, {text}" for text in found.warnings]
        for row in found.rows():
            row = {"panel": name, **row}
            if name == "private mean" and row["adversary"] == "linear":
                row["capacity_kl_exact"] = private_mean_linear_kl(row["gamma"], n)
                row["on_average_kl_exact"] = private_mean_kl(row["gamma"], n).value
            rows.append(row)
    return rows, tuple(warnings)
