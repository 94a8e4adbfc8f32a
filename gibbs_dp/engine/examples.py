"""Examples that population, loss, prior and domain are checked with."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree

from gibbs_dp._jaxlib.compile import program
from gibbs_dp._jaxlib.devices import platform
from gibbs_dp.engine.asked import Asked
from gibbs_dp.engine.datasets import Stream, num_fresh, roots
from gibbs_dp.engine.key_use import check_key_is_used
from gibbs_dp.information.checks import refuse_masked
from gibbs_dp.model.check import check_examples as check_each
from gibbs_dp.model.check import check_loss
from gibbs_dp.model.losses import Loss
from gibbs_dp.model.populations import Population, Table
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.model.spread import is_spread

# Of the reported datasets, what is looked at before they are believed to be what was declared.
MOST_DATASETS, MOST_EXAMPLES = 64, 2**16


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
        train, ghosts = _drawn(population, key, n, num_ghosts)
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
        check_each(posterior, examples)
        for leaf in jax.tree.leaves(examples):
            if not np.isfinite(np.asarray(leaf)).all():  # NumPy: nothing to compile
                raise ValueError("population: it produced NaN or infinite examples.")
    check_key_is_used(population, key, n, num_ghosts)
    check_loss(posterior, train, n)
    return train


def reported_examples(asked: Asked) -> Iterator[PyTree]:
    """Yield examples of the datasets that are reported on, some thousands; a table's are its rows.

    Parameters
    ----------
    asked
        The population, and the key that its datasets come from.

    Yields
    ------
    PyTree
        Training and fresh examples of a dataset, in parts, as NumPy arrays.
    """
    population = asked.population
    if isinstance(population, Table) and _is_whole(population):
        yield jax.tree.map(np.asarray, population.data)
        return
    num_fresh_examples = num_fresh(asked.posterior, asked.n, asked.num_ghosts)
    root = roots(asked.key, Stream.MAIN)[0]
    count = min(asked.num_datasets, 1 + MOST_EXAMPLES // (asked.n + num_fresh_examples))
    for number in range(min(count, MOST_DATASETS)):
        key = jax.random.fold_in(root, number)
        for part in _drawn(population, key, asked.n, num_fresh_examples):
            yield jax.tree.map(np.asarray, part)


def _is_whole(table: Table) -> bool:
    """Whether its rows are here, and all of them are drawn."""
    return table.weights is None and not any(map(is_spread, jax.tree.leaves(table.data)))


def _drawn(population: Population, key: PRNGKeyArray, n: int, num_ghosts: int) -> PyTree:
    # One small program: operation by operation, a dozen of them would be compiled.
    draw = program(_draw, ("n", "num_ghosts"), platform(), is_quick=True)
    return draw(population, key, n, num_ghosts)


def _draw(population: Population, key: PRNGKeyArray, n: int, num_ghosts: int) -> PyTree:
    found = population.sample(key, n, num_ghosts)
    refuse_masked("population", found)
    return found
