"""All that a block leaves behind as one array of words: one copy brings it home."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree, UInt32

from gibbs_dp._jaxlib.compile import on_default_backend


@on_default_backend
def pack(values: PyTree[Array]) -> UInt32[Array, "block gammas words"]:
    """Lay numbers and truth values, ``[block, gammas, ...]``, out in words, bit for bit."""
    return jnp.concatenate([_words(leaf) for leaf in jax.tree.leaves(values)], axis=2)


def unpack(
    words: UInt32[np.ndarray, "block gammas words"], like: PyTree[Any]
) -> PyTree[np.ndarray]:
    """Read back what :func:`pack` laid out.

    Parameters
    ----------
    words
        What it returned.
    like
        What it was given, or anything of these shapes and types.

    Returns
    -------
    PyTree[np.ndarray]
        Copies.
    """
    start, found = 0, []
    leaves, structure = jax.tree.flatten(like)
    for leaf in leaves:
        count = math.prod(leaf.shape[2:]) * max(1, leaf.dtype.itemsize // 4)
        part = np.ascontiguousarray(words[..., start : start + count])
        values = part.astype(bool) if leaf.dtype == bool else part.view(leaf.dtype)
        found.append(values.reshape(leaf.shape))
        start += count
    return jax.tree.unflatten(structure, found)


def _words(leaf: Array) -> UInt32[Array, "block gammas words"]:
    is_truth = leaf.dtype == bool
    words = leaf.astype(jnp.uint32) if is_truth else jax.lax.bitcast_convert_type(leaf, jnp.uint32)
    return words.reshape(*leaf.shape[:2], -1)
