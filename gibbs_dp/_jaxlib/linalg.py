"""Cholesky factors, triangular solves and eigenvectors of many small matrices at once.

The functions take one matrix and are meant to be vmapped. jaxlib 0.10 and 0.11.0 share a LAPACK
call on a large batch out to XLA's thread pool, and hold a thread of that pool until it is done.
Two such calls that do not need each other run at once within one program, so a few programs can
hold every thread and wait forever. Calls on small batches are not shared out: large ones are
made in pieces here, on CPUs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Float

from gibbs_dp._jaxlib.devices import is_accelerator, target_platform

SHARED_OUT = 200_000
"""Floating-point operations in a batch from which jaxlib shares it out."""

Matrix = Float[Array, "dim dim"]
Column = Float[Array, " dim"]


def cholesky(matrix: Matrix) -> Matrix:
    """Lower-triangular factor of a symmetric matrix; NaN where it is not positive definite."""
    return _cholesky(matrix[None])[0]


def solve_lower(factor: Matrix, right: Float[Array, "dim ..."]) -> Float[Array, "dim ..."]:
    """Solve ``factor x = right`` for a lower-triangular ``factor``."""
    return _solved(_solve_lower, factor, right)


def cholesky_solve(factor: Matrix, right: Column) -> Column:
    """Solve ``factor factor^T x = right`` for a lower-triangular ``factor``."""
    return _solved(_solve_upper, factor, _solved(_solve_lower, factor, right))


def eigh(matrix: Matrix) -> tuple[Column, Matrix]:
    """Eigenvalues of a symmetric matrix, smallest first, and eigenvectors as columns."""
    values, vectors = _eigh(matrix[None])
    return values[0], vectors[0]


def _solved(solve: Any, factor: Array, right: Array) -> Array:
    columns = right.reshape(right.shape[0], -1)
    return solve(factor[None], columns[None])[0].reshape(right.shape)


def _in_pieces(
    call: Callable[..., Any], cost: Callable[..., int], *arrays: Float[Array, "batch ..."]
) -> Any:
    """Call on as many of the leading axis at a time as one thread of a CPU does alone."""
    if is_accelerator(target_platform()):
        return call(*arrays)
    count = arrays[0].shape[0]
    most = max(1, (SHARED_OUT - 1) // max(1, cost(*arrays)))
    if count <= most:
        return call(*arrays)
    size = -(-count // -(-count // most))  # pieces as even as they can be
    return jax.lax.map(lambda piece: call(*piece), arrays, batch_size=size)


def _over_batches(call: Callable[..., Any], cost: Callable[..., int]) -> Any:
    """Vmap as one more part of the arguments' leading axis."""

    @custom_vmap
    def whole(*arrays: Array) -> Any:
        return _in_pieces(call, cost, *arrays)

    @whole.def_vmap
    def _(axis_size: int, is_batched: list[bool], *arrays: Array) -> Any:
        found = whole(*map(_merged, arrays, is_batched, [axis_size] * len(arrays)))
        split = jax.tree.map(lambda a: a.reshape(axis_size, -1, *a.shape[1:]), found)
        return split, jax.tree.map(lambda _: True, split)

    return whole


def _merged(array: Array, is_batched: bool, size: int) -> Array:
    if not is_batched:
        array = jnp.broadcast_to(array, (size, *array.shape))
    return array.reshape(-1, *array.shape[2:])


def _solver(is_transposed: bool) -> Any:
    """Triangular solves; right-hand sides of one factor are its columns."""

    def call(factors: Array, right: Array) -> Array:
        return jax.lax.linalg.triangular_solve(
            factors, right, left_side=True, lower=True, transpose_a=is_transposed
        )

    over_factors = _over_batches(call, lambda factors, right: right[0].size * right.shape[1])

    @custom_vmap
    def solve(factors: Array, right: Array) -> Array:
        return over_factors(factors, right)

    @solve.def_vmap
    def _(axis_size: int, is_batched: list[bool], factors: Array, right: Array) -> Any:
        if is_batched[0]:
            merged = map(_merged, (factors, right), is_batched, [axis_size] * 2)
            found = solve(*merged)
            return found.reshape(axis_size, -1, *found.shape[1:]), True
        batch, dim, width = right.shape[1:]
        columns = jnp.moveaxis(right, 0, 2).reshape(batch, dim, axis_size * width)
        found = solve(factors, columns).reshape(batch, dim, axis_size, width)
        return jnp.moveaxis(found, 2, 0), True

    return solve


_cholesky = _over_batches(jnp.linalg.cholesky, lambda m: m[0].size * m.shape[1] // 3)
_eigh = _over_batches(lambda m: tuple(jnp.linalg.eigh(m)), lambda m: 5 * m[0].size * m.shape[1])
_solve_lower, _solve_upper = _solver(is_transposed=False), _solver(is_transposed=True)
