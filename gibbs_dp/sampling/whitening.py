"""Affine changes of coordinates that make a posterior look like a standard Gaussian."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from gibbs_dp._jaxlib.linalg import cholesky, solve_lower
from gibbs_dp._jaxlib.precision import matmul
from gibbs_dp.sampling.kernels.base import Potential


class Whitening(NamedTuple):
    """Affine map from whitened coordinates ``v`` to flat ones: ``u = center + scale v``.

    ``scale`` is a lower-triangular matrix, or a vector of standard deviations in high dimension.
    """

    center: Float[Array, " dim"]
    scale: Float[Array, "*shape"]

    def color(self, v: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """Whitened to flat."""
        return self.center + (self.scale * v if self.scale.ndim == 1 else matmul(self.scale, v))

    @property
    def log_volume(self) -> Float[Array, ""]:
        """Log determinant of ``scale``: what a density gains on the way to whitened coordinates."""
        diagonal = self.scale if self.scale.ndim == 1 else jnp.diagonal(self.scale)
        return jnp.sum(jnp.log(jnp.abs(diagonal)))

    def whiten(self, u: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """Flat to whitened."""
        if self.scale.ndim == 1:
            return (u - self.center) / self.scale
        return solve_lower(self.scale, u - self.center)

    @property
    def inverse(self) -> Float[Array, "dim dim"]:
        """Matrix that takes differences of flat coordinates to those of whitened ones."""
        if self.scale.ndim == 1:
            return jnp.diag(1.0 / self.scale)
        return solve_lower(self.scale, jnp.eye(self.scale.shape[0], dtype=self.scale.dtype))

    def pull_back(self, potential: Potential) -> Potential:
        """Express the potential as a function of whitened coordinates."""
        return lambda v: potential(self.color(v))


def fit_whitening(draws: Float[Array, "draws dim"], like: Whitening) -> Whitening:
    """Whitening of pooled draws, as rich as ``like``; ``like`` itself where the fit fails.

    The correlation matrix is shrunk to the identity when draws are few: chains decorrelate
    within a few steps, so about a third of the draws count as independent.
    """
    count, dim = draws.shape
    center = jnp.mean(draws, axis=0)
    centered = draws - center
    tiny = jnp.finfo(draws.dtype).tiny * 1e6
    deviation = jnp.sqrt(jnp.sum(centered**2, axis=0) / (count - 1) + tiny)
    if like.scale.ndim == 1:
        scale = deviation
    else:
        standard = centered / deviation
        correlation = count / (count + 3.0 * dim) * matmul(standard.T, standard) / (count - 1)
        correlation = correlation.at[jnp.diag_indices(dim)].set(1.0)
        scale = deviation[:, None] * cholesky(correlation)
    usable = jnp.all(jnp.isfinite(scale)) & jnp.all(jnp.isfinite(center))
    return Whitening(jnp.where(usable, center, like.center), jnp.where(usable, scale, like.scale))
