"""ChaCha20 (RFC 8439) as a generator of JAX's keys, for noise that protects someone.

JAX's own generators have keys of 64 or 128 bits and are not cryptographic. Keys of this one have
256 bits, and what ``jax.random`` makes of them (children, bits) are blocks of the cipher under the
key, each with a nonce and a count of its own: whoever tells them from coins has broken ChaCha20.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.random import define_prng_impl
from jaxtyping import Array, Int, Key, PRNGKeyArray, UInt, UInt32

CONSTANTS = np.frombuffer(b"expand 32-byte k", "<u4").astype(np.uint32)
NAME = "chacha20"
# First word of the nonce: what a block is for.
BITS, CHILDREN, NUMBERED = 0, 1, 2


def blocks(
    key: UInt32[Array, 8], counts: UInt32[Array, " blocks"], nonce: tuple[int, int, int]
) -> UInt32[Array, "16 blocks"]:
    """Return the key stream of ChaCha20, a column a block."""
    shape = (4, *counts.shape)
    rows = [jnp.broadcast_to(row[:, None], shape) for row in (CONSTANTS, key[:4], key[4:])]
    last = [counts, *(jnp.full_like(counts, word) for word in nonce)]
    start = (*rows, jnp.stack(last))

    # In a loop: XLA would compute each word of an unrolled cipher from the beginning.
    def double_round(_: Any, state: tuple[Array, ...]) -> tuple[Array, ...]:
        a, b, c, d = _quarter_rounds(*state)
        b, c, d = (jnp.roll(row, -i, axis=0) for i, row in enumerate((b, c, d), 1))
        a, b, c, d = _quarter_rounds(a, b, c, d)
        b, c, d = (jnp.roll(row, i, axis=0) for i, row in enumerate((b, c, d), 1))
        return a, b, c, d

    end = jax.lax.fori_loop(0, 10, double_round, start)
    return jnp.concatenate([x + y for x, y in zip(end, start, strict=True)])


def _quarter_rounds(a: Array, b: Array, c: Array, d: Array) -> tuple[Array, ...]:
    for turns in ((16, 12), (8, 7)):
        a = a + b
        d = _rotated(d ^ a, turns[0])
        c = c + d
        b = _rotated(b ^ c, turns[1])
    return a, b, c, d


def _rotated(word: Array, by: int) -> Array:
    return (word << np.uint32(by)) | (word >> np.uint32(32 - by))


def _seed(seed: Int[Array, ""]) -> UInt32[Array, 8]:
    """Key of a number, which protects nobody: for tests."""
    low = jnp.asarray(seed).astype(jnp.uint32)
    high = (seed >> 32).astype(jnp.uint32) if seed.dtype.itemsize == 8 else jnp.zeros_like(low)
    return jnp.zeros(8, jnp.uint32).at[:2].set(jnp.stack([low, high]))


@partial(jax.jit, static_argnums=1)  # else every operation is compiled on its own
def _split(key: UInt32[Array, 8], shape: tuple[int, ...]) -> UInt32[Array, "*shape 8"]:
    counts = jnp.arange(math.prod(shape), dtype=jnp.uint32)
    return blocks(key, counts, (CHILDREN, 0, 0))[:8].T.reshape(*shape, 8)


def _fold_in(key: UInt32[Array, 8], number: Any) -> UInt32[Array, 8]:
    return blocks(key, jnp.asarray(number, jnp.uint32)[None], (NUMBERED, 0, 0))[:8, 0]


def _random_bits(
    key: UInt32[Array, 8], bit_width: int, shape: tuple[int, ...]
) -> UInt[Array, "*shape"]:
    num = math.prod(shape)
    num_words = -(-num * bit_width // 32)
    counts = jnp.arange(-(-num_words // 16), dtype=jnp.uint32)
    words = blocks(key, counts, (BITS, 0, 0)).reshape(-1)[:num_words]
    if bit_width == 64:
        words = words.reshape(-1, 2)
    if bit_width != 32:
        kind = jnp.dtype(f"uint{bit_width}")
        words = jax.lax.bitcast_convert_type(words, kind).reshape(-1)[:num]
    return words.reshape(shape)


CHACHA20 = define_prng_impl(
    key_shape=(8,),
    seed=_seed,
    split=_split,
    random_bits=_random_bits,
    fold_in=_fold_in,
    name=NAME,
    tag="chacha",
)


def chacha_key(words: UInt32[np.ndarray, 8]) -> PRNGKeyArray:
    """Make a key of 256 bits."""
    return jax.random.wrap_key_data(jnp.asarray(words), impl=CHACHA20)


def is_chacha(key: Any) -> bool:
    """Return True if a key, or an array of them, is of this generator; words are not."""
    is_typed = jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    return bool(is_typed and jax.random.key_impl(key) == CHACHA20)


def wrap_key(data: Array, kind: str) -> Any:
    """Make a key, or an array of keys, of their words, for a generator that `key_kind` named."""
    return jax.random.wrap_key_data(data, impl=CHACHA20 if kind == NAME else kind)


def key_kind(key: Any) -> str:
    """Name the generator of a key, or of an array of keys."""
    return NAME if is_chacha(key) else str(jax.random.key_impl(key))


def word_bits(keys: Key[Array, ...], num: int) -> UInt32[Array, "num ..."]:
    """Return ``num`` random words of each key, whose axes come last."""
    found = jax.vmap(lambda key: jax.random.bits(key, (num,), jnp.uint32))(keys.reshape(-1))
    return jnp.moveaxis(found, -1, 0).reshape(num, *keys.shape)
