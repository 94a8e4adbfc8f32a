"""Which outputs of a program may depend on which of its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax.extend.core import ClosedJaxpr, Jaxpr, Literal


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
