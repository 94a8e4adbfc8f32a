"""A population whose first example, and the one that may replace it, are always the same."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray, PyTree

from gibbs_dp.model.populations import Population


class FixedPair:
    """Datasets of a population with a chosen example in the first place, and a chosen fresh one.

    Parameters
    ----------
    population
        Where all other examples come from.
    pair
        The example and the one that may replace it.

    Raises
    ------
    ValueError
        Unless these are two.
    """

    is_dependent = False

    def __init__(self, population: Population, pair: Any) -> None:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise ValueError("pair: give two examples, (z, other).")
        self.population, self.is_conditional = population, population.is_conditional
        self.pair = tuple(jax.tree.map(jnp.asarray, z) for z in pair)

    def sample(self, key: PRNGKeyArray, n: int, num_ghosts: int) -> tuple[PyTree, PyTree]:
        """Draw a dataset and fresh examples, and put the pair in."""
        drawn = self.population.sample(key, n, num_ghosts)
        try:
            train, fresh = (
                jax.tree.map(lambda a, value: a.at[0].set(value), examples, z)
                for examples, z in zip(drawn, self.pair, strict=True)
            )
        except ValueError as error:
            raise ValueError(
                f"pair: its examples are not like those of the population ({error})."
            ) from error
        return train, fresh
