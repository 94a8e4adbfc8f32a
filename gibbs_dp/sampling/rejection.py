"""Exact draws by rejection from a Gaussian envelope.

Proposals with tiny acceptance probabilities come by the million, so the noise has to be right far
out: a uniform number of 23 bits is 0 once in 8 million times, and would accept anything.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from gibbs_dp._jaxlib.precision import traced_exactly
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.kernels.langevin import example_gradients, prior_gradient

CHUNK = 512
# Of the uniform numbers behind exponentials: 96 random bits, and never 0.
RESOLUTION = 2.0**-96


def exponentials(
    key: PRNGKeyArray, shape: tuple[int, ...], dtype: Any = None
) -> Float[Array, "*shape"]:
    """Draw standard exponentials ``-log u``, with ``u`` the middle of one of ``2^96`` equal cells.

    They reach 67, and are those of a continuous ``u`` but for rounding and for the last cell:
    ``P[u < a]`` differs from ``a`` by at most `RESOLUTION`.
    """
    words = jax.random.bits(key, (3, *shape), jnp.uint32).astype(jnp.zeros((), dtype).dtype)
    low = (words[2] + 0.5) * 2.0**-32
    return -jnp.log((words[0] + (words[1] + low) * 2.0**-32) * 2.0**-32)


def normals(key: PRNGKeyArray, shape: tuple[int, int], dtype: Any = None) -> Float[Array, "n d"]:
    """Draw normals to 11.6 by Box & Muller (1958); JAX's end at 5.4 in single precision."""
    count, dim = shape
    half = (dim + 1) // 2
    radius_key, angle_key = jax.random.split(key)
    radius = jnp.sqrt(2.0 * exponentials(radius_key, (count, half), dtype))
    angle = 2.0 * jnp.pi * jax.random.uniform(angle_key, (count, half), radius.dtype)
    pairs = jnp.concatenate([radius * jnp.cos(angle), radius * jnp.sin(angle)], axis=1)
    return pairs[:, :dim]


@partial(jax.jit, static_argnames=("posterior", "num_steps", "num_tries"))
@traced_exactly
def draw_by_rejection(
    posterior: GibbsPosterior,
    data: PyTree,
    gamma: Float[Array, ""],
    convexity: Float[Array, ""],
    smoothness: Float[Array, ""],
    key: PRNGKeyArray,
    *,
    num_steps: int,
    num_tries: int,
) -> Float[Array, " dim"]:
    """Make one draw, the first accepted of proposals that are all made whatever was accepted."""
    m = convexity

    def gradient(theta: Float[Array, " dim"]) -> Float[Array, " dim"]:
        total = jnp.sum(example_gradients(posterior, theta, data, None), axis=0)
        return gamma * total + prior_gradient(posterior, theta)

    def descend(_: Array, theta: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return theta - 2.0 / (m + smoothness) * gradient(theta)

    centre = jax.lax.fori_loop(0, num_steps, descend, jnp.zeros(posterior.dim))
    slope = gradient(centre)
    reference = posterior.losses(posterior.constrain(centre), data)
    prior = posterior.log_prior_unconstrained(centre)

    def excess(theta: Float[Array, " dim"]) -> Float[Array, ""]:
        """Potential above the quadratic below it, at least 0 up to rounding."""
        losses = posterior.losses(posterior.constrain(theta), data)
        here = gamma * jnp.sum(losses - reference) - (
            posterior.log_prior_unconstrained(theta) - prior
        )
        move = theta - centre
        return here - jnp.sum(slope * move) - 0.5 * m * jnp.sum(move**2)

    def chunk(
        index: Array, carry: tuple[Float[Array, " dim"], Array]
    ) -> tuple[Float[Array, " dim"], Array]:
        kept, is_done = carry
        noise_key, uniform_key = jax.random.split(jax.random.fold_in(key, index))
        noise = normals(noise_key, (CHUNK, posterior.dim))
        proposals = centre - slope / m + noise / jnp.sqrt(m)
        accepted = jax.vmap(excess)(proposals) <= exponentials(uniform_key, (CHUNK,))
        first = jnp.argmax(accepted)  # the first proposal of all where none was accepted
        chosen = jnp.where(is_done, kept, proposals[first])
        return chosen, is_done | accepted.any()

    count = -(-num_tries // CHUNK)
    begin = (centre, jnp.zeros((), bool))
    return jax.lax.fori_loop(0, count, chunk, begin)[0]
