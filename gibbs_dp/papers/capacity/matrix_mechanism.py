"""The matrix mechanism: measure a strategy with Laplace noise, reconstruct a workload."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from gibbs_dp.information import checks
from gibbs_dp.papers.capacity.adversaries import Polynomial
from gibbs_dp.papers.capacity.bound import CapacityBound
from gibbs_dp.papers.capacity.closed_forms import inverse_scale
from gibbs_dp.papers.capacity.renyi_bounds import printed_matrix_mechanism, valid_laplace
from gibbs_dp.papers.capacity.several import laplace_renyi_of_linear
from gibbs_dp.privacy.noise import exact_product, laplace_release


@dataclass(frozen=True, eq=False)
class MatrixMechanism:
    """``M(x) = W A^+ (A x + |A|_1 Lap(1/eps)^s)`` (Li et al. 2010), x a vector of counts.

    ``|A|_1`` is the largest L1 norm of a column. Pure DP ``eps`` for adding or removing an example;
    replacing one moves a count to another and costs ``2 eps``.

    Parameters
    ----------
    workload
        Queries ``W``, one per row.
    strategy
        Measurements ``A``, ``s`` rows, which must determine the workload: ``W A^+ A = W``.
    eps
        Inverse scale of the noise relative to ``|A|_1``; ``inf`` is no noise.

    Raises
    ------
    ValueError
        If the shapes do not fit, or the strategy does not determine the workload.

    Examples
    --------
    >>> counts = MatrixMechanism(np.tril(np.ones((3, 3))), np.eye(3), eps=1.0)
    >>> counts.sensitivity, counts.pure_dp("replace-one")
    (1.0, 2.0)
    """

    workload: Float[np.ndarray, "queries counts"]
    strategy: Float[np.ndarray, "rows columns"]
    eps: float

    def __post_init__(self) -> None:
        inverse_scale(self.eps)
        w, a = self.workload, self.strategy
        if not (np.isfinite(w).all() and np.isfinite(a).all()) or w.shape[1] != a.shape[1]:
            raise ValueError(
                f"workload and strategy must be finite with one column per count, got shapes "
                f"{w.shape} and {a.shape}."
            )
        if not np.allclose(self.reconstruction @ a, w, atol=1e-8 * max(1.0, np.abs(w).max())):
            raise ValueError(
                "strategy does not determine the workload (W A^+ A differs from W); measure more "
                "rows, such as every count."
            )

    @property
    def reconstruction(self) -> Float[np.ndarray, "queries rows"]:
        """``W A^+``: from measurements to answers, by least squares."""
        return np.asarray(self.workload @ np.linalg.pinv(self.strategy))

    @property
    def sensitivity(self) -> float:
        """``|A|_1``: the largest change of the measurements by one example."""
        return float(np.abs(self.strategy).sum(axis=0).max())

    def pure_dp(self, adjacency: checks.Adjacency) -> float:
        """Worst-case epsilon of the measurements, in nats."""
        return max(float(np.abs(v).sum()) for v in self._shifts(adjacency)) * self.eps

    def measure(
        self, counts: Float[np.ndarray, " size"], generator: np.random.Generator
    ) -> Float[np.ndarray, " rows"]:
        """Draw the noisy measurements ``A x + |A|_1 Lap(1/eps)^s``.

        For simulation only: floating-point noise is not a hardened release.
        """
        scale = self.sensitivity / self.eps
        return self.strategy @ counts + generator.laplace(0.0, scale, self.strategy.shape[0])

    def simulate(
        self, counts: Float[np.ndarray, " size"], generator: np.random.Generator
    ) -> Float[np.ndarray, " queries"]:
        """Draw the answers ``W A^+`` of the measurements: ``W x`` plus noise."""
        return self.reconstruction @ self.measure(counts, generator)

    def release(self, counts: Float[np.ndarray, " size"]) -> Float[np.ndarray, " queries"]:
        """Answer the workload with secret noise, drawn exactly (`gibbs_dp.privacy.noise`).

        The guarantee is `pure_dp`'s: counts are multiplied by the strategy without rounding, and
        the reconstruction is post-processing.

        Raises
        ------
        ValueError
            If ``eps`` is infinite, or a count is not finite.
        """
        if not math.isfinite(self.eps):
            raise ValueError("eps must be finite to release anything; infinite eps adds no noise.")
        measured = exact_product(self.strategy, np.asarray(counts, np.float64))
        return np.asarray(
            self.reconstruction @ laplace_release(measured, self.sensitivity / self.eps)
        )

    def total_variance(self) -> float:
        """Sum over queries of the variance of the answer."""
        scale = self.sensitivity / self.eps
        return 2 * scale**2 * float(np.sum(self.reconstruction**2))

    def linear_renyi(
        self, alpha: float, adjacency: checks.Adjacency, form: str = "simulation"
    ) -> CapacityBound:
        """Exact restricted Rényi divergence of linear adversaries, over all adjacent datasets.

        Parameters
        ----------
        alpha
            Order in ``[2, 1000]``.
        adjacency
            "add-remove" or "replace-one".
        form
            "simulation": the adversary sees the measurements, of which the answers are a linear
            post-processing; "release": only the answers, hence no more.

        Returns
        -------
        CapacityBound
            Its largest value over adjacent datasets, in nats.

        Raises
        ------
        ValueError
            If an argument is out of range.

        Examples
        --------
        >>> counts = MatrixMechanism(np.eye(2), np.eye(2), eps=1.0)
        >>> round(counts.linear_renyi(2.0, "add-remove").value, 9)  # log(1 + 1/2)
        0.405465108
        """
        if form not in ("simulation", "release"):
            raise ValueError(f"form must be 'simulation' or 'release', got {form!r}.")
        visible = self.reconstruction if form == "release" else None
        value = max(
            laplace_renyi_of_linear(self.eps, alpha, v, visible) for v in self._shifts(adjacency)
        )
        return self._bound(value, alpha, adjacency, "exact", form)

    def linear_renyi_valid(self, alpha: float, adjacency: checks.Adjacency) -> CapacityBound:
        """Closed-form bound on `linear_renyi` in either form, for every order above 1."""
        if math.isinf(self.eps):
            return self._bound(math.inf, alpha, adjacency, "bound", "no noise")
        value = max(valid_laplace(self.eps, alpha, v) for v in self._shifts(adjacency))
        return self._bound(value, alpha, adjacency, "bound", "valid for all orders")

    def linear_renyi_printed(self, alpha: float) -> CapacityBound:
        """Theorem 5 as printed, for adding or removing an example: **no guarantee**."""
        value = printed_matrix_mechanism(self.strategy.shape[0], self.eps, alpha)
        return self._bound(value, alpha, "add-remove", "printed", "Theorem 5")

    def _bound(
        self, value: float, alpha: float, adjacency: checks.Adjacency, status: str, source: str
    ) -> CapacityBound:
        return CapacityBound(value, "renyi", Polynomial(1), alpha, adjacency, status, source)  # type: ignore[arg-type]

    def _shifts(self, adjacency: checks.Adjacency) -> list[Float[np.ndarray, " rows"]]:
        """Differences of the measurements of adjacent datasets, in units of the sensitivity."""
        columns = self.strategy.T / self.sensitivity
        if checks.adjacency(adjacency) == "add-remove":
            moved = list(columns)
        else:
            moved = [a - b for i, a in enumerate(columns) for b in columns[:i]]
        # Laplace noise is symmetric and the same in every coordinate.
        distinct = {tuple(v): v for v in moved if v.any()}
        return list(distinct.values()) or [np.zeros(columns.shape[1])]
