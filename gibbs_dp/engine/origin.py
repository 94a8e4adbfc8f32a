"""The population's best parameter, which all gammas share: searched for beside the first pilots."""

from __future__ import annotations

from concurrent.futures import Future

import jax.numpy as jnp
from jaxtyping import Array, Float

from gibbs_dp.engine.datasets import Stream, stream_key
from gibbs_dp.engine.executor import background
from gibbs_dp.engine.optimum import population_optimum
from gibbs_dp.engine.settings import Settings
from gibbs_dp.engine.store.archive import Origin
from gibbs_dp.model.losses.base import LinearLoss


class OriginSearch:
    """The search for the population's best parameter, beside the first pilots where it can be.

    From any start it ends at the same point where the loss is convex; else it starts where the
    pilots have been.
    """

    def __init__(self, settings: Settings, known: Origin | None) -> None:
        self.settings, self.known = settings, known
        self._found: Future[Origin] | None = None
        if not any(quantity.needs_optimum for quantity in settings.quantities):
            unknown = jnp.full((settings.posterior.dim,), jnp.nan)
            self.known = known = Origin(unknown, jnp.zeros_like(unknown))
        if known is None and isinstance(settings.posterior.loss, LinearLoss):
            zeros = jnp.zeros((settings.posterior.dim,))
            self._found = background(lambda: _find_origin(settings, zeros))

    def result(self, start: Float[Array, " dim"]) -> Origin:
        """Wait for what was begun, or search from ``start``."""
        return self._found.result() if self._found else _find_origin(self.settings, start)


def _find_origin(settings: Settings, start: Float[Array, " dim"]) -> Origin:
    key = stream_key(settings.key, Stream.OPTIMUM)
    found = population_optimum(
        settings.posterior,
        settings.population,
        settings.n,
        key,
        start,
        settings.sampler.finite_class(settings.posterior),
    )
    optimum = jnp.asarray(found, start.dtype)
    return Origin(optimum, jnp.where(jnp.all(jnp.isfinite(optimum)), optimum, start))
