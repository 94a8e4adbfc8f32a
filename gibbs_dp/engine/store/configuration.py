"""What determines the numbers of a sweep, as readable JSON, and how two of them differ."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbs_dp.engine.asked import versions
from gibbs_dp.engine.datasets import num_fresh
from gibbs_dp.engine.settings import Settings, identities
from gibbs_dp.engine.store.fingerprint import DIGITS, fingerprints
from gibbs_dp.io.damage import shown
from gibbs_dp.model.populations.own import population_name

FORMAT = 8
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
        "dtype": str(jnp.zeros(()).dtype),
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
    asked = [list(s.gammas), s.num_datasets, s.rel_error, s.max_datasets]
    asked += [[q.name, q.request(s)] for q in s.quantities]
    return digest_text(json.dumps(asked))


def digest_text(text: str) -> str:
    """Short digest of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def difference(old: dict[str, Any], new: dict[str, Any]) -> str:
    """Name the settings that differ, with both values.

    Examples
    --------
    >>> difference({"n": 10, "loss": "f 1"}, {"n": 20, "loss": "f 2"})
    'n is 10 there and 20 here'
    >>> difference({"format": 1}, {"format": 2})
    'format is 1 there and 2 here (another version of gibbs_dp wrote it)'
    >>> difference({"n": 10, "loss": "f 1"}, {"n": 10, "loss": "f 2"})
    'loss is f 1 there and f 2 here (its code, or data that it uses, changed)'
    """
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
