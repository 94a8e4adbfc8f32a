"""Arrays that are spread over several devices, perhaps of several processes."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from jaxtyping import PyTree


def is_spread(leaf: Any) -> bool:
    """Whether an array lies on several devices."""
    return (
        isinstance(leaf, jax.Array)
        and not isinstance(leaf, jax.core.Tracer)
        and len(leaf.sharding.device_set) > 1
    )


def on_every_device(values: PyTree, data: PyTree) -> PyTree:
    """Copy results to every device that holds a part of the data, so that each process has them.

    Values stay as they are where the data are not spread.
    """
    first = jax.tree.leaves(data)[0]
    if not is_spread(first) or not isinstance(first.sharding, NamedSharding):
        return values
    whole = NamedSharding(first.sharding.mesh, PartitionSpec())
    return jax.jit(_identity, out_shardings=whole)(values)


def distinct_values(values: Any, limit: int) -> np.ndarray:
    """Return distinct values in order; of a spread array only the first ``limit``."""
    if not is_spread(values):
        return np.unique(np.asarray(values))
    found = jnp.unique(values, size=limit, fill_value=values[0])
    return np.unique(np.asarray(on_every_device(found, values)))


def _identity(values: Any) -> Any:
    return values
