"""The population's best parameter, which all gammas share: searched for beside the first pilots."""

from __future__ import annotations

from concurrent.futures import Future
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from gibbs_dp._jaxlib.precision import traced_exactly
from gibbs_dp.engine.datasets import Stream, stream_key
from gibbs_dp.engine.executor import background
from gibbs_dp.engine.settings import Settings
from gibbs_dp.engine.store.archive import Origin
from gibbs_dp.model.losses.base import LinearLoss
from gibbs_dp.model.populations import Table
from gibbs_dp.model.posterior import GibbsPosterior

# The best parameter for a population: what excess risk is measured against.

NUM_EXAMPLES = 65_536
NUM_DATASETS = 4_096
MAX_NUMBERS = 2**25


def population_optimum(
    posterior: GibbsPosterior,
    population: Any,
    n: int,
    key: PRNGKeyArray,
    start: Float[Array, " dim"],
    points: Float[Array, "points dim"] | None = None,
) -> Float[np.ndarray, " dim"]:
    """Flat coordinates of a minimizer of the population risk; NaN where none was found.

    Minimizes the mean loss over a table's rows, over 65,536 fresh examples, or (structured loss)
    over 4,096 fresh datasets of size ``n``, by L-BFGS on unconstrained coordinates. The sample
    makes the reported excess risk too small by about ``dim / 65,536`` of the loss's scale. A
    risk that keeps falling towards infinity has no minimizer. With ``points`` the minimizer is
    the best of them.
    """
    data = _reference_data(posterior, population, n, key)
    if points is not None:
        risks = [float(_mean_risk(posterior, u, data)[0]) for u in points]
        return np.asarray(points[int(np.argmin(risks))])

    def objective(u: Float[np.ndarray, " dim"]) -> tuple[float, Float[np.ndarray, " dim"]]:
        value, gradient = _mean_risk(posterior, jnp.asarray(u, start.dtype), data)
        return float(value), np.asarray(gradient, np.float64)

    begin = np.asarray(start, np.float64)
    from scipy import optimize  # slow to import

    result = optimize.minimize(
        objective, begin, jac=True, method="L-BFGS-B", options={"maxiter": 500}
    )
    nothing = np.full(posterior.dim, np.nan)
    if not (np.isfinite(result.fun) and np.isfinite(result.x).all()):
        return nothing
    # A loss that is still falling a long way out has its infimum at infinity.
    further, _ = objective(begin + 3.0 * (result.x - begin))
    if further < result.fun and np.linalg.norm(result.x - begin) > 10.0:
        return nothing
    return np.asarray(result.x)


def _reference_data(
    posterior: GibbsPosterior, population: Any, n: int, key: PRNGKeyArray
) -> PyTree:
    """Return a large sample of the population: rows, or (structured loss) whole datasets."""
    shapes = jax.eval_shape(lambda k: _draw(population, k, n, None), key)
    numbers = sum(leaf.size for leaf in jax.tree.leaves(shapes))
    num_datasets = max(64, min(NUM_DATASETS, MAX_NUMBERS // max(numbers, 1)))
    if posterior.structured:
        return _draw(population, key, n, num_datasets)
    if isinstance(population, Table) and population.weights is None:
        return population.data
    if population.is_dependent:  # examples of many datasets, not of a long one
        datasets = _draw(population, key, n, num_datasets)
        return jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), datasets)
    count = max(1024, min(NUM_EXAMPLES, MAX_NUMBERS * n // max(numbers, 1)))
    return _draw(population, key, count, None)


@partial(jax.jit, static_argnames=("n", "num_datasets"))
@traced_exactly
def _draw(population: Any, key: PRNGKeyArray, n: int, num_datasets: int | None) -> PyTree:
    if num_datasets is None:
        return population.sample(key, n, 1)[0]
    keys = jax.random.split(key, num_datasets)
    return jax.vmap(lambda k: population.sample(k, n, 1)[0])(keys)


@partial(jax.jit, static_argnames=("posterior",))
@traced_exactly
@partial(jax.value_and_grad, argnums=1)
def _mean_risk(posterior: GibbsPosterior, u: Float[Array, " dim"], data: PyTree) -> Array:
    theta = posterior.constrain(u)
    if posterior.structured:
        return jnp.mean(jax.vmap(lambda z: posterior.empirical_loss(theta, z))(data))
    return jnp.mean(posterior.losses(theta, data))


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
