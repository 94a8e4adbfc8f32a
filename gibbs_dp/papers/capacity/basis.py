"""Polynomials that are orthonormal under a law, by their three-term recurrence."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Complex, Float

from gibbs_dp.papers.capacity.line import Line


class Basis(NamedTuple):
    """Orthonormal polynomials ``p_0 = 1, ..., p_k`` of a law Q.

    ``x p_j = b_j p_{j-1} + a_j p_j + b_{j+1} p_{j+1}`` keeps values and zeros of
    combinations accurate at degrees where powers of ``x`` are not.

    Attributes
    ----------
    diagonal
        ``a_0 .. a_{k-1}``.
    side
        ``b_1 .. b_k``.
    """

    diagonal: Float[np.ndarray, " degree"]
    side: Float[np.ndarray, " degree"]

    @property
    def degree(self) -> int:
        """The largest degree ``k``."""
        return len(self.diagonal)

    def values(self, x: Float[np.ndarray, " nodes"]) -> Float[np.ndarray, "terms nodes"]:
        """Evaluate ``p_j(x)`` for ``j = 0..k``, one row each."""
        rows = [np.ones_like(x)]
        before = np.zeros_like(x)
        for j in range(self.degree):
            back = self.side[j - 1] * before if j else 0.0
            before = rows[-1]
            rows.append(((x - self.diagonal[j]) * before - back) / self.side[j])
        return np.stack(rows)

    def zeros(self, coefficients: Float[np.ndarray, " terms"]) -> Complex[np.ndarray, " zeros"]:
        """Zeros of ``sum_j c_j p_j``: eigenvalues of the comrade matrix."""
        size = np.abs(coefficients).max()
        used = np.flatnonzero(np.abs(coefficients) > 1e-14 * size)
        top = int(used[-1]) if used.size else 0
        if top == 0:
            return np.empty(0, np.complex128)
        inner = self.side[: top - 1]
        matrix = np.diag(self.diagonal[:top]) + np.diag(inner, 1) + np.diag(inner, -1)
        matrix[-1] -= self.side[top - 1] * coefficients[:top] / coefficients[top]
        return np.linalg.eigvals(matrix).astype(np.complex128)


def orthonormal_basis(law: Line, degree: int) -> Basis:
    """Recurrence of a law up to ``degree``, by the Stieltjes procedure.

    Raises
    ------
    ValueError
        If the law has too few moments, or too few points, for the degree.

    Examples
    --------
    >>> from gibbs_dp.papers.capacity.line import gaussian_line
    >>> orthonormal_basis(gaussian_line(0.0, 1.0), 3).side.round(6)  # Hermite: sqrt(j)
    array([1.      , 1.414214, 1.732051])
    """
    x, mass = law.weighted_nodes
    diagonal, side = np.empty(degree), np.empty(degree)
    before, current = np.zeros_like(x), np.ones_like(x)
    for j in range(degree):
        diagonal[j] = mass @ (x * current**2)
        back = side[j - 1] * before if j else 0.0
        raw = (x - diagonal[j]) * current - back
        with np.errstate(over="ignore", invalid="ignore"):
            norm = np.sqrt(mass @ raw**2)
        if not (np.isfinite(norm) and norm > 0):
            raise ValueError(
                f"degree: the law has no finite, positive moment of order {2 * (j + 1)}; "
                f"use a degree of at most {j}."
            )
        side[j] = norm
        before, current = current, raw / norm
    return Basis(diagonal, side)
