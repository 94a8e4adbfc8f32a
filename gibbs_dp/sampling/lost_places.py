"""Whether draws lack a place with mass: by a sum, or by where chains had been before them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree
from scipy import special

from gibbs_dp._jaxlib.compile import on_default_backend
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.diagnostics import describe
from gibbs_dp.sampling.draws import Draws
from gibbs_dp.sampling.modes import INSIDE, MAX_LADDER_DIM, Modes, potential_at
from gibbs_dp.sampling.target import NoHessianError, Target, derivatives_named

# Places with mass in which chains have been, and that draws which came after have passed over.

# Draws of a chain in a row, whose densest one is a place that is looked at.
WINDOW = 50
# Of a place: its least mass, as a share of that of the draws, and the share of its mass that draws
# which have been there have at least.
LEAST_SHARE, SHARE_SEEN = 0.02, 1 / 3
# Steps to the mode of a place, and nats that one more promises of one that was found.
NEWTON_STEPS, NEAR_MODE = 3, 0.1
# Points that weigh what lies in its ellipsoid.
NUM_INSIDE = 256
# Of one coordinate: nodes of a sum among the draws, and as many around them, which reach so many
# times as far as the draws do to both sides; and how rare a difference is that is one.
NUM_NODES, FAR_AROUND, ONCE_IN_A_MILLION = 4096, 2.0, 1e6
# Of many rows there are fewer: the fewest, and losses of one half of the nodes.
FEWEST_NODES, MOST_LOSSES = 256, 2**28


def passed_over(
    posterior: GibbsPosterior, batch: PyTree, gamma: float, before: Sequence[Draws], draws: Draws
) -> Modes | None:
    """Find a place that earlier chains saw and new draws do not have; None: there is none."""
    dim = posterior.dim
    if dim > MAX_LADDER_DIM:
        return None
    own = np.asarray(draws.unconstrained(posterior), np.float64)
    places = np.concatenate([_densest(each, posterior) for each in before])
    zero = own[0, 0]
    try:
        with derivatives_named(""):
            for _ in range(NEWTON_STEPS):
                places = places - _bent_at(posterior, batch, gamma, zero, places).step
            found = _bent_at(posterior, batch, gamma, zero, places)
    except NoHessianError:
        return None
    rows = own.reshape(-1, dim)
    center, spread = rows.mean(axis=0), np.atleast_2d(np.cov(rows.T))
    gaussian = 0.5 * dim * math.log(2.0 * math.pi)
    mass = gaussian + 0.5 * (np.linalg.slogdet(spread)[1] + dim)
    mass += float((draws.log_density - draws.log_density[0, 0]).mean())
    limit = special.chdtri(dim, 1.0 - INSIDE)
    worst: tuple[float, Float[np.ndarray, " dim"]] | None = None
    for middle, energy, slope, bend, step in zip(places, *found, strict=True):
        if not 0 <= step @ slope < NEAR_MODE or np.linalg.eigvalsh(bend)[0] <= 0:
            continue  # on a slope: no place of its own
        gap = gaussian - 0.5 * np.linalg.slogdet(bend)[1] - energy - mass
        away = rows - middle
        share = np.mean(np.einsum("nd,de,ne->n", away, bend, away) < limit)
        if _is_passed_over(gap, share):
            # As much as is really inside: a bent ridge leaves its ellipsoid.
            noise = np.random.default_rng(0).standard_normal((NUM_INSIDE, dim))
            square = np.sum(noise**2, axis=1)
            points = middle + np.linalg.solve(np.linalg.cholesky(bend).T, noise.T).T
            rise = potential_at(posterior, batch, gamma, zero, points) - energy - 0.5 * square
            log_weight = np.where((square < limit) & np.isfinite(rise), -rise, -np.inf)
            gap += special.logsumexp(log_weight) - math.log(NUM_INSIDE)
        if _is_passed_over(gap, share) and (worst is None or gap > worst[0]):
            worst = gap, middle
    if worst is None:
        return None
    away = worst[1] - center
    return Modes(
        num_searched=1,
        num_starts=len(places),
        share_of_datasets=1.0,
        distance=float(np.sqrt(away @ np.linalg.solve(spread, away))),
        log_mass_gap=float(worst[0]),
    )


# Tails of a coordinate that are looked at; R-hat of earlier draws up to which these count; relative
# error of a tail's share from which it is little known, and over theirs.
TAILS, MIXED, LITTLE_KNOWN, TIMES_LESS = (0.05, 0.95), 1.02, 0.3, 2.0


def knows_tails_less(posterior: GibbsPosterior, before: Sequence[Draws], draws: Draws) -> bool:
    """Whether chains come to a tail much less often than earlier ones, which had mixed, did.

    An arm without a mode, which :func:`passed_over` does not see: of stretched coordinates.
    """
    if draws.num_particles is not None:
        return False
    own = np.asarray(draws.unconstrained(posterior), np.float64)
    for each in before:
        if not each.worst_r_hat <= MIXED:
            continue
        theirs = np.asarray(each.unconstrained(posterior), np.float64)
        for share in TAILS:
            limit = np.quantile(theirs, share, axis=(0, 1))
            theirs_there, there = ((x < limit) == (share < 0.5) for x in (theirs, own))
            error, least = _relative_error(there, draws), _relative_error(theirs_there, each)
            if np.any((error > LITTLE_KNOWN) & (error > TIMES_LESS * least)):
                return True
    return False


def _relative_error(
    is_there: Bool[np.ndarray, "chains draws dim"], draws: Draws
) -> Float[np.ndarray, " dim"]:
    """Return the standard error of draws' share in a place over that share; infinite for none."""
    told = describe(is_there.astype(float), draws.num_particles is not None)
    with np.errstate(divide="ignore"):
        odds = (1.0 - told["mean"]) / told["mean"]
    return np.where(told["mean"] > 0, np.sqrt(odds / np.nan_to_num(told["ess"], nan=1.0)), np.inf)


def missed_by_a_sum(
    posterior: GibbsPosterior, batch: PyTree, gamma: float, draws: Draws
) -> Modes | None:
    """Hold draws of one coordinate against a sum over its density; None: they agree."""
    rows = np.sort(np.asarray(draws.unconstrained(posterior), np.float64).ravel())
    low, high = rows[[0, -1]]
    if not 0 < high - low < math.inf:
        return None  # chains that were lost, which other warnings are for
    num_rows = jax.tree.leaves(batch)[0].shape[1]
    half = min(max(FEWEST_NODES, MOST_LOSSES // num_rows), NUM_NODES)
    far = FAR_AROUND * (high - low)
    # As many for any data: nothing compiles anew.
    among = rows[np.linspace(0, rows.size - 1, half).astype(int)]
    nodes = np.sort(np.concatenate([among, np.linspace(low - far, high + far, half)]))
    zero = rows[rows.size // 2][None]
    energy = potential_at(posterior, batch, gamma, zero, nodes[:, None])
    density = np.where(np.isfinite(energy), np.exp(np.nanmin(energy) - energy), 0.0)
    mass = np.diff(nodes) * (density[1:] + density[:-1]) / 2
    below = np.cumsum(mass) / mass.sum()
    share = np.searchsorted(rows, nodes[1:], side="right") / rows.size
    _, ess = draws.mixing
    effective = min(float(ess.min()), rows.size)  # of shares below a point, never more
    chance = math.sqrt(math.log(2 * ONCE_IN_A_MILLION) / (2 * effective))
    if not np.abs(share - below).max() > LEAST_SHARE + chance:
        return None
    # The place with the most mass over that of the draws, in a hundredth of what is summed over.
    parts = np.linspace(nodes[0], nodes[-1], 101)
    due, seen = (np.diff(np.interp(parts, nodes[1:], each)) for each in (below, share))
    worst = int(np.argmax(due - seen))
    away = (parts[worst] + parts[worst + 1]) / 2 - rows.mean()
    mass_there = due[max(worst - 1, 0) : worst + 2].sum()
    return Modes(
        num_searched=1,
        num_starts=nodes.size,
        share_of_datasets=1.0,
        distance=float(abs(away) / max(rows.std(), np.finfo(float).tiny)),
        log_mass_gap=float(special.logit(mass_there)),
    )


def _is_passed_over(gap: float, share: float) -> bool:
    """Whether draws have less than a place is due, by its log mass over theirs."""
    due = math.exp(min(gap, 0.0))
    return bool(due > LEAST_SHARE and share < SHARE_SEEN * due)


def _densest(draws: Draws, posterior: GibbsPosterior) -> Float[np.ndarray, "places dim"]:
    """Take the draw of largest density of every window of every chain."""
    u, height = np.asarray(draws.unconstrained(posterior)), draws.log_density
    length = min(WINDOW, u.shape[1])
    count = u.shape[1] // length
    windows = u[:, : count * length].reshape(-1, length, u.shape[-1])
    heights = np.nan_to_num(height[:, : count * length].reshape(-1, length), nan=-np.inf)
    return windows[np.arange(len(windows)), heights.argmax(axis=1)]


class _Bent(NamedTuple):
    """Potential at points, relative to one, gradient, Hessian, and Newton's step back."""

    energy: Float[np.ndarray, " points"]
    slope: Float[np.ndarray, "points dim"]
    bend: Float[np.ndarray, "points dim dim"]
    step: Float[np.ndarray, "points dim"]  # 0 where the Hessian is of no use


def _bent_at(
    posterior: GibbsPosterior,
    batch: PyTree,
    gamma: float,
    zero: Float[np.ndarray, " dim"],
    points: Float[np.ndarray, "points dim"],
) -> _Bent:
    at = (np.asarray(x, jnp.result_type(float)) for x in (gamma, zero, points))
    energy, slope, bend = (np.array(a, np.float64) for a in _bent(posterior, batch, *at))
    is_lost = ~(np.isfinite(bend).all(axis=(1, 2)) & np.isfinite(slope).all(axis=1))
    bend[is_lost], slope[is_lost] = -np.eye(bend.shape[-1]), 0.0
    with np.errstate(all="ignore"):
        step = np.einsum("pde,pe->pd", np.linalg.pinv(bend, hermitian=True), slope)
    return _Bent(energy, slope, bend, np.nan_to_num(step))


def _bent_of(
    posterior: GibbsPosterior,
    batch: PyTree,
    gamma: Float[Array, ""],
    zero: Float[Array, " dim"],
    points: Float[Array, "points dim"],
) -> tuple[Array, Array, Array]:
    target = Target(posterior, jax.tree.map(lambda a: a[0], batch), gamma)
    potential = target.relative_to(target.terms(zero))

    def one(point: Float[Array, " dim"]) -> tuple[Array, Array, Array]:
        value, slope = jax.value_and_grad(potential)(point)
        return value, slope, jax.hessian(potential)(point)

    return jax.lax.map(one, points)


_bent = on_default_backend(_bent_of, "posterior", is_quick=True)
