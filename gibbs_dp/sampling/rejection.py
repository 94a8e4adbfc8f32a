"""Rejection from a Gaussian envelope, for strongly log-concave posteriors of few parameters."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.kernels.langevin import example_gradients, prior_gradient

CHUNK = 512


@partial(jax.jit, static_argnames=("posterior", "num_steps", "num_tries"))
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
    """Make one draw: descend, propose, keep the first accepted proposal.

    All proposals are made, in chunks, whatever was accepted before.

    Parameters
    ----------
    posterior, data, gamma
        The target: a per-example loss and a prior on all of Euclidean space.
    convexity, smoothness
        ``m`` and ``M`` of its potential.
    key
        Random key.
    num_steps
        Gradient steps from zero to the proposals' centre.
    num_tries
        Proposals, at least.
    """
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
        return here - jnp.dot(slope, move) - 0.5 * m * jnp.sum(move**2)

    def chunk(
        index: Array, carry: tuple[Float[Array, " dim"], Array]
    ) -> tuple[Float[Array, " dim"], Array]:
        kept, is_done = carry
        noise_key, uniform_key = jax.random.split(jax.random.fold_in(key, index))
        noise = jax.random.normal(noise_key, (CHUNK, posterior.dim))
        proposals = centre - slope / m + noise / jnp.sqrt(m)
        uniforms = jax.random.uniform(uniform_key, (CHUNK,))
        accepted = jnp.log(uniforms) < -jax.vmap(excess)(proposals)
        first = jnp.argmax(accepted)  # the first proposal of all where none was accepted
        chosen = jnp.where(is_done, kept, proposals[first])
        return chosen, is_done | accepted.any()

    count = -(-num_tries // CHUNK)
    begin = (centre, jnp.zeros((), bool))
    return jax.lax.fori_loop(0, count, chunk, begin)[0]
