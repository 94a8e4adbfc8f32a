"""The contract of a population."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree

from gibbs_dp.model.populations.own import own_population


@runtime_checkable
class HasSample(Protocol):
    """Anything that draws a training set and fresh ghosts from one law.

    ``sample`` must be traceable by JAX: it runs vmapped over thousands of keys.
    """

    def sample(self, key: PRNGKeyArray, n: int, num_ghosts: int) -> tuple[PyTree, PyTree]:
        """Return ``(train, ghosts)``: leaves have leading axes ``n`` and ``num_ghosts``."""
        ...


@runtime_checkable
class Population(HasSample, Protocol):
    """A law of datasets, and what the library must know of it."""

    @property
    def is_dependent(self) -> bool:
        """Whether examples depend on each other, so that only whole datasets can be replaced."""
        ...

    @property
    def is_conditional(self) -> bool:
        """Whether datasets share the rows of one table: standard errors are conditional on it."""
        ...


def as_population(population: Any) -> Population:
    """Return a population that draws as a given object or callable does.

    Parameters
    ----------
    population
        A population; an object with ``sample(key, n, num_ghosts)``, whose ``is_dependent`` and
        ``is_conditional`` are False unless it has them; or a callable ``(key, n) -> examples``.
        An object that is not a JAX pytree must not change later: its draws are compiled once.

    Returns
    -------
    Population
        The argument itself where it is a population already.

    Raises
    ------
    ValueError
        If it is none of these, with a hint where it is a table of examples.
    """
    from gibbs_dp.model.populations.sampler import Sampler

    if isinstance(population, type):
        name = population.__name__
        raise ValueError(f"population: {name} is a class; give an object of it: {name}(...).")
    # Data frames have a method "sample" too, with another meaning.
    is_table = isinstance(population, (tuple, list, dict, np.ndarray, jax.Array))
    if is_table or hasattr(population, "to_numpy"):
        raise ValueError(
            f"population: a {type(population).__name__} is a table of examples; "
            "gibbs_dp.populations.Table(...) of it draws datasets from its rows."
        )
    if isinstance(population, HasSample):
        is_pytree = not jax.tree_util.all_leaves([population])
        if is_pytree and isinstance(population, Population):
            return population
        return own_population(population, is_pytree)
    if callable(population):
        return Sampler(population)
    raise ValueError(
        "population: give a callable (key, n) -> examples or an object with "
        f"sample(key, n, num_ghosts); got {type(population).__name__}."
    )
