"""Searches that begin far away, and how much mass the mode has where they end; traced."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from gibbs_dp._jaxlib.elementary import total
from gibbs_dp.engine.plan import Inputs
from gibbs_dp.sampling.modes import FARTHEST, NEAREST
from gibbs_dp.sampling.sampler import ChainDraws
from gibbs_dp.sampling.target import Target


def far_away(key: PRNGKeyArray, spread: Float[Array, " dim"]) -> Float[Array, " dim"]:
    """Draw what is added to a start: a Gaussian 4 to 64 times as wide as ``spread``.

    How many times is drawn too, its logarithm uniform: one program searches at all scales.
    """
    scale_key, noise_key = jax.random.split(jax.random.fold_in(key, 1))
    low, high = math.log(NEAREST), math.log(FARTHEST)
    factor = jnp.exp(jax.random.uniform(scale_key, (), spread.dtype, low, high))
    return spread * factor * jax.random.normal(noise_key, spread.shape, spread.dtype)


def log_mass(draws: ChainDraws, target: Target, inputs: Inputs) -> Float[Array, ""]:
    """Log of the integral of ``exp(-U)`` over the mode that was sampled, nats.

    Minus the mean energy plus the entropy of a Gaussian with the draws' variances in whitened
    coordinates: for Gaussians exact in the mean, its error that of a mean of ``dim / 2`` nats.
    """
    here, there = draws.reference, target.terms(inputs.reference)
    shift = target.gamma * total(here.losses - there.losses) - (here.log_prior - there.log_prior)
    if draws.log_normalizer is not None:
        return draws.log_normalizer - shift
    energy = jnp.mean(jnp.sum(draws.potential * draws.weight, axis=1))
    variance = jnp.var(draws.v, axis=(0, 1))
    tiny = jnp.finfo(variance.dtype).tiny
    spread = 0.5 * jnp.sum(jnp.log(variance + tiny))
    if draws.whitening is not None:
        spread += draws.whitening.log_volume
    return spread + 0.5 * variance.shape[0] * (1.0 + math.log(2.0 * math.pi)) - energy - shift
