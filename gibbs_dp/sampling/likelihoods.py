"""Log-likelihoods of single examples at draws of a posterior."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from gibbs_dp._jaxlib.compile import on_default_backend
from gibbs_dp.model.examples import num_examples
from gibbs_dp.model.posterior import GibbsPosterior

# Losses that are in memory at a time, beside the result.
AT_ONCE = 2**22


def _of_draws(posterior: GibbsPosterior, size: int, theta: PyTree, data: PyTree) -> Array:
    return jax.lax.map(lambda t: posterior.losses(t, data), theta, batch_size=size)


_losses = on_default_backend(_of_draws, "posterior", "size")


def log_likelihoods(
    posterior: GibbsPosterior, data: PyTree, theta: PyTree, gamma: float, is_batch: bool
) -> Float[np.ndarray, "*batch chain draw n"]:
    """Return minus gamma times the loss of every example at every draw.

    Parameters
    ----------
    posterior, data, gamma
        What was sampled.
    theta
        Draws: leaves ``[chain, draw, ...]``, with a leading axis of datasets for a batch.
    is_batch
        Whether the data are a batch of datasets.

    Returns
    -------
    array
        In nats.

    Raises
    ------
    ValueError
        For a structured loss that examples have no share of.
    """
    if is_batch:
        parts = [
            log_likelihoods(posterior, _row(data, i), _row(theta, i), gamma, False)
            for i in range(jax.tree.leaves(theta)[0].shape[0])
        ]
        return np.stack(parts)
    lead = jax.tree.leaves(theta)[0].shape[:2]
    flat = jax.tree.map(lambda a: jnp.asarray(a).reshape(-1, *np.shape(a)[2:]), theta)
    size = max(1, min(lead[0] * lead[1], AT_ONCE // num_examples(data)))
    found = np.asarray(_losses(posterior, size, flat, data))
    return -gamma * found.reshape(*lead, -1)


def _row(tree: PyTree, index: int) -> Any:
    return jax.tree.map(lambda a: a[index], tree)
