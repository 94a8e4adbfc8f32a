"""What determines an audit's numbers, as digests: the configuration of a store, and cache keys."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree

from gibbs_dp import io
from gibbs_dp._jaxlib import program_cache
from gibbs_dp._jaxlib.devices import key_of
from gibbs_dp.engine.datasets import num_fresh
from gibbs_dp.engine.plan import versions
from gibbs_dp.engine.quantity import Settings, identities
from gibbs_dp.engine.store.archive import (
    CONFIGURATION,
    Archive,
    Store,
    StoreError,
)
from gibbs_dp.io.files import shown
from gibbs_dp.model import fingerprint
from gibbs_dp.model.charts import is_spread
from gibbs_dp.model.fingerprint import digest, digest_text
from gibbs_dp.model.populations import Population
from gibbs_dp.model.populations.base import population_name
from gibbs_dp.model.posterior import GibbsPosterior


def fingerprints(
    posterior: GibbsPosterior, population: Population, n: int, num_fresh: int
) -> dict[str, str]:
    """Digests of loss and prior, with their gradients, and of the population, at ``n`` examples."""
    train, drawn = _of_population(population, n, num_fresh)
    return fingerprint.of_posterior(posterior, train) | {"population": drawn}


def _of_population(population: Population, n: int, num_fresh: int) -> tuple[PyTree, str]:
    """Shapes of a dataset, and the digest of how it is drawn."""

    def draw(key: PRNGKeyArray) -> tuple[PyTree, PyTree]:
        return population.sample(key, n, num_fresh)

    key = key_of(0)
    return jax.eval_shape(draw, key)[0], digest(draw, key)


# What determines the numbers of a sweep, as readable JSON, and how two of them differ.

FORMAT = 9
_TRACED = ("loss", "prior", "population")
# Settings that traces depend on: where one of them differs, other traces say nothing new.
_SHAPING = ("format", "versions", "random", "dtype", "n", "num_ghosts")


def configuration(settings: Settings) -> dict[str, Any]:
    """Everything that a block of datasets at one gamma depends on.

    Gammas (but for samplers that go along a path of them), numbers of datasets, ``rel_error`` and
    the like are not in it: they say which blocks are needed and what is made of them.
    """
    s = settings
    fresh = num_fresh(s.posterior, s.n, s.num_ghosts)
    traced = fingerprints(s.posterior, s.population, s.n, fresh)
    names = {
        "loss": _name(s.posterior.loss or s.posterior.total_loss),
        "prior": ", ".join(map(repr, s.posterior.prior.supports)),
        "population": population_name(s.population),
    }
    return {
        "format": FORMAT,
        **{name: f"{names[name]} {traced[name]}" for name in _TRACED},
        "n": s.n,
        "group_size": s.group_size,
        "num_ghosts": s.num_ghosts,
        "kernel": s.sampler.identity,
        # Where one run serves all gammas, their numbers depend on each other.
        **({"gammas": list(s.gammas)} if s.sampler.traits.is_path else {}),
        "num_chains": s.num_chains,
        "num_warmup": "auto" if s.num_warmup is None else s.num_warmup,
        "num_samples": s.num_samples,
        "quantities": identities(s.quantities),
        "block_size": s.block_size,
        "key": np.asarray(jax.random.key_data(s.key)).tolist(),
        "dtype": str(jnp.result_type(float)),
        "random": {
            "generator": str(jax.random.key_impl(s.key)),
            "threefry_partitionable": bool(jax.config.jax_threefry_partitionable),  # type: ignore[attr-defined]
            "matmul_precision": str(jax.config.jax_default_matmul_precision),  # type: ignore[attr-defined]
        },
        "versions": versions(),
    }


def request(settings: Settings) -> str:
    """Digest of what is asked of a configuration: which rows, how many datasets, which bounds."""
    s = settings
    spec = [list(s.gammas), s.num_datasets, s.rel_error, s.max_datasets]
    spec += [[q.name, q.request(s)] for q in s.quantities]
    return digest_text(json.dumps(spec))


def difference(old: dict[str, Any], new: dict[str, Any]) -> str:
    """Name the settings that differ, with both values."""
    changed = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    if any(name in _SHAPING for name in changed):
        changed = [name for name in changed if name not in _TRACED]
    return ", ".join(_compare(name, old.get(name), new.get(name)) for name in changed)


def _compare(name: str, old: Any, new: Any) -> str:
    if isinstance(old, dict) and isinstance(new, dict):
        inner = [key for key in {**old, **new} if old.get(key) != new.get(key)]
        return ", ".join(_compare(f"{name}.{key}", old.get(key), new.get(key)) for key in inner)
    hint = " (its code, or data that it uses, changed)" if name in _TRACED else ""
    if name == "format":
        hint = " (another version of gibbs_dp wrote it)"
    return f"{name} is {shown(str(old))} there and {shown(str(new))} here{hint}"


def _name(function: Any) -> str:
    return getattr(function, "__name__", None) or type(function).__name__


# Opening a store: a new one is made, one of another configuration is refused.


def as_store(store: Store | str | os.PathLike[str]) -> Store:
    """Turn a path into a store of one process; pass stores through."""
    return store if isinstance(store, Store) else Store(store)


def stored_configuration(store: Store) -> dict[str, Any] | None:
    """Return the configuration that a folder holds; None for a new one."""
    path = Path(store.path) / CONFIGURATION
    try:
        found = io.parse_json(path.read_text(), dict)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StoreError(
            f"store: cannot read {os.fspath(store.path)!r} ({error.strerror or error}); give a "
            "folder that you may read and write."
        ) from error
    except ValueError:
        found = {}
    if "format" not in found:
        raise ValueError(
            f"store: {os.fspath(path)!r} is damaged, so that nothing tells what the blocks beside "
            "it are; give another folder, or remove this one."
        )
    return found


def open_archive(store: Store, make: Callable[[], dict[str, Any]]) -> Archive:
    """Open the folder for the configuration that ``make`` describes; write down a new one's."""
    held = stored_configuration(store)
    configuration = json.loads(json.dumps(make()))
    if held is None:
        from gibbs_dp.sampling.minibatch_store import DRAWS

        path = Path(store.path) / CONFIGURATION
        if (path.parent / f"{DRAWS}.npz").is_file():
            raise ValueError(
                f"store: {os.fspath(store.path)!r} holds draws of sample_minibatches, which would "
                "refuse it from then on; give another folder."
            )
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with io.atomic_write(path, is_first_kept=True) as temporary:
                temporary.write_text(json.dumps(configuration, indent=1) + "\n")
        except OSError as error:
            raise StoreError(
                f"store: cannot write to {os.fspath(store.path)!r} ({error.strerror or error}); "
                "give a folder that you may write to."
            ) from error
        held = stored_configuration(store)  # of the process that came first
    if held != configuration:
        raise ValueError(
            f"store: {os.fspath(store.path)!r} holds another configuration: "
            f"{difference(held or {}, configuration)}; give another folder, or the settings that "
            "it was made with."
        )
    return Archive(store, configuration)


# By what an audit's programs are known in the cache folder.


class CacheKey:
    """What posterior and population compute, as a digest; nothing where JAX keeps no programs."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._digest = None if program_cache.folder() is None else _digest(settings)

    def known(self) -> AbstractContextManager[None]:
        """Return a context in which programs for the posterior are kept."""
        if self._digest is None:
            return nullcontext()
        return program_cache.identified((self._settings.posterior,), self._digest)

    def check_once(self, check: Callable[[], None]) -> None:
        """Run a check of what this stands for, unless it passed before without a warning."""
        if self._digest is None:
            check()
            return
        s = self._settings
        key = np.asarray(jax.random.key_data(s.key)).tolist()
        name = digest_text(json.dumps([self._digest, key, s.n, s.num_ghosts]))
        if program_cache.is_noted(name):
            return
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            with self.known():
                check()
        for warning in seen:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
        if not seen:
            program_cache.note(name)


def _digest(settings: Settings) -> str | None:
    """Digest of both; None for functions that cannot be traced, of which a check says why."""
    posterior, population = settings.posterior, settings.population
    if any(map(is_spread, jax.tree.leaves(population))):
        return None
    fresh = num_fresh(posterior, settings.n, settings.num_ghosts)
    try:
        train, drawn = _of_population(population, settings.n, fresh)
    except Exception:  # whatever users' functions raise
        return None
    about = drawn, population.is_dependent, type(population).__qualname__, fresh
    return fingerprint.identity(posterior, train, *about)
