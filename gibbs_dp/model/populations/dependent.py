"""A population whose datasets are joint draws: their examples depend on each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
from jaxtyping import PRNGKeyArray, PyTree


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
