"""The best parameter for a population: what excess risk is measured against."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from scipy import optimize

from gibbs_dp.model.populations import Table
from gibbs_dp.model.posterior import GibbsPosterior

NUM_EXAMPLES = 65_536
NUM_DATASETS = 4_096
MAX_NUMBERS = 2**25


def population_optimum(
    posterior: GibbsPosterior,
    population: Any,
    n: int,
    key: PRNGKeyArray,
    start: Float[Array, " dim"],
) -> Float[np.ndarray, " dim"]:
    """Flat coordinates of a minimizer of the population risk; NaN where none was found.

    Minimizes the mean loss over a table's rows, over 65,536 fresh examples, or (structured loss)
    over 4,096 fresh datasets of size ``n``, by L-BFGS on unconstrained coordinates. The sample
    makes the reported excess risk too small by about ``dim / 65,536`` of the loss's scale. A
    risk that keeps falling towards infinity has no minimizer.
    """
    dim = posterior.dim
    nothing = np.full(dim, np.nan)

    if posterior.structured:
        size = sum(leaf.size for leaf in jax.tree.leaves(population.sample(key, n, 1)[0]))
        count = max(64, min(NUM_DATASETS, MAX_NUMBERS // max(size, 1)))
        keys = jax.random.split(key, count)
        data = jax.vmap(lambda k: population.sample(k, n, 1)[0])(keys)
    elif isinstance(population, Table):
        data = population.data
    else:
        one = sum(leaf.size for leaf in jax.tree.leaves(population.sample(key, 2, 1)[0])) // 2
        data = population.sample(key, max(1024, min(NUM_EXAMPLES, MAX_NUMBERS // one)), 1)[0]

    @jax.jit
    def value_and_grad(u: Float[Array, " dim"], data: Any) -> tuple[Array, Array]:
        def mean_risk(u: Float[Array, " dim"]) -> Array:
            theta = posterior.constrain(u)
            if posterior.structured:
                return jnp.mean(jax.vmap(lambda z: posterior.empirical_loss(theta, z))(data))
            return jnp.mean(posterior.losses(theta, data))

        return jax.value_and_grad(mean_risk)(u)

    def objective(u: Float[np.ndarray, " dim"]) -> tuple[float, Float[np.ndarray, " dim"]]:
        value, gradient = value_and_grad(jnp.asarray(u, start.dtype), data)
        return float(value), np.asarray(gradient, np.float64)

    begin = np.asarray(start, np.float64)
    result = optimize.minimize(
        objective, begin, jac=True, method="L-BFGS-B", options={"maxiter": 500}
    )
    if not (np.isfinite(result.fun) and np.isfinite(result.x).all()):
        return nothing
    # A loss that is still falling a long way out has its infimum at infinity.
    further, _ = objective(begin + 3.0 * (result.x - begin))
    if further < result.fun and np.linalg.norm(result.x - begin) > 10.0:
        return nothing
    return np.asarray(result.x)
