"""Whether a population draws with the key that it is given."""

from __future__ import annotations

from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal
from jaxtyping import PRNGKeyArray

from gibbs_dp.model.populations import Population


def check_key_is_used(population: Population, key: PRNGKeyArray, n: int, num_ghosts: int) -> None:
    """Refuse a population none of whose numbers depends on its key.

    NumPy's generator is such a case: compiled once, it yields one dataset forever. The check reads
    the program that JAX makes of the population rather than its draws, which may agree by chance:
    Bernoulli examples of a small probability are all 0 in most datasets.

    Raises
    ------
    ValueError
        If no training example can depend on the key.
    """
    program = jax.make_jaxpr(lambda k: population.sample(k, n, num_ghosts)[0])(key)
    if not any(_follow(program.jaxpr, [True])):
        raise ValueError(
            "population: its examples do not depend on the key, so that every dataset would be the "
            "same one (as with NumPy's generator); draw with jax.random, or gibbs_dp.random, from "
            "the key that it is given."
        )


def _follow(program: Jaxpr, is_marked: list[bool]) -> list[bool]:
    """Which outputs may depend on the marked inputs."""
    marked = {v for v, mark in zip(program.invars, is_marked, strict=True) if mark}

    def of(variables: Any) -> list[bool]:
        return [not isinstance(v, Literal) and v in marked for v in variables]

    for equation in program.eqns:
        marks = of(equation.invars)
        inner = equation.params.get("jaxpr")
        if equation.primitive.name in ("pjit", "jit", "closed_call") and isinstance(
            inner, ClosedJaxpr
        ):
            results = _follow(inner.jaxpr, marks)
        else:
            results = [any(marks)] * len(equation.outvars)
        marked |= {v for v, mark in zip(equation.outvars, results, strict=True) if mark}
    return of(program.outvars)
