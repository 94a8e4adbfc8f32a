"""Random numbers of a chain's steps: few operations, all of them in one fused kernel.

A step of a chain on 200 examples needs a dozen random numbers, and through ``jax.random`` these
cost as much as the step's gradients, to run and to compile: its generator is a loop on CPUs and
its normals are computed again by everything that reads them.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt32

ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
PARITY = 0x1BD11BDA
# The fewest that pass every test of randomness its authors ran; jax.random makes 20.
ROUNDS = 13

Words = UInt32[Array, "..."]


def threefry(key: tuple[Words, Words], count: tuple[Words, Words], rounds: int = ROUNDS) -> Any:
    """Threefry-2x32 (Salmon, Moraes, Dror & Shaw 2011): a pair of random words for each count.

    Parameters
    ----------
    key, count
        Pairs of words that broadcast with each other.
    rounds
        Mixing rounds.
    """
    schedule = (key[0], key[1], key[0] ^ key[1] ^ np.uint32(PARITY))
    x, y = count[0] + schedule[0], count[1] + schedule[1]
    for i in range(rounds):
        rotation = ROTATIONS[i % 8]
        x = x + y
        y = ((y << np.uint32(rotation)) | (y >> np.uint32(32 - rotation))) ^ x
        if i % 4 == 3:
            j = i // 4 + 1
            x = x + schedule[j % 3]
            y = y + schedule[(j + 1) % 3] + np.uint32(j)
    return x, y


def chain_keys(key: PRNGKeyArray, num_chains: int) -> UInt32[Array, "chains 2"]:
    """Words that tell the chains of one dataset apart; any JAX key will do."""
    return jax.random.bits(key, (num_chains, 2), jnp.uint32)


def step_key(chain: UInt32[Array, 2], step: Int[Array, ""]) -> PRNGKeyArray:
    """Key of one step of one chain."""
    count = step.astype(jnp.uint32), jnp.zeros((), jnp.uint32)
    words = jnp.stack(threefry((chain[0], chain[1]), count))
    return jax.random.wrap_key_data(words, impl="threefry2x32")


def random_words(key: PRNGKeyArray, num: int) -> UInt32[Array, " num"]:
    """``num`` random words of a step."""
    words = jax.random.key_data(key)
    half = (num + 1) // 2
    count = jnp.arange(half, dtype=jnp.uint32), jnp.zeros((half,), jnp.uint32)
    return jnp.concatenate(threefry((words[0], words[1]), count))[:num]


def uniforms(key: PRNGKeyArray, num: int, dtype: Any) -> Float[Array, " num"]:
    """Return uniform numbers strictly between 0 and 1, symmetric about one half."""
    if jnp.dtype(dtype) == jnp.float64:
        words = random_words(key, 2 * num)
        high, low = (words[:num] >> 6).astype(dtype), (words[num:] >> 6).astype(dtype)
        return (high * 2.0**26 + low + 0.5) * 2.0**-52
    return ((random_words(key, num) >> 9).astype(dtype) + 0.5) * np.float32(2.0**-23)


def normals_and_uniforms(
    key: PRNGKeyArray, dim: int, num_uniforms: int, dtype: Any
) -> tuple[Float[Array, " dim"], Float[Array, " uniforms"]]:
    """Independent standard normals and uniforms from one call of the generator."""
    u = uniforms(key, dim + num_uniforms, dtype)
    z = np.sqrt(2.0).astype(dtype) * jax.scipy.special.erfinv(2.0 * u[:dim] - 1.0)
    # Whatever reads the numbers must not compute them again.
    return jax.lax.optimization_barrier((z, u[dim:]))
