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

# Of erfinv(x) / x, highest power first: in w - 2.5 where w = -log(1 - x^2) is below 5, and in
# sqrt(w) - 3 beyond.
CENTRAL = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
    -0.00125372503, -0.00417768164, 0.246640727, 1.50140941,
)  # fmt: skip
TAIL = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
    -0.0076224613, 0.00943887047, 1.00167406, 2.83297682,
)  # fmt: skip

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


def normal_quantile(u: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Return the standard normal quantile of ``u`` in (0, 1).

    In single precision by the polynomials of Giles 2010 (*Approximating the erfinv function*,
    table 5), within 4e-7 of the value and a third of the cost of XLA's; in double by XLA's.
    """
    x = 2.0 * u - 1.0
    if u.dtype != jnp.float32:
        return np.sqrt(2.0).astype(u.dtype) * jax.scipy.special.erfinv(x)
    w = -jnp.log(4.0 * u * (1.0 - u))  # -log(1 - x^2), without its cancellation
    central, tail = w - 2.5, jnp.sqrt(w) - 3.0
    return (
        np.float32(np.sqrt(2.0))
        * x
        * jnp.where(w < 5.0, _horner(CENTRAL, central), _horner(TAIL, tail))
    )


def _horner(coefficients: tuple[float, ...], x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    value = jnp.full_like(x, coefficients[0])
    for c in coefficients[1:]:
        value = value * x + c
    return value


def normals_and_uniforms(
    key: PRNGKeyArray, dim: int, num_uniforms: int, dtype: Any
) -> tuple[Float[Array, " dim"], Float[Array, " uniforms"]]:
    """Independent standard normals and uniforms from one call of the generator."""
    u = uniforms(key, dim + num_uniforms, dtype)
    return normal_quantile(u[:dim]), u[dim:]
