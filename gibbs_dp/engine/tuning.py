"""Tuning on pilot datasets: burn-in, adaptation, control variate and estimator for one gamma."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gibbs_dp.engine.health import believed, is_believed, is_drifting, is_slow
from gibbs_dp.engine.look import find_modes
from gibbs_dp.engine.pilots import run_pilots_twice
from gibbs_dp.engine.plan import Inputs, Plan, Tuned
from gibbs_dp.engine.settings import Settings
from gibbs_dp.engine.summary import Summary
from gibbs_dp.engine.symmetry import find_symmetry, laid_on
from gibbs_dp.engine.together import Runs
from gibbs_dp.engine.track import fitted
from gibbs_dp.sampling.diagnostics import pool
from gibbs_dp.sampling.errors import ImproperPosteriorError
from gibbs_dp.sampling.modes import NOT_LOOKED_FOR
from gibbs_dp.sampling.schedule import Schedule, make_schedule

DEFAULT_BURN_IN = 16
MAX_BURN_IN = 1024
ADAPT_ROUNDS = 6
MAX_ATTEMPTS = 6
# Effective draws with a scale shared by all datasets, over those with one adapted to each.
LEAST_ESS_SHARE = 0.8
# Effective draws over draws, and a chain, of such chains, above which 16 steps of burn-in do: they
# start as wide as posteriors are, and of that start 16 draws leave 0.2% if each is 2/3 of the last.
LEAST_ESS_SHARED, LEAST_ESS_PER_CHAIN = 0.2, 1.5
# From here on, starts that differ may be the same under other names.
R_HAT_OF_NAMES = 1.05
# In one coordinate the proposal is 30% wider than the draws; in many it cannot afford to be.
WIDENING = 0.3


def tune(runner: Runs, gamma: float, plan: Plan, guess: Inputs | None) -> Tuned:
    """Run pilots at one gamma until they agree, starting from a neighbouring gamma's settings.

    Raises
    ------
    ImproperPosteriorError
        If more than half of the pilots have an improper posterior.
    """
    s = runner.settings
    dim, dtype = s.posterior.dim, jnp.zeros(()).dtype
    burn_in = DEFAULT_BURN_IN if s.num_warmup is None else s.num_warmup
    tuning, rounds = s.sampler.default_tuning(dim), 0
    if guess is not None and not s.is_exact:
        previous, longest, rounds = guess.schedule.on_host
        if previous[0] * previous[1] < 0.99 * tuning[0] * tuning[1]:
            tuning = previous  # a neighbour's chains had to go slower
        burn_in = max(burn_in, longest)
    zeros = jnp.zeros((dim,), dtype)
    if s.is_exact:
        return _tune_grid(runner, plan, first_inputs(gamma, zeros, make_schedule((1.0, 1), 0, 0)))
    can_adapt = s.sampler.traits.is_adjusted
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
        if good.size < 4:
            break  # the main run counts and reports the failures
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
            or (is_slow(pooled, s.num_draws) and burn_in <= DEFAULT_BURN_IN)
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
    return leading.choose(getattr(fitted(settings, pilots).values, leading.name), settings)


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
    least = max(LEAST_ESS_SHARED * s.num_draws, LEAST_ESS_PER_CHAIN * s.num_chains)
    if pooled.ess_min < least and s.num_warmup is None:
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
    if settings.num_warmup is None and burn_in <= DEFAULT_BURN_IN:
        burn_in = shorter
    return make_schedule(tuning, burn_in, 0)


def first_inputs(gamma: float, zeros: Float[Array, " dim"], schedule: Schedule) -> Inputs:
    """Make inputs of the first pilots of a gamma, which know nothing yet."""
    return Inputs(
        gamma=jnp.asarray(gamma, zeros.dtype),
        schedule=schedule,
        num_pairs=jnp.zeros((), jnp.int32),
        start=zeros,
        is_dispersed=jnp.asarray(True),
        spread=zeros,
        reference=zeros,
        optimum=jnp.full_like(zeros, jnp.nan),
        proposal_scale=jnp.ones_like(zeros),
        scale=jnp.full_like(zeros, jnp.nan),
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
    point, scale = jnp.asarray(reference, dtype), jnp.asarray(np.clip(width, 0.2, 5.0), dtype)
    return inputs._replace(
        start=point, is_dispersed=jnp.asarray(False), reference=point, proposal_scale=scale
    )


def _tune_grid(runner: Runs, plan: Plan, inputs: Inputs) -> Tuned:
    """Exact posteriors need no tuning, only a control variate; their KL is a sum."""
    first, _ = run_pilots_twice(runner, plan, inputs)
    good = believed(first)
    settled = with_reference(inputs, good)
    return Tuned(settled, chosen(runner.settings, good), r_hat_starts=1.0, modes=NOT_LOOKED_FOR)


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
