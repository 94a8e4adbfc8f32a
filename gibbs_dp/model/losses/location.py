"""Losses of a place: half the squared distance, k-means, and the linear loss."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gibbs_dp.model.domain import Domain, LossConstants, product
from gibbs_dp.model.losses.base import Labels, LinearLoss, Loss, RankOne, Values, array_namespace


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

    def rank_one(self, theta: Float[Array, " d"], data: Float[Array, "n d"]) -> RankOne:
        """All examples' losses are curved alike; their slopes point away from the examples."""
        away = theta - data
        return RankOne(away, jnp.ones_like(away[:, 0]), jnp.zeros_like(away[:, 0]))

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


# Squared distance to the nearest of several centers.


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


# Linear loss of a linear prediction: the correlation with the label.


@dataclass(frozen=True)
class Linear(LinearLoss):
    """``-y x·theta``: it rewards predictions that agree in sign with the label, without limit.

    With a Gaussian prior ``N(0, s^2 I)`` the Gibbs posterior is exactly ``N(gamma s^2 sum y_i x_i,
    s^2 I)``: the Gaussian mechanism on ``sum y_i x_i``. For two classes, code labels as -1/2, 1/2.

    >>> import jax.numpy as jnp
    >>> float(Linear()(jnp.array([2.0]), (jnp.array([1.0]), jnp.array(-0.5))))
    1.0
    """

    labels = None  # it has no minimum: no fit to data
    is_quadratic: ClassVar[bool] = True

    def value(self, prediction: Values, y: Labels) -> Values:
        """``-y prediction``."""
        return -y * prediction

    def slope(self, prediction: Values, y: Labels) -> Values:
        """``-y``."""
        return -y * array_namespace(prediction).ones_like(prediction)

    def curvature(self, prediction: Values, y: Labels) -> Values:
        """0."""
        return array_namespace(prediction).zeros_like(prediction)

    def precise(self, prediction: Decimal, y: Decimal) -> Decimal:
        """``-y prediction`` to more digits."""
        return -y * prediction

    def constants(self, domain: Domain) -> LossConstants:
        """Constants with ``|x·theta| <= P`` and ``|y| <= Y``; gradients are free of theta."""
        p, y = domain.prediction_bound, domain.y_bound
        largest = product(y, p)
        return LossConstants.of(
            range=(-largest, largest),
            oscillation=2 * largest,
            lipschitz=product(y, domain.x_bound),
            smoothness=0.0,
        )
