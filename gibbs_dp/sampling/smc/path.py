"""The path of an SMC sampler, and what is frozen of it before it runs.

From a law that can be drawn from, at gamma = 0, through tempered posteriors to the largest gamma
(Del Moral, Doucet & Jasra 2006, section 2.3.1). Where the prior is proper it is that law. Where it
is not, a wide normal stands in: on the way to the smallest gamma its share goes from 1 to 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from gibbs_dp.sampling.whitening import Whitening

# A dense scale of more coordinates costs more than it saves.
MAX_DENSE_DIM = 128


class Point(NamedTuple):
    """A law on the path: ``exp(-gamma L) prior^share origin^(1 - share)``.

    ``share`` is 1 all along where the prior is proper.
    """

    gamma: Float[Array, "*b"]
    share: Float[Array, "*b"]


class Segment(NamedTuple):
    """The part of a path that ends at one gamma of a grid; the same for all datasets.

    Nothing of it may come from the particles that it is used on: normalizers would be biased
    upwards, unseen by islands.

    Attributes
    ----------
    points
        Laws after each step; the last one that counts is at the grid's gamma.
    scale
        What coordinates are whitened with at each step: lower-triangular matrices, or vectors of
        standard deviations above ``MAX_DENSE_DIM`` coordinates.
    step_size
        Of the kernel, at each step.
    num_moves
        Transitions of every particle, at each step.
    num_steps
        Steps that count; beyond them is padding.
    origin
        The wide normal that paths start from; not used where the prior is proper.
    """

    points: Point
    scale: Float[Array, "*shape"]
    step_size: Float[Array, "*b steps"]
    num_moves: Int[Array, "*b steps"]
    num_steps: Int[Array, "*b"]
    origin: Whitening

    @property
    def length(self) -> int:
        """Steps, with padding."""
        return int(self.step_size.shape[-1])

    def padded(self, length: int) -> Segment:
        """Repeat the last step until there are so many."""
        axis = self.num_steps.ndim

        def longer(a: Float[Any, "*shape"] | Int[Any, "*shape"]) -> Array:
            steps = jnp.minimum(jnp.arange(length), self.length - 1)
            return jnp.take(jnp.asarray(a), steps, axis=axis)

        return self._replace(
            points=jax.tree.map(longer, self.points),
            scale=longer(self.scale),
            step_size=longer(self.step_size),
            num_moves=longer(self.num_moves),
        )


def begin_point(is_proper: bool, dtype: jnp.dtype) -> Point:
    """Where paths begin."""
    return Point(jnp.zeros((), dtype), jnp.asarray(1.0 if is_proper else 0.0, dtype))


def log_origin(origin: Whitening, u: Float[Array, " dim"]) -> Float[Array, ""]:
    """Log density of the wide normal."""
    return jnp.sum(jax.scipy.stats.norm.logpdf(origin.whiten(u))) - origin.log_volume
