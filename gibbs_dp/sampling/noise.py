"""Random numbers of a chain's steps: few operations, all of them in one fused kernel.

A step of a chain on 200 examples needs a dozen random numbers, and through ``jax.random`` these
cost as much as the step's gradients, to run and to compile: its generator is a loop on CPUs and
its normals are computed again by everything that reads them.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray, UInt32

from gibbs_dp.random import normal_quantile, threefry, uniforms, words, words_per_number

# The fewest that pass every test of randomness the generator's authors ran: steps are many.
ROUNDS = 13


def chain_keys(key: PRNGKeyArray, num_chains: int) -> UInt32[Array, "chains 2"]:
    """Words that tell the chains of one dataset apart; any JAX key will do."""
    return jax.random.bits(key, (num_chains, 2), jnp.uint32)


def step_key(chain: UInt32[Array, 2], step: Int[Array, ""]) -> PRNGKeyArray:
    """Key of one step of one chain."""
    count = step.astype(jnp.uint32), jnp.zeros((), jnp.uint32)
    key = jnp.stack(threefry((chain[0], chain[1]), count, ROUNDS))
    return jax.random.wrap_key_data(key, impl="threefry2x32")


def normals_and_uniforms(
    keys: Key[Array, ...], dim: int, num_uniforms: int, dtype: Any
) -> tuple[Float[Array, "dim ..."], Float[Array, "uniforms ..."]]:
    """Independent standard normals and uniforms of each key from one call of the generator.

    Chains come last: eight of them fill a vector register where a few coordinates do not.
    """
    pairs, num = jax.random.key_data(keys), dim + num_uniforms
    pair = pairs[..., 0], pairs[..., 1]
    bits = words(pair, num * words_per_number(dtype), stream=0, rounds=ROUNDS)
    u = uniforms(bits, dtype)
    return normal_quantile(u[:dim]), u[dim:]
