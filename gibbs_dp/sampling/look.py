"""Looking for other modes of posteriors that were sampled: starts far away, and a ladder."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from gibbs_dp._jaxlib.compile import on_default_backend
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.ladder import MAX_LADDER_DIM, SCALES, heights, ladder_points, outside
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
