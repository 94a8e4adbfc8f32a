"""Populations by their law: finitely many values, sets of unequal size, dependent examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, PRNGKeyArray, PyTree

from gibbs_dp.information.checks import refuse_masked
from gibbs_dp.model.examples import as_examples, num_examples


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
        values = as_examples(self.values, "values")
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
