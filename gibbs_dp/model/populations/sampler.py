"""A population given by a sampling function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
from jaxtyping import PRNGKeyArray, PyTree


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
