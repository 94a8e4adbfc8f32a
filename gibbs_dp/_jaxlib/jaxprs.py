"""Traced programs, at any depth, in every JAX: newer ones have one type of them, older ones two."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
from jax.extend.core import Jaxpr, JaxprEqn


class Closed(NamedTuple):
    """A program and its constants."""

    jaxpr: Jaxpr
    consts: Sequence[Any]

    @classmethod
    def of(cls, program: Any) -> Closed:
        """Take one of JAX's, closed or not."""
        return cls(getattr(program, "jaxpr", program), getattr(program, "consts", ()))


def is_program(value: Any) -> bool:
    """Whether a parameter of an equation is a program, closed or not."""
    return hasattr(getattr(value, "jaxpr", value), "eqns")


def programs(value: Any) -> Iterator[Closed]:
    """Yield the programs among a parameter, or several, of an equation, in order.

    >>> def one(x):
    ...     return jax.jit(jax.numpy.sin)(x)
    >>> (equation,) = jax.make_jaxpr(one)(1.0).jaxpr.eqns
    >>> [e.primitive.name for program in programs(equation.params) for e in program.jaxpr.eqns]
    ['sin']
    """
    for leaf in jax.tree.leaves(value, is_leaf=is_program):
        if is_program(leaf):
            yield Closed.of(leaf)


def equations(program: Any) -> Iterator[JaxprEqn]:
    """Yield the equations of a program, and of all programs inside it."""
    for equation in Closed.of(program).jaxpr.eqns:
        yield equation
        for inner in programs(equation.params):
            yield from equations(inner)
