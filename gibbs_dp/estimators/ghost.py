"""Risks and the generalization gap of one dataset's draws, by fresh (ghost) examples."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from gibbs_dp._jaxlib.elementary import total
from gibbs_dp.information.checks import whole_arrays


@whole_arrays
def risk(
    losses: Float[Array, "chains draws examples"], weight: Float[Array, "chains draws"]
) -> Float[Array, ""]:
    """Posterior mean of the average loss over examples: ``E_theta mean_i loss(theta, z_i)``.

    ``weight`` sums to the number of chains.
    """
    mean = total(losses) / losses.shape[-1]
    return jnp.mean(jnp.sum(mean * weight, axis=-1))


@whole_arrays
def gap(
    train: Float[Array, "chains draws n"],
    ghost: Float[Array, "chains draws ghosts"],
    weight: Float[Array, "chains draws"],
) -> Float[Array, ""]:
    """Ghost estimate of the generalization error.

    ``E_theta[mean_j loss(theta, z'_j) - mean_i loss(theta, z_i)]``: unbiased for
    ``gen = E[R(theta) - Rhat(theta, Z)]``.
    """
    return risk(ghost, weight) - risk(train, weight)


@whole_arrays
def reference_gap(train: Float[Array, " n"], ghost: Float[Array, " ghosts"]) -> Float[Array, ""]:
    """Return a control variate for :func:`gap`: the same difference at a fixed parameter.

    It has mean zero **because that parameter does not depend on this dataset or its ghosts**.
    Where posteriors are close to the parameter, subtracting it removes most of the variance.
    """
    return jnp.mean(ghost) - jnp.mean(train)
