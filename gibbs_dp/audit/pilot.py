"""Tuning on pilot datasets: burn-in, adaptation, estimator and control variate for one gamma.

Pilot datasets have keys of their own and never enter an estimate, so nothing chosen here depends
on the data that are reported on.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from gibbs_dp.audit.choice import choose_estimator
from gibbs_dp.audit.control import fit_control
from gibbs_dp.audit.plan import Inputs, Plan, Summary
from gibbs_dp.audit.runner import Job, Runner, concatenate
from gibbs_dp.audit.settings import Settings
from gibbs_dp.audit.sizes import NUM_PILOTS, NUM_PILOTS_HIGH_DIM
from gibbs_dp.sampling.diagnostics import Pooled, pool
from gibbs_dp.sampling.errors import ImproperPosteriorError
from gibbs_dp.sampling.evolve import Schedule, make_schedule
from gibbs_dp.sampling.grid import Grid
from gibbs_dp.sampling.kernels import HMC
from gibbs_dp.sampling.locate import MAX_LAPLACE_DIM

DEFAULT_BURN_IN = 16
MAX_BURN_IN = 1024
ADAPT_ROUNDS = 6
MAX_ATTEMPTS = 6
DRIFT_Z = 4.0
DRIFT_SIZE = 0.02
LOW_ACCEPT = 0.5
# Effective draws over draws: below it 16 steps of burn-in left 2% of bias on a box.
LEAST_ESS = 0.5
# Effective draws with a scale shared by all datasets, over those with one adapted to each.
LEAST_ESS_SHARE = 0.8
# Effective draws over draws, and a chain, of such chains, above which 16 steps of burn-in do: they
# start as wide as posteriors are, and of that start 16 draws leave 0.2% if each is 2/3 of the last.
LEAST_ESS_SHARED, LEAST_ESS_PER_CHAIN = 0.2, 1.5
# Acceptance of HMC around a Gaussian fit, above which a share of its steps and fewer steps of
# burn-in do: a Gaussian posterior, and one so close to it that no test here found a bias with 4.
SHORTENED = ((0.999, 1 / 3, 2), (0.985, 2 / 3, 8))
# In one coordinate the proposal is 30% wider than the draws; in many it cannot afford to be.
WIDENING = 0.3


class Tuned(NamedTuple):
    """What the pilots decided for one gamma.

    Attributes
    ----------
    inputs
        Traced inputs for the main run, control variate included.
    estimator
        Of on-average KL: "one-sided", "two-sided" or "ghost".
    rhat_starts
        R-hat between two runs from different overdispersed starts: above its limit, the posterior
        has several modes or the mode search fails.
    """

    inputs: Inputs
    estimator: str
    rhat_starts: float


def is_drifting(pooled: Pooled) -> bool:
    """Whether the first half of the draws differs from the second, visibly and significantly."""
    return pooled.drift_z > DRIFT_Z and pooled.drift_size > DRIFT_SIZE


def is_slow(pooled: Pooled, num_draws: int) -> bool:
    """Whether chains forget so slowly that a short burn-in leaves a drift too small to see here."""
    return pooled.ess_min < LEAST_ESS * num_draws


def kept_datasets(summary: Summary) -> Bool[np.ndarray, " datasets"]:
    """Datasets whose chains can be believed: finite, moving, with a proper posterior.

    What is estimated from them may fail on its own, and is then left out on its own: an estimate
    that is not reported has no say in which datasets those are that do count.
    """
    return np.asarray(summary.is_finite) & ~summary.is_stuck & ~summary.is_improper


def keep(summary: Summary) -> Summary:
    """Drop the datasets that failed."""
    kept = kept_datasets(summary)
    return summary if kept.all() else jax.tree.map(lambda a: a[kept], summary)


def tune(runner: Runner, gamma: float, plan: Plan, guess: Inputs | None) -> Tuned:
    """Run pilots at one gamma until they agree, starting from a neighbouring gamma's settings.

    Raises
    ------
    ImproperPosteriorError
        If more than half of the pilots have an improper posterior.
    """
    s = runner.settings
    dim, dtype = s.posterior.dim, jnp.zeros(()).dtype
    burn_in = DEFAULT_BURN_IN if s.num_warmup is None else s.num_warmup
    tuning, rounds = (1.0, 1), 0
    if not isinstance(s.kernel, Grid):
        tuning = s.kernel.default_tuning(dim)
    if guess is not None and not s.is_exact:
        previous = guess.schedule
        size, count = float(previous.tuning.step_size), int(previous.tuning.num_inner)
        rounds = int(previous.num_adapt_rounds)
        if size * count < 0.99 * tuning[0] * tuning[1]:  # a neighbour's chains had to go slower
            tuning = (size, count)
        burn_in = max(burn_in, int(previous.num_burn_in))
    zeros = jnp.zeros((dim,), dtype)
    if s.is_exact:
        return _tune_grid(runner, plan, _first_inputs(gamma, zeros, make_schedule((1.0, 1), 0, 0)))
    can_adapt = not s.is_unadjusted
    for _ in range(MAX_ATTEMPTS):
        inputs = _first_inputs(gamma, zeros, make_schedule(tuning, burn_in, rounds))
        if guess is not None:
            inputs = inputs._replace(reference=guess.reference)
        first, second = _run_pilots(runner, plan, inputs)
        _refuse_improper(first, gamma)
        good = keep(first)
        if can_adapt and rounds == 0 and first.is_stuck.any():
            rounds = ADAPT_ROUNDS
            continue
        if good.kl_direct.shape[0] < 4:
            break  # the main run counts and reports the failures
        pooled = pool(good.spread, s.num_chains, s.num_samples)
        accept = float(np.mean(good.accept_prob))
        is_poor = accept < LOW_ACCEPT or float(np.mean(good.is_curved)) < 0.9
        if can_adapt and rounds == 0 and is_poor:
            rounds = ADAPT_ROUNDS
            continue
        if accept < LOW_ACCEPT:
            tuning = (tuning[0] * 0.6, tuning[1])
            continue
        if rounds and float(np.mean(good.is_curved)) < 0.9:
            shared = _share_scale(runner, plan, inputs, first)
            if shared is not None:
                inputs, first, second = shared
                break
        if s.num_warmup is None and (
            (is_drifting(pooled) and burn_in < MAX_BURN_IN)
            or (is_slow(pooled, s.num_draws) and burn_in <= DEFAULT_BURN_IN)
        ):
            burn_in *= 4
            continue
        break
    good = keep(first)
    if not int(inputs.schedule.num_adapt_rounds):
        inputs = inputs._replace(schedule=_shortened(s, good, inputs.schedule))
    estimator = choose_estimator(fit_control(good), s.num_draws)
    return Tuned(_with_reference(inputs, good), estimator, _rhat_of_starts(first, second))


def _share_scale(
    runner: Runner, plan: Plan, inputs: Inputs, first: Summary
) -> tuple[Inputs, Summary, Summary] | None:
    """Try the pilots' mean variance as everyone's scale in place of adaptation, dataset by dataset.

    Posteriors of one population are alike, and adaptation is most of a dataset's steps. None
    unless chains move as well as the adapted ones did. They start from that scale too, and need
    less burn-in than adapted chains, whose first steps are in a guessed one.
    """
    s, good = runner.settings, keep(first)
    burn_in = DEFAULT_BURN_IN if s.num_warmup is None else s.num_warmup
    scale = jnp.asarray(np.sqrt(np.mean(good.var_u, axis=0)), inputs.start.dtype)
    tuning = (float(inputs.schedule.tuning.step_size), int(inputs.schedule.tuning.num_inner))
    shared = inputs._replace(schedule=make_schedule(tuning, burn_in, 0), scale=scale)
    one, two = _run_pilots(runner, plan, shared)
    found = keep(one)
    if found.kl_direct.shape[0] < good.kl_direct.shape[0] or one.is_stuck.any():
        return None
    adapted, pooled = (pool(x.spread, s.num_chains, s.num_samples) for x in (good, found))
    is_moving = float(np.mean(found.accept_prob)) >= LOW_ACCEPT and not is_drifting(pooled)
    if not is_moving or pooled.ess_min < LEAST_ESS_SHARE * adapted.ess_min:
        return None
    least = max(LEAST_ESS_SHARED * s.num_draws, LEAST_ESS_PER_CHAIN * s.num_chains)
    if pooled.ess_min < least and s.num_warmup is None:
        shared = shared._replace(schedule=make_schedule(tuning, 4 * burn_in, 0))
    return shared, one, two


def _shortened(settings: Settings, good: Summary, schedule: Schedule) -> Schedule:
    """Schedule of the main run: less of everything where the Gaussian fit is nearly exact.

    There HMC follows it without error, so that few steps make a quarter orbit, and chains start
    from nearly the posterior itself.
    """
    kernel = settings.kernel
    if not (isinstance(kernel, HMC) and kernel.integrator == "split" and len(good.kl_direct)):
        return schedule
    accept, burn_in = float(np.mean(good.accept_prob)), int(schedule.num_burn_in)
    size, count = float(schedule.tuning.step_size), int(schedule.tuning.num_inner)
    for least, share, shorter in SHORTENED:
        if accept > least:
            if kernel.num_leapfrog is None and kernel.step_size is None:
                fewer = math.ceil(share * count)
                size, count = size * count / fewer, fewer
            if settings.num_warmup is None and burn_in <= DEFAULT_BURN_IN:
                burn_in = shorter
            break
    return make_schedule((size, count), burn_in, 0)


def _first_inputs(gamma: float, zeros: Float[Array, " dim"], schedule: Schedule) -> Inputs:
    return Inputs(
        gamma=jnp.asarray(gamma, zeros.dtype),
        schedule=schedule,
        num_pairs=jnp.zeros((), jnp.int32),
        start=zeros,
        is_dispersed=jnp.asarray(True),
        reference=zeros,
        optimum=jnp.full_like(zeros, jnp.nan),
        proposal_scale=jnp.ones_like(zeros),
        scale=jnp.full_like(zeros, jnp.nan),
        anchor=zeros,
    )


def _with_reference(inputs: Inputs, good: Summary) -> Inputs:
    """Put the pilots' mean parameter in: the control variate, and where mode searches start.

    Also how wide the posteriors are in whitened coordinates; a Gaussian somewhat wider than they
    are keeps the ratio of the densities bounded.
    """
    reference, width = np.zeros(inputs.start.shape), np.ones(inputs.start.shape)
    if good.mean_u.shape[0] and np.isfinite(good.mean_u).all():
        reference = np.mean(good.mean_u, axis=0)
        width = np.sqrt(np.mean(good.square_v, axis=0)) * (1.0 + WIDENING / np.sqrt(width.size))
    dtype = inputs.start.dtype
    point, scale = jnp.asarray(reference, dtype), jnp.asarray(np.clip(width, 0.2, 5.0), dtype)
    return inputs._replace(
        start=point, is_dispersed=jnp.asarray(False), reference=point, proposal_scale=scale
    )


def _tune_grid(runner: Runner, plan: Plan, inputs: Inputs) -> Tuned:
    """Exact posteriors need no tuning, only a control variate; their KL is a sum."""
    first, _ = _run_pilots(runner, plan, inputs)
    return Tuned(_with_reference(inputs, keep(first)), estimator="one-sided", rhat_starts=1.0)


def num_pilots(settings: Settings) -> int:
    """How many datasets settings are tuned on."""
    return NUM_PILOTS if settings.posterior.dim <= MAX_LAPLACE_DIM else NUM_PILOTS_HIGH_DIM


def run_pilots(runner: Runner, plan: Plan, inputs: Inputs, total: int) -> Summary:
    """Run the pilot datasets, and over again from other starts, ``total`` in all."""
    s, count = runner.settings, num_pilots(runner.settings)
    roots = jax.random.split(jax.random.fold_in(s.key, 1), 2)
    blocks = range(0, total, s.block_size)
    jobs = [Job(first, roots, first, plan, inputs, period=count) for first in blocks]
    # The sweep searches for the best parameter beside the first of them.
    done = {job.tag: summary for job, (summary, _) in runner.run(jobs, num_beside=1)}
    return concatenate([done[first] for first in blocks], total)


def _run_pilots(runner: Runner, plan: Plan, inputs: Inputs) -> tuple[Summary, Summary]:
    """Run the same pilot datasets twice, from two sets of overdispersed starts."""
    count = num_pilots(runner.settings)
    both = run_pilots(runner, plan, inputs, 2 * count)
    return jax.tree.map(lambda a: a[:count], both), jax.tree.map(lambda a: a[count:], both)


def _refuse_improper(summary: Summary, gamma: float) -> None:
    share = float(np.mean(summary.is_improper))
    if share > 0.5:
        raise ImproperPosteriorError(
            f"posterior: improper at gamma={gamma:g} for {share:.0%} of pilot datasets (it does "
            "not decay along some direction); use a proper prior, a bounded support, more data "
            "or a larger gamma."
        )


def _rhat_of_starts(first: Summary, second: Summary) -> float:
    """R-hat of two runs on the same datasets, pooled over datasets; worst coordinate."""
    both = kept_datasets(first) & kept_datasets(second)
    if both.sum() < 4:
        return float("nan")  # the failures themselves are reported
    gap = (first.mean_u - second.mean_u)[both].astype(np.float64)
    within = 0.5 * (first.var_u + second.var_u)[both].astype(np.float64).mean(axis=0)
    between = 0.5 * (gap**2).mean(axis=0)
    return float(np.sqrt(1.0 + between / (within + np.finfo(np.float32).tiny)).max())
