"""One dataset that population, loss and prior are checked with."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree

from gibbs_dp._jaxlib.compile import program
from gibbs_dp.engine.key_use import check_key_is_used
from gibbs_dp.model.check import check_loss
from gibbs_dp.model.losses import Loss
from gibbs_dp.model.populations import Population, Table
from gibbs_dp.model.posterior import GibbsPosterior


def check_examples(
    posterior: GibbsPosterior, population: Population, n: int, num_ghosts: int, key: PRNGKeyArray
) -> PyTree:
    """Draw one dataset and check that population, loss and prior fit together.

    Returns
    -------
    PyTree
        The drawn training examples.

    Raises
    ------
    ValueError
        If examples are not finite or misshapen, labels do not suit the loss, or the loss is not
        one finite number per example.
    """
    if isinstance(population, Table):
        population.check_size(n, num_ghosts)
        if isinstance(posterior.loss, Loss):
            posterior.loss.check_data(population.data)
    try:
        # One small program: operation by operation, a dozen of them would be compiled.
        draw = program(_draw, ("n", "num_ghosts"), jax.default_backend(), is_quick=True)
        train, ghosts = draw(population, key, n, num_ghosts)
    except TypeError as error:
        raise ValueError(
            f"population: sampling failed ({error}); a callable takes (key, n) and returns "
            "examples with leading axis n."
        ) from error
    for name, examples, size in (("train", train, n), ("ghosts", ghosts, num_ghosts)):
        shapes = [jnp.shape(leaf) for leaf in jax.tree.leaves(examples)]
        if not shapes or any(not s or s[0] != size for s in shapes):
            raise ValueError(
                f"population: asked for {size} {name} examples, got arrays of shapes {shapes}; "
                "the leading axis must be the number of examples."
            )
        for leaf in jax.tree.leaves(examples):
            if not np.isfinite(np.asarray(leaf)).all():  # NumPy: nothing to compile
                raise ValueError("population: it produced NaN or infinite examples.")
    check_key_is_used(population, key, n, num_ghosts)
    check_loss(posterior, train, n)
    return train


def _draw(population: Population, key: PRNGKeyArray, n: int, num_ghosts: int) -> PyTree:
    return population.sample(key, n, num_ghosts)
