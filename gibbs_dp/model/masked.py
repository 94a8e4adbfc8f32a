"""Datasets of different lengths in one shape: padded, with a mask on the loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from gibbs_dp._jaxlib.per_example import over_examples
from gibbs_dp.information.checks import refuse_masked
from gibbs_dp.model.posterior import GibbsPosterior


@dataclass(frozen=True)
class MaskedLoss:
    """A loss of ``(example, keep)``: zero where ``keep`` is false."""

    loss: Callable[[Any, Any], Any]

    def __call__(self, theta: PyTree, z: tuple[PyTree, Bool[Array, ""]]) -> Float[Array, ""]:
        """Loss of one example."""
        example, keep = z
        return jnp.where(keep, self.loss(theta, example), 0.0)

    def batch(self, theta: PyTree, data: tuple[PyTree, Bool[Array, " n"]]) -> Float[Array, " n"]:
        """Losses of ``n`` examples."""
        examples, keep = data
        batch = getattr(self.loss, "batch", None)
        if batch is None:
            return over_examples(self, theta, data)
        return jnp.where(keep, batch(theta, examples), 0.0)


@lru_cache(maxsize=32)
def masked(posterior: GibbsPosterior) -> GibbsPosterior:
    """Return the posterior of data ``(examples, keep)``, the same object at every call.

    Raises
    ------
    ValueError
        For a structured loss, which is not a sum over examples.
    """
    if posterior.loss is None:
        raise ValueError(
            "mask: a total_loss is not a sum over examples that could be masked; give a "
            "per-example loss, or let the total_loss read a mask from the data."
        )
    return GibbsPosterior(MaskedLoss(posterior.loss), posterior.prior)


def check_mask(mask: Any, data: PyTree, is_batch: bool) -> Bool[np.ndarray, "*b n"]:
    """Turn a mask into booleans of the data's leading axes.

    Raises
    ------
    ValueError
        If its shape or values do not fit, or a dataset has no example left.
    """
    axes = jnp.shape(jax.tree.leaves(data)[0])[: 2 if is_batch else 1]
    refuse_masked("mask", mask)
    found = np.asarray(mask)
    if found.shape != axes:
        raise ValueError(f"mask: shape {found.shape} for examples of shape {axes}; give one each.")
    if not np.isin(found, (0, 1)).all():
        raise ValueError("mask: its values must be 0 and 1 (or False and True).")
    if not found.any(axis=-1).all():
        raise ValueError("mask: a dataset has no example left; leave it out.")
    return found.astype(bool)
