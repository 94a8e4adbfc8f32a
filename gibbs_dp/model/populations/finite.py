"""A population on finitely many example values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree

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
