"""Pilots look for other modes: from starts far away, and with a ladder of scales."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from gibbs_dp._jaxlib.compile import program
from gibbs_dp._jaxlib.devices import platform
from gibbs_dp.engine.datasets import Stream, draw_dataset, keys_of, roots
from gibbs_dp.engine.executor import in_room
from gibbs_dp.engine.health import believed, is_believed
from gibbs_dp.engine.pilots import num_pilots, run_pilots
from gibbs_dp.engine.plan import Inputs, Plan
from gibbs_dp.engine.summary import Summary
from gibbs_dp.engine.symmetry import Symmetry, find_symmetry, laid_on, renamed
from gibbs_dp.engine.together import Runs
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.diagnostics import pool
from gibbs_dp.sampling.ladder import (
    MAX_LADDER_DIM,
    SCALES,
    Heights,
    heights,
    ladder_points,
    outside,
)
from gibbs_dp.sampling.locate import MAX_LAPLACE_DIM
from gibbs_dp.sampling.modes import NOT_LOOKED_FOR, Ended, Modes, is_apart, others, warn_of
from gibbs_dp.sampling.target import Target
from gibbs_dp.sampling.traits import Traits

# Points of a dataset's ladder: what is averaged over pilots needs no more.
NUM_POINTS = 32 * SCALES.size


def is_searched(traits: Traits, dim: int) -> bool:
    """Whether other modes are looked for.

    A sum over a grid has them all, and particles that come from the prior start from no mode.
    Chains without an acceptance step are as wide as their steps make them, and distances and masses
    would be measured in that. Where modes are not found by Newton's method they are found so
    roughly that two searches never agree.
    """
    is_elsewhere = traits.is_exact or traits.is_path or not traits.is_adjusted
    return not is_elsewhere and dim <= MAX_LAPLACE_DIM


def find_modes(runner: Runs, plan: Plan, inputs: Inputs, first: Summary, second: Summary) -> Modes:
    """Look for modes beside the one that a main run with these inputs would sample.

    Parameters
    ----------
    runner, plan
        What runs pilots.
    inputs
        Of the main run, with the reference and the schedule of the pilots.
    first, second
        Pilots from overdispersed starts.

    Returns
    -------
    Modes
        What was tried, and what was found; `NOT_LOOKED_FOR` where that makes no sense, or where
        pilots fail.
    """
    s = runner.settings
    good = believed(first)
    if not is_searched(s.sampler.traits, s.posterior.dim) or good.size < 4:
        return NOT_LOOKED_FOR
    count = num_pilots(s)
    sd = jnp.sqrt(jnp.asarray(np.mean(good.health.var_u, axis=0), inputs.start.dtype))
    far = run_pilots(runner, plan, inputs._replace(spread=sd), 2 * count, begin=2 * count)
    runs = [first, second, *_halves(far, count)]
    ess = pool(good.health.spread, s.num_chains, s.num_samples).ess_min
    found = _ended(runs, ess)
    main, symmetry = first, Symmetry()
    has_names = not all(quantity.is_of_losses for quantity in s.quantities)
    # Where all searches agree, those of the main run, which begin in their midst, agree with them.
    if is_apart(found):
        main = run_pilots(runner, plan, inputs, count)
        symmetry = Symmetry() if has_names else find_symmetry(s, main)
        found = _ended([main, *(laid_on(symmetry, run, main) for run in runs)], ess)
    other = others(found, np.zeros(count, int))
    has_any = bool(other.is_found.any())
    result = Modes(
        num_searched=count,
        num_starts=2 * first.size + far.size,
        share_of_datasets=float(np.mean(other.is_found)),
        distance=float(np.median(other.distance[other.is_found])) if has_any else float("nan"),
        log_mass_gap=float(np.median(other.gap[other.is_found])) if has_any else float("nan"),
    )
    climbed = _climb(runner, inputs, main, result, symmetry)
    if has_names or has_any or not symmetry.is_trivial or not warn_of(climbed):
        return climbed
    # Chains that pass between names, slowly, end near each other; the ladder meets all names.
    symmetry = find_symmetry(s, main)
    return climbed if symmetry.is_trivial else _climb(runner, inputs, main, result, symmetry)


def _halves(both: Summary, count: int) -> tuple[Summary, Summary]:
    return jax.tree.map(lambda a: a[:count], both), jax.tree.map(lambda a: a[count:], both)


def _ended(runs: list[Summary], ess: float) -> Ended:
    health = [run.health for run in runs]
    log_mass = np.stack([np.asarray(h.log_mass) for h in health])
    is_good = np.stack([is_believed(run) for run in runs]) & np.isfinite(log_mass)
    mean, variance = (np.stack([getattr(h, n) for h in health]) for n in ("mean_u", "var_u"))
    return Ended(mean, variance, log_mass, ess, is_good)


def _climb(
    runner: Runs, inputs: Inputs, pilots: Summary, found: Modes, symmetry: Symmetry
) -> Modes:
    """Add what a ladder around the pilots finds outside of them, under whatever name."""
    s, dim = runner.settings, runner.settings.posterior.dim
    if dim > MAX_LADDER_DIM:
        return found
    count = pilots.size
    points = ladder_points(count, NUM_POINTS, dim)
    numbers = np.tile(np.arange(count, dtype=np.int32), (2, 1))
    center, sd = (np.asarray(a) for a in (pilots.health.mean_u, np.sqrt(pilots.health.var_u)))
    ladder = program(_ladder, ("posterior", "n", "num_ghosts"), platform())
    static = (s.posterior, s.n, s.num_ghosts)
    keys = roots(s.key, Stream.PILOTS)
    traced = (s.population, keys, numbers, inputs.gamma, center, sd, points)
    height = in_room(lambda: jax.tree.map(np.asarray, ladder(*static, *traced)))
    named = None if symmetry.is_trivial else _named(symmetry, points, height, center, sd)
    share, se = outside(height.potential, points, named)
    is_good = is_believed(pilots) & np.isfinite(share)
    if not is_good.any():
        return found
    return found.with_ladder(share[is_good], se[is_good], SCALES.size)


def _named(
    symmetry: Symmetry,
    points: Float[np.ndarray, "pilots points dim"],
    height: Heights,
    center: Float[np.ndarray, "pilots dim"],
    sd: Float[np.ndarray, "pilots dim"],
) -> Float[np.ndarray, "pilots points dim"]:
    """Points under the names that bring them nearest to the center, in units of the draws."""
    center, sd = (np.asarray(a, np.float64)[:, None] for a in (center, sd))
    turn = np.asarray(height.correlate, np.float64)
    places = center + sd * np.einsum("pij,pkj->pki", turn, points)
    flat, goal, width = (
        np.broadcast_to(a, places.shape).reshape(-1, places.shape[-1])
        for a in (places, center, sd**2)
    )
    moved = renamed(symmetry, flat, width, goal, width)[0].reshape(places.shape)
    back = np.swapaxes((moved - center) / sd, 1, 2)
    return np.swapaxes(np.linalg.solve(turn, back), 1, 2)


def _ladder(
    posterior: GibbsPosterior,
    n: int,
    num_ghosts: int,
    population: Any,
    roots: Key[Array, 2],
    numbers: Int[Array, "2 pilots"],
    gamma: Float[Array, ""],
    center: Float[Array, "pilots dim"],
    sd: Float[Array, "pilots dim"],
    points: Float[Array, "pilots points dim"],
) -> Heights:
    def one(given: tuple[Any, Array, Array, Array]) -> Heights:
        key, center, sd, points = given
        data = draw_dataset(posterior, population, key, n, num_ghosts)[0]
        return heights(Target(posterior, data, gamma), center, sd, points)

    return jax.lax.map(one, (keys_of(roots, numbers)[0], center, sd, points))
