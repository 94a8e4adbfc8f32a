"""Figures 1a and 1b of Chaudhuri, Imola & Machanavajjhala (2019), and where printed bounds fail."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from gibbs_dp import capacity
from gibbs_dp.experiments.tables import Row

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
