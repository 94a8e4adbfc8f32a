"""Which dataset is number ``i``, and the examples that a population is checked with."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key, PRNGKeyArray, PyTree

from gibbs_dp._jaxlib.compile import on_default_backend, program
from gibbs_dp._jaxlib.devices import platform
from gibbs_dp._jaxlib.per_example import reached
from gibbs_dp.engine.plan import AuditSpec
from gibbs_dp.information.checks import refuse_masked
from gibbs_dp.model.changes import forget_with
from gibbs_dp.model.charts import is_spread
from gibbs_dp.model.check import check_examples as check_each
from gibbs_dp.model.check import check_loss
from gibbs_dp.model.losses import Loss
from gibbs_dp.model.populations import Population, Table
from gibbs_dp.model.posterior import GibbsPosterior


class Stream(IntEnum):
    """What the random numbers of an audit are for; streams are independent of each other."""

    MAIN = 0  # datasets that are reported on
    PILOTS = 1  # datasets that settings are tuned on
    OPTIMUM = 2  # the search for the population's best parameter
    TRIAL = 3  # one dataset that arguments are checked with
    UNSAMPLED = 4  # datasets that are drawn and not sampled


def stream_key(key: PRNGKeyArray, stream: Stream) -> PRNGKeyArray:
    """Key of one stream of an audit's key."""
    return _streams(key)[0][int(stream)]


def roots(key: PRNGKeyArray, stream: Stream) -> Key[Array, 2]:
    """Keys that datasets, and their chains, come from."""
    return _streams(key)[1][int(stream)]


def root(key: PRNGKeyArray, stream: Stream) -> PRNGKeyArray:
    """Key that datasets come from."""
    return _streams(key)[2][int(stream)]


def _streams_of(
    key: PRNGKeyArray,
) -> tuple[list[PRNGKeyArray], list[Key[Array, 2]], list[PRNGKeyArray]]:
    # One program, which can be kept: one by one, each of these would be compiled.
    keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, jnp.arange(len(Stream)))
    pairs = jax.vmap(lambda key: jax.random.split(key, 2))(keys)
    return list(keys), list(pairs), list(pairs[:, 0])


_streams = on_default_backend(_streams_of, is_quick=True)


def keys_of(roots: Key[Array, 2], numbers: Int[Array, "2 block"]) -> tuple[Array, Array]:
    """Keys of datasets and of their chains: the same in whatever block, device or process."""
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


# What was found for the same objects in this process: another audit of them does not ask again.

Found = TypeVar("Found")
MOST_REMEMBERED = 64
_remembered: dict[Any, tuple[list[weakref.ref[Any]], Any]] = {}
_remembering = threading.Lock()  # what is done beside the workers remembers too
forget_with(_remembered.clear)


def remembered(
    find: Callable[[], Found], name: str, posterior: GibbsPosterior, population: Any, *others: Any
) -> Found:
    """Return what ``find`` found for these objects, or call it; the same in any key and gamma.

    ``others`` are what else it depends on. Arrays that may change in place are asked again.
    """
    leaves, structure = jax.tree.flatten(population)
    key = (name, posterior, structure, tuple(map(id, leaves)), others, jnp.result_type(float))
    if not all(isinstance(leaf, jax.Array) for leaf in leaves):
        return find()
    try:
        held = _remembered.get(key)
    except TypeError:  # what cannot be hashed
        return find()
    # Not kept alive: an id may have become another array's.
    if held is None or not all(ref() is leaf for ref, leaf in zip(held[0], leaves, strict=True)):
        held = [weakref.ref(leaf) for leaf in leaves], find()
        with _remembering:
            while len(_remembered) >= MOST_REMEMBERED:
                _remembered.pop(next(iter(_remembered), None), None)
            _remembered[key] = held
    found: Found = held[1]
    return found


def run_once(
    work: Callable[[], Any], posterior: GibbsPosterior, population: Any, name: str, *others: Any
) -> None:
    """Run what compiles a program for these objects, if that was not done in this process."""
    remembered(lambda: work() and None, name, posterior, population, *others)


# Whether a population draws with the key that it is given.

# Examples that population, loss, prior and domain are checked with.


def check_key_is_used(population: Population, key: PRNGKeyArray, n: int, num_ghosts: int) -> None:
    """Refuse a population none of whose numbers depends on its key.

    NumPy's generator is such a case: compiled once, it yields one dataset forever. The check reads
    the program that JAX makes of the population rather than its draws, which may agree by chance:
    Bernoulli examples of a small probability are all 0 in most datasets.
    """
    program = jax.make_jaxpr(lambda k: population.sample(k, n, num_ghosts)[0])(key)
    if not any(reached(program.jaxpr, [True])):
        raise ValueError(
            "population: its examples do not depend on the key, so that every dataset would be the "
            "same one (as with NumPy's generator); draw with jax.random, or gibbs_dp.random, from "
            "the key that it is given."
        )


# Of the reported datasets, what is looked at before they are believed to be what was declared.
MOST_DATASETS, MOST_EXAMPLES = 64, 2**16


def check_examples(
    posterior: GibbsPosterior, population: Population, n: int, num_ghosts: int, key: PRNGKeyArray
) -> PyTree:
    """Draw one dataset and check that population, loss and prior fit together."""
    if isinstance(population, Table):
        population.check_size(n, num_ghosts)
        if isinstance(posterior.loss, Loss):
            posterior.loss.check_data(population.data)
    try:
        train, ghosts = drawn_in_one_program(population, key, 0, n, num_ghosts)
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
    sizes = n, num_ghosts
    remembered(
        lambda: check_key_is_used(population, key, *sizes), "key", posterior, population, *sizes
    )
    check_loss(posterior, train, n)
    return train


def reported_examples(spec: AuditSpec) -> Iterator[PyTree]:
    """Yield some thousand examples of the datasets that are reported on; a table's rows."""
    population = spec.population
    if isinstance(population, Table) and _is_whole(population):
        yield jax.tree.map(np.asarray, population.data)
        return
    num_fresh_examples = num_fresh(spec.posterior, spec.n, spec.num_ghosts)
    key = root(spec.key, Stream.MAIN)
    count = min(spec.num_datasets, 1 + MOST_EXAMPLES // (spec.n + num_fresh_examples))
    for number in range(min(count, MOST_DATASETS)):
        for part in drawn_in_one_program(population, key, number, spec.n, num_fresh_examples):
            yield jax.tree.map(np.asarray, part)


def _is_whole(table: Table) -> bool:
    """Whether its rows are here, and all of them are drawn."""
    return table.weights is None and not any(map(is_spread, jax.tree.leaves(table.data)))


def drawn_in_one_program(
    population: Population, key: PRNGKeyArray, number: int, n: int, num_ghosts: int
) -> PyTree:
    """Draw a dataset and fresh examples; operation by operation, dozens would be compiled.

    The key is that of datasets, which are numbered.
    """
    draw = program(_draw, ("n", "num_ghosts"), platform(), is_quick=True)
    return draw(population, key, np.int32(number), n, num_ghosts)


def _draw(
    population: Population, key: PRNGKeyArray, number: Int[Array, ""], n: int, num_ghosts: int
) -> PyTree:
    found = population.sample(jax.random.fold_in(key, number), n, num_ghosts)
    refuse_masked("population", found)
    return found
