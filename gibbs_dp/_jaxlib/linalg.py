"""Cholesky factors, triangular solves and eigenvectors of many small matrices at once.

The functions take one matrix and are meant to be vmapped. jaxlib 0.10 and 0.11.0 share a LAPACK
call on a large batch out to XLA's thread pool, and hold a thread of that pool until it is done.
Two such calls that do not need each other run at once within one program, so a few programs can
hold every thread and wait forever. Calls on small batches are not shared out: large ones are
made in pieces here, on CPUs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import jaxlib
from jax.custom_batching import custom_vmap
from jax.extend.core import Jaxpr, JaxprEqn, Literal
from jaxtyping import Array, Float, PyTree

from gibbs_dp._jaxlib.devices import is_accelerator, target_platform
from gibbs_dp._jaxlib.jaxprs import Closed, equations, is_program, programs
from gibbs_dp._jaxlib.per_example import bind

SHARED_OUT = 200_000
"""Floating-point operations in a batch from which jaxlib shares it out."""

Matrix = Float[Array, "dim dim"]
Column = Float[Array, " dim"]


def cholesky(matrix: Matrix) -> Matrix:
    """Lower-triangular factor of a symmetric matrix; NaN where it is not positive definite."""
    return _cholesky(matrix[None])[0]


def solve_lower(factor: Matrix, right: Float[Array, "dim ..."]) -> Float[Array, "dim ..."]:
    """Solve ``factor x = right`` for a lower-triangular ``factor``."""
    columns = right.reshape(right.shape[0], -1)
    return _solve_lower(factor[None], columns[None])[0].reshape(right.shape)


def eigh(matrix: Matrix) -> tuple[Column, Matrix]:
    """Eigenvalues of a symmetric matrix, smallest first, and eigenvectors as columns."""
    values, vectors = _eigh(matrix[None])
    return values[0], vectors[0]


def _of_platform(make: Callable[[bool], Callable[..., Any]]) -> Callable[..., Any]:
    """Make one function for accelerators and one for CPUs: JAX remembers what it has traced."""
    far, near = make(True), make(False)
    return lambda *arrays: (far if is_accelerator(target_platform()) else near)(*arrays)


def _in_pieces(
    call: Callable[..., Any], cost: Callable[..., int], *arrays: Float[Array, "batch ..."]
) -> Any:
    """Call on as many of the leading axis at a time as one thread of a CPU does alone."""
    count = arrays[0].shape[0]
    most = max(1, (SHARED_OUT - 1) // max(1, cost(*arrays)))
    if count <= most:
        return call(*arrays)
    size = -(-count // -(-count // most))  # pieces as even as they can be
    return jax.lax.map(lambda piece: call(*piece), arrays, batch_size=size)


def _over_batches(call: Callable[..., Any], cost: Callable[..., int], is_far: bool) -> Any:
    """Vmap as one more part of the arguments' leading axis."""

    @custom_vmap
    def whole(*arrays: Array) -> Any:
        return call(*arrays) if is_far else _in_pieces(call, cost, *arrays)

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


def _solved_alone(factors: Array, right: Array) -> Array:
    return jax.lax.linalg.triangular_solve(factors, right, left_side=True, lower=True)


def _solve(is_far: bool) -> Any:
    solve_factors = _over_batches(_solved_alone, _solve_cost, is_far)

    @custom_vmap
    def solve(factors: Array, right: Array) -> Array:
        """Triangular solves; right-hand sides of one factor are its columns."""
        return solve_factors(factors, right)

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


def _solve_cost(_: Array, right: Array) -> int:
    return right[0].size * right.shape[1]


def _cholesky_cost(matrices: Array) -> int:
    return matrices[0].size * matrices.shape[1] // 3


def _eigh_cost(matrices: Array) -> int:
    return 5 * matrices[0].size * matrices.shape[1]


_solve_lower = _of_platform(_solve)
_cholesky = _of_platform(partial(_over_batches, jnp.linalg.cholesky, _cholesky_cost))
_eigh = _of_platform(partial(_over_batches, lambda m: tuple(jnp.linalg.eigh(m)), _eigh_cost))


# Losses and priors of users factor matrices as they please: the finished program of all draws and
# datasets is rewritten, so that its large batches are factored in pieces.

FIRST, LAST = (0, 10, 0), (0, 11, 0)  # jaxlib versions that share batches out
# Operations on a matrix, over its rows times the entries of it or of the right-hand side.
COSTS = dict.fromkeys(("eig", "eigh", "svd", "schur", "hessenberg"), 10.0)
COSTS |= dict.fromkeys(("cholesky", "lu", "qr", "geqrf", "geqp3", "householder_product"), 1.0)
COSTS |= {"ormqr": 1.0, "triangular_solve": 1.0, "tridiagonal_solve": 5.0}
# Programs within an equation that can be evaluated in its place, by the parameter that holds them.
INLINE = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "remat2": "jaxpr",
    "checkpoint": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
    "custom_vmap_call": "call",
}
LOOPS = ("scan", "while", "cond")


def is_affected() -> bool:
    """Return True if the installed jaxlib may hang."""
    return FIRST <= jaxlib.version.__version_info__ <= LAST


def in_pieces(function: Callable[..., PyTree], is_static: Sequence[bool]) -> Callable[..., PyTree]:
    """Trace a function so that no batch of matrices in it is large; for the outermost jit."""
    static = tuple(i for i, is_so in enumerate(is_static) if is_so)
    traced = jax.make_jaxpr(function, static_argnums=static, return_shape=True)

    def whole(*arguments: Any) -> Any:
        program, found = traced(*arguments)
        dynamic = [a for a, is_so in zip(arguments, is_static, strict=True) if not is_so]
        run = _run if _has_large(program) else jax.core.eval_jaxpr
        outputs = run(program.jaxpr, program.consts, *jax.tree.leaves(dynamic))
        return jax.tree.unflatten(jax.tree.structure(found), outputs)

    return whole


def _has_large(program: Any) -> bool:
    """Whether any equation, at any depth, factors a large batch."""
    return any(map(_is_large, equations(program)))


def _holds_large(equation: JaxprEqn) -> bool:
    return any(map(_has_large, programs(equation.params)))


def _is_large(equation: JaxprEqn) -> bool:
    cost = _cost(equation)
    return cost is not None and cost >= SHARED_OUT and _batch(equation) > 1


def _cost(equation: JaxprEqn) -> float | None:
    """Operations of all matrices together; None for other equations."""
    name = equation.primitive.name
    if name not in COSTS:
        return None
    shapes = [_shape(v) for v in equation.invars]
    rows = 1 if name == "tridiagonal_solve" else shapes[0][-2]
    return COSTS[name] * rows * math.prod(shapes[-1])


def _lead(equation: JaxprEqn) -> tuple[int, ...]:
    # A tridiagonal matrix comes as three vectors.
    axes = 1 if equation.primitive.name == "tridiagonal_solve" else 2
    return _shape(equation.invars[0])[:-axes]


def _shape(variable: Any) -> tuple[int, ...]:
    return tuple(variable.aval.shape)


def _batch(equation: JaxprEqn) -> int:
    return math.prod(_lead(equation))


def _run(program: Jaxpr, consts: Sequence[Any], *arguments: Any) -> list[Any]:
    """Evaluate a program, large batches in pieces."""
    known = dict(zip(program.constvars, consts, strict=True))
    known.update(zip(program.invars, arguments, strict=True))
    for equation in program.eqns:
        values = [v.val if isinstance(v, Literal) else known[v] for v in equation.invars]
        found = _apply(equation, values, program)
        known.update(zip(equation.outvars, found, strict=True))
    return [v.val if isinstance(v, Literal) else known[v] for v in program.outvars]


def _apply(equation: JaxprEqn, values: list[Any], within: Jaxpr) -> Sequence[Any]:
    name = equation.primitive.name
    if _is_large(equation):
        return _cut(equation, values)
    if name in INLINE and INLINE[name] in equation.params and _holds_large(equation):
        return _run(*Closed.of(equation.params[INLINE[name]]), *values)
    if name in LOOPS and _holds_large(equation):
        params = {key: _rewritten(value) for key, value in equation.params.items()}
        equation = equation.replace(params=params)
    return bind(equation, values, within)


def _rewritten(value: Any) -> Any:
    """Rewrite a loop's body, or each of several branches; pass everything else through."""
    if isinstance(value, tuple) and value and all(map(is_program, value)):
        return tuple(map(_rewritten, value))
    if not is_program(value):
        return value
    shapes = [
        jax.ShapeDtypeStruct(a.shape, a.dtype, weak_type=getattr(a, "weak_type", False))
        for a in value.in_avals
    ]
    return jax.make_jaxpr(lambda *given: _run(*Closed.of(value), *given))(*shapes)


def _cut(equation: JaxprEqn, values: list[Array]) -> list[Array]:
    """Call on as many matrices at a time as one thread does alone."""
    lead, count = _lead(equation), _batch(equation)
    cost = _cost(equation)
    assert cost is not None
    most = max(1, int((SHARED_OUT - 1) // (cost / count)))
    size = -(-count // -(-count // most))  # pieces as even as they can be
    flat = [a.reshape(count, *a.shape[len(lead) :]) for a in values]

    def one(parts: list[Array]) -> list[Array]:
        found = equation.primitive.bind(*parts, **equation.params)
        return list(found) if equation.primitive.multiple_results else [found]

    found = jax.lax.map(one, flat, batch_size=size)
    return [a.reshape(*lead, *a.shape[1:]) for a in found]
