"""Where the printed Rényi bounds fail, hold, or say nothing: a map over eps and alpha."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.optimize import minimize

from gibbs_dp.information import checks
from gibbs_dp.papers.capacity.closed_forms import (
    gaussian_unrestricted_renyi,
    laplace_unrestricted_renyi,
    shift_vector,
)
from gibbs_dp.papers.capacity.matrix_mechanism import MatrixMechanism
from gibbs_dp.papers.capacity.renyi_bounds import (
    printed_gaussian,
    printed_gaussian_several,
    printed_laplace,
    valid_gaussian,
    valid_laplace,
)
from gibbs_dp.papers.capacity.several import (
    gaussian_renyi_of_polynomials,
    laplace_renyi_of_linear,
    laplace_renyi_of_polynomials,
)

# Strategies of the matrix mechanism: measurements from which a workload can be reconstructed.


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


Verdict = Literal["fails", "holds", "vacuous"]
# Relative accuracy of exact values: 3e-6 in several dimensions, 1e-10 in one.
_TOLERANCE = 1e-5


class Regime(NamedTuple):
    """All values of one row of the table at one setting, in nats.

    Attributes
    ----------
    row
        "laplace", "gaussian" (", d = 2" and so on in more dimensions) or "matrix mechanism".
    privacy
        ``eps`` of Laplace(1/eps) noise, ``1 / sigma`` of normal noise.
    alpha
        Order.
    exact
        Restricted Rényi divergence of a linear adversary.
    printed
        The bound as printed: no guarantee.
    valid
        A bound that holds.
    unrestricted
        Rényi divergence of an unrestricted adversary.
    verdict
        On the printed bound: "fails" below the exact value, "vacuous" above the unrestricted one.
    """

    row: str
    privacy: float
    alpha: float
    exact: float
    printed: float
    valid: float
    unrestricted: float
    verdict: Verdict


def _verdict(exact: float, printed: float, unrestricted: float) -> Verdict:
    if printed < exact * (1 - _TOLERANCE):
        return "fails"
    return "vacuous" if printed > unrestricted else "holds"


def _row(noise: str, shift: Float[np.ndarray, " d"]) -> str:
    return noise if shift.size == 1 else f"{noise}, d = {shift.size}"


def laplace_regime(eps: float, alpha: float, shift: ArrayLike | float = 1.0) -> Regime:
    """Compute the Laplace row; ``shift`` gives the sensitivity of each coordinate.

    Raises
    ------
    ValueError
        If an argument is out of range (``alpha >= 2`` in several dimensions).

    Examples
    --------
    >>> laplace_regime(0.2, 3.0).verdict
    'fails'
    """
    moved = shift_vector(shift)
    if moved.size == 1:
        exact = laplace_renyi_of_polynomials(eps * abs(float(moved[0])), alpha)
    else:
        exact = laplace_renyi_of_linear(eps, alpha, moved)
    printed = printed_laplace(eps, alpha, moved)
    free = laplace_unrestricted_renyi(eps, alpha, moved)
    bound = valid_laplace(eps, alpha, moved)
    verdict = _verdict(exact, printed, free)
    return Regime(_row("laplace", moved), eps, alpha, exact, printed, bound, free, verdict)


def gaussian_regime(sigma: float, alpha: float, shift: ArrayLike | float = 1.0) -> Regime:
    """Compute the Gaussian row, with its own printed form in one dimension of sensitivity 1.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> gaussian_regime(5.0, 3.0).verdict
    'fails'
    """
    moved = shift_vector(shift)
    exact = gaussian_renyi_of_polynomials(sigma, alpha, 1, moved)
    is_one = moved.size == 1 and moved[0] == 1
    printed = (
        printed_gaussian(sigma, alpha) if is_one else printed_gaussian_several(sigma, alpha, moved)
    )
    free = gaussian_unrestricted_renyi(sigma, alpha, moved)
    bound = valid_gaussian(sigma, alpha, moved)
    verdict = _verdict(exact, printed, free)
    return Regime(_row("gaussian", moved), 1 / sigma, alpha, exact, printed, bound, free, verdict)


def matrix_regime(eps: float, alpha: float, num_rows: int = 4) -> Regime:
    """Compute the matrix mechanism's row (Theorem 5), for single counts, add/remove.

    Raises
    ------
    ValueError
        If an argument is out of range (``alpha >= 2``).

    Examples
    --------
    >>> matrix_regime(0.001, 3.0).verdict, matrix_regime(0.5, 3.0).verdict
    ('fails', 'vacuous')
    """
    counts = identity_strategy(num_rows)
    mechanism = MatrixMechanism(counts, counts, eps)
    exact = mechanism.linear_renyi(alpha, "add-remove").value
    bound = mechanism.linear_renyi_valid(alpha, "add-remove").value
    printed = mechanism.linear_renyi_printed(alpha).value
    # One example moves one count.
    free = laplace_unrestricted_renyi(eps, alpha)
    verdict = _verdict(exact, printed, free)
    return Regime("matrix mechanism", eps, alpha, exact, printed, bound, free, verdict)


def regime_map(
    regime: Callable[[float, float], Regime], settings: Sequence[float], alphas: Sequence[float]
) -> list[Regime]:
    """Evaluate a row on a grid, with ``settings`` (eps or sigma) varying slowest.

    Examples
    --------
    >>> [r.verdict for r in regime_map(laplace_regime, [0.1, 1.0], [3.0, 5.0])]
    ['fails', 'fails', 'vacuous', 'holds']
    """
    return [regime(float(s), float(a)) for s in settings for a in alphas]


def failing_below(regimes: Sequence[Regime]) -> dict[float, float]:
    """Largest setting (in ``privacy``) at which each order's printed bound fails, or 0.

    Examples
    --------
    >>> failing_below(regime_map(laplace_regime, [0.05, 0.1, 1.0], [2.0, 3.0]))
    {2.0: 0.0, 3.0: 0.1}
    """
    found: dict[float, float] = {}
    for regime in regimes:
        failed = regime.privacy if regime.verdict == "fails" else 0.0
        found[regime.alpha] = float(np.maximum(found.get(regime.alpha, 0.0), failed))
    return found
