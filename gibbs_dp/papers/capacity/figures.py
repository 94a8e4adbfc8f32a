"""Capacity-bounded privacy: curves, maps, analysts who select queries, two Gibbs posteriors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Float
from scipy import stats

from gibbs_dp import io
from gibbs_dp.exact import FiniteProblem
from gibbs_dp.information import bounds
from gibbs_dp.papers import capacity
from gibbs_dp.papers.capacity import CapacityBound, QueryHull
from gibbs_dp.papers.capacity.analysts import analyst_rows
from gibbs_dp.papers.on_average_kl.figure2 import private_mean_kl
from gibbs_dp.papers.tables import Row
from gibbs_dp.problems.base import Problem
from gibbs_dp.problems.logistic_regression import logistic_regression
from gibbs_dp.problems.private_mean import private_mean

# Figures 1a and 1b of Chaudhuri, Imola & Machanavajjhala (2019), and where printed bounds fail.

ALPHAS = tuple(float(a) for a in np.concatenate([np.linspace(1.1, 4.0, 30), np.arange(5.0, 41.0)]))
DEGREES = (1, 2, 3)
EPS = 1.0
SIGMA = 1.0
MAP_PRIVACY = tuple(float(e) for e in np.geomspace(0.02, 5.0, 25))
MAP_ALPHAS = (1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0, 20.0, 40.0)


def curve_rows(alphas: Sequence[float] = ALPHAS, eps: float = EPS) -> list[dict[str, float]]:
    """Compute Rényi parameters of Laplace(1/eps) noise over the order, one dict per order, nats.

    Figure 1b shows polynomial adversaries below the unrestricted value; Figure 1a the linear
    adversary below the bound as printed (no guarantee), here beside the valid bound.

    Raises
    ------
    ValueError
        If an order or ``eps`` is out of range.

    Examples
    --------
    >>> row = curve_rows([3.0])[0]
    >>> round(row["degree_1"], 3), round(row["unrestricted"], 3)
    (0.415, 0.747)
    """
    rows = []
    for alpha in alphas:
        row = {"alpha": alpha, "eps": eps}
        for degree in DEGREES:
            row[f"degree_{degree}"] = capacity.laplace_renyi_of_polynomials(eps, alpha, degree)
        row["printed_no_guarantee"] = capacity.printed_laplace(eps, alpha)
        row["valid"] = capacity.valid_laplace(eps, alpha)
        row["unrestricted"] = capacity.laplace_unrestricted_renyi(eps, alpha)
        rows.append(row)
    return rows


def gaussian_curve_rows(
    alphas: Sequence[float] = ALPHAS, sigma: float = SIGMA
) -> list[dict[str, float]]:
    """Compute Rényi parameters of normal noise over the order, sensitivity 1, nats.

    The same columns as `curve_rows`, for the paper's appendix: ``unrestricted`` is
    ``alpha / (2 sigma^2)``, without limit, where every polynomial's value has one.

    Raises
    ------
    ValueError
        If an order or ``sigma`` is out of range.

    Examples
    --------
    >>> row = gaussian_curve_rows([2.0])[0]
    >>> round(row["degree_1"], 9), row["unrestricted"]  # log 2 and 1
    (0.693147181, 1.0)
    """
    rows = []
    for alpha in alphas:
        row = {"alpha": alpha, "sigma": sigma}
        for degree in DEGREES:
            row[f"degree_{degree}"] = capacity.gaussian_renyi_of_polynomials(sigma, alpha, degree)
        row["printed_no_guarantee"] = capacity.printed_gaussian(sigma, alpha)
        row["valid"] = capacity.valid_gaussian(sigma, alpha)
        row["unrestricted"] = capacity.gaussian_unrestricted_renyi(sigma, alpha)
        rows.append(row)
    return rows


def map_rows(
    privacy: Sequence[float] = MAP_PRIVACY, alphas: Sequence[float] = MAP_ALPHAS
) -> list[Row]:
    """Map where the printed Rényi bounds fail, hold or are vacuous: one dict per setting.

    Laplace and normal noise in one dimension and in two (sensitivity 1/2 in each), and the matrix
    mechanism on four counts; orders below 2 in one dimension alone.

    Examples
    --------
    >>> [row["verdict"] for row in map_rows([0.2], [3.0])]
    ['fails', 'fails', 'holds', 'fails', 'vacuous']
    """
    sigmas = [1 / value for value in privacy]
    later = [alpha for alpha in alphas if alpha >= 2]
    both = [0.5, 0.5]
    found = [
        *capacity.regime_map(capacity.laplace_regime, privacy, alphas),
        *capacity.regime_map(capacity.gaussian_regime, sigmas, alphas),
        *capacity.regime_map(partial(capacity.laplace_regime, shift=both), privacy, later),
        *capacity.regime_map(partial(capacity.gaussian_regime, shift=both), sigmas, later),
        *capacity.regime_map(capacity.matrix_regime, privacy, later),
    ]
    return [
        {("printed_no_guarantee" if k == "printed" else k): v for k, v in row._asdict().items()}
        for row in found
    ]


def matrix_rows(
    size: int = 8, eps: float = 0.5, alphas: Sequence[float] = (2.0, 3.0, 5.0)
) -> list[Row]:
    """Compare Theorem 5 with the exact value of linear adversaries, strategy by strategy.

    The workload is every prefix sum of ``size`` counts and five times the total; add/remove.

    Examples
    --------
    >>> row = matrix_rows(2, 0.5, [2.0])[0]
    >>> row["strategy"], round(row["simulation"], 6)
    ('identity', 0.117783)
    """
    workload = np.vstack([np.tril(np.ones((size, size))), 5 * np.ones((1, size))])
    strategies = {
        "identity": capacity.identity_strategy(size),
        "hierarchical": capacity.hierarchical_strategy(size),
        "optimized": capacity.optimized_strategy(workload),
    }
    rows: list[Row] = []
    for name, strategy in strategies.items():
        mechanism = capacity.MatrixMechanism(workload, strategy, eps)
        rows += [
            {
                "strategy": name,
                "rows": strategy.shape[0],
                "eps": eps,
                "alpha": alpha,
                "total_variance": mechanism.total_variance(),
                "simulation": mechanism.linear_renyi(alpha, "add-remove").value,
                "release": mechanism.linear_renyi(alpha, "add-remove", "release").value,
                "valid": mechanism.linear_renyi_valid(alpha, "add-remove").value,
                "printed_no_guarantee": mechanism.linear_renyi_printed(alpha).value,
            }
            for alpha in alphas
        ]
    return rows


# A mechanism that selects a query: how much it overfits, and what the bounds say (Theorem 6).

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
