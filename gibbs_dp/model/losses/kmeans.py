"""Squared distance to the nearest of several centers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gibbs_dp.model.domain import Domain, LossConstants, product
from gibbs_dp.model.losses.base import Loss


@dataclass(frozen=True)
class KMeans(Loss):
    """``min_k |z - theta_k|^2`` for examples ``z [d]`` and centers ``theta [K, d]``.

    Parameters
    ----------
    num_clusters
        ``K >= 1``.

    Raises
    ------
    ValueError
        If it is below 1.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> centers = jnp.array([[0.0, 0.0], [3.0, 0.0]])
    >>> float(KMeans(num_clusters=2)(centers, jnp.array([2.0, 1.0])))
    2.0
    """

    num_clusters: int = 2

    def __post_init__(self) -> None:
        if self.num_clusters < 1:
            raise ValueError(f"KMeans(num_clusters) must be at least 1, got {self.num_clusters}.")

    def __call__(self, theta: Float[Array, "k d"], z: Float[Array, " d"]) -> Float[Array, ""]:
        """Loss of one example."""
        self._check_shapes(jnp.shape(theta), jnp.shape(z))
        return jnp.min(jnp.sum((theta - z) ** 2, axis=-1))

    def batch(self, theta: Float[Array, "k d"], data: Float[Array, "n d"]) -> Float[Array, " n"]:
        """Losses of ``z [n, d]``."""
        self._check_shapes(jnp.shape(theta), jnp.shape(data)[1:])
        return jnp.min(jnp.sum((theta - data[:, None]) ** 2, axis=-1), axis=-1)

    def _check_shapes(self, theta: tuple[int, ...], z: tuple[int, ...]) -> None:
        """Refuse to broadcast, and other numbers of centers: the constants would not hold."""
        if len(z) != 1 or theta != (self.num_clusters, *z):
            raise ValueError(f"theta of shape {theta} must be {self.num_clusters} centers like {z}")

    def constants(self, domain: Domain) -> LossConstants:
        """Constants with ``|z| <= x_bound`` and the norm of all centers together at most ``T``.

        The shortest center has norm ``T / sqrt(K)`` at most, so the nearest one is never further
        than ``|z| + T / sqrt(K)``. The gradient jumps where two centers are equally near: several
        centers are neither smooth nor convex.
        """
        z, k = domain.x_bound, self.num_clusters
        theta = np.inf if domain.theta_bound is None else domain.theta_bound
        far = z + theta / k**0.5
        if z >= theta and np.isfinite(theta):  # far^2 - (z - theta)^2
            oscillation = product(2.0, z, theta, 1 + k**-0.5) - theta**2 * (1 - 1 / k)
        else:
            oscillation = far**2
        return LossConstants.of(
            range=(0.0, far**2),
            oscillation=oscillation,
            lipschitz=2 * far,
            smoothness=2.0 if k == 1 else np.inf,
            strong_convexity=2.0 if k == 1 else -np.inf,
        )

    def check_examples(self, data: Any) -> None:
        """Raise a ValueError unless the examples are one array ``[n, d]``."""
        if isinstance(data, (tuple, list, dict)) or jnp.ndim(data) != 2:
            raise ValueError("data: the k-means loss needs examples z as one array [n, d].")
