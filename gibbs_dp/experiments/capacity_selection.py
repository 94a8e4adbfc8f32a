"""A mechanism that selects a query: how much it overfits, and what the bounds say (Theorem 6)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from gibbs_dp import capacity
from gibbs_dp.capacity import CapacityBound, QueryHull
from gibbs_dp.exact import FiniteProblem
from gibbs_dp.information import bounds

GAMMAS = (0.01, 0.03, 0.1, 0.3, 1.0)
N = 6
NUM_QUERIES, NUM_POINTS = 12, 3


def selection_problem(seed: int = 0) -> tuple[FiniteProblem, Float[np.ndarray, "queries points"]]:
    """Build twelve random queries into [-1, 1] on three equally likely points.

    The mechanism selects query q with probability proportional to ``exp(gamma sum_i q(x_i))``: the
    exponential mechanism, a Gibbs posterior with loss ``-q(x)``.
    """
    queries = np.random.default_rng(seed).uniform(-1, 1, (NUM_QUERIES, NUM_POINTS))
    uniform = np.full(NUM_POINTS, 1 / NUM_POINTS)
    prior = np.full(NUM_QUERIES, 1 / NUM_QUERIES)
    return FiniteProblem(-queries, uniform, prior), queries


def restricted_kl(queries: Float[np.ndarray, "queries points"], gamma: float, n: int) -> float:
    """Largest restricted KL of the selection over adjacent (replace-one) datasets, in nats."""
    num_points = queries.shape[1]
    counts = [c for c in itertools.product(range(n + 1), repeat=num_points) if sum(c) == n]
    scores = gamma * np.array(counts) @ queries.T
    laws = np.exp(scores - scores.max(axis=1, keepdims=True))
    laws /= laws.sum(axis=1, keepdims=True)
    index = {c: i for i, c in enumerate(counts)}
    largest = 0.0
    for c, i in index.items():
        for a, b in itertools.permutations(range(num_points), 2):
            moved = list(c)
            moved[a] -= 1
            moved[b] += 1
            j = index.get(tuple(moved))
            if j is not None:
                largest = max(largest, capacity.query_hull_kl(queries, laws[i], laws[j]))
    return largest


def selection_rows(
    gammas: Sequence[float] = GAMMAS, n: int = N, seed: int = 0
) -> list[dict[str, float]]:
    """Compute the exact gap of the selected query and four bounds on it, one dict per gamma.

    ``theorem_6`` is ``8 sqrt(eps)`` and ``hoeffding`` its improvement under the same conditions;
    ``mutual_information`` is ``sqrt(2 I(W; S) / n)`` with the exact information, which needs the
    population, and ``bounded_range`` the worst case over populations, ``gamma Delta^2 / 2``.

    Raises
    ------
    ValueError
        If a gamma is not positive.

    Examples
    --------
    >>> row = selection_rows([0.1], n=3)[0]
    >>> row["gap"] <= row["mutual_information"] <= row["theorem_6"]
    True
    """
    problem, queries = selection_problem(seed)
    rows = []
    for gamma in gammas:
        if not (math.isfinite(gamma) and gamma > 0):
            raise ValueError(f"gammas: must be positive and finite, got {gamma}.")
        exact = problem.quantities(gamma=gamma, n=n, beta=0.05)
        bound = CapacityBound(restricted_kl(queries, gamma, n), "kl", QueryHull())
        information = exact["mutual_information"]
        rows.append(
            {
                "gamma": gamma,
                "n": n,
                "gap": exact["generalization_error"],
                "eps": bound.value,
                "theorem_6": capacity.generalization_from_kl(bound),
                "hoeffding": capacity.ipm_from_kl_by_hoeffding(bound).value,
                "mutual_information": bounds.generalization_from_mutual_information(
                    information, n, sigma=1.0
                ),
                "bounded_range": bounds.gibbs_generalization(gamma, loss_range=2.0),
            }
        )
    return rows
