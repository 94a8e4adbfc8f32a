"""Other modes of a posterior: a search for them, and what it found.

Chains stay in the mode that they start in, and all their diagnostics look well there. Starts far
away find modes that lie apart; a ladder of wider Gaussians finds a broad hill around a narrow peak.
Neither can show that there is no other mode: what was tried is all that is said.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree
from scipy import special

from gibbs_dp._cautions import REFUSE, Caution, Warned
from gibbs_dp._jaxlib.compile import on_default_backend
from gibbs_dp._jaxlib.linalg import cholesky, solve_lower
from gibbs_dp._jaxlib.precision import is_double, matmul, precision
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.sampler import ChainDraws
from gibbs_dp.sampling.target import Target

# Widths of the Gaussians that searches begin from, in posterior standard deviations.
NEAREST, FARTHEST = 4.0, 64.0
# Mass of another mode, as a share of the one that is sampled, below which it does not matter.
LEAST_MASS = 1e-3
# Distance of two runs' means, in standard deviations, that chains of one mode do not reach: as
# much as separates modes that they pass between, and 4 standard errors of the means.
LEAST_DISTANCE, DISTANCE_Z = 4.0, 4.0
# Nats by which single precision may miss the density of another mode.
ROUNDED = 1.0
# Of the posterior's mass, outside of where chains are: as much, and as many standard errors.
OUTSIDE, OUTSIDE_Z = 0.05, 3.0
# Of potentials at points: losses at a time.
LOSSES_AT_ONCE = 2**24

SEVERAL_MODES = Caution(
    "several-modes",
    "{where} a second mode, {distance:.0f} standard deviations away, with {gap:+.1f} in log mass; "
    "chains stay in the mode where they start, and the draws have them in wrong proportions.",
    "Searches that began far away ended in another mode, which holds more than a thousandth of the "
    "mass of the one that was sampled. Chains do not pass from one to the other: whatever is "
    "averaged over the draws leaves the other mode out. The difference of the log masses, in nats, "
    "is the other mode's minus that of the sampled one, both as if they were Gaussian.",
    "Use sampler=gdp.SMC() (with a flat prior it begins at a normal over the modes found, and "
    "knows no others); gdp.Grid for one or two parameters; a prior that prefers one mode; or "
    "remove a symmetry of the model (label switching).",
    verdict=REFUSE,
)
NESTED_SCALES = Caution(
    "nested-scales",
    "a ladder of ever wider Gaussians finds {share:.0%} of the posterior's mass outside of the "
    "region where the chains stay: a narrow peak in a broad hill, or another mode.",
    "The chains are in a peak that has a normal shape, and around it, or beside it, lies a lower "
    "and much wider hill of which they know nothing. Averages over the draws leave it out.",
    "Use sampler=gdp.SMC() with a proper prior; gdp.Grid for one or two parameters; or a prior "
    "without a spike.",
    verdict=REFUSE,
)


class Modes(NamedTuple):
    """A search for other modes: what was tried, and what was found."""

    num_searched: int = 0  # posteriors that were searched; 0: other modes were not looked for
    # Runs, each of a mode search and chains from where it ended, of all of them together.
    num_starts: int = 0
    num_rungs: int = 0  # Gaussians of the ladder; 0: no ladder
    # Datasets with another mode that matters, over those that were searched.
    share_of_datasets: float = math.nan
    # Of the other mode, in posterior standard deviations; median over those datasets (NaN: no other
    # mode was found).
    distance: float = math.nan
    # Log mass of the other mode minus that of the one that is sampled, nats; median (NaN: as
    # before).
    log_mass_gap: float = math.nan
    # Mass that the ladder finds outside of where the chains are, over the mass inside; mean over
    # datasets (NaN: no ladder).
    ladder_excess: float = math.nan
    ladder_excess_se: float = math.nan
    is_convex: bool = False  # loss and prior are declared so: there is one mode

    @property
    def has_ladder(self) -> bool:
        """True if a ladder was tried."""
        return self.num_rungs > 0

    @property
    def plain(self) -> dict[str, int | float | None]:
        """The fields by name, None for NaN: what JSON has."""
        return {k: None if v != v else v for k, v in self._asdict().items()}

    @classmethod
    def of_plain(cls, found: Mapping[str, Any]) -> Modes:
        """Read what :attr:`plain` gave."""
        numbers: dict[str, Any] = {k: math.nan if v is None else v for k, v in found.items()}
        is_number = all(
            type(v) is bool if k == "is_convex" else type(v) in (int, float)
            for k, v in numbers.items()
        )
        if set(numbers) != set(cls._fields) or not is_number:
            raise ValueError("what it says of other modes is not numbers by their names")
        return cls(**numbers)

    def with_ladder(
        self,
        share: Float[np.ndarray, " posteriors"],
        se: Float[np.ndarray, " posteriors"],
        num_rungs: int,
    ) -> Modes:
        """Add the shares of mass that a ladder of so many rungs found outside."""
        mean, error = share.mean(), np.sqrt(np.sum(se**2)) / share.size
        inside = max(1.0 - mean, np.finfo(np.float32).eps)
        return self._replace(
            num_rungs=num_rungs,
            ladder_excess=float(mean / inside),
            ladder_excess_se=float(error / inside**2),
        )


NOT_LOOKED_FOR, ONE_BY_CONVEXITY = Modes(), Modes(is_convex=True)


class Ended(NamedTuple):
    """Ends of runs of the same posteriors (axes: runs, posteriors)."""

    # Of the draws.
    mean: Float[np.ndarray, "runs posteriors dim"]
    variance: Float[np.ndarray, "runs posteriors dim"]
    # Of the mode that they are in, from the same zero for all runs of a posterior.
    log_mass: Float[np.ndarray, "runs posteriors"]
    ess: float  # effective draws of a run
    is_good: Bool[np.ndarray, "runs posteriors"]  # whether it can be believed


def distances(
    ended: Ended, runs: Int[np.ndarray, " posteriors"]
) -> Float[np.ndarray, "runs posteriors"]:
    """Of every run from one, in standard deviations of the wider one of both; NaN for bad runs."""
    mean, variance = (np.asarray(a, np.float64) for a in (ended.mean, ended.variance))
    each = np.arange(runs.size)
    wider = np.maximum(variance, variance[runs, each]) + np.finfo(np.float32).tiny
    found = np.sqrt(np.sum((mean - mean[runs, each]) ** 2 / wider, axis=-1))
    return np.where(ended.is_good & ended.is_good[runs, each], found, np.nan)


def least_distance(dim: int, ess: float) -> float:
    """Distance of two runs' means from where on they are in different modes."""
    return LEAST_DISTANCE + DISTANCE_Z * math.sqrt(2.0 * dim / max(ess, 1.0))


def is_apart(ended: Ended) -> bool:
    """Return True if two runs of a posterior ended in different modes, whatever their masses."""
    limit = least_distance(ended.mean.shape[-1], ended.ess)
    num_runs, num = ended.log_mass.shape
    with np.errstate(invalid="ignore"):
        return any(bool(np.any(distances(ended, np.full(num, i)) > limit)) for i in range(num_runs))


class Others(NamedTuple):
    """Other modes that matter, one a posterior: whether there is one, its distance and log mass."""

    is_found: Bool[np.ndarray, " posteriors"]
    distance: Float[np.ndarray, " posteriors"]
    gap: Float[np.ndarray, " posteriors"]


def others(ended: Ended, runs: Int[np.ndarray, " posteriors"]) -> Others:
    """Find the largest mode, of those that runs ended in, beside the one that ``runs`` are in."""
    far = distances(ended, runs)
    each = np.arange(runs.size)
    limit = least_distance(ended.mean.shape[-1], ended.ess)
    gap = np.asarray(ended.log_mass, np.float64) - ended.log_mass[runs, each]
    with np.errstate(invalid="ignore"):
        matters = (far > limit) & (gap > math.log(LEAST_MASS))
    best = np.argmax(np.where(matters, gap, -np.inf), axis=0)
    return Others(matters.any(axis=0), far[best, each], gap[best, each])


def summary_of(modes: Modes) -> str:
    """Describe what was found in half a sentence."""
    if modes.share_of_datasets > 0:
        return (
            f"{_where(modes)} a second mode, {modes.distance:.0f} standard deviations away, with "
            f"{modes.log_mass_gap:+.1f} in log mass"
        )
    return "a peak in a broader hill"


def _where(modes: Modes) -> str:
    num, count = modes.num_searched, round(modes.share_of_datasets * modes.num_searched)
    return f"{count} of {num} posteriors have" if num > 1 else "the posterior has"


def searched_for(modes: Modes) -> str:
    """Describe what was tried, and what it showed; never that there is no other mode."""
    if modes.is_convex:
        return "loss and prior are convex, so that there is one mode"
    if not modes.num_searched:
        return "other modes were not looked for"
    tried = f"{modes.num_starts} dispersed starts"
    tried += " and a ladder of scales" if modes.has_ladder else ""
    where = f" on {modes.num_searched} posteriors" if modes.num_searched > 1 else ""
    if warn_of(modes):
        return f"{tried}{where} found {summary_of(modes)}"
    return f"{tried}{where} found no second mode"


def warn_of(modes: Modes) -> list[Warned]:
    """Say what was found, if anything."""
    if modes.share_of_datasets > 0:
        where = _where(modes)
        gaps = {"distance": modes.distance, "gap": modes.log_mass_gap}
        return [SEVERAL_MODES(where=where, **gaps)]
    share = modes.ladder_excess / (1.0 + modes.ladder_excess)
    if share > OUTSIDE and modes.ladder_excess > OUTSIDE_Z * modes.ladder_excess_se:
        return [NESTED_SCALES(share=share)]
    return []


# Search for other modes: from starts far away, and by a ladder of scales.


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
    """Potential at points around the center, relative to it."""
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
    """Weigh the points: a share of the density over the mean of the ladder's Gaussians."""
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
    """Summaries of chains (axes: chains, posteriors)."""

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
    """Look for modes beside those that chains are in."""
    if posterior.is_log_concave:
        return ONE_BY_CONVEXITY
    u = np.asarray(draws.u, np.float64)
    num_last = min(NUM_LAST, u.shape[2])
    center, sd = u.mean(axis=(1, 2)), u.std(axis=(1, 2))
    reference = _reference(draws, gamma)
    found = [_chains(draws, slice(None), reference, gamma)]
    noise = _far_away(key, u.shape[0], NUM_RUNS * u.shape[1], u.shape[3])
    for each in np.split(noise, NUM_RUNS, axis=1):
        starts = jnp.asarray((center[:, None] + sd[:, None] * each).astype(draws.u.dtype))
        far = run(starts, num_last)
        found.append(_chains(far, slice(-num_last, None), reference, gamma))
    whole = _Chains(*(np.concatenate(parts) for parts in zip(*found, strict=True)))
    ended = Ended(whole.mean, whole.variance, whole.log_mass, _ess(u, num_last), whole.is_good)
    num_chains = u.shape[1]
    mass = np.where(whole.is_good, whole.log_mass, -np.inf)[:num_chains]
    best = np.argmax(mass, axis=0)
    other = others(ended, best)
    if other.is_found.any() and not is_double():
        is_seen = _is_seen(posterior, batch, gamma, center, whole.mean)
        other = others(ended._replace(is_good=ended.is_good & is_seen), best)
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
    """Draw starts of searches, evenly from narrow to wide, each with its mirror image."""
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
    draws: ChainDraws, last: slice, reference: Float[np.ndarray, "posteriors terms"], gamma: float
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
    with np.errstate(invalid="ignore"):  # chains that were lost far out
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
    dtype = jnp.result_type(float)
    at = (jnp.asarray(np.asarray(x).astype(dtype)) for x in (gamma, center, sd, points))
    potential = np.asarray(_ladder(posterior, batch, *at))
    share, se = outside(potential, points)
    if np.nanmax(share, initial=0.0) > OUTSIDE and not is_double():
        again = _in_double(_ladder, posterior, batch, gamma, center, sd, points)
        share, se = outside(np.where(_agree(potential, again), potential, np.inf), points)
    is_good = np.isfinite(share)
    if not is_good.any():
        return found
    return found.with_ladder(share[is_good], se[is_good], SCALES.size)


def _in_double(
    program: Callable[..., Any], posterior: GibbsPosterior, batch: PyTree, *numbers: Any
) -> Float[np.ndarray, "*shape"] | None:
    """Compute in double precision; None for a model that mixes it with a single one of its own."""

    def widened(leaf: Any) -> Any:
        return np.asarray(leaf, np.float64) if leaf.dtype == np.float32 else leaf

    try:
        with precision(is_double=True):
            at = (np.asarray(x, np.float64) for x in numbers)
            return np.asarray(program(posterior, jax.tree.map(widened, batch), *at))
    except TypeError:
        return None


def _agree(single: Float[np.ndarray, "*shape"], double: Float[np.ndarray, "*shape"] | None) -> Any:
    """Where both precisions see one density, or there is only one of them."""
    if double is None:
        return np.isfinite(single)
    with np.errstate(invalid="ignore"):
        return np.abs(single - double) < ROUNDED


def _is_seen(
    posterior: GibbsPosterior,
    batch: PyTree,
    gamma: float,
    center: Float[np.ndarray, "posteriors dim"],
    ends: Float[np.ndarray, "chains posteriors dim"],
) -> Bool[np.ndarray, "chains posteriors"]:
    """Whether double precision sees the density that single precision does where chains ended."""
    points = np.swapaxes(ends, 0, 1)
    at = (np.asarray(x, np.float32) for x in (gamma, center, points))
    single = np.asarray(_far(posterior, batch, *at))
    return _agree(single, _in_double(_far, posterior, batch, gamma, center, points)).T


def _far_of(
    posterior: GibbsPosterior,
    batch: PyTree,
    gamma: Float[Array, ""],
    center: Float[Array, "posteriors dim"],
    points: Float[Array, "posteriors chains dim"],
) -> Float[Array, "posteriors chains"]:
    """Potential at points, relative to the centre."""

    def one(data: PyTree, center: Array, points: Array) -> Array:
        target = Target(posterior, data, gamma)
        return jax.vmap(target.relative_to(target.terms(center)))(points)

    return jax.vmap(one)(batch, center, points)


_far = on_default_backend(_far_of, "posterior")


def potential_at(
    posterior: GibbsPosterior,
    batch: PyTree,
    gamma: float,
    zero: Float[np.ndarray, " dim"],
    points: Float[np.ndarray, "points dim"],
) -> Float[np.ndarray, " points"]:
    """Potential of the one dataset of a batch at points, relative to another one."""
    at_once = max(1, LOSSES_AT_ONCE // jax.tree.leaves(batch)[0].shape[1])
    num_calls = -(-len(points) // at_once)
    size = -(-len(points) // num_calls)
    found = []
    for part in np.resize(points, (num_calls, size, points.shape[1])):
        at = (np.asarray(x, jnp.result_type(float)) for x in (gamma, zero[None], part[None]))
        found.append(np.asarray(_far(posterior, batch, *at), np.float64)[0])
    return np.concatenate(found)[: len(points)]


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


_ladder = on_default_backend(_ladder_of, "posterior", is_quick=True)
