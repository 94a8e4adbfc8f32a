"""The noise of one step of one chain inside a kernel: the numbers that the plain path draws."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, UInt32

from gibbs_dp.random import normal_quantile, threefry, uniform_of_words, words_per_number
from gibbs_dp.sampling.fused.energy import Coordinates, Number, squared_norm
from gibbs_dp.sampling.rejection import ROUNDS, in_shell, interpolate

Word = UInt32[Array, ""]


def step_words(chain: tuple[Word, Word], step: Int[Array, ""]) -> tuple[Word, Word]:
    """Words of :func:`gibbs_dp.sampling.rejection.step_key`."""
    return threefry(chain, (step.astype(jnp.uint32), jnp.uint32(0)), ROUNDS)


def normals_and_uniforms(
    pair: tuple[Word, Word], dim: int, num_uniforms: int, dtype: Any
) -> tuple[Coordinates, Coordinates]:
    """:func:`gibbs_dp.sampling.rejection.normals_and_uniforms` for one key, one by one."""
    num = dim + num_uniforms
    half = _half(num, dtype)
    lanes = 1 << (half - 1).bit_length()
    place = jax.lax.broadcasted_iota(jnp.uint32, (lanes,), 0)
    first, second = threefry(pair, (place, jnp.zeros_like(place)), ROUNDS)
    if words_per_number(dtype) == 2:
        sides = [uniform_of_words(first, second, dtype)]
    else:
        sides = [uniform_of_words(words, None, dtype) for words in (first, second)]
    normals = [normal_quantile(u) for u in sides]

    def taken(vectors: list[Array], i: int) -> Number:
        # A GPU kernel cannot index a vector; a sum of one number and zeros is that number.
        is_it = place == i % half
        return jnp.sum(jnp.where(is_it, vectors[i // half], 0.0))

    return tuple(taken(normals, i) for i in range(dim)), tuple(
        taken(sides, i) for i in range(dim, num)
    )


def one_uniform(pair: tuple[Word, Word], index: int, num: int, dtype: Any) -> Number:
    """Draw the ``index``-th of the ``num`` uniform numbers that a key gives."""
    half = _half(num, dtype)
    words = threefry(pair, (jnp.uint32(index % half), jnp.uint32(0)), ROUNDS)
    if words_per_number(dtype) == 2:
        return uniform_of_words(words[0], words[1], dtype)
    return uniform_of_words(words[index // half], None, dtype)


def in_its_shell(
    normals: Coordinates,
    chain: Int[Array, ""],
    num_chains: int,
    uniform: Number,
    turn: Number,
    table: Any,
) -> Coordinates:
    """One chain's part of :func:`gibbs_dp.sampling.rejection.spread_radii`."""
    u = in_shell(chain.astype(uniform.dtype), uniform, turn, num_chains)
    factor = interpolate(table, u) / jnp.sqrt(squared_norm(normals))
    return tuple(x * factor for x in normals)


def _half(num: int, dtype: Any) -> int:
    """Return how many counts of the generator, two words each, ``num`` numbers take."""
    return (num * words_per_number(dtype) + 1) // 2
