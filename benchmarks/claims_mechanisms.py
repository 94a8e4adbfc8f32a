"""Mechanisms that add noise to numbers or pick an index, on their worst neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from claims_case import Case, patched, quieter
from lower_bounds import Runs, Score, all_of, counted, known, straight

from gibbs_dp.papers import capacity
from gibbs_dp.privacy import mechanisms
from gibbs_dp.privacy.mechanisms import (
    ExponentialMechanism,
    LaplaceMechanism,
    ReportNoisyMax,
    gaussian_for,
)

DELTA = 1e-5
QUARTER = 4.0


def numbers(release: Callable[[np.ndarray], np.ndarray]) -> Callable[[int], tuple[Runs, Runs]]:
    """Run a mechanism on 0 and on 1, often: every number of a vector has noise of its own."""
    return lambda count: (
        release(np.zeros(count))[:, None],
        release(np.ones(count))[:, None],
    )


def one_by_one(
    release: Callable[[np.ndarray], object], first: np.ndarray, second: np.ndarray
) -> Callable[[int], tuple[Runs, Runs]]:
    """Run a mechanism on each of two neighbours, a call a run."""

    def many(values: np.ndarray, count: int) -> Runs:
        found = np.array([release(values) for _ in range(count)], dtype=np.float64)
        return found.reshape(count, -1)

    return lambda count: (many(first, count), many(second, count))


def cases() -> Iterator[Case]:
    """All of them."""
    laplace = LaplaceMechanism(1.0, 1.0, adjacency="replace-one")
    yield Case(
        "Laplace",
        "LaplaceMechanism.release",
        "a sum of 0 against 1",
        laplace.guarantee.epsilon,
        numbers(laplace.release),
        {"noise / 4": partial(quieter, mechanisms, QUARTER)},
        partial(quieter, mechanisms),
    )
    gaussian = gaussian_for(1.0, DELTA, sensitivity=1.0, adjacency="replace-one")
    promise = gaussian.guarantee(DELTA)
    yield Case(
        "Gaussian",
        "gaussian_for, GaussianMechanism.release",
        "a sum of 0 against 1",
        promise.epsilon,
        numbers(gaussian.release),
        {"noise / 4": partial(quieter, mechanisms, QUARTER)},
        partial(quieter, mechanisms),
        delta=DELTA,
        mu=promise.gdp,
    )
    # One choice goes up while eight go down: a probability of 0.17 against 0.07.
    up, down = np.eye(9)[0], 1.0 - np.eye(9)[0]
    exponential = ExponentialMechanism(1.0, 1.0, adjacency="replace-one")
    yield Case(
        "exponential mechanism",
        "ExponentialMechanism.release",
        "one utility up and eight down by 1",
        exponential.guarantee.epsilon,
        one_by_one(exponential.release, up, down),
        {"noise / 4": partial(quieter, mechanisms, QUARTER)},
        partial(quieter, mechanisms),
        scores=counted,
    )
    general = ReportNoisyMax(1.0, 1.0, adjacency="replace-one")
    yield Case(
        "noisy max",
        "ReportNoisyMax.release",
        "one value up and four down by 1",
        general.guarantee.epsilon,
        one_by_one(general.release, np.eye(5)[0], 1.0 - np.eye(5)[0]),
        {"noise / 4": partial(quieter, mechanisms, QUARTER)},
        partial(quieter, mechanisms),
        scores=counted,
    )
    counts = ReportNoisyMax(1.0, 1.0, adjacency="add-remove", is_monotone=True)
    yield Case(
        "noisy max of counts",
        "ReportNoisyMax.release, monotone",
        "a row added to four counts of five",
        counts.guarantee.epsilon,
        one_by_one(counts.release, np.zeros(5), 1.0 - np.eye(5)[0]),
        {"noise / 4": partial(quieter, mechanisms, QUARTER)},
        partial(quieter, mechanisms),
        scores=counted,
    )
    yield from matrices()


def matrices() -> Iterator[Case]:
    """Attack the matrix mechanism in both adjacencies: one query and its opposite are measured."""
    real = capacity.MatrixMechanism.sensitivity.fget  # type: ignore[attr-defined]

    def quiet(factor: float):  # type: ignore[no-untyped-def]
        smaller = property(lambda self: real(self) / factor)
        return patched((capacity.MatrixMechanism, "sensitivity", smaller))()

    # Prefix sums from the two counts; replacing a row moves both.
    mechanism = capacity.MatrixMechanism(np.tril(np.ones((2, 2))), np.eye(2), eps=1.0)

    def corner(other: np.ndarray) -> Score:
        def score(runs: Runs) -> np.ndarray:
            counts = np.diff(runs, prepend=0.0, axis=1)
            return np.abs(counts - other).sum(axis=1) - np.abs(counts).sum(axis=1)

        return score

    for adjacency, words, other in (
        ("add-remove", "a row added to the first of two counts", [1.0, 0.0]),
        ("replace-one", "a row moved between two counts", [1.0, -1.0]),
    ):
        yield Case(
            f"matrix mechanism, {adjacency}",
            "MatrixMechanism.release",
            words,
            mechanism.pure_dp(adjacency),  # type: ignore[arg-type]
            one_by_one(mechanism.release, np.zeros(2), np.array(other)),
            {"noise / 4": partial(quiet, QUARTER)},
            quiet,
            scores=all_of(known(corner(np.array(other))), straight),
        )
