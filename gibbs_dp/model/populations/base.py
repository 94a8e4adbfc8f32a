"""The contract of a population, and checks on the examples it yields."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray, PyTree

from gibbs_dp.model.populations.own import own_population
from gibbs_dp.model.spread import is_spread


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


def as_examples(data: PyTree, name: str = "data") -> PyTree:
    """Turn a pytree of array-likes into JAX arrays, checked: same length, not empty, finite.

    Floating leaves take JAX's default float type, so that float64 input works in a float32
    session and vice versa. Arrays spread over several devices stay there.

    Raises
    ------
    ValueError
        If leaves differ in length, are empty, hold NaN or infinity, or are not numeric.
    """
    _check_examples(data, name)
    return jax.tree.map(_to_default_float, data)


def as_host_examples(data: PyTree, name: str = "data") -> PyTree:
    """Check and convert examples as :func:`as_examples` does, but to NumPy arrays."""
    _check_examples(data, name)
    dtype = jnp.zeros(()).dtype

    def convert(leaf: Any) -> np.ndarray:
        array = np.asarray(leaf)
        return array.astype(dtype) if array.dtype.kind == "f" else array

    return jax.tree.map(convert, data)


def _check_examples(data: PyTree, name: str) -> None:
    leaves = jax.tree.leaves(data)
    if not leaves:
        raise ValueError(f"{name}: it holds no arrays; give a pytree of arrays.")
    lengths = set()
    for leaf in leaves:
        array = leaf if is_spread(leaf) else np.asarray(leaf)
        if array.dtype.kind not in "fiub":
            raise ValueError(f"{name}: values of type {array.dtype} are not numbers; encode them.")
        if array.ndim == 0:
            raise ValueError(f"{name}: every array needs a leading axis of examples; got a scalar.")
        lengths.add(array.shape[0])
        if array.dtype.kind == "f":
            bad = int((~(jnp if is_spread(leaf) else np).isfinite(array)).sum())
            if bad:
                raise ValueError(f"{name}: {bad} values are NaN or infinite; drop or impute them.")
    if len(lengths) > 1:
        raise ValueError(f"{name}: arrays of different lengths {sorted(lengths)}; they must agree.")
    if lengths == {0}:
        raise ValueError(f"{name}: it is empty; give at least one example.")


def _to_default_float(leaf: Any) -> Array:
    if is_spread(leaf):
        is_float = jnp.issubdtype(leaf.dtype, jnp.floating)
        return leaf.astype(jnp.zeros(()).dtype) if is_float else leaf
    array = np.asarray(leaf)
    if array.dtype.kind == "f":
        return jnp.asarray(array, dtype=jnp.zeros(()).dtype)
    return jnp.asarray(array)


def num_examples(data: PyTree) -> int:
    """Length of the leading axis."""
    return int(jax.tree.leaves(data)[0].shape[0])
