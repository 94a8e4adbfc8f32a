"""Rows that depend on each other: neighbours are two values of one row, the others as their law.

An adversary who knows the law of the rows, and some of them, sees one release and asks for a row:
all rows that he does not know are drawn anew, given what he knows and each of the two values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import networkx as nx
import numpy as np
from claims_case import Case, quieter
from lower_bounds import Runs

from gibbs_dp.papers import bayesian_dp
from gibbs_dp.papers.bayesian_dp import networks, row_sums
from gibbs_dp.privacy import mechanisms
from gibbs_dp.privacy.mechanisms import LaplaceMechanism

QUARTER = 4.0


def rows_given(
    model: Any, told: Mapping[int, int], count: int, rng: np.random.Generator
) -> np.ndarray:
    """Datasets ``[count, rows]`` from a small law, given the states of some rows."""
    law = model.joint()
    chosen = tuple(
        slice(told[k], told[k] + 1) if k in told else slice(None) for k in range(law.ndim)
    )
    masked = np.zeros_like(law)
    masked[chosen] = law[chosen]
    cells = rng.choice(law.size, size=count, p=masked.ravel() / masked.sum())
    return np.stack(np.unravel_index(cells, law.shape), axis=1)


def sums_of(
    model: Any, row: int, release: Callable[[np.ndarray], np.ndarray], rng: np.random.Generator
) -> Callable[[int], tuple[Runs, Runs]]:
    """Release the sum of the rows: every number of a vector has noise of its own."""

    def run(count: int) -> tuple[Runs, Runs]:
        first, second = (
            release(rows_given(model, {row: state}, count, rng).sum(axis=1).astype(float))[:, None]
            for state in (0, 1)
        )
        return first, second

    return run


def cases() -> Iterator[Case]:
    """Worst rows and adversaries are those of the exact leakage, by enumeration."""
    rng = np.random.default_rng(20)
    quiet = {"weaker": partial(quieter, networks)}
    quarter = {"noise / 4": partial(quieter, networks, QUARTER)}
    chain = bayesian_dp.MarkovChain([[0.8, 0.2], [0.2, 0.8]], 8)
    quilts = bayesian_dp.MarkovQuiltMechanism(chain, 4.0)
    yield Case(
        "quilt mechanism on a chain",
        "MarkovQuiltMechanism.release",
        "a row in the middle of a chain of 8, 0 or 1; Pufferfish",
        quilts.epsilon,
        sums_of(chain, 3, quilts.release, rng),
        quarter,
        **quiet,
    )
    star = bayesian_dp.MarkovNetwork.ising(nx.star_graph(3), 0.3)
    network = bayesian_dp.MarkovQuiltMechanism(star, 4.0)
    yield Case(
        "quilt mechanism on a network",
        "MarkovQuiltMechanism.release",
        "the row in the middle of a star of 4, 0 or 1; Pufferfish",
        network.epsilon,
        sums_of(star, 0, network.release, rng),
        quarter,
        **quiet,
    )
    short = bayesian_dp.MarkovChain([[0.7, 0.3], [0.3, 0.7]], 4)
    laplace = LaplaceMechanism(1.0, 1.0, adjacency="replace-one")
    yield Case(
        "Laplace on a chain, Bayesian DP",
        "LaplaceMechanism.release, bdp_epsilon",
        "a row inside a chain of 4, 0 or 1, to one who knows no other",
        bayesian_dp.bdp_epsilon(laplace.guarantee.epsilon, short),
        sums_of(short, 2, laplace.release, rng),
        {"noise / 4": partial(quieter, mechanisms, QUARTER)},
        partial(quieter, mechanisms),
    )
    yield gaussian_rows(rng)


def gaussian_rows(rng: np.random.Generator) -> Case:
    """Two rows that are nearly one: whoever knows one value knows both."""
    covariance = np.array([[1.0, 0.95], [0.95, 1.0]])
    field = bayesian_dp.GaussianField.from_covariance(covariance)
    mechanism = bayesian_dp.GaussianFieldMechanism(field, 1.0, 2.0)
    row, other = mechanism.worst.row, 1 - mechanism.worst.row
    assert mechanism.worst.known == frozenset()

    def release(value: float, count: int) -> Runs:
        rows = np.empty((count, 2))
        rows[:, row] = value
        slope = covariance[0, 1] / covariance[row, row]
        left = np.sqrt(covariance[other, other] - slope * covariance[0, 1])
        rows[:, other] = slope * value + left * rng.standard_normal(count)
        return np.array([[mechanism.release(r)] for r in rows])

    return Case(
        "sum of Gaussian rows, Bayesian DP",
        "GaussianFieldMechanism.release",
        "a row at -1 or 1, to one who does not know the other (correlation 0.95)",
        mechanism.epsilon,
        lambda count: (release(-1.0, count), release(1.0, count)),
        {"noise / 4": partial(quieter, row_sums, QUARTER)},
        partial(quieter, row_sums),
    )
