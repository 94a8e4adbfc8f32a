"""What one dataset leaves behind for mutual information: draws and a normalizer."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from gibbs_dp import estimators
from gibbs_dp.audit.plan import Inputs, Plan
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.chains import ChainDraws, log_ratios
from gibbs_dp.sampling.grid import Grid
from gibbs_dp.sampling.kernels import Kernel, Unadjusted
from gibbs_dp.sampling.target import Target

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


def keep_draws(
    key: PRNGKeyArray,
    posterior: GibbsPosterior,
    kernel: Kernel | Unadjusted | Grid,
    plan: Plan,
    inputs: Inputs,
    data: PyTree,
    draws: ChainDraws,
) -> Kept | None:
    """Normalize one dataset's posterior and pack its draws; None where none were asked for."""
    if not plan.num_proposals:
        return None

    def total(point: Array) -> Array:
        theta = posterior.constrain(point)
        if posterior.structured:
            return posterior.empirical_loss(theta, data)[None]
        return posterior.losses(theta, data)

    base = total(inputs.anchor)
    # From losses relative to the reference of the chains to losses relative to the anchor.
    shift = draws.reference.log_prior - inputs.gamma * jnp.sum(draws.reference.losses - base)
    relative = jax.vmap(jax.vmap(lambda u: jnp.sum(total(u) - base)))(draws.u)
    mean = jnp.mean(jnp.sum(relative * draws.weight, axis=1))
    variance = jnp.mean(jnp.sum((relative - mean) ** 2 * draws.weight, axis=1))
    if isinstance(kernel, Grid):
        value = jax.scipy.special.logsumexp(-draws.potential[0])
        found = estimators.Normalizer(value, jnp.zeros_like(value), jnp.ones_like(value))
        log_weight = -draws.potential[0] - value
        rows = jax.random.categorical(jax.random.fold_in(key, 1), log_weight, shape=GRID_DRAWS)
        u, log_density = draws.u[0, rows], log_weight[rows]
    else:
        worth = estimators.point_worth(posterior.dim)
        proposals = estimators.quasi_normals(plan.num_proposals, posterior.dim)
        target = Target(posterior, data, inputs.gamma)
        ratios = log_ratios(draws, target, proposals, inputs.proposal_scale)
        found = estimators.bridge(*ratios, worth)
        u, log_density = draws.u, -draws.potential - found.value
    return Kept(
        u=u,
        log_density=log_density,
        log_normalizer=found.value + shift,
        log_normalizer_se=found.se,
        overlap=found.overlap,
        mean_loss=mean,
        loss_variance=variance,
    )
