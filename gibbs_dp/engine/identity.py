"""By what an audit's programs are known in the cache folder."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbs_dp._jaxlib import kept
from gibbs_dp.engine.datasets import num_fresh
from gibbs_dp.engine.settings import Settings
from gibbs_dp.engine.store.fingerprint import digest, digest_text, fingerprints
from gibbs_dp.model.charts import is_spread


class Identity:
    """What posterior and population compute, as a digest; nothing where JAX keeps no programs."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._digest = None if kept.folder() is None else _digest(settings)

    def known(self) -> AbstractContextManager[None]:
        """Return a context in which programs for the posterior are kept."""
        if self._digest is None:
            return nullcontext()
        return kept.identified((self._settings.posterior,), self._digest)

    def check_once(self, check: Callable[[], None]) -> None:
        """Run a check of what this stands for, unless it passed before without a warning."""
        if self._digest is None:
            check()
            return
        s = self._settings
        key = np.asarray(jax.random.key_data(s.key)).tolist()
        name = digest_text(json.dumps([self._digest, key, s.n, s.num_ghosts]))
        if kept.is_noted(name):
            return
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            check()
        for warning in seen:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
        if not seen:
            kept.note(name)


def _digest(settings: Settings) -> str | None:
    """Digest of both; None for functions that cannot be traced, of which a check says why."""
    posterior, population = settings.posterior, settings.population
    if any(map(is_spread, jax.tree.leaves(population))):
        return None
    fresh = num_fresh(posterior, settings.n, settings.num_ghosts)
    u = jax.ShapeDtypeStruct((posterior.dim,), jnp.zeros(()).dtype)
    try:
        found = fingerprints(posterior, population, settings.n, fresh)
        chart = digest(posterior.constrain, u)
    except Exception:  # whatever users' functions raise
        return None
    loss, prior = posterior.loss or posterior.total_loss, posterior.prior
    about: list[Any] = [found, chart, posterior.structured, posterior.is_quadratic, posterior.dim]
    about += [f"{type(loss).__module__}.{type(loss).__qualname__}", prior.is_flat]
    about += [[bool(b) for b in prior.is_bounded_flat], [repr(s) for s in prior.supports]]
    about += [population.is_dependent, type(population).__qualname__, fresh]
    return digest_text(json.dumps(about))
