"""What one dataset leaves behind for mutual information: draws and a normalizer."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from gibbs_dp import estimators
from gibbs_dp.engine.view import View
from gibbs_dp.sampling.sampler import log_ratios
from gibbs_dp.sampling.smc.particles import evenly
from gibbs_dp.sampling.target import Target

# Points of the proposal that normalizers are bridged from.
NUM_PROPOSALS = 256
# Draws kept of a posterior that is summed exactly, as many as chains would leave.
GRID_DRAWS = (8, 8)


class Kept(NamedTuple):
    """Draws of each dataset and what its posterior's density at them is (leading axis: datasets).

    Losses are relative to those at the sweep's anchor, example by example, so that float32
    resolves their differences.

    Attributes
    ----------
    u
        Draws in flat coordinates.
    log_density
        Normalized log density of the draws there (log weights, on a grid).
    log_normalizer, log_normalizer_se, overlap
        Of ``exp(-gamma (L(theta, Z) - L(anchor, Z))) prior(theta)``, by bridge sampling.
    mean_loss, loss_variance
        Posterior mean and variance of ``L(theta, Z) - L(anchor, Z)``.
    """

    u: Float[Array, "*b chains draws dim"]
    log_density: Float[Array, "*b chains draws"]
    log_normalizer: Float[Array, "*b"]
    log_normalizer_se: Float[Array, "*b"]
    overlap: Float[Array, "*b"]
    mean_loss: Float[Array, "*b"]
    loss_variance: Float[Array, "*b"]


def keep_draws(view: View) -> Kept:
    """Normalize one dataset's posterior and pack its draws."""
    posterior, inputs, draws = view.posterior, view.inputs, view.draws

    def total(point: Array) -> Array:
        theta = posterior.constrain(point)
        if posterior.structured:
            return posterior.empirical_loss(theta, view.train)[None]
        return posterior.losses(theta, view.train)

    base = total(inputs.anchor)
    # From losses relative to the reference of the chains to losses relative to the anchor.
    shift = draws.reference.log_prior - inputs.gamma * jnp.sum(draws.reference.losses - base)
    relative = jax.vmap(jax.vmap(lambda u: jnp.sum(total(u) - base)))(draws.u)
    mean = jnp.mean(jnp.sum(relative * draws.weight, axis=1))
    variance = jnp.mean(jnp.sum((relative - mean) ** 2 * draws.weight, axis=1))
    value, value_se = draws.log_normalizer, draws.log_normalizer_se
    if value is not None and value_se is None:
        found = estimators.Normalizer(value, jnp.zeros_like(value), jnp.ones_like(value))
        log_weight = -draws.potential[0] - value
        key = jax.random.fold_in(view.key, 1)
        rows = jax.random.categorical(key, log_weight, shape=GRID_DRAWS)
        u, log_density = draws.u[0, rows], log_weight[rows]
    else:
        worth = estimators.point_worth(posterior.dim)
        proposals = estimators.quasi_normals(NUM_PROPOSALS, posterior.dim)
        target = Target(posterior, view.train, inputs.gamma)
        ratios = log_ratios(draws, target, proposals, inputs.proposal_scale)
        found = estimators.bridge(*ratios, worth)
        if value is not None and value_se is not None:
            found = _more_precise(found, value, value_se)
        u, log_density = draws.u, -draws.potential - found.value
        if value is not None:
            # Islands weigh differently, and particles are more than the comparison is made for.
            rows = evenly(jnp.log(draws.weight), GRID_DRAWS, is_dealt=True)
            u, log_density = u.reshape(-1, u.shape[-1])[rows], log_density.ravel()[rows]
    return Kept(
        u=u,
        log_density=log_density,
        log_normalizer=found.value + shift,
        log_normalizer_se=found.se,
        overlap=found.overlap,
        mean_loss=mean,
        loss_variance=variance,
    )


def _more_precise(bridged: estimators.Normalizer, value: Array, se: Array) -> estimators.Normalizer:
    """Take a path's normalizer where a Gaussian over all modes says less than the path does."""
    is_path = ~(bridged.se < se)
    one = jnp.ones_like(bridged.overlap)
    return estimators.Normalizer(
        jnp.where(is_path, value, bridged.value),
        jnp.where(is_path, se, bridged.se),
        jnp.where(is_path, one, bridged.overlap),
    )
