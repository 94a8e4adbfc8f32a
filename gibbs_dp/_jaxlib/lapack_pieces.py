"""Programs whose large batches of matrices are factored in pieces.

jaxlib 0.10 and 0.11.0 share a LAPACK call on a large batch out to XLA's thread pool, and hold a
thread of that pool until it is done: a few such calls at once can hold every thread and wait
forever (`gibbs_dp._jaxlib.linalg`). Losses and priors of users factor matrices as they please, so
the finished program of all draws and datasets is rewritten.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jaxlib
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal
from jaxtyping import Array, PyTree

from gibbs_dp._jaxlib.last_axis import bind
from gibbs_dp._jaxlib.linalg import SHARED_OUT

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
    """Whether the installed jaxlib may hang."""
    return FIRST <= jaxlib.version.__version_info__ <= LAST


def in_pieces(function: Callable[..., PyTree], is_static: Sequence[bool]) -> Callable[..., PyTree]:
    """Trace a function so that no batch of matrices in it is large; for the outermost jit.

    Parameters
    ----------
    function
        What is traced, with all its derivatives and batches.
    is_static
        Of its arguments: which are not traced.

    Returns
    -------
    callable
        The same function where it factors no large batch.
    """

    def whole(*arguments: Any) -> Any:
        pairs = list(zip(arguments, is_static, strict=True))
        dynamic = [a for a, is_so in pairs if not is_so]
        leaves, structure = jax.tree.flatten(dynamic)
        outputs: list[Any] = []

        def flat(*given: Any) -> list[Any]:
            again = iter(jax.tree.unflatten(structure, given))
            full = [a if is_so else next(again) for a, is_so in pairs]
            found, tree = jax.tree.flatten(function(*full))
            outputs[:] = [tree]
            return found

        program = jax.make_jaxpr(flat)(*leaves)
        run = _run if any(_large(program.jaxpr)) else jax.core.eval_jaxpr
        return jax.tree.unflatten(outputs[0], run(program.jaxpr, program.consts, *leaves))

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
