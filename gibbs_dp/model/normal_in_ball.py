"""A centred Gaussian law truncated to a ball."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float, PRNGKeyArray

from gibbs_dp.model.ball import L2Ball, log_stretch, longest_square

NUM_QUANTILES = 4096


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
    def _log_inside(self) -> float:
        """Log probability of the ball before truncation."""
        return float(_log_law(np.array([self.radius / self.scale]), self.dim)[0])

    def log_prob(
        self, value: Float[Array, "*b d"], intermediates: Any = None
    ) -> Float[Array, "*b"]:
        """Log density inside the ball."""
        del intermediates
        normalizer = 0.5 * self.dim * math.log(2 * math.pi * self.scale**2) + self._log_inside
        return -0.5 * jnp.sum((value / self.scale) ** 2, axis=-1) - normalizer

    def sample(self, key: PRNGKeyArray, sample_shape: tuple[int, ...] = ()) -> Array:
        """Draw a direction, and a length by inverting its law."""
        way, far = jax.random.split(key)
        normal = jax.random.normal(way, (*sample_shape, self.dim))
        unit = normal / jnp.linalg.norm(normal, axis=-1, keepdims=True)
        share = jax.random.uniform(far, sample_shape) ** (1 / self.dim)
        roots, lengths = _quantiles(self.dim, self.radius / self.scale)
        length = self.scale * jnp.interp(share, jnp.asarray(roots), jnp.asarray(lengths))
        return jnp.minimum(length, self.radius * (1 - 1e-6))[..., None] * unit


def _log_law(length: Float[np.ndarray, " points"], dim: int) -> Float[np.ndarray, " points"]:
    """Log probability that a standard normal vector is shorter, also where it underflows."""
    square = length**2
    is_far = square > longest_square(dim)
    inside = dim * (log_stretch(np.where(is_far, 1.0, square), dim) + np.log(length))
    return np.where(is_far, 0.0, inside)


@lru_cache(maxsize=64)
def _quantiles(
    dim: int, longest: float
) -> tuple[Float[np.ndarray, " points"], Float[np.ndarray, " points"]]:
    """Lengths, and the ``dim``-th roots of the shares of draws that are shorter."""
    lengths = longest * np.linspace(0.0, 1.0, NUM_QUANTILES + 1)[1:]
    log_shares = _log_law(lengths, dim)
    roots = np.exp((log_shares - log_shares[-1]) / dim)
    return np.append(0.0, roots), np.append(0.0, lengths)
