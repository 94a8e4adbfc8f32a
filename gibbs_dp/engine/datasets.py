"""Which dataset is number ``i``: the only place that says so."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import jax
from jaxtyping import Array, Int, Key, PRNGKeyArray, PyTree

from gibbs_dp._jaxlib.compile import on_default_backend
from gibbs_dp.model.populations import Population
from gibbs_dp.model.posterior import GibbsPosterior


class Stream(IntEnum):
    """What the random numbers of an audit are for; streams are independent of each other."""

    MAIN = 0  # datasets that are reported on
    PILOTS = 1  # datasets that settings are tuned on
    OPTIMUM = 2  # the search for the population's best parameter
    TRIAL = 3  # one dataset that arguments are checked with


def stream_key(key: PRNGKeyArray, stream: Stream) -> PRNGKeyArray:
    """Key of one stream of an audit's key."""
    return _streams(key)[0][int(stream)]


def roots(key: PRNGKeyArray, stream: Stream) -> Key[Array, 2]:
    """Keys that datasets, and their chains, come from."""
    return _streams(key)[1][int(stream)]


def _streams_of(key: PRNGKeyArray) -> tuple[list[PRNGKeyArray], list[Key[Array, 2]]]:
    # One program, which can be kept: one by one, each of these would be compiled.
    keys = [jax.random.fold_in(key, int(stream)) for stream in Stream]
    return keys, [jax.random.split(key, 2) for key in keys]


_streams = on_default_backend(_streams_of)


def keys_of(roots: Key[Array, 2], numbers: Int[Array, "2 block"]) -> tuple[Array, Array]:
    """Keys of datasets and of their chains: the same in whatever block, device or process.

    Parameters
    ----------
    roots
        From :func:`roots`.
    numbers
        Of the datasets, and of the chains.

    Returns
    -------
    data_keys, chain_keys
        ``[block]`` each.
    """
    fold = jax.vmap(jax.random.fold_in, in_axes=(None, 0))
    data_keys, chain_keys = jax.vmap(fold)(roots, numbers)
    return data_keys, chain_keys


def num_fresh(posterior: GibbsPosterior, n: int, num_ghosts: int) -> int:
    """Fresh examples drawn with a dataset: structured losses also need a whole fresh dataset."""
    return num_ghosts + (n if posterior.structured else 0)


def draw_dataset(
    posterior: GibbsPosterior, population: Any, key: PRNGKeyArray, n: int, num_ghosts: int
) -> tuple[PyTree, PyTree]:
    """Draw the dataset of a key: ``n`` training examples, and the fresh ones that go with them."""
    train, fresh = population.sample(key, n, num_fresh(posterior, n, num_ghosts))
    return train, fresh


def training_set(
    posterior: GibbsPosterior,
    population: Population,
    root: PRNGKeyArray,
    number: Int[Array, ""],
    n: int,
    num_ghosts: int,
) -> PyTree:
    """Draw the training examples of dataset ``number`` again."""
    key = jax.random.fold_in(root, number)
    return draw_dataset(posterior, population, key, n, num_ghosts)[0]
