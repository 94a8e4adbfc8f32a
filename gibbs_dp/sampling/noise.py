"""Random numbers of chains' steps, and lengths of momenta from shells of a ball.

A step of a chain on 200 examples needs a dozen random numbers. Through ``jax.random`` these cost as
much as the step's gradients, to run and to compile: its generator is a loop on CPUs, and its
normals are computed again by everything that reads them. Here they are few operations, in one
fusion.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray, UInt32
from scipy import special

from gibbs_dp._jaxlib.chacha import is_chacha, word_bits
from gibbs_dp.random import normal_quantile, threefry, uniforms, words, words_per_number

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
    """Independent standard normals and uniforms of each key from one call of the generator."""
    u = uniforms(_bits(keys, (dim + num_uniforms) * words_per_number(dtype), stream=0), dtype)
    return normal_quantile(u[:dim]), u[dim:]


def integers(key: PRNGKeyArray, num: int, n: int) -> Int[Array, " num"]:
    """Independent integers below ``n``, none more likely by over ``n / 2^64``.

    They are independent of the normals of the same key, so that a step splits no key.
    """
    high, low = jnp.split(_bits(key, 2 * num, stream=1), 2)
    first, rest = _product(high, n)
    second, _ = _product(low, n)
    carry = rest + second < rest  # beyond 2^32
    return (first + carry.astype(jnp.uint32)).astype(jnp.int32)


def _product(
    word: UInt32[Array, " num"], n: int
) -> tuple[UInt32[Array, " num"], UInt32[Array, " num"]]:
    """Two words of ``word * n``, the high one first, from products of halves."""
    half, mask = np.uint32(16), np.uint32(2**16 - 1)
    a, b = word >> half, word & mask
    c, d = np.uint32(n >> 16), np.uint32(n & (2**16 - 1))
    middle = a * d + (b * d >> half)
    other = (middle & mask) + b * c
    return a * c + (middle >> half) + (other >> half), word * np.uint32(n)


def _bits(keys: Key[Array, ...], num: int, stream: int) -> UInt32[Array, "num ..."]:
    if is_chacha(keys):
        return word_bits(jax.random.fold_in(keys, stream) if stream else keys, num)
    pairs = jax.random.key_data(keys)
    return words((pairs[..., 0], pairs[..., 1]), num, stream=stream, rounds=ROUNDS)


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
    normals: Float[Array, "chains dim"], uniforms: Float[Array, " chains"], turn: Float[Array, ""]
) -> Float[Array, "chains dim"]:
    """Give independent normal vectors lengths from different shells, one shell each.

    Every vector is still standard normal by itself, and its direction independent of all others;
    the lengths are a stratified sample of their law (one from each of ``chains`` intervals of
    equal probability), which vector has which being a cyclic shift by chance.
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
