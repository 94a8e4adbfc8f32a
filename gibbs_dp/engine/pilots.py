"""Pilots of one gamma: burn-in, adaptation, control variate, estimator, and other modes."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from gibbs_dp._jaxlib.compile import program
from gibbs_dp._jaxlib.devices import on_device, platform
from gibbs_dp.engine.datasets import Stream, draw_dataset, keys_of, roots
from gibbs_dp.engine.executor import in_room
from gibbs_dp.engine.plan import (
    FEW_PILOTS,
    NUM_PILOTS,
    Inputs,
    Job,
    Plan,
    Tuned,
)
from gibbs_dp.engine.quantity import Settings
from gibbs_dp.engine.symmetry import Symmetry, laid_on, renamed, symmetry_of
from gibbs_dp.engine.view import (
    Block,
    Summary,
    believed,
    concatenate,
    is_believed,
    is_drifting,
    is_slow,
)
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.diagnostics import pool
from gibbs_dp.sampling.grid import LEAST_POINTS
from gibbs_dp.sampling.kernels.base import Schedule, Traits, make_schedule
from gibbs_dp.sampling.laplace import MAX_LAPLACE_DIM
from gibbs_dp.sampling.modes import (
    MAX_LADDER_DIM,
    NOT_LOOKED_FOR,
    ONE_BY_CONVEXITY,
    SCALES,
    Ended,
    Heights,
    Modes,
    heights,
    is_apart,
    ladder_points,
    others,
    outside,
    warn_of,
)
from gibbs_dp.sampling.target import ImproperPosteriorError, Target

# Pilot datasets: they have keys of their own and never enter an estimate.
#
# So nothing that is chosen on them depends on the data that are reported on.


@runtime_checkable
class Runs(Protocol):
    """What runs jobs: a runner, or a thread's share of it; ``path`` has inputs at all gammas."""

    path: tuple[Inputs, ...]

    @property
    def settings(self) -> Settings:
        """Of the audit."""
        ...

    def run(
        self, jobs: Iterable[Job], num_beside: int = 0
    ) -> Generator[tuple[Job, Block], None, None]:
        """Yield jobs with what they found as they finish."""
        ...


def num_pilots(settings: Settings) -> int:
    """How many datasets settings are tuned on."""
    posterior = settings.posterior
    is_simple = posterior.dim > MAX_LAPLACE_DIM or posterior.is_log_concave
    return FEW_PILOTS if is_simple else NUM_PILOTS


def run_pilots(runner: Runs, plan: Plan, inputs: Inputs, total: int, begin: int = 0) -> Summary:
    """Run the pilot datasets from ``begin`` on, and again from other starts, ``total`` in all."""
    s, count = runner.settings, num_pilots(runner.settings)
    keys = roots(s.key, Stream.PILOTS)
    size = s.block_size  # so that the program of the main run serves
    end = begin + total

    def job_of(first: int) -> Job:
        wanted = min(s.job_size, end - first)
        return Job(first, keys, first, size, plan, inputs, period=count, wanted=wanted)

    jobs = [job_of(first) for first in range(begin, end, s.job_size)]
    # The sweep searches for the best parameter beside the first of them.
    done = {job.tag: block.summary for job, block in runner.run(jobs, num_beside=1)}
    return concatenate([done[job.tag] for job in jobs], total)


def run_pilots_twice(runner: Runs, plan: Plan, inputs: Inputs) -> tuple[Summary, Summary]:
    """Run the same pilot datasets from two sets of overdispersed starts."""
    count = num_pilots(runner.settings)
    both = run_pilots(runner, plan, inputs, 2 * count)
    return jax.tree.map(lambda a: a[:count], both), jax.tree.map(lambda a: a[count:], both)


# Pilots look for other modes: from starts far away, and with a ladder of scales.

# Points of a dataset's ladder: what is averaged over pilots needs no more.
NUM_POINTS = 32 * SCALES.size


def is_searched(traits: Traits, dim: int) -> bool:
    """Whether other modes are looked for.

    A sum over points that all datasets share has them all, and particles that come from the prior
    start from no mode. Chains that adapt to every dataset have come from dispersed starts.
    Chains without an acceptance step are as wide as their steps make them, and distances and masses
    would be measured in that. Where modes are not found by Newton's method they are found so
    roughly that two searches never agree.
    """
    is_everywhere = traits.is_path or traits.is_tuned or (traits.is_exact and not traits.is_local)
    return not is_everywhere and traits.is_adjusted and dim <= MAX_LAPLACE_DIM


def find_modes(runner: Runs, plan: Plan, inputs: Inputs, first: Summary, second: Summary) -> Modes:
    """Look for modes beside the one that a main run with these inputs would sample."""
    s = runner.settings
    if not is_searched(s.sampler.traits, s.posterior.dim):
        return NOT_LOOKED_FOR
    if s.posterior.is_log_concave:
        return ONE_BY_CONVEXITY
    good = believed(first)
    if good.size < 4:
        return NOT_LOOKED_FOR
    count = num_pilots(s)
    sd = jnp.sqrt(jnp.asarray(np.mean(good.health.var_u, axis=0), inputs.start.dtype))
    far = run_pilots(runner, plan, inputs._replace(spread=sd), 2 * count, begin=2 * count)
    runs = [first, second, *_halves(far, count)]
    ess = np.inf
    if not s.is_exact:
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
    ladder = _climb(runner, inputs, main)
    if ladder is None:
        return result
    weighed = ladder.weigh(result, symmetry)
    if has_names or has_any or not symmetry.is_trivial or not warn_of(weighed):
        return weighed
    # Chains that pass between names, slowly, end near each other; the ladder meets all names.
    return ladder.weigh(result, find_symmetry(s, main))


def find_symmetry(settings: Settings, pilots: Summary) -> Symmetry:
    """Find the symmetries of an audit's posterior, tried where its pilots are."""
    s, health = settings, pilots.health
    mean, variance = (np.asarray(a, np.float64) for a in (health.mean_u, health.var_u))
    return symmetry_of(s.posterior, s.population, s.n, s.num_ghosts, s.key, mean, variance)


def _halves(both: Summary, count: int) -> tuple[Summary, Summary]:
    return jax.tree.map(lambda a: a[:count], both), jax.tree.map(lambda a: a[count:], both)


def _ended(runs: list[Summary], ess: float) -> Ended:
    health = [run.health for run in runs]
    log_mass = np.stack([np.asarray(h.log_mass) for h in health])
    is_good = np.stack([is_believed(run) for run in runs]) & np.isfinite(log_mass)
    mean, variance = (np.stack([getattr(h, n) for h in health]) for n in ("mean_u", "var_u"))
    return Ended(mean, variance, log_mass, ess, is_good)


class _Ladder(NamedTuple):
    """A ladder around the pilots, climbed: its points, and what is there."""

    points: Float[np.ndarray, "pilots points dim"]
    height: Heights
    center: Float[np.ndarray, "pilots dim"]
    sd: Float[np.ndarray, "pilots dim"]
    is_good: Bool[np.ndarray, " pilots"]

    def weigh(self, found: Modes, symmetry: Symmetry) -> Modes:
        """Add the mass that lies outside of the pilots, under whatever name."""
        at = self.points, self.height, self.center, self.sd
        named = None if symmetry.is_trivial else _named(symmetry, *at)
        share, se = outside(np.asarray(self.height.potential), self.points, named)
        is_good = self.is_good & np.isfinite(share)
        if not is_good.any():
            return found
        return found.with_ladder(share[is_good], se[is_good], SCALES.size)


def _climb(runner: Runs, inputs: Inputs, pilots: Summary) -> _Ladder | None:
    """Climb a ladder around the pilots; None where there are too many parameters for one."""
    s, dim = runner.settings, runner.settings.posterior.dim
    if dim > MAX_LADDER_DIM:
        return None
    count = pilots.size
    points = ladder_points(count, NUM_POINTS, dim)
    numbers = np.tile(np.arange(count, dtype=np.int32), (2, 1))
    center, sd = (np.asarray(a) for a in (pilots.health.mean_u, np.sqrt(pilots.health.var_u)))
    ladder = program(_ladder, ("posterior", "n", "num_ghosts"), platform())
    static = (s.posterior, s.n, s.num_ghosts)
    keys = roots(s.key, Stream.PILOTS)
    traced = (s.population, keys, numbers, inputs.gamma, center, sd, points)
    height = in_room(lambda: jax.tree.map(np.asarray, ladder(*static, *traced)))
    return _Ladder(points, height, center, sd, is_believed(pilots))


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


DEFAULT_BURN_IN, SLOW_BURN_IN = 16, 64
MAX_BURN_IN = 1024
ADAPT_ROUNDS = 6
MAX_ATTEMPTS = 6
# Effective draws with a scale shared by all datasets, over those with one adapted to each.
LEAST_ESS_SHARE = 0.8
# Effective draws over draws from which on a kernel's own shorter burn-in does: where one draw in
# four was effective, 8 steps left 0.7% of bias on a box.
LEAST_ESS_EASED = 0.5
# From here on, starts that differ may be the same under other names.
R_HAT_OF_NAMES = 1.05
# In one coordinate the proposal is 30% wider than the draws; in many it cannot afford to be.
WIDENING = 0.3


def tune(runner: Runs, gamma: float, plan: Plan, guess: Inputs | None) -> Tuned:
    """Run pilots at one gamma until they agree, starting from a neighbouring gamma's settings."""
    s = runner.settings
    dim, dtype = s.posterior.dim, jnp.result_type(float)
    burn_in = DEFAULT_BURN_IN if s.num_warmup is None else s.num_warmup
    tuning, rounds = s.sampler.default_tuning(dim), 0
    if guess is not None and not s.is_exact:
        previous, longest, rounds = guess.schedule.on_host
        if previous[0] * previous[1] < 0.99 * tuning[0] * tuning[1]:
            tuning = previous  # a neighbour's chains had to go slower
        if longest > SLOW_BURN_IN:  # which the pilots of this gamma find in one round, if need be
            burn_in = longest
    zeros = on_device(np.zeros(dim, dtype))
    if s.is_exact:
        return _tune_sum(runner, plan, first_inputs(gamma, zeros, make_schedule((1.0, 1), 0, 0)))
    can_adapt = s.sampler.traits.is_adjusted and not s.sampler.traits.is_tuned
    if can_adapt and dim > MAX_LAPLACE_DIM:
        rounds = ADAPT_ROUNDS  # without a fit nothing else will do
    for _ in range(MAX_ATTEMPTS):
        inputs = first_inputs(gamma, zeros, make_schedule(tuning, burn_in, rounds))
        if guess is not None:
            inputs = inputs._replace(reference=guess.reference)
        first, second = run_pilots_twice(runner, plan, inputs)
        _refuse_improper(first, gamma)
        good = believed(first)
        if can_adapt and rounds == 0 and first.health.is_stuck.any():
            rounds = ADAPT_ROUNDS
            continue
        if good.size < 4:  # the main run counts and reports the failures
            break
        if s.sampler.traits.is_tuned:
            break
        pooled = pool(good.health.spread, s.num_chains, s.num_samples)
        accept = float(np.mean(good.health.accept_prob))
        is_poor = accept < s.sampler.least_accept or float(np.mean(good.health.is_curved)) < 0.9
        if can_adapt and rounds == 0 and is_poor:
            rounds = ADAPT_ROUNDS
            continue
        if accept < s.sampler.least_accept:
            tuning = (tuning[0] * 0.6, tuning[1])
            continue
        if rounds and float(np.mean(good.health.is_curved)) < 0.9:
            shared = _share_scale(runner, plan, inputs, first)
            if shared is not None:
                inputs, first, second = shared
                break
        if s.num_warmup is None and (
            (is_drifting(pooled) and burn_in < MAX_BURN_IN)
            or (is_slow(pooled, s.num_draws, s.num_chains) and burn_in <= DEFAULT_BURN_IN)
        ):
            burn_in *= 4
            continue
        break
    good = believed(first)
    settled = with_reference(inputs, good)
    # With the pilots' own schedule: on an accelerator another one is another program.
    modes = find_modes(runner, plan, settled._replace(reference=inputs.reference), first, second)
    if not int(inputs.schedule.num_adapt_rounds):
        settled = settled._replace(schedule=_eased(s, good, inputs.schedule))
    r_hat = r_hat_of_starts(first, second)
    if r_hat > R_HAT_OF_NAMES:
        second = laid_on(find_symmetry(s, first), second, first)
        r_hat = min(r_hat, r_hat_of_starts(first, second))
    return Tuned(settled, chosen(s, good), r_hat, modes)


def chosen(settings: Settings, pilots: Summary) -> str:
    """Estimator of the leading quantity."""
    leading = settings.leading
    return leading.choose(getattr(settings.fitted(pilots).values, leading.name), settings)


def _share_scale(
    runner: Runs, plan: Plan, inputs: Inputs, first: Summary
) -> tuple[Inputs, Summary, Summary] | None:
    """Try the pilots' mean variance as everyone's scale in place of adaptation, dataset by dataset.

    Posteriors of one population are alike, and adaptation is most of a dataset's steps. None
    unless chains move as well as the adapted ones did. They start from that scale too, and need
    less burn-in than adapted chains, whose first steps are in a guessed one.
    """
    s, good = runner.settings, believed(first)
    burn_in = DEFAULT_BURN_IN if s.num_warmup is None else s.num_warmup
    scale = jnp.asarray(np.sqrt(np.mean(good.health.var_u, axis=0)), inputs.start.dtype)
    tuning, *_ = inputs.schedule.on_host
    shared = inputs._replace(schedule=make_schedule(tuning, burn_in, 0), scale=scale)
    one, two = run_pilots_twice(runner, plan, shared)
    found = believed(one)
    if found.size < good.size or one.health.is_stuck.any():
        return None
    adapted, pooled = (pool(x.health.spread, s.num_chains, s.num_samples) for x in (good, found))
    is_moving = float(
        np.mean(found.health.accept_prob)
    ) >= s.sampler.least_accept and not is_drifting(pooled)
    if not is_moving or pooled.ess_min < LEAST_ESS_SHARE * adapted.ess_min:
        return None
    if is_slow(pooled, s.num_draws, s.num_chains) and s.num_warmup is None:
        shared = shared._replace(schedule=make_schedule(tuning, 4 * burn_in, 0))
    return shared, one, two


def _eased(settings: Settings, good: Summary, schedule: Schedule) -> Schedule:
    """Schedule of the main run: less of everything where the sampler says that it will do."""
    tuning, burn_in, _ = schedule.on_host
    if not good.size:
        return schedule
    eased = settings.sampler.eased(float(np.mean(good.health.accept_prob)), tuning)
    if eased is None:
        return schedule
    tuning, shorter = eased
    pooled = pool(good.health.spread, settings.num_chains, settings.num_samples)
    is_quick = pooled.ess_min >= LEAST_ESS_EASED * settings.num_draws
    if settings.num_warmup is None and burn_in <= DEFAULT_BURN_IN and is_quick:
        burn_in = shorter
    return make_schedule(tuning, burn_in, 0)


def adapting(settings: Settings, inputs: Inputs) -> Inputs:
    """Let every dataset's chains find their own scale and step."""
    tuning = settings.sampler.default_tuning(settings.posterior.dim)
    least = DEFAULT_BURN_IN if settings.num_warmup is None else settings.num_warmup
    burn_in = max(int(inputs.schedule.num_burn_in), least)
    unknown = on_device(np.full_like(inputs.scale, np.nan))
    return inputs._replace(schedule=make_schedule(tuning, burn_in, ADAPT_ROUNDS), scale=unknown)


def first_inputs(gamma: float, zeros: Float[Array, " dim"], schedule: Schedule) -> Inputs:
    """Make inputs of the first pilots of a gamma, which know nothing yet."""
    unknown = on_device(np.full_like(zeros, np.nan))
    return Inputs(
        gamma=on_device(np.asarray(gamma, zeros.dtype)),
        schedule=schedule,
        num_pairs=on_device(np.int32(0)),
        start=zeros,
        is_dispersed=on_device(np.True_),
        spread=zeros,
        reference=zeros,
        optimum=unknown,
        proposal_scale=on_device(np.ones_like(zeros)),
        scale=unknown,
        anchor=zeros,
    )


def with_reference(inputs: Inputs, good: Summary) -> Inputs:
    """Put the pilots' mean parameter in: the control variate, and where mode searches start.

    Also how wide the posteriors are in whitened coordinates; a Gaussian somewhat wider than they
    are keeps the ratio of the densities bounded.
    """
    reference, width = np.zeros(inputs.start.shape), np.ones(inputs.start.shape)
    health = good.health
    if good.size and np.isfinite(health.mean_u).all():
        reference = np.mean(health.mean_u, axis=0)
        width = np.sqrt(np.mean(health.square_v, axis=0)) * (1.0 + WIDENING / np.sqrt(width.size))
    dtype = inputs.start.dtype
    point, scale = (on_device(a.astype(dtype)) for a in (reference, np.clip(width, 0.2, 5.0)))
    return inputs._replace(
        start=point,
        is_dispersed=on_device(np.False_),
        reference=point,
        proposal_scale=scale,
    )


# Of what two sums over other nodes differ by, root mean square over datasets: as a share of the
# mean, from where on it is sure to be nothing, and of the datasets' standard deviation, up to which
# it hides among them.
SURELY_FINE, FINE_ENOUGH = 2e-3, 0.06


class TooCoarseError(ValueError):
    """Sums over points do not stand for their posteriors at some gamma."""


def _tune_sum(runner: Runs, plan: Plan, inputs: Inputs) -> Tuned:
    """Exact posteriors need no tuning, only a control variate; their KL is a sum."""
    s, gamma = runner.settings, float(inputs.gamma)
    first, second = run_pilots_twice(runner, plan, inputs)
    good = believed(first)
    settled, estimator = with_reference(inputs, good), chosen(s, good)
    if not s.sampler.traits.is_local:
        return Tuned(settled, estimator, r_hat_starts=1.0, modes=NOT_LOOKED_FOR)
    _refuse_improper(first, gamma)
    _refuse_few_points(s, gamma, good)
    modes = find_modes(runner, plan, settled._replace(reference=inputs.reference), first, second)
    if not warn_of(modes):  # of two modes two runs may have one each
        _refuse_coarse(s, gamma, estimator, first, second)
    return Tuned(settled, estimator, r_hat_of_starts(first, second), modes)


def _refuse_few_points(settings: Settings, gamma: float, good: Summary) -> None:
    """Find posteriors that are narrow beside what nodes span: two far modes, with one node each.

    Two sums may then agree, and on nothing. Pilots are few, and others are narrower yet.
    """
    fewest = float(np.min(good.values.lattice.effective_points, initial=np.inf))
    if fewest < 2 * LEAST_POINTS:
        raise TooCoarseError(
            f"sampler: at gamma={gamma:g} a posterior lies on only {fewest:.1f} of "
            f"{settings.num_samples} nodes; raise gibbs_dp.Line(num_nodes=), or sample with "
            "gibbs_dp.HMC()."
        )


def _refuse_coarse(
    settings: Settings, gamma: float, estimator: str, first: Summary, second: Summary
) -> None:
    """Compare sums over nodes that are shifted at random, and found from other starts."""
    both = is_believed(first) & is_believed(second)
    if both.sum() < 4:
        return  # the failures themselves are reported
    leading = settings.leading
    one, two = (
        np.asarray(
            leading.values_of(getattr(run.only(both).values, leading.name), estimator, settings)
        )
        for run in (first, second)
    )
    apart = float(np.sqrt(np.mean(np.square(one - two, dtype=np.float64))))
    mean = float(one.mean())
    if not apart <= max(SURELY_FINE * abs(mean), FINE_ENOUGH * float(one.std())):
        raise TooCoarseError(
            f"sampler: at gamma={gamma:g} two sums over {settings.num_samples} nodes differ by "
            f"{apart:.2g} nats in a dataset's KL of {mean:.2g}; raise gibbs_dp.Line(num_nodes=), "
            "or sample with gibbs_dp.HMC()."
        )


def _refuse_improper(summary: Summary, gamma: float) -> None:
    share = float(np.mean(summary.health.is_improper))
    if share > 0.5:
        raise ImproperPosteriorError(
            f"posterior: improper at gamma={gamma:g} for {share:.0%} of pilot datasets (it does "
            "not decay along some direction); use a proper prior, a bounded support, more data "
            "or a larger gamma, or double precision where columns are nearly equal."
        )


def r_hat_of_starts(first: Summary, second: Summary) -> float:
    """R-hat of two runs on the same datasets, pooled over datasets; worst coordinate."""
    both = is_believed(first) & is_believed(second)
    if both.sum() < 4:
        return float("nan")  # the failures themselves are reported
    one, two = first.health, second.health
    gap = (one.mean_u - two.mean_u)[both].astype(np.float64)
    within = 0.5 * (one.var_u + two.var_u)[both].astype(np.float64).mean(axis=0)
    between = 0.5 * (gap**2).mean(axis=0)
    return float(np.sqrt(1.0 + between / (within + np.finfo(np.float32).tiny)).max())
