"""Populations around users' own objects, which need not have all of the contract."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
from jax.tree_util import Partial
from jaxtyping import PRNGKeyArray, PyTree


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
