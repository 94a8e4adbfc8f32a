"""A centred Gaussian law truncated to a ball."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float, PRNGKeyArray
from scipy import special

from gibbs_dp.model.ball import L2Ball


class NormalInBall(dist.Distribution):  # type: ignore[misc]
    """``N(0, scale^2 I)`` of ``dim`` coordinates, given that the length is below ``radius``.

    As a prior it is as strongly log-concave as the Gaussian, and bounds the parameter, so that
    losses have constants which they lack on all of space.

    Parameters
    ----------
    dim
        Number of coordinates.
    radius
        Of the ball.
    scale
        Standard deviation before truncation.

    Raises
    ------
    ValueError
        Unless ``dim`` is at least 1, and radius and scale are positive and finite.

    Examples
    --------
    >>> law = NormalInBall(2, radius=1.0, scale=1.0)
    >>> round(float(law.log_prob(jnp.zeros(2))), 4)      # -log(2 pi (1 - exp(-1/2)))
    -0.9051
    """

    pytree_aux_fields = ("dim", "radius", "scale")
    reparametrized_params: ClassVar[list[str]] = []

    def __init__(self, dim: int, radius: float, scale: float, *, validate_args: Any = None) -> None:
        if not (isinstance(dim, (int, np.integer)) and dim >= 1):
            raise ValueError(f"dim: give a number of coordinates of at least 1, got {dim!r}.")
        for name, value in (("radius", radius), ("scale", scale)):
            if not (value > 0 and math.isfinite(value)):
                raise ValueError(f"{name}: must be positive and finite, got {value}.")
        self.dim, self.radius, self.scale = int(dim), float(radius), float(scale)
        super().__init__((), (self.dim,), validate_args=validate_args)

    @property
    def support(self) -> L2Ball:
        """The ball."""
        return L2Ball(self.radius)

    @property
    def _inside(self) -> float:
        """Probability of the ball before truncation."""
        return float(special.gammainc(0.5 * self.dim, 0.5 * (self.radius / self.scale) ** 2))

    def log_prob(
        self, value: Float[Array, "*b d"], intermediates: Any = None
    ) -> Float[Array, "*b"]:
        """Log density inside the ball."""
        del intermediates
        normalizer = 0.5 * self.dim * math.log(2 * math.pi * self.scale**2) + math.log(self._inside)
        return -0.5 * jnp.sum((value / self.scale) ** 2, axis=-1) - normalizer

    def sample(self, key: PRNGKeyArray, sample_shape: tuple[int, ...] = ()) -> Array:
        """Draw a direction, and a length by inverting its law."""
        way, far = jax.random.split(key)
        normal = jax.random.normal(way, (*sample_shape, self.dim))
        unit = normal / jnp.linalg.norm(normal, axis=-1, keepdims=True)
        share = jax.random.uniform(far, sample_shape) * self._inside

        def halve(_: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
            low, high = ends
            middle = 0.5 * (low + high)
            is_low = jax.scipy.special.gammainc(0.5 * self.dim, 0.5 * middle**2) < share
            return jnp.where(is_low, middle, low), jnp.where(is_low, high, middle)

        ends = jnp.zeros_like(share), jnp.full_like(share, self.radius / self.scale)
        low, high = jax.lax.fori_loop(0, 50, halve, ends)
        inside = jnp.minimum(0.5 * (low + high) * self.scale, self.radius * (1 - 1e-6))
        return inside[..., None] * unit
