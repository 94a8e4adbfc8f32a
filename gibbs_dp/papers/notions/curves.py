"""All notions of privacy of one finite problem over gamma, and the order among them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from gibbs_dp.exact import FiniteProblem, ladder
from gibbs_dp.papers.verify.record import Record, inequality

OMEGA, DELTA, BETA = 0.05, 0.01, 0.05

Curves = dict[str, Float[np.ndarray, " gammas"]]

# Smaller, larger, why: what the theory says for every gamma.
ORDER = (
    ("on_average_kl", "kl_privacy", "a mean is at most the supremum"),
    ("kl_privacy", "zcdp", "order 1 of the Renyi orders"),
    ("kl_privacy", "renyi_2", "Renyi orders increase"),
    ("renyi_2", "renyi_8", "Renyi orders increase"),
    ("renyi_8", "dp_epsilon", "order infinity is DP"),
    ("zcdp", "dp_epsilon", "D_alpha <= eps"),
    ("twice_squared_tv", "kl_privacy", "Pinsker"),
    ("random_dp", "dp_epsilon", "a quantile is at most the supremum"),
    ("approximate_dp", "dp_epsilon", "delta buys eps"),
    ("personalized_dp_least", "dp_epsilon", "the worst person is the worst case"),
    ("mutual_information_per_example", "erasure_information_per_example", "I <= I^-"),
    ("individual_information", "mutual_information_per_example", "sum_i I(W; Z_i) <= I(W; S)"),
    ("erasure_information_per_example", "on_average_kl", "I^- <= n eps_KL"),
    ("mutual_information_per_example", "max_information_per_example", "I <= I_inf"),
    ("max_information_per_example", "dp_epsilon", "I_inf <= n eps"),
    ("approx_max_information_per_example", "max_information_per_example", "beta buys bits"),
)


def _epsilon_at_delta(problem: FiniteProblem, gamma: float, n: int, high: float) -> float:
    """Least ``eps`` with ``delta(eps) <= DELTA``, by bisection below the pure ``eps``."""
    pairs = list(problem.neighbours(gamma, n, adjacency="replace-one"))
    low = 0.0
    if float(ladder.privacy_curve(pairs, [0.0])[0]) <= DELTA:
        return 0.0
    for _ in range(40):
        middle = (low + high) / 2
        if float(ladder.privacy_curve(pairs, [middle])[0]) <= DELTA:
            high = middle
        else:
            low = middle
    return high


def values_at(problem: FiniteProblem, gamma: float, n: int) -> dict[str, float]:
    """Evaluate every notion at one gamma, nats; informations in nats per example.

    Examples
    --------
    >>> problem = FiniteProblem([[0.0, 1.0], [1.0, 0.0]], [0.5, 0.5], [0.5, 0.5])
    >>> found = values_at(problem, gamma=0.5, n=3)
    >>> found["on_average_kl"] < found["kl_privacy"] < found["dp_epsilon"]
    True
    """
    q = problem.quantities(gamma, n, BETA)
    renyi = problem.renyi_curve(gamma, n, [2.0, 8.0], adjacency="replace-one")
    eps, nats = q["dp_epsilon"], math.log(2) / n
    return {
        "dp_epsilon": eps,
        "personalized_dp_least": float(
            problem.personalized_dp(gamma, n, adjacency="replace-one").min()
        ),
        "random_dp": problem.random_dp_epsilon(gamma, n, OMEGA),
        "approximate_dp": _epsilon_at_delta(problem, gamma, n, eps),
        "renyi_8": float(renyi[1]),
        "renyi_2": float(renyi[0]),
        "zcdp": problem.zcdp(gamma, n, adjacency="replace-one"),
        "kl_privacy": q["kl_privacy"],
        "twice_squared_tv": 2 * q["tv_privacy"] ** 2,
        "on_average_kl": q["on_average_kl"],
        "max_information_per_example": nats * q["max_information_bits"],
        "approx_max_information_per_example": nats * q["approx_max_information_bits"],
        "erasure_information_per_example": q["erasure_mutual_information"] / n,
        "mutual_information_per_example": q["mutual_information"] / n,
        "individual_information": problem.individual_information(gamma, n),
    }


def curves(problem: FiniteProblem, gammas: Sequence[float], n: int) -> Curves:
    """Evaluate every notion over a grid of gamma.

    Examples
    --------
    >>> problem = FiniteProblem([[0.0, 1.0], [1.0, 0.0]], [0.5, 0.5], [0.5, 0.5])
    >>> curves(problem, [0.1, 1.0], 2)["dp_epsilon"].shape
    (2,)
    """
    rows = [values_at(problem, gamma, n) for gamma in gammas]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def order_records(found: Curves, gammas: Sequence[float]) -> list[Record]:
    """Check `ORDER` at every gamma, one record per pair: its closest case.

    Examples
    --------
    >>> problem = FiniteProblem([[0.0, 1.0], [1.0, 0.0]], [0.5, 0.5], [0.5, 0.5])
    >>> all(record.holds for record in order_records(curves(problem, [0.1, 1.0], 2), [0.1, 1.0]))
    True
    """
    records = []
    for smaller, larger, why in ORDER:
        cases = [
            inequality(f"{smaller} <= {larger}", f"{why}; gamma = {gamma:g}", float(low), float(up))
            for gamma, low, up in zip(gammas, found[smaller], found[larger], strict=True)
        ]
        records.append(min(cases, key=lambda r: (r.holds, (r.right - r.left) / abs(r.right))))
    return records
