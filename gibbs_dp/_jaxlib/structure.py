"""Nested tuples, lists and dicts as JSON: what a kept program's results are put together as."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from gibbs_dp._jaxlib.chacha import wrap_key

PACKAGE = __name__.partition(".")[0]


def describe(value: Any, kinds: Sequence[type] = ()) -> Any:
    """Describe a nest; whatever is no tuple, list, dict or None is a leaf.

    Parameters
    ----------
    value
        The nest. A text in it stands for random keys of that kind, which come as their data.
    kinds
        Named tuples that no module has, known by their names.

    Raises
    ------
    TypeError
        If it has a named tuple that is neither this package's nor one of ``kinds``.
    """
    if value is None:
        return None
    if isinstance(value, dict):
        return {"dict": [[key, describe(value[key], kinds)] for key in sorted(value)]}
    if isinstance(value, (tuple, list)):
        parts = [describe(item, kinds) for item in value]
        if type(value) in (tuple, list):
            return {type(value).__name__: parts}
        return {"kind": _name(type(value), kinds), "parts": parts}
    return value if isinstance(value, str) else 0


def rebuild(description: Any, kinds: Sequence[type] = ()) -> Callable[[Sequence[Any]], Any]:
    """Return what puts leaves together as described.

    Raises
    ------
    LookupError
        If a named tuple is not there any more.
    ValueError
        If it is no description.
    """
    build = _builder(description, kinds)

    def put_together(leaves: Sequence[Any]) -> Any:
        return build(iter(leaves))

    return put_together


def _builder(description: Any, kinds: Sequence[type]) -> Callable[[Iterator[Any]], Any]:
    if description is None:
        return lambda leaves: None
    if description == 0:
        return next
    if isinstance(description, str):
        return lambda leaves: wrap_key(next(leaves), description)
    match description:
        case {"dict": pairs}:
            named = [(key, _builder(inner, kinds)) for key, inner in pairs]
            return lambda leaves: {key: build(leaves) for key, build in named}
        case {"tuple": parts}:
            builders = [_builder(inner, kinds) for inner in parts]
            return lambda leaves: tuple(build(leaves) for build in builders)
        case {"list": parts}:
            builders = [_builder(inner, kinds) for inner in parts]
            return lambda leaves: [build(leaves) for build in builders]
        case {"kind": str(name), "parts": parts}:
            kind, builders = _kind(name, kinds), [_builder(inner, kinds) for inner in parts]
            return lambda leaves: kind(*(build(leaves) for build in builders))
    raise ValueError(f"{description!r} describes nothing")


def _name(kind: type, kinds: Sequence[type]) -> str:
    if kind in kinds:
        return kind.__name__
    name = f"{kind.__module__}:{kind.__qualname__}"
    try:
        if _kind(name, ()) is kind:
            return name
    except LookupError:
        pass
    raise TypeError(f"{name} is not of this package")


def _kind(name: str, kinds: Sequence[type]) -> Any:
    module, _, path = name.partition(":")
    if not path:
        return {kind.__name__: kind for kind in kinds}[name]
    if module.partition(".")[0] != PACKAGE:
        raise LookupError(f"{name} is not of this package")
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    if not (isinstance(found, type) and hasattr(found, "_fields")):
        raise LookupError(f"{name} is no named tuple")
    return found


# Which outputs of a program may depend on which of its inputs.


def reached(program: Jaxpr, is_marked: Sequence[bool]) -> list[bool]:
    """Say for every output whether the marked inputs can reach it.

    Calls of jitted functions are followed inside; of any other equation, every output counts as
    depending on every input.

    Parameters
    ----------
    program
        What ``jax.make_jaxpr(function)(*arguments).jaxpr`` is.
    is_marked
        For every input.

    Returns
    -------
    list[bool]
        For every output.

    Examples
    --------
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
        if equation.primitive.name in ("pjit", "jit", "closed_call") and isinstance(
            inner, ClosedJaxpr
        ):
            results = reached(inner.jaxpr, marks)
        else:
            results = [any(marks)] * len(equation.outvars)
        marked |= {v for v, mark in zip(equation.outvars, results, strict=True) if mark}
    return of(program.outvars)
