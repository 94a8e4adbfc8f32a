"""A ladder of ever wider Gaussians around a mode: what of a posterior's mass lies outside of it."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy import special

from gibbs_dp._jaxlib.linalg import cholesky, solve_lower
from gibbs_dp._jaxlib.precision import matmul
from gibbs_dp.sampling.target import Target

# Standard deviations of the Gaussians over those of the draws.
SCALES = 2.0 ** np.arange(10)
# Half a rung beside a hill, a proposal's points weigh it unequally: by 1.155 ^ dim in the square.
MAX_LADDER_DIM = 32
# Share of a Gaussian's draws that lie inside.
INSIDE = 0.9999
# Losses that are computed at once.
NUMBERS_AT_ONCE = 2**20


@cache
def ladder_points(num: int, points: int, dim: int) -> Float[np.ndarray, "num points dim"]:
    """Points of the Gaussians, as many of each: ``points`` in all, in units of the draws' scale."""
    rng = np.random.default_rng(20_260_101)
    each = np.repeat(SCALES, points // SCALES.size)
    return (each[:, None] * rng.standard_normal((num, each.size, dim))).astype(np.float32)


class Heights(NamedTuple):
    """Potential at a ladder's points, in nats, and what turns the points to the Hessian's axes."""

    potential: Float[Array, "*posteriors points"]
    correlate: Float[Array, "*posteriors dim dim"]


def heights(
    target: Target,
    center: Float[Array, " dim"],
    sd: Float[Array, " dim"],
    points: Float[Array, "points dim"],
) -> Heights:
    """Potential at points around the center, relative to it.

    Parameters
    ----------
    target
        The posterior.
    center, sd
        Mean and standard deviations of draws. Their correlations are taken from the Hessian at the
        center, and from nowhere where it is not positive definite.
    points
        In units of the draws' scale.

    Returns
    -------
    Heights
        The point ``z`` is at ``center + sd * (correlate @ z)``; the potential is NaN where a ridge
        is narrower than the Hessian resolves.
    """
    potential = target.relative_to(target.terms(center))
    hessian = jax.hessian(potential)(center)
    # In units of the draws' standard deviations its entries are near 1.
    factor = cholesky(hessian * sd * sd[:, None])
    inverse = solve_lower(factor, jnp.eye(sd.shape[0], dtype=sd.dtype))
    covariance = matmul(inverse.T, inverse)
    width = jnp.sqrt(jnp.diagonal(covariance))
    correlated = cholesky(covariance / width / width[:, None])
    identity = jnp.eye(sd.shape[0], dtype=sd.dtype)
    scale = jnp.where(jnp.all(jnp.isfinite(correlated)), correlated, identity)
    # On a ridge as narrow as rounding no ladder can stand.
    steepest = jnp.max(jnp.abs(jnp.diagonal(hessian)) * sd**2)
    lost = jnp.where(steepest < jax.lax.rsqrt(jnp.finfo(sd.dtype).eps), 0.0, jnp.nan)

    def one(point: Float[Array, " dim"]) -> Float[Array, ""]:
        return potential(center + sd * matmul(scale, point)) + lost

    num = jax.tree.leaves(target.data)[0].shape[0]
    at_once = max(1, NUMBERS_AT_ONCE // num)
    if at_once >= points.shape[0]:
        return Heights(jax.vmap(one)(points), scale)
    return Heights(jax.lax.map(one, points, batch_size=at_once), scale)


class Outside(NamedTuple):
    """Share of a posterior's mass beyond the draws' ellipsoid, and its standard error."""

    share: Float[np.ndarray, " posteriors"]
    se: Float[np.ndarray, " posteriors"]


def outside(
    potential: Float[np.ndarray, "posteriors points"],
    points: Float[np.ndarray, "posteriors points dim"],
    named: Float[np.ndarray, "posteriors points dim"] | None = None,
) -> Outside:
    """Weigh the points: a share of the density over the mean of the ladder's Gaussians.

    The ellipsoid is that of 0.9999 of a Gaussian with the draws' mean and covariance. NaN where
    the density is nowhere finite. ``named`` are the points under other names that mean the same.
    """
    dim = points.shape[-1]
    square = np.sum(np.asarray(points, np.float64) ** 2, axis=-1)
    rungs = -0.5 * square[..., None] / SCALES**2 - dim * np.log(SCALES)
    log_weight = -np.asarray(potential, np.float64) - special.logsumexp(rungs, axis=-1)
    log_weight = np.where(np.isfinite(log_weight), log_weight, -np.inf)
    top = log_weight.max(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        weight = np.exp(log_weight - top)
        weight /= weight.sum(axis=-1, keepdims=True)
    if named is not None:
        square = np.sum(np.asarray(named, np.float64) ** 2, axis=-1)
    is_out = square > special.chdtri(dim, 1.0 - INSIDE)
    share = np.sum(weight * is_out, axis=-1)
    se = np.sqrt(np.sum((weight * (is_out - share[:, None])) ** 2, axis=-1))
    return Outside(share, se)
