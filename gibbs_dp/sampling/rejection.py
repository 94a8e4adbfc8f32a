"""Exact draws by rejection from a Gaussian envelope: noise by bits, and shells of a ball.

Proposals with tiny acceptance probabilities come by the million, so the noise has to be right far
out: a uniform number of 23 bits is 0 once in 8 million times, and would accept anything.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray, PyTree, UInt32
from scipy import special

from gibbs_dp._jaxlib.chacha import is_chacha, word_bits
from gibbs_dp._jaxlib.precision import traced_exactly
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.random import normal_quantile, threefry, uniforms, words, words_per_number
from gibbs_dp.sampling.kernels.unadjusted import example_gradients, prior_gradient

CHUNK = 512
# Of the uniform numbers behind exponentials: 96 random bits, and never 0.
RESOLUTION = 2.0**-96


def exponentials(
    key: PRNGKeyArray, shape: tuple[int, ...], dtype: Any = None
) -> Float[Array, "*shape"]:
    """Draw standard exponentials ``-log u``, with ``u`` the middle of one of ``2^96`` equal cells.

    They reach 67, and are those of a continuous ``u`` but for rounding and for the last cell:
    ``P[u < a]`` differs from ``a`` by at most `RESOLUTION`.

    >>> bool((exponentials(jax.random.key(0), (1000,)) >= 0).all())
    True
    """
    words = jax.random.bits(key, (3, *shape), jnp.uint32).astype(jnp.zeros((), dtype).dtype)
    low = (words[2] + 0.5) * 2.0**-32
    return -jnp.log((words[0] + (words[1] + low) * 2.0**-32) * 2.0**-32)


def normals(key: PRNGKeyArray, shape: tuple[int, int], dtype: Any = None) -> Float[Array, "n d"]:
    """Draw standard normals that reach 11.6, by the method of Box & Muller (1958).

    `jax.random.normal` ends at 5.4 in single precision, where a proposal may still count.

    >>> normals(jax.random.key(0), (4, 3)).shape
    (4, 3)
    """
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

    Returns
    -------
    Float[Array, " dim"]
        The draw; the first proposal of the last chunk where none was accepted.
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


# Random numbers of a chain's steps: few operations, all of them in one fused kernel.
#
# A step of a chain on 200 examples needs a dozen random numbers, and through ``jax.random`` these
# cost as much as the step's gradients, to run and to compile: its generator is a loop on CPUs and
# its normals are computed again by everything that reads them.

# The fewest that pass every test of randomness the generator's authors ran: steps are many.
ROUNDS = 13


def chain_keys(
    key: PRNGKeyArray, num_chains: int
) -> UInt32[Array, "chains 2"] | Key[Array, " chains"]:
    """Words that tell the chains of one dataset apart; of a cryptographic key, keys like it."""
    if is_chacha(key):
        return jax.random.split(key, num_chains)
    return jax.random.bits(key, (num_chains, 2), jnp.uint32)


def step_key(chain: UInt32[Array, 2] | Key[Array, ""], step: Int[Array, ""]) -> PRNGKeyArray:
    """Key of one step of one chain."""
    if is_chacha(chain):
        return jax.random.fold_in(chain, step)
    count = step.astype(jnp.uint32), jnp.zeros((), jnp.uint32)
    key = jnp.stack(threefry((chain[0], chain[1]), count, ROUNDS))
    return jax.random.wrap_key_data(key, impl="threefry2x32")


def normals_and_uniforms(
    keys: Key[Array, ...], dim: int, num_uniforms: int, dtype: Any
) -> tuple[Float[Array, "dim ..."], Float[Array, "uniforms ..."]]:
    """Independent standard normals and uniforms of each key from one call of the generator.

    Chains come last: eight of them fill a vector register where a few coordinates do not.
    """
    num = (dim + num_uniforms) * words_per_number(dtype)
    if is_chacha(keys):
        bits = word_bits(keys, num)
    else:
        pairs = jax.random.key_data(keys)
        bits = words((pairs[..., 0], pairs[..., 1]), num, stream=0, rounds=ROUNDS)
    u = uniforms(bits, dtype)
    return normal_quantile(u[:dim]), u[dim:]


# Lengths of several normal vectors, one from each of as many equally likely shells.

# Of the table, in standard deviations of the normal that a length is a function of: 8.5 leaves
# out 2e-17, and at this distance of its points a straight line is right to 1e-6.
_RANGE = 8.5
_POINTS = 4097


@cache
def radius_table(dim: int) -> Float[np.ndarray, " points"]:
    """Quantiles of a standard normal vector's length, evenly spaced in normal quantiles."""
    at = np.linspace(-_RANGE, _RANGE, _POINTS)
    # Each half from its own tail: 1 - probability has no digits left far out.
    low = special.gammaincinv(0.5 * dim, special.ndtr(at))
    high = special.gammainccinv(0.5 * dim, special.ndtr(-at))
    return np.sqrt(2.0 * np.where(at < 0, low, high))


def radius_quantile(u: Float[Array, "*shape"], dim: int) -> Float[Array, "*shape"]:
    """Quantile of the length of ``dim`` standard normals, for ``u`` in (0, 1)."""
    return interpolate(jnp.asarray(radius_table(dim), u.dtype), u)


def interpolate(table: Any, u: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Quantiles from a table evenly spaced in normal quantiles: an array, or a kernel's input."""
    scaled = (normal_quantile(u) + _RANGE) * ((_POINTS - 1) / (2 * _RANGE))
    scaled = jnp.clip(scaled, 0.0, _POINTS - 1.0)
    below = jnp.minimum(scaled.astype(jnp.int32), _POINTS - 2)
    return table[below] + (scaled - below) * (table[below + 1] - table[below])


def spread_radii(
    normals: Float[Array, "chains dim"],
    uniforms: Float[Array, " chains"],
    turn: Float[Array, ""],
) -> Float[Array, "chains dim"]:
    """Give independent normal vectors lengths from different shells, one shell each.

    Every vector is still standard normal by itself, and its direction independent of all others;
    the lengths are a stratified sample of their law (one from each of ``chains`` intervals of
    equal probability), which vector has which being a cyclic shift by chance.

    Parameters
    ----------
    normals
        Independent standard normals: their directions are kept.
    uniforms
        Uniform numbers: where in its shell each length is.
    turn
        A uniform number: how far shells are shifted.

    Returns
    -------
    Float[Array, "chains dim"]
        The vectors with their new lengths.
    """
    num_chains, dim = normals.shape
    u = in_shell(jnp.arange(num_chains, dtype=normals.dtype), uniforms, turn, num_chains)
    length = jnp.sqrt(jnp.sum(normals**2, axis=1))
    return normals * (radius_quantile(u, dim) / length)[:, None]


def in_shell(
    chain: Float[Array, "*chains"],
    uniform: Float[Array, "*chains"],
    turn: Float[Array, ""],
    num_chains: int,
) -> Float[Array, "*chains"]:
    """Probability that a chain's length has below it: in a shell of its own, after the turn."""
    turned = chain + jnp.floor(turn * num_chains)
    shell = jnp.where(turned < num_chains, turned, turned - num_chains)
    # Rounding must not reach 0 or 1, whose quantiles are infinite.
    least = jnp.finfo(uniform.dtype).epsneg
    return jnp.clip((shell + uniform) / num_chains, least / 16, 1.0 - least)
