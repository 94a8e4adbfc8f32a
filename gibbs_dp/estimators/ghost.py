"""Risks and the generalization gap of one dataset's draws, by fresh (ghost) examples."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from gibbs_dp._elementary import total


def risk(
    losses: Float[Array, "chains draws examples"], weight: Float[Array, "chains draws"]
) -> Float[Array, ""]:
    """Posterior mean of the average loss over examples: ``E_theta mean_i loss(theta, z_i)``.

    Each chain counts equally; ``weight`` sums to one within a chain.
    """
    mean = total(losses) / losses.shape[-1]
    return jnp.mean(jnp.sum(mean * weight, axis=-1))


def gap(
    train: Float[Array, "chains draws n"],
    ghost: Float[Array, "chains draws ghosts"],
    weight: Float[Array, "chains draws"],
    reference_train: Float[Array, " n"] | None = None,
    reference_ghost: Float[Array, " ghosts"] | None = None,
) -> Float[Array, ""]:
    """Ghost estimate of the generalization error, optionally with a control variate.

    ``E_theta[mean_j loss(theta, z'_j) - mean_i loss(theta, z_i)]``: unbiased for
    ``gen = E[R(theta) - Rhat(theta, Z)]``. With the losses of a fixed parameter ``theta_0`` the
    same difference at ``theta_0`` is subtracted; it has mean zero **because theta_0 does not
    depend on this dataset or its ghosts**, and removes most of the variance.
    """
    value = risk(ghost, weight) - risk(train, weight)
    if reference_train is not None and reference_ghost is not None:
        value -= jnp.mean(reference_ghost) - jnp.mean(reference_train)
    return value
