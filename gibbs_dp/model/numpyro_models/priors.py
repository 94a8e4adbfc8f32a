"""The latent sites of a model as a prior."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from gibbs_dp._jaxlib.per_example import reached
from gibbs_dp.model.numpyro_models.likelihood import Likelihood
from gibbs_dp.model.numpyro_models.sites import Found, Trace, draw, latent_values, law_of, log_prob
from gibbs_dp.model.prior import Flat, Prior


@dataclass(frozen=True)
class Depends:
    """Stands for the law of a site that depends on other sites."""

    name: str

    def __call__(self, earlier: dict[str, Any]) -> Any:
        """Refuse: the law is found by running the model."""
        raise TypeError(f"the law of {self.name!r} is found by running the model.")


@dataclass(frozen=True, eq=False)
class ModelPrior(Prior):
    """A prior whose laws are those of a model's latent sites, found by running it."""

    run: Callable[[Mapping[str, Any]], Trace] | None = None
    draw: Callable[[PRNGKeyArray], Trace] | None = None
    known: tuple[str, ...] = ()

    def _trace(self, theta: PyTree) -> Trace:
        assert self.run is not None
        return self.run(theta)

    def _laws(self, theta: PyTree) -> list[Any]:
        sites = self._trace(theta)
        return [law_of(sites[name]) for name in sorted(self.tree)]

    def _laws_at_a_draw(self, seed: int) -> list[Any]:
        def laws(key: PRNGKeyArray) -> list[Any]:
            found = self._laws(self.initial(key))
            return [None if isinstance(law, Flat) else law for law in found]

        pairs = zip(jax.jit(laws)(jax.random.key(seed)), self.leaves, strict=True)
        return [leaf if law is None else law for law, leaf in pairs]

    def log_prob(self, theta: PyTree) -> Float[Array, ""]:
        """Log prior density (up to a constant for flat parts); ``theta`` must be on the support."""
        return _jitted(self, "_log_prob")(theta)

    def _log_prob(self, theta: PyTree) -> Float[Array, ""]:
        sites = self._trace(theta)
        names = [*sorted(self.tree), *self.known]
        return jnp.sum(jnp.stack([jnp.sum(log_prob(sites[name])) for name in names]))

    def initial(self, key: PRNGKeyArray) -> PyTree:
        """Draw from the model's prior; flat parts within (-2, 2) of unconstrained space."""
        return _jitted(self, "_initial")(key)

    @property
    def has_draws(self) -> bool:
        """Whether no site is flat, and no observed one is part of the prior.

        The model draws its latent sites as if it knew nothing of what such a site has shown.
        """
        return not self.known and not any(isinstance(leaf, Flat) for leaf in self.leaves)

    def sample(self, key: PRNGKeyArray) -> PyTree:
        """Draw from the model's prior; needs :attr:`has_draws`."""
        return self.initial(key)

    def _initial(self, key: PRNGKeyArray) -> PyTree:
        assert self.draw is not None
        return latent_values(self.draw(key))


@lru_cache(maxsize=64)  # traced once
def _jitted(prior: ModelPrior, method: str) -> Any:
    return jax.jit(getattr(prior, method))


def make_prior(likelihood: Likelihood, found: Found, data: dict[str, PyTree]) -> Prior:
    """Make a prior of the latent sites: of their laws, where none depends on another."""
    shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), data)
    known = tuple(name for name in found.observed if name not in likelihood.axes)

    def nothing() -> Any:
        return jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)

    def run_model(theta: Mapping[str, Any]) -> Trace:
        return likelihood.trace(theta, nothing())

    def draw_model(key: PRNGKeyArray) -> Trace:
        return draw(likelihood.model, key, *likelihood.call(nothing()))

    laws = _laws(run_model, found)
    if not known and not any(isinstance(law, Depends) for law in laws.values()):
        return Prior(laws)
    return ModelPrior(laws, run=run_model, draw=draw_model, known=known)


def _laws(run_model: Callable[[Mapping[str, Any]], Trace], found: Found) -> dict[str, Any]:
    """Return every latent site's law, where it depends on no other."""
    theta = found.zeros()

    def laws(theta: dict[str, Any]) -> dict[str, Any]:
        sites = run_model(theta)
        return {name: law_of(sites[name]) for name in found.latent}

    def parts(theta: dict[str, Any]) -> dict[str, Any]:
        return {
            k: [] if isinstance(x, Flat) else jax.tree.leaves(x) for k, x in laws(theta).items()
        }

    program, shapes = jax.make_jaxpr(parts, return_shape=True)(theta)
    marks = reached(program.jaxpr, [True] * len(theta))
    depends = jax.tree.unflatten(jax.tree.structure(shapes), marks)
    flat: dict[str, Flat] = {}

    def fixed(theta: dict[str, Any]) -> dict[str, Any]:
        every = laws(theta)
        flat.update({name: law for name, law in every.items() if isinstance(law, Flat)})
        return {k: law for k, law in every.items() if k not in flat and not any(depends[k])}

    own = jax.jit(fixed)(theta)
    missing = {name: Depends(name) for name in found.latent if name not in flat | own}
    return flat | own | missing
