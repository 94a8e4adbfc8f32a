"""Populations: their contract, and those of a function or an object of the user's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import jax
import numpy as np
from jax.tree_util import Partial
from jaxtyping import PRNGKeyArray, PyTree

# A population given by a sampling function.


@dataclass(frozen=True)
class Sampler:
    """Independent examples from ``function(key, n) -> examples`` (leaves with leading axis n).

    >>> import jax
    >>> train, ghosts = Sampler(lambda key, n: jax.random.normal(key, (n,))).sample(
    ...     jax.random.key(0), 5, 2)
    >>> train.shape, ghosts.shape
    ((5,), (2,))
    """

    function: Callable[[PRNGKeyArray, int], Any]
    is_dependent: ClassVar[bool] = False
    is_conditional: ClassVar[bool] = False

    def sample(self, key: PRNGKeyArray, n: int, num_ghosts: int) -> tuple[PyTree, PyTree]:
        """Draw ``n`` training examples and ``num_ghosts`` fresh ones."""
        train_key, ghost_key = jax.random.split(key)
        return self.function(train_key, n), self.function(ghost_key, num_ghosts)


jax.tree_util.register_dataclass(Sampler, data_fields=[], meta_fields=["function"])


# Populations around users' own objects, which need not have all of the contract.


@dataclass(frozen=True)
class Own:
    """Datasets drawn by ``draw(key, n, num_ghosts)``, and what is known of them.

    Made by `as_population`; ``name`` is that of the user's class.
    """

    draw: Partial
    name: str
    is_dependent: bool
    is_conditional: bool

    def sample(self, key: PRNGKeyArray, n: int, num_ghosts: int) -> tuple[PyTree, PyTree]:
        """Draw ``n`` training examples and ``num_ghosts`` fresh ones."""
        return self.draw(key, n, num_ghosts)


jax.tree_util.register_dataclass(
    Own, data_fields=["draw"], meta_fields=["name", "is_dependent", "is_conditional"]
)


def own_population(given: Any, is_pytree: bool) -> Own:
    """Wrap an object with ``sample``; declarations that it lacks are False."""
    # The arrays of a pytree are traced; a bound method is compared by its object's identity.
    draw = Partial(_sample, given) if is_pytree else Partial(given.sample)
    flags = [bool(getattr(given, flag, False)) for flag in ("is_dependent", "is_conditional")]
    return Own(draw, type(given).__name__, *flags)


def _sample(given: Any, key: PRNGKeyArray, n: int, num_ghosts: int) -> tuple[PyTree, PyTree]:
    return given.sample(key, n, num_ghosts)


def population_name(population: Any) -> str:
    """Return a population's name in reports and stores: that of its class, or of the user's."""
    return population.name if isinstance(population, Own) else type(population).__name__


# The contract of a population.


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
