"""A function of parameters and one example, for all examples: fast where there are many chains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, jaxpr_as_fun
from jaxtyping import Array, PyTree

from gibbs_dp._jaxlib.devices import is_accelerator, target_platform
from gibbs_dp._jaxlib.jaxprs import Closed, is_program
from gibbs_dp._jaxlib.precision import logaddexp, spread

# Equations of a program of one example, for many: the examples are the last axis throughout.

# Primitives that act on each entry by itself.
ELEMENTWISE = frozenset(
    """
    abs acos acosh add add_any and asin asinh atan atan2 atanh cbrt ceil clamp convert_element_type
    copy cos cosh digamma div eq erf erf_inv erfc exp exp2 expm1 floor ge gt integer_pow is_finite
    le lgamma log log1p logistic lt max min mul ne neg nextafter not or pow rem round rsqrt select_n
    sign sin sinh sqrt square stop_gradient sub tan tanh xor
    """.split()  # noqa: SIM905
)


class Value(NamedTuple):
    """The value of a variable."""

    array: Any  # its value; where ``is_mapped``, with one more axis, the last, of examples
    is_mapped: bool  # whether examples have values of their own


# Gives the value of a variable, and the equation that a variable comes from, if there is one.
Read = Callable[[Any], Value]
Origin = Callable[[Any], JaxprEqn | None]


def apply(
    equation: JaxprEqn, values: list[Value], size: int, within: Jaxpr, read: Read, origin: Origin
) -> list[Value]:
    """Evaluate an equation for all examples."""
    name = equation.primitive.name
    is_mapped = any(v.is_mapped for v in values)
    if _is_logaddexp(equation):
        wide = _alike(equation, values, size) if is_mapped else [v.array for v in values]
        return [Value(logaddexp(*wide), is_mapped)]
    if not is_mapped:
        return [Value(a, False) for a in bind(equation, [v.array for v in values], within)]
    if name in ELEMENTWISE:
        return _mapped(bind(equation, _alike(equation, values, size), within))
    if name == "broadcast_in_dim" and len(values) == 1:
        return _mapped([_broadcast_in_dim(equation, values[0].array)])
    if name == "squeeze" or (name == "reshape" and equation.params["dimensions"] is None):
        shape = (*_type(equation.outvars[0]).shape, size)
        return _mapped([jnp.reshape(values[0].array, shape)])
    if name == "dot_general":
        return _mapped([_dot_general(equation, values, within)])
    if name == "reduce_sum":
        product = origin(equation.invars[0])
        factors = product and _factors(product, read)
        if factors:
            return _mapped([_sum_of_products(equation, *factors)])
    return _mapped(_vmapped(equation, values, within))


def bind(equation: JaxprEqn, arrays: list[Any], within: Jaxpr) -> list[Any]:
    """Evaluate an equation as it stands."""
    if equation.primitive.name in ELEMENTWISE:
        return [equation.primitive.bind(*arrays, **equation.params)]
    at = {
        variable: array
        for variable, array in zip(equation.invars, arrays, strict=True)
        if not isinstance(variable, Literal)
    }
    alone = within.replace(
        constvars=[], invars=list(at), outvars=list(equation.outvars), eqns=[equation]
    )
    return list(jaxpr_as_fun(ClosedJaxpr(alone, []))(*at.values()))


def _type(variable: Any) -> Any:
    """Shape and dtype for one example."""
    return variable.aval


def _mapped(arrays: list[Any]) -> list[Value]:
    return [Value(a, True) for a in arrays]


def _alike(equation: JaxprEqn, values: list[Value], size: int) -> list[Any]:
    """Bring the inputs of an elementwise equation to one shape."""
    shape = _type(equation.outvars[0]).shape
    found = []
    for variable, (array, is_mapped) in zip(equation.invars, values, strict=True):
        wide = jnp.asarray(array)
        if not is_mapped:
            has_slope = jnp.issubdtype(wide.dtype, jnp.floating)
            if has_slope and not isinstance(variable, Literal):
                wide = spread(wide, jnp.ones((size,), wide.dtype))
            else:
                wide = wide[..., None]
        if wide.ndim - 1 < len(shape):
            wide = wide.reshape((1,) * (len(shape) + 1 - wide.ndim) + wide.shape)
        found.append(jnp.broadcast_to(wide, (*shape, size)))
    return found


def _broadcast_in_dim(equation: JaxprEqn, array: Any) -> Array:
    shape = equation.params["shape"]
    axes = (*equation.params["broadcast_dimensions"], len(shape))
    return jax.lax.broadcast_in_dim(array, (*shape, array.shape[-1]), axes)


def _dot_general(equation: JaxprEqn, values: list[Value], within: Jaxpr) -> Array:
    """Put an operand without examples first: the result's last axis is then that of examples."""
    first, second = values
    (left, right), (left_batch, right_batch) = equation.params["dimension_numbers"]
    has_no_others = len(_type(equation.invars[0]).shape) == len(left) + len(left_batch)
    if first.is_mapped and not second.is_mapped and has_no_others:
        turned = {**equation.params}
        turned["dimension_numbers"] = ((right, left), (right_batch, left_batch))
        if isinstance(turned["precision"], tuple):
            turned["precision"] = turned["precision"][::-1]
        equation = equation.replace(invars=equation.invars[::-1], params=turned)
        values = [second, first]
    elif second.is_mapped and first.is_mapped and first.array.ndim == second.array.ndim == 2:
        product = first.array * second.array  # two vectors an example
        return jnp.sum(product, axis=0, dtype=_type(equation.outvars[0]).dtype)
    return _vmapped(equation, values, within)[0]


def _factors(product: JaxprEqn, read: Read) -> tuple[Any, Any] | None:
    """Return what is multiplied, where one factor alone has examples: that one second."""
    shape = _type(product.outvars[0]).shape
    if product.primitive.name != "mul" or any(_type(v).shape != shape for v in product.invars):
        return None
    first, second = map(read, product.invars)
    if first.is_mapped == second.is_mapped or not jnp.issubdtype(first.array.dtype, jnp.floating):
        return None
    return (second.array, first.array) if first.is_mapped else (first.array, second.array)


def _sum_of_products(equation: JaxprEqn, weights: Any, mapped: Any) -> Array:
    """Make one matrix product of a sum of products, over the parameters of all chains."""
    axes = equation.params["axes"]
    others = tuple(i for i in range(weights.ndim) if i not in axes)
    numbers = ((axes, axes), (others, others))

    def dot(a: Array, b: Array) -> Array:
        return jax.lax.dot_general(a, b, numbers, precision="highest")

    return jax.vmap(dot, in_axes=(None, -1), out_axes=-1)(weights, mapped)


def _vmapped(equation: JaxprEqn, values: list[Value], within: Jaxpr) -> list[Any]:
    """Leave an equation of any other kind to JAX."""
    axes = [-1 if v.is_mapped else None for v in values]

    def one(arrays: list[Any]) -> list[Any]:
        return bind(equation, arrays, within)

    run = jax.vmap(one, in_axes=(axes,), out_axes=-1)
    return run([v.array for v in values])


def _is_logaddexp(equation: JaxprEqn) -> bool:
    """Return True if it is JAX's own ``logaddexp``, also behind softplus, of real numbers."""
    if equation.primitive.name != "custom_jvp_call":
        return False
    source = _source(equation)
    is_real = jnp.issubdtype(_type(equation.outvars[0]).dtype, jnp.floating)
    return is_real and source is not None and source == _source_of_logaddexp()


@cache
def _source_of_logaddexp() -> str | None:
    equations = jax.make_jaxpr(jnp.logaddexp)(0.0, 0.0).jaxpr.eqns
    return _source(equations[0]) if len(equations) == 1 else None


def _source(equation: JaxprEqn) -> str | None:
    """Name the file and line of the function that a call is of, where JAX says so."""
    called = getattr(equation.params.get("call_jaxpr"), "jaxpr", None)
    return getattr(getattr(called, "debug_info", None), "func_src_info", None)


# From a function to a program over all examples.

CALLS = ("jit", "pjit")


def over_examples(
    function: Callable[[Any, Any], Any], parameters: PyTree, examples: PyTree
) -> Array:
    """Values of ``function(parameters, example)`` for ``n`` examples: those of ``jax.vmap``.

    In programs for CPUs the function's equations are evaluated with the examples as the last axis
    of every array. A vmap puts them where the function's operands happen to stand, often before
    axes of length 3 or 8, which vector units cannot fill.
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


# Which outputs of a program may depend on which of its inputs.


def reached(program: Jaxpr, is_marked: Sequence[bool]) -> list[bool]:
    """Say for every output whether the marked inputs can reach it.

    Calls of jitted functions are followed inside; of any other equation, every output counts as
    depending on every input.

    >>> import jax
    >>> program = jax.make_jaxpr(lambda a, b: (2 * a, a + b, 1.0))(1.0, 1.0).jaxpr
    >>> reached(program, [False, True])
    [False, True, False]
    """
    marked = {v for v, mark in zip(program.invars, is_marked, strict=True) if mark}

    def of(variables: Any) -> list[bool]:
        return [not isinstance(v, Literal) and v in marked for v in variables]

    for equation in program.eqns:
        marks = of(equation.invars)
        inner = equation.params.get("jaxpr")
        if equation.primitive.name in ("pjit", "jit", "closed_call") and is_program(inner):
            results = reached(Closed.of(inner).jaxpr, marks)
        else:
            results = [any(marks)] * len(equation.outvars)
        marked |= {v for v, mark in zip(equation.outvars, results, strict=True) if mark}
    return of(program.outvars)
