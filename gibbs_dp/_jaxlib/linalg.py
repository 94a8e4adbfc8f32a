"""Cholesky factors, triangular solves and eigenvectors of many small matrices at once.

The functions take one matrix and are meant to be vmapped. jaxlib 0.10 and 0.11.0 share a LAPACK
call on a large batch out to XLA's thread pool, and hold a thread of that pool until it is done.
Two such calls that do not need each other run at once within one program, so a few programs can
hold every thread and wait forever. Calls on small batches are not shared out: large ones are
made in pieces here, on CPUs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import jaxlib
from jax.custom_batching import custom_vmap
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal
from jaxtyping import Array, Float, PyTree

from gibbs_dp._jaxlib.devices import is_accelerator, target_platform
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


def _solved_alone(factors: Array, right: Array) -> Array:
    return jax.lax.linalg.triangular_solve(factors, right, left_side=True, lower=True)


_solve_factors = _over_batches(_solved_alone, lambda _, right: right[0].size * right.shape[1])


@custom_vmap
def _solve_lower(factors: Array, right: Array) -> Array:
    """Triangular solves; right-hand sides of one factor are its columns."""
    return _solve_factors(factors, right)


@_solve_lower.def_vmap
def _(axis_size: int, is_batched: list[bool], factors: Array, right: Array) -> Any:
    if is_batched[0]:
        merged = map(_merged, (factors, right), is_batched, [axis_size] * 2)
        found = _solve_lower(*merged)
        return found.reshape(axis_size, -1, *found.shape[1:]), True
    batch, dim, width = right.shape[1:]
    columns = jnp.moveaxis(right, 0, 2).reshape(batch, dim, axis_size * width)
    found = _solve_lower(factors, columns).reshape(batch, dim, axis_size, width)
    return jnp.moveaxis(found, 2, 0), True


_cholesky = _over_batches(jnp.linalg.cholesky, lambda m: m[0].size * m.shape[1] // 3)
_eigh = _over_batches(lambda m: tuple(jnp.linalg.eigh(m)), lambda m: 5 * m[0].size * m.shape[1])


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
        run = _run if any(_large(program.jaxpr)) else jax.core.eval_jaxpr
        outputs = run(program.jaxpr, program.consts, *jax.tree.leaves(dynamic))
        return jax.tree.unflatten(jax.tree.structure(found), outputs)

    return whole


def _large(program: Jaxpr) -> Iterator[bool]:
    """Yield for every equation, at any depth, whether it factors a large batch."""
    for equation in program.eqns:
        yield _is_large(equation)
        for inner in _programs(equation):
            yield from _large(inner)


def _has_large(equation: JaxprEqn) -> bool:
    return any(any(_large(inner)) for inner in _programs(equation))


def _programs(equation: JaxprEqn) -> Iterator[Jaxpr]:
    values = jax.tree.leaves(tuple(equation.params.values()), is_leaf=_is_program)
    for value in values:
        if _is_program(value):
            program: Any = getattr(value, "jaxpr", value)
            yield program


def _is_program(value: Any) -> bool:
    return hasattr(value, "eqns") or hasattr(getattr(value, "jaxpr", None), "eqns")


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
    if name in INLINE and INLINE[name] in equation.params and _has_large(equation):
        inner = equation.params[INLINE[name]]
        return _run(getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), *values)
    if name in LOOPS and _has_large(equation):
        params = {key: _rewritten(value) for key, value in equation.params.items()}
        equation = equation.replace(params=params)
    return bind(equation, values, within)


def _rewritten(value: Any) -> Any:
    """Rewrite a loop's body, or each of several branches; pass everything else through."""
    if isinstance(value, tuple) and value and all(isinstance(v, ClosedJaxpr) for v in value):
        return tuple(map(_rewritten, value))
    if not isinstance(value, ClosedJaxpr):
        return value
    shapes = [
        jax.ShapeDtypeStruct(a.shape, a.dtype, weak_type=getattr(a, "weak_type", False))
        for a in value.in_avals
    ]
    return jax.make_jaxpr(lambda *given: _run(value.jaxpr, value.consts, *given))(*shapes)


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
