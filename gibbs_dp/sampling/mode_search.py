"""Search for other modes: from starts far away, and by a ladder of scales."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree
from scipy import special

from gibbs_dp._jaxlib.compile import on_default_backend
from gibbs_dp._jaxlib.linalg import cholesky, solve_lower
from gibbs_dp._jaxlib.precision import matmul
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.modes import (
    FARTHEST,
    NEAREST,
    Ended,
    Modes,
    distances,
    least_distance,
    others,
)
from gibbs_dp.sampling.sampler import ChainDraws
from gibbs_dp.sampling.target import Target

# A ladder of ever wider Gaussians around a mode: what of a posterior's mass lies outside of it.

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


# Looking for other modes of posteriors that were sampled, from starts far away and by a ladder.

# Runs of as many chains as were asked for, and draws of theirs that are looked at.
NUM_RUNS, NUM_LAST = 3, 50
# Points of the ladder of one posterior, and of each of a batch.
NUM_POINTS, NUM_POINTS_EACH = 128 * SCALES.size, 32 * SCALES.size

# Runs chains from these starts, and keeps as many last draws.
Run = Callable[[Float[Array, "datasets chains dim"], int], ChainDraws]


class _Chains(NamedTuple):
    """What chains look like (axes: chains, posteriors)."""

    mean: Float[np.ndarray, "chains posteriors dim"]
    variance: Float[np.ndarray, "chains posteriors dim"]
    log_mass: Float[np.ndarray, "chains posteriors"]
    is_good: Any


def look_around(
    draws: ChainDraws,
    run: Run,
    posterior: GibbsPosterior,
    batch: PyTree,
    gamma: float,
    key: PRNGKeyArray,
) -> Modes:
    """Look for modes beside those that chains are in.

    Parameters
    ----------
    draws
        Of the posteriors, with a leading axis of these.
    run
        Runs chains from other starts.
    posterior, batch, gamma
        What was sampled.
    key
        Of the random starts.

    Returns
    -------
    Modes
        What was tried, and what was found.
    """
    u = np.asarray(draws.u, np.float64)
    num_last = min(NUM_LAST, u.shape[2])
    center, sd = u.mean(axis=(1, 2)), u.std(axis=(1, 2))
    reference = _reference(draws, gamma)
    found = [_chains(draws, slice(None), reference, gamma)]
    noise = _far_away(key, u.shape[0], NUM_RUNS * u.shape[1], u.shape[3])
    for each in np.split(noise, NUM_RUNS, axis=1):
        starts = jnp.asarray(center[:, None] + sd[:, None] * each, draws.u.dtype)
        far = run(starts, num_last)
        found.append(_chains(far, slice(-num_last, None), reference, gamma))
    whole = _Chains(*(np.concatenate(parts) for parts in zip(*found, strict=True)))
    ended = Ended(whole.mean, whole.variance, whole.log_mass, _ess(u, num_last), whole.is_good)
    num_chains = u.shape[1]
    mass = np.where(whole.is_good, whole.log_mass, -np.inf)[:num_chains]
    best = np.argmax(mass, axis=0)
    other = others(ended, best)
    has_any = bool(other.is_found.any())
    result = Modes(
        num_searched=u.shape[0],
        num_starts=int(whole.is_good.size),
        share_of_datasets=float(np.mean(other.is_found)),
        distance=float(np.median(other.distance[other.is_found])) if has_any else math.nan,
        log_mass_gap=float(np.median(other.gap[other.is_found])) if has_any else math.nan,
    )
    with np.errstate(invalid="ignore"):
        is_near = distances(ended, best)[:num_chains] <= least_distance(u.shape[3], ended.ess)
    return _climb(result, posterior, batch, gamma, *_pooled(whole, is_near))


def _far_away(
    key: PRNGKeyArray, num: int, count: int, dim: int
) -> Float[np.ndarray, "posteriors starts dim"]:
    """Where searches begin, in standard deviations: Gaussians of all widths, both ways along.

    The second half of the starts mirrors the first, and widths are spread evenly.
    """
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel().tolist())
    half = -(-count // 2)
    place = (
        rng.permuted(np.tile(np.arange(half), (num, 1)), axis=1) + rng.random((num, half))
    ) / half
    factor = NEAREST * (FARTHEST / NEAREST) ** place
    noise = factor[..., None] * rng.standard_normal((num, half, dim))
    return np.concatenate([noise, -noise], axis=1)[:, :count]


def _pooled(
    chains: _Chains, is_near: Bool[np.ndarray, "near posteriors"]
) -> tuple[Float[np.ndarray, "posteriors dim"], Float[np.ndarray, "posteriors dim"]]:
    """Mean and standard deviations of the draws of chains near the best; NaN where none is."""
    with np.errstate(invalid="ignore"):
        weight = is_near / is_near.sum(axis=0)
    mean, variance = chains.mean[: len(is_near)], chains.variance[: len(is_near)]
    center = np.einsum("cp,cpd->pd", weight, mean)
    square = np.einsum("cp,cpd->pd", weight, variance + (mean - center) ** 2)
    return center, np.sqrt(square)


def _reference(draws: ChainDraws, gamma: float) -> Float[np.ndarray, "posteriors terms"]:
    """Terms of the energies that potentials are relative to."""
    losses = np.asarray(draws.reference.losses, np.float64)
    log_prior = np.asarray(draws.reference.log_prior, np.float64)
    return np.concatenate([gamma * losses, -log_prior[:, None]], axis=1)


def _chains(
    draws: ChainDraws,
    last: slice,
    reference: Float[np.ndarray, "posteriors terms"],
    gamma: float,
) -> _Chains:
    u, v, potential = (
        np.asarray(a, np.float64)[:, :, last] for a in (draws.u, draws.v, draws.potential)
    )
    shift = np.sum(_reference(draws, gamma) - reference, axis=1)
    assert draws.whitening is not None  # chains have it
    scale = np.asarray(draws.whitening.scale, np.float64)
    diagonal = scale if scale.ndim == 2 else np.diagonal(scale, axis1=1, axis2=2)
    tiny = np.finfo(np.float32).tiny
    spread = 0.5 * np.log(v.var(axis=2) + tiny).sum(axis=-1)
    spread += np.log(np.abs(diagonal) + tiny).sum(axis=-1)[:, None]
    energy = potential.mean(axis=2) + shift[:, None]
    log_mass = spread + 0.5 * u.shape[3] * (1.0 + math.log(2.0 * math.pi)) - energy
    is_good = np.isfinite(log_mass) & ~np.asarray(draws.is_stuck)
    is_good &= np.isfinite(u).all(axis=(2, 3))
    per_chain = u.mean(axis=2), u.var(axis=2), log_mass, is_good
    return _Chains(*(np.swapaxes(a, 0, 1) for a in per_chain))


def _ess(u: Float[np.ndarray, "posteriors chains draws dim"], length: int) -> float:
    """Effective draws in windows of a length, in the worst coordinate of the median posterior."""
    count = u.shape[2] // length
    windows = u[:, :, : count * length].reshape(*u.shape[:2], count, length, -1)
    if count < 2:
        return 1.0
    between = windows.mean(axis=3).var(axis=2, ddof=1).mean(axis=1)
    tiny = np.finfo(np.float32).tiny
    each = (u.var(axis=2).mean(axis=1) + tiny) / (between + tiny)
    return float(np.clip(np.median(each.min(axis=-1)), 1.0, length))


def _climb(
    found: Modes,
    posterior: GibbsPosterior,
    batch: PyTree,
    gamma: float,
    center: Float[np.ndarray, "posteriors dim"],
    sd: Float[np.ndarray, "posteriors dim"],
) -> Modes:
    num, dim = center.shape
    if dim > MAX_LADDER_DIM:
        return found
    points = ladder_points(num, NUM_POINTS if num == 1 else NUM_POINTS_EACH, dim)
    dtype = jnp.zeros(()).dtype
    at = (jnp.asarray(x, dtype) for x in (gamma, center, sd, points))
    share, se = outside(np.asarray(_ladder(posterior, batch, *at)), points)
    is_good = np.isfinite(share)
    if not is_good.any():
        return found
    return found.with_ladder(share[is_good], se[is_good], SCALES.size)


def _ladder_of(
    posterior: GibbsPosterior,
    batch: PyTree,
    gamma: Float[Array, ""],
    center: Float[Array, "posteriors dim"],
    sd: Float[Array, "posteriors dim"],
    points: Float[Array, "posteriors points dim"],
) -> Float[Array, "posteriors points"]:
    def one(given: tuple[PyTree, Array, Array, Array]) -> Array:
        data, center, sd, points = given
        return heights(Target(posterior, data, gamma), center, sd, points).potential

    return jax.lax.map(one, (batch, center, sd, points))


_ladder = on_default_backend(_ladder_of, "posterior")
