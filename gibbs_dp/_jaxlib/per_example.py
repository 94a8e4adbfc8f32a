"""A function of parameters and one example, for all examples: fast where there are many chains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Jaxpr, JaxprEqn, Literal
from jaxtyping import Array, PyTree

from gibbs_dp._jaxlib.devices import is_accelerator, target_platform
from gibbs_dp._jaxlib.last_axis import Value, apply

CALLS = ("jit", "pjit")


def over_examples(
    function: Callable[[Any, Any], Any], parameters: PyTree, examples: PyTree
) -> Array:
    """Values of ``function(parameters, example)`` for ``n`` examples: those of ``jax.vmap``.

    In programs for CPUs the function's equations are evaluated with the examples as the last axis
    of every array. A vmap puts them where the function's operands happen to stand, often before
    axes of length 3 or 8, which vector units cannot fill.

    Parameters
    ----------
    function
        Returns a number.
    parameters
        A pytree of arrays.
    examples
        A pytree whose leaves have leading axis ``n``.

    Returns
    -------
    [n]
        Equal to ``jax.vmap`` up to rounding, derivatives too.

    Examples
    --------
    >>> add = lambda a, z: jnp.sum(a * z["x"]) + z["y"]
    >>> data = {"x": jnp.eye(3)[:2], "y": jnp.array([10.0, 20.0])}
    >>> jax.jit(lambda a: over_examples(add, a, data))(jnp.array([1.0, 2.0, 3.0])).tolist()
    [11.0, 22.0]
    """
    parameters, examples = jax.tree.map(jnp.asarray, (parameters, examples))
    leaves = jax.tree.leaves((parameters, examples))
    sizes = {jnp.shape(a)[:1] for a in jax.tree.leaves(examples)}
    is_traced = any(isinstance(a, jax.core.Tracer) for a in leaves)
    if not is_traced or len(sizes) != 1 or is_accelerator(target_platform()):
        return jax.vmap(lambda z: function(parameters, z))(examples)
    ((size,),) = sizes
    one = jax.tree.map(lambda a: jax.ShapeDtypeStruct(jnp.shape(a)[1:], a.dtype), examples)
    # A new function each time: JAX would not look at a function again whose state has changed.
    program = jax.make_jaxpr(lambda p, z: function(p, z))(parameters, one)
    given = [Value(a, False) for a in jax.tree.leaves(parameters)]
    given += [Value(_examples_last(a), True) for a in jax.tree.leaves(examples)]
    (result,) = _run(program.jaxpr, program.consts, given, size)
    if result.is_mapped:
        return result.array
    return jnp.broadcast_to(result.array, (size, *jnp.shape(result.array)))


def _examples_last(array: Array) -> Array:
    if array.ndim == 1:
        return array
    # In memory that way round: else every fusion that reads it would turn it again.
    return jax.lax.optimization_barrier(jnp.moveaxis(array, 0, -1))


def _run(jaxpr: Jaxpr, consts: list[Any], given: list[Value], size: int) -> list[Value]:
    """Evaluate a program of one example; calls of jitted functions equation by equation."""
    known = {v: Value(c, False) for v, c in zip(jaxpr.constvars, consts, strict=True)}
    known.update(zip(jaxpr.invars, given, strict=True))
    made: dict[Any, JaxprEqn] = {}

    def read(variable: Any) -> Value:
        if isinstance(variable, Literal):
            return Value(variable.val, False)
        return known[variable]

    def origin(variable: Any) -> JaxprEqn | None:
        return None if isinstance(variable, Literal) else made.get(variable)

    for equation in jaxpr.eqns:
        values = [read(v) for v in equation.invars]
        if equation.primitive.name in CALLS:
            inner = equation.params["jaxpr"]
            results = _run(inner.jaxpr, inner.consts, values, size)
        else:
            results = apply(equation, values, size, jaxpr, read, origin)
        known.update(zip(equation.outvars, results, strict=True))
        made.update((v, equation) for v in equation.outvars)
    return [read(v) for v in jaxpr.outvars]
