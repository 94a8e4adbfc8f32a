"""Populations: their contract, and those of a function or an object of the user's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.tree_util import Partial
from jaxtyping import Array, Bool, PRNGKeyArray, PyTree

from gibbs_dp.information.checks import refuse_masked
from gibbs_dp.model.changes import notice_changes
from gibbs_dp.model.examples import as_examples, num_examples

# A population given by a sampling function.


@dataclass(frozen=True)
class Independent:
    """Independent examples from ``function(key, n) -> examples`` (leaves with leading axis n).

    A distribution of NumPyro is a population as it is, without this.

    >>> import jax
    >>> train, ghosts = Independent(lambda key, n: jax.random.normal(key, (n,))).sample(
    ...     jax.random.key(0), 5, 2)
    >>> train.shape, ghosts.shape
    ((5,), (2,))
    """

    function: Callable[[PRNGKeyArray, int], Any]
    is_dependent: ClassVar[bool] = False
    is_conditional: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if isinstance(self.function, dist.Distribution):
            raise ValueError(
                "function: a distribution of NumPyro is a population as it is; give it in place of "
                "Independent(...)."
            )

    def sample(self, key: PRNGKeyArray, n: int, num_ghosts: int) -> tuple[PyTree, PyTree]:
        """Draw ``n`` training examples and ``num_ghosts`` fresh ones."""
        train_key, ghost_key = jax.random.split(key)
        return self.function(train_key, n), self.function(ghost_key, num_ghosts)


jax.tree_util.register_dataclass(Independent, data_fields=[], meta_fields=["function"])


# Populations around users' own objects, which need not have all of the contract.


@dataclass(frozen=True)
class Own:
    """Datasets drawn by ``draw(key, n, num_ghosts)``, and what is known of them."""

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


def _draws_of_law(
    law: dist.Distribution, key: PRNGKeyArray, n: int, num_ghosts: int
) -> tuple[PyTree, PyTree]:
    """Draw datasets of independent draws of a distribution, whose parameters are traced."""
    train_key, ghost_key = jax.random.split(key)
    return law.sample(train_key, (n,)), law.sample(ghost_key, (num_ghosts,))


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
        ``is_conditional`` are False unless it has them; a callable ``(key, n) -> examples``, whose
        globals, arrays and attributes may change from one call to the next; or a distribution of
        NumPyro, which examples are independent draws of.

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
    if isinstance(population, dist.Distribution):
        name = type(population).__name__
        return Own(Partial(_draws_of_law, population), name, False, False)
    notice_changes(population)
    if isinstance(population, HasSample):
        is_pytree = not jax.tree_util.all_leaves([population])
        if is_pytree and isinstance(population, Population):
            return population
        return own_population(population, is_pytree)
    if callable(population):
        return Independent(population)
    raise ValueError(
        "population: give a callable (key, n) -> examples, a distribution of NumPyro or an object "
        f"with sample(key, n, num_ghosts); got {type(population).__name__}."
    )


# Populations by their law: finitely many values, sets of unequal size, dependent examples.


@dataclass(frozen=True, eq=False)
class Finite:
    """Independent examples from finitely many values with given probabilities.

    Parameters
    ----------
    values
        Pytree whose leaves have leading axis ``k``, one row per value.
    probs
        Probabilities ``[k]``, nonnegative, summing to one within 1e-6.

    Raises
    ------
    ValueError
        If the probabilities are not a distribution over the values.
    """

    values: Any
    probs: Any
    is_dependent: ClassVar[bool] = False
    is_conditional: ClassVar[bool] = False

    def __post_init__(self) -> None:
        values = as_examples(self.values, "values", is_copied=True)
        refuse_masked("Finite(probs)", self.probs)
        probs = np.asarray(self.probs, dtype=float)
        if probs.shape != (num_examples(values),):
            raise ValueError(
                f"Finite(probs): shape {probs.shape} for {num_examples(values)} values; "
                "give one probability per value."
            )
        if not (probs >= 0).all() or abs(probs.sum() - 1.0) > 1e-6:
            raise ValueError(f"Finite(probs): must be nonnegative and sum to 1, got {probs}.")
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "probs", jnp.asarray(probs / probs.sum()))

    def sample(self, key: PRNGKeyArray, n: int, num_ghosts: int) -> tuple[PyTree, PyTree]:
        """Draw ``n`` training examples and ``num_ghosts`` fresh ones."""
        size = self.probs.shape[0]
        rows = jax.random.choice(key, size, (n + num_ghosts,), p=self.probs)
        return (
            jax.tree.map(lambda a: a[rows[:n]], self.values),
            jax.tree.map(lambda a: a[rows[n:]], self.values),
        )


def _unflatten(_: Any, children: tuple[Any, Any]) -> Finite:
    new = object.__new__(Finite)  # leaves may be tracers: validated when first built
    object.__setattr__(new, "values", children[0])
    object.__setattr__(new, "probs", children[1])
    return new


jax.tree_util.register_pytree_node(Finite, lambda p: ((p.values, p.probs), None), _unflatten)


# Datasets of different lengths in one array.


def pad(datasets: Sequence[PyTree]) -> tuple[PyTree, Bool[np.ndarray, "datasets n"]]:
    """Stack datasets of different lengths, padding the shorter ones with zeros.

    Parameters
    ----------
    datasets
        Pytrees of one structure whose leaves have a leading axis of examples.

    Returns
    -------
    data, mask
        Leaves ``[datasets, n, ...]`` with the largest ``n``, and which examples are real, for
        ``gibbs_dp.sample(posterior, data, mask=mask, is_batch=True)``.

    Raises
    ------
    ValueError
        If there are none, or they differ by more than their length.

    Examples
    --------
    >>> data, mask = pad([np.ones(2), np.ones(3)])
    >>> data.tolist(), mask.sum(axis=1).tolist()
    ([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]], [2, 3])
    """
    if not datasets:
        raise ValueError("datasets: the list is empty; give at least one dataset.")
    checked = [as_examples(data, f"datasets[{i}]") for i, data in enumerate(datasets)]
    lengths = np.array([num_examples(data) for data in checked])
    longest = int(lengths.max())

    def stack(*leaves: Any) -> Array:
        return jnp.stack(
            [jnp.pad(a, [(0, longest - len(a))] + [(0, 0)] * (a.ndim - 1)) for a in leaves]
        )

    try:
        data = jax.tree.map(stack, *checked)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "datasets: they differ by more than their length "
            f"({str(error).strip().splitlines()[0]}); give all one structure."
        ) from error
    return data, np.arange(longest) < lengths[:, None]


# A population whose datasets are joint draws: their examples depend on each other.


@dataclass(frozen=True)
class Dependent:
    """Datasets from ``function(key, n) -> dataset``, one joint law for all ``n`` examples.

    Such as a Markov chain, a Gaussian process or clustered rows. Replacing single examples by
    independent ghosts is then meaningless. Remark 1 of Wang, Lei & Fienberg (2016) replaces the
    **whole** dataset by an independent one, so audits need ``group_size = n``.

    >>> import jax, jax.numpy as jnp
    >>> walk = Dependent(lambda key, n: jnp.cumsum(jax.random.normal(key, (n,))))
    >>> train, ghosts = walk.sample(jax.random.key(0), 5, 10)  # ghosts: two independent walks
    >>> train.shape, ghosts.shape
    ((5,), (10,))
    """

    function: Callable[[PRNGKeyArray, int], Any]
    is_dependent: ClassVar[bool] = True
    is_conditional: ClassVar[bool] = False

    def sample(self, key: PRNGKeyArray, n: int, num_ghosts: int) -> tuple[PyTree, PyTree]:
        """Draw one dataset, and independent ones laid end to end, cut to ``num_ghosts``."""
        keys = jax.random.split(key, 1 + -(-num_ghosts // n))
        train = self.function(keys[0], n)
        fresh = jax.vmap(lambda k: self.function(k, n))(keys[1:])
        return train, jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:])[:num_ghosts], fresh)


jax.tree_util.register_dataclass(Dependent, data_fields=[], meta_fields=["function"])
