"""Strategies of the matrix mechanism: measurements from which a workload can be reconstructed."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize

from gibbs_dp.information import checks


def identity_strategy(size: int) -> Float[np.ndarray, "size size"]:
    """Measure every count once.

    Examples
    --------
    >>> identity_strategy(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return np.eye(checks.count("size", size))


def hierarchical_strategy(size: int) -> Float[np.ndarray, "rows size"]:
    """Sum over a binary tree: all counts, halves, quarters, down to single counts.

    Examples
    --------
    >>> hierarchical_strategy(2).tolist()
    [[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]]
    """
    rows, level = [], [(0, checks.count("size", size))]
    while level:
        below = []
        for start, stop in level:
            row = np.zeros(size)
            row[start:stop] = 1
            rows.append(row)
            if stop - start > 1:
                middle = (start + stop + 1) // 2
                below += [(start, middle), (middle, stop)]
        level = below
    return np.stack(rows)


def optimized_strategy(
    workload: Float[np.ndarray, "queries size"], num_extra: int | None = None, seed: int = 0
) -> Float[np.ndarray, "rows size"]:
    """Minimize the workload's total squared error over strategies ``[I; T] D``.

    ``T >= 0`` and ``D`` scales every column to L1 norm 1, so that the sensitivity is 1 (McKenna et
    al. 2018, p-Identity strategies). The error never exceeds that of the identity.

    Parameters
    ----------
    workload
        Linear queries of the counts, one per row.
    num_extra
        Rows of ``T``; by default a sixteenth of the counts, plus 1.
    seed
        Seed of the starting point.

    Returns
    -------
    array
        One measurement per row.

    Raises
    ------
    ValueError
        If the workload is not a finite matrix.

    Examples
    --------
    >>> prefix = np.tril(np.ones((4, 4)))
    >>> optimized_strategy(prefix).sum(axis=0).round(9)
    array([1., 1., 1., 1.])
    """
    if workload.size == 0 or not np.isfinite(workload).all():
        raise ValueError(
            "workload must be a finite matrix [queries, counts]; give one row per query."
        )
    size = workload.shape[1]
    extra = 1 + size // 16 if num_extra is None else checks.count("num_extra", num_extra)
    gram = workload.T @ workload

    def error(
        flat: Float[np.ndarray, " parameters"],
    ) -> tuple[float, Float[np.ndarray, " parameters"]]:
        t = flat.reshape(extra, size)
        scale = 1 + t.sum(axis=0)
        inverse = np.linalg.inv(np.eye(size) + t.T @ t)
        kernel = scale[:, None] * gram * scale
        by_scale = 2 * ((gram * inverse) @ scale)
        by_t = -2 * t @ inverse @ kernel @ inverse
        return float(np.sum(kernel * inverse)), (by_t + by_scale).ravel()

    start = np.random.default_rng(seed).uniform(0, 1, extra * size)
    found = minimize(error, start, jac=True, method="L-BFGS-B", bounds=[(0, None)] * start.size)
    best = found.x if found.fun < error(np.zeros_like(start))[0] else np.zeros_like(start)
    rows = np.vstack([np.eye(size), best.reshape(extra, size)])
    rows = rows[np.abs(rows).sum(axis=1) > 1e-12]
    return rows / rows.sum(axis=0)
