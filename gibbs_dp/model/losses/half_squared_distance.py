"""Half the squared Euclidean distance between a parameter and an example."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gibbs_dp.model.domain import Domain, LossConstants, product
from gibbs_dp.model.losses.base import Loss


@dataclass(frozen=True)
class HalfSquaredDistance(Loss):
    """``|theta - z|^2 / 2`` for examples ``z [d]``: the Gaussian mean problem.

    Clipping its gradients leaves those of a Huber function of ``|theta - z|``, which is convex.

    >>> import jax.numpy as jnp
    >>> float(HalfSquaredDistance()(jnp.array([0.0, 3.0]), jnp.array([4.0, 0.0])))
    12.5
    """

    is_quadratic: ClassVar[bool] = True
    is_convex_when_clipped = True

    def __call__(self, theta: Float[Array, " d"], z: Float[Array, " d"]) -> Float[Array, ""]:
        """Loss of one example."""
        _require_same_shape(jnp.shape(theta), jnp.shape(z))
        return 0.5 * jnp.sum((theta - z) ** 2)

    def batch(self, theta: Float[Array, " d"], data: Float[Array, "n d"]) -> Float[Array, " n"]:
        """Losses of ``z [n, d]``."""
        _require_same_shape(jnp.shape(theta), jnp.shape(data)[1:])
        return 0.5 * jnp.sum((theta - data) ** 2, axis=-1)

    def constants(self, domain: Domain) -> LossConstants:
        """Constants with ``|z| <= x_bound`` and ``|theta| <= theta_bound``.

        For one example the loss moves by ``(|z| + T)^2 / 2 - max(0, |z| - T)^2 / 2`` over theta,
        which is ``2 |z| T`` once ``|z| >= T``.
        """
        z = domain.x_bound
        theta = np.inf if domain.theta_bound is None else domain.theta_bound
        top = 0.5 * (z + theta) ** 2
        return LossConstants(
            range=(0.0, top),
            oscillation=product(2.0, z, theta) if z >= theta else top,
            lipschitz=z + theta,
            smoothness=1.0,
            strong_convexity=1.0,
            # Two examples differ by a linear function of theta.
            exchange_range=product(4.0, z, theta),
            exchange_lipschitz=2 * z,
        )


def _require_same_shape(theta: tuple[int, ...], z: tuple[int, ...]) -> None:
    """Refuse to broadcast: the constants would not hold."""
    if theta != z:
        raise ValueError(f"theta of shape {theta} and an example of shape {z} must be alike")
