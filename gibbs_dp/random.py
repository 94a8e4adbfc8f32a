"""Random numbers for populations: the laws of ``jax.random``, several times faster on CPUs.

An audit draws thousands of datasets, which through ``jax.random`` can take half of its time: its
generator is a loop on CPUs, and loops over a short last axis (the features of an example) are not
vectorized. These functions draw along one long axis, in operations that fuse. For keys, their
splitting and all other laws use ``jax.random``.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, UInt32
from numpy.typing import ArrayLike

from gibbs_dp._jaxlib.chacha import is_chacha, word_bits
from gibbs_dp._jaxlib.precision import horner

__all__ = ["bernoulli", "normal", "truncated_normal", "uniform"]

ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
PARITY = 0x1BD11BDA
ROUNDS = 20
# Second word of the counts; jax.random.split counts from 0 and never gets this far.
STREAM = 0xA511E9B3

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
Shape = int | tuple[int, ...]


def uniform(
    key: PRNGKeyArray,
    shape: Shape = (),
    dtype: Any = None,
    minval: ArrayLike | float = 0.0,
    maxval: ArrayLike | float = 1.0,
) -> Float[Array, "*shape"]:
    """Return uniform numbers between two others, as ``jax.random.uniform`` does.

    Parameters
    ----------
    key
        A JAX key of any kind.
    shape
        Shape of the result.
    dtype
        float32 or float64; JAX's default by default.
    minval, maxval
        Ends of the interval; they broadcast with ``shape``.

    Returns
    -------
    array
        Of the given shape.

    Examples
    --------
    >>> import jax
    >>> uniform(jax.random.key(0), (3, 2), minval=-1.0).shape
    (3, 2)
    """
    u = _uniforms(key, shape, dtype)
    low, high = (jnp.asarray(x, u.dtype) for x in (minval, maxval))
    return low + (high - low) * u


def normal(key: PRNGKeyArray, shape: Shape = (), dtype: Any = None) -> Float[Array, "*shape"]:
    """Return independent standard normals, as ``jax.random.normal`` does.

    Parameters
    ----------
    key, shape, dtype
        As of `uniform`.

    Returns
    -------
    array
        Of the given shape.

    Examples
    --------
    >>> import jax
    >>> bool(abs(normal(jax.random.key(0), (10_000,)).mean()) < 0.05)
    True
    """
    return normal_quantile(_uniforms(key, shape, dtype))


def truncated_normal(
    key: PRNGKeyArray,
    lower: ArrayLike | float,
    upper: ArrayLike | float,
    shape: Shape = (),
    dtype: Any = None,
) -> Float[Array, "*shape"]:
    """Return standard normals that lie between two numbers, as ``jax.random`` does.

    Parameters
    ----------
    key, shape, dtype
        As of `uniform`.
    lower, upper
        Ends of the interval; they broadcast with ``shape``.

    Returns
    -------
    array
        Of the given shape.

    Examples
    --------
    >>> import jax
    >>> draws = truncated_normal(jax.random.key(0), -2.0, 2.0, (1000,))
    >>> bool((abs(draws) <= 2.0).all())
    True
    """
    u = _uniforms(key, shape, dtype)
    low, high = (jnp.asarray(x, u.dtype) for x in (lower, upper))
    # Upper tails are mirrored: below zero the quantile keeps its precision.
    sign = jnp.where(low + high > 0, -1.0, 1.0).astype(u.dtype)
    ends = jnp.minimum(sign * low, sign * high), jnp.maximum(sign * low, sign * high)
    first, last = (jax.scipy.special.ndtr(x) for x in ends)
    return jnp.clip(sign * normal_quantile(first + (last - first) * u), low, high)


def bernoulli(
    key: PRNGKeyArray, p: ArrayLike | float = 0.5, shape: Shape | None = None
) -> Bool[Array, "*shape"]:
    """Return True with probability ``p``, as ``jax.random.bernoulli`` does.

    Parameters
    ----------
    key
        A JAX key of any kind.
    p
        Probability; it broadcasts with ``shape``.
    shape
        Shape of the result; by default that of ``p``.

    Returns
    -------
    array
        Of the given shape.

    Examples
    --------
    >>> import jax
    >>> int(bernoulli(jax.random.key(0), 1.0, (5,)).sum())
    5
    """
    threshold = jnp.asarray(p)
    return _uniforms(key, threshold.shape if shape is None else shape, None) < threshold


def threefry(key: tuple[Words, Words], count: tuple[Words, Words], rounds: int = ROUNDS) -> Any:
    """Threefry-2x32 (Salmon, Moraes, Dror & Shaw 2011): a pair of random words for each count."""
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


def words(
    pair: tuple[Words, Words], num: int, stream: int = STREAM, rounds: int = ROUNDS
) -> UInt32[Array, "num ..."]:
    """Return ``num`` random words per key, given as a pair of words."""
    half = (num + 1) // 2
    place = jnp.arange(half, dtype=jnp.uint32).reshape(half, *[1] * pair[0].ndim)
    count = place, jnp.full_like(place, stream)
    return jnp.concatenate(threefry(pair, count, rounds))[:num]


def words_per_number(dtype: Any) -> int:
    """Return how many random words make one uniform number of a precision."""
    return 2 if jnp.dtype(dtype) == jnp.float64 else 1


def uniforms(bits: UInt32[Array, "words ..."], dtype: Any) -> Float[Array, "num ..."]:
    """Turn random words into uniform numbers strictly between 0 and 1, symmetric about 1/2."""
    high, low = jnp.split(bits, 2) if words_per_number(dtype) == 2 else (bits, None)
    return uniform_of_words(high, low, dtype)


def uniform_of_words(high: Words, low: Words | None, dtype: Any) -> Float[Array, ...]:
    """Turn one random word (float32), or two (float64), into a uniform number each."""
    if low is None:
        return ((high >> 9).astype(dtype) + 0.5) * np.float32(2.0**-23)
    first, second = (w >> 6 for w in (high, low))
    return (first.astype(dtype) * 2.0**26 + second.astype(dtype) + 0.5) * 2.0**-52


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
        * jnp.where(w < 5.0, horner(CENTRAL, central), horner(TAIL, tail))
    )


def _uniforms(key: PRNGKeyArray, shape: Shape, dtype: Any) -> Float[Array, "*shape"]:
    dims = (shape,) if isinstance(shape, int) else tuple(shape)
    kind = jnp.zeros((), dtype).dtype  # float64 becomes float32 in a single-precision session
    if kind not in (jnp.float32, jnp.float64):
        raise ValueError(f"dtype: must be float32 or float64, got {kind}.")
    num = math.prod(dims)
    # Drawn along one axis: the last of several may be too short to vectorize.
    num_words = num * words_per_number(kind)
    bits = word_bits(key, num_words) if is_chacha(key) else words(_pair(key), num_words)
    return uniforms(bits, kind).reshape(dims)


def _pair(key: PRNGKeyArray) -> tuple[Words, Words]:
    """Return two words of a key of any kind, old-style arrays included."""
    if not jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        key = jax.random.wrap_key_data(key)
    data = jax.random.key_data(key)
    if data.shape[-1:] != (2,):  # of another generator
        data = jax.random.bits(key, (2,), jnp.uint32)
    return data[0], data[1]
