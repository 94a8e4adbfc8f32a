"""Parameters as points of flat Euclidean space, by the bijections of a prior's supports."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

Scalar = Float[Array, ""]


class UnconstrainedTarget(NamedTuple):
    """A posterior on flat Euclidean space, for use in any sampler.

    Attributes
    ----------
    log_density
        Unnormalized log density of the flat vector ``u [dim]``, Jacobian included.
    constrain
        Maps ``u [dim]`` to theta.
    unconstrain
        Maps theta to ``u [dim]``.
    dim
        Length of ``u``.
    """

    log_density: Callable[[Float[Array, " dim"]], Scalar]
    constrain: Callable[[Float[Array, " dim"]], PyTree]
    unconstrain: Callable[[PyTree], Float[Array, " dim"]]
    dim: int


class FlatCoordinates:
    """What has a prior, seen through its flat coordinates."""

    prior: Any

    @property
    def dim(self) -> int:
        """Number of unconstrained coordinates."""
        return sum(prod(s.unconstrained_shape) for s in self.prior.supports)

    def _split(self, u: Float[Array, " dim"]) -> list[Array]:
        parts, start = [], 0
        for s in self.prior.supports:
            size = prod(s.unconstrained_shape)
            parts.append(u[start : start + size].reshape(s.unconstrained_shape))
            start += size
        return parts

    def constrain(self, u: Float[Array, " dim"]) -> PyTree:
        """Map flat unconstrained coordinates to theta."""
        parts = zip(self.prior.supports, self._split(u), strict=True)
        return self.prior.treedef.unflatten([s.constrain(x) for s, x in parts])

    def unconstrain(self, theta: PyTree) -> Float[Array, " dim"]:
        """Map theta (inside the support) to flat unconstrained coordinates."""
        values = self.prior.treedef.flatten_up_to(theta)
        pairs = zip(self.prior.supports, values, strict=True)
        return ravel_pytree([s.unconstrain(jnp.asarray(x)) for s, x in pairs])[0]

    def log_prior_unconstrained(self, u: Float[Array, " dim"]) -> Scalar:
        """Log prior density of the flat coordinates: log prior plus log Jacobian."""
        parts = zip(self.prior.supports, self._split(u), strict=True)
        log_det = jnp.sum(jnp.stack([s.log_det(x) for s, x in parts]))
        return self.prior.log_prob(self.constrain(u)) + log_det

    def initial(self, key: PRNGKeyArray) -> Float[Array, " dim"]:
        """Draw an overdispersed start in flat coordinates."""
        return self.unconstrain(self.prior.initial(key))
