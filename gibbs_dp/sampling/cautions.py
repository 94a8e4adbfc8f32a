"""Warnings about the draws of one posterior, and one verdict on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy import special

from gibbs_dp._cautions import Caution, Warned, names_of
from gibbs_dp.sampling.modes import (
    NESTED_SCALES,
    NOT_LOOKED_FOR,
    SEVERAL_MODES,
    Modes,
    searched_for,
    warn_of,
)
from gibbs_dp.sampling.target import HEAVY

RHAT_LIMIT = 1.01
ESS_LIMIT = 100.0
INFLATION_LIMIT = 0.05
# R-hat between islands of particles: with 1.1, a sixth of a draw's variance is its island's.
ISLANDS_LIMIT = 1.1
# Independent draws that particles are worth, by the islands' means: with 50, masses of modes are
# off by 7%. Eight islands tell it to a factor of two: 256 independent particles pass.
ISLANDS_ESS = 50.0
# Nats: with 0.4 the sd of a Poisson model's log rate was 5% too small, with 1.4 it was 20%.
ROUNDING_LIMIT = 0.3
AT_ENDS_LIMIT = 0.005

STUCK_CHAINS = Caution(
    "stuck-chains",
    "{stuck} of {total} chains never moved; lower step_size or reparametrize.",
    "Every proposal of these chains, or of one of those that a chain of AdaptiveHMC consists of, "
    "was refused: they show one point again and again.",
    "Lower step_size, scale parameters alike, or start elsewhere with init=.",
)
DIVERGED_CHAINS = Caution(
    "diverged-chains",
    "{lost} of {total} chains diverged; lower the step size.",
    "The density of these chains' draws is not a finite number: steps were so long that they ran "
    "away. This happens to kernels without an acceptance step.",
    "Lower the step size, use float64, or use HMC.",
)
BIASED_STEPS = Caution(
    "biased-steps",
    "without an acceptance step the draws' variance is too large by an estimated {share:.1%}; "
    "lower the step size or raise the batch size, or use HMC.",
    "ULA and SGLD sample a wider distribution than the posterior, the more so the longer their "
    "steps and the smaller their batches. The share is an estimate and no bound.",
    "Lower the step size, raise the batch size, use control_variate=True, or use HMC.",
)
STEP_BIAS = Caution(
    "step-bias",
    "beside half the step, this one puts a kept number's mean or sd off by {share:.2f} sd; "
    "halve step_size or double batch_size, and look again.",
    "Chains on minibatches have no acceptance step: to leading order their bias is proportional to "
    "the step, so that twice the difference to half the step tells it. It is an estimate.",
    "Halve step_size, with twice the thinning, or double batch_size.",
)
R_HAT = Caution(
    "r-hat",
    "R-hat reaches {worst:.3f}: the chains disagree (several modes, a funnel, or too short); "
    "{remedy}.",
    "Chains of one posterior have not mixed with each other. Above 1.01 ArviZ and Stan warn too.",
    "Leave sampler= out: AdaptiveHMC, which is right on most funnels and heavy tails, and SMC, for "
    "several modes under a prior that can be drawn from, are then tried in turn. Where they were, "
    "raise num_samples if R-hat is below 1.05; else chains sit in different modes or in a part "
    "that is hard to leave, and a tighter prior or another form of the model is what is left.",
)
ISLANDS_DISAGREE = Caution(
    "islands-disagree",
    "R-hat between the islands of particles reaches {worst:.3f} (above {limit:.3f}): masses of "
    "modes are noisy; raise SMC's num_particles.",
    "Islands of particles that never met tell different stories: masses of modes are as noisy as "
    "counts among the few particles that found them.",
    "Raise num_particles, as in sampler=gdp.SMC(num_particles=4096), or least_ess.",
)
FEW_EFFECTIVE_DRAWS = Caution(
    "few-effective-draws",
    "only {fewest:.0f} effective draws in some coordinate; {remedy}.",
    "Means and quantiles of that coordinate are as noisy as those of so few independent draws.",
    "Raise num_samples; where R-hat is large too, leave sampler= out, so that others are tried. Of "
    "SMC: raise its num_particles.",
)

# What helps, by what was run.
MORE_PARTICLES = "raise SMC's num_particles"
MORE_DRAWS = "raise num_samples or, where R-hat is large too, leave sampler= out"
STRETCHED = "leave sampler= out, or take gdp.AdaptiveHMC(heavy_tails=True)"
LEFT_OUT = "leave sampler= out, and AdaptiveHMC() and SMC() are tried in turn"
ALL_TRIED = "no other sampler did better (see notes): raise num_samples, or change prior or model"
FEW_HAVE_IT = "so few effective draws have this by chance: raise num_samples"
STOPPED = "max_seconds ended the search for another sampler: raise it"
SEE_MODES = "other samplers may miss what a search found without a sign: see the warning of modes"
NO_OTHER = "no other sampler is tried in so many coordinates: raise num_warmup and num_samples"

ROUNDED_LOSSES = Caution(
    "rounded-losses",
    "losses are so large that rounding changes the log density by {nats:.2g} nats from one point "
    "to the next; use double precision, or take a constant off the loss.",
    "A number of single precision has seven digits. Where a loss, times gamma, has six before the "
    "point, its rounding is as large as the differences that proposals are accepted by: draws "
    "stay where rounding is kind to them, and are too narrow.",
    "Compute in double precision (jax.enable_x64, or --float64); leave out of the loss what does "
    "not depend on the parameter, or is the same for all of them; use smaller gammas.",
)

DRAWS_AT_AN_END = Caution(
    "draws-at-an-end",
    "{share:.1%} of a coordinate's draws are as near an end of its support as numbers go: mass "
    "beyond them is lost.",
    "A single-precision number below 1 comes no nearer to it than 6e-8. The posterior's density "
    "grows so fast towards the end that more than a trace of its mass lies nearer still: draws "
    "have the rest.",
    "Put the end at zero, where numbers are closer (one minus the parameter), make the parameter a "
    "logarithm or log-odds, compute in double precision, or use a prior that leaves the end.",
)

HEAVY_TAILS = Caution(
    "heavy-tailed-draws",
    "a hundredth of a coordinate's draws lies {reach:.0f} times as far out as a quarter does (of a "
    "Gaussian: 3.4): chains come to such tails too seldom for R-hat to tell; {remedy}.",
    "Where a density falls as a power of the distance, as Cauchy's does, gradients vanish. Chains "
    "that have not been far out agree with each other, and quantiles and spread are too small. It "
    "is looked for in the coordinates that chains move in (logarithms, of positive numbers).",
    "Leave sampler= out, or take sampler=gdp.AdaptiveHMC(heavy_tails=True), whose coordinates make "
    "such tails light; or a prior with lighter ones.",
)

AUXILIARY_DRIFT = Caution(
    "auxiliary-drift",
    "auxiliary draws still drift after {steps} steps, by {z:.1f} standard errors; raise "
    "num_auxiliary.",
    "Draws of the mechanism's own posterior, which stand for its unknown normalizer, depend on "
    "where they were started: the population's posterior is off by an unknown amount.",
    "Raise num_auxiliary, to four times as many first.",
)

CAUTIONS = (
    R_HAT,
    ISLANDS_DISAGREE,
    FEW_EFFECTIVE_DRAWS,
    STUCK_CHAINS,
    DIVERGED_CHAINS,
    BIASED_STEPS,
    STEP_BIAS,
    ROUNDED_LOSSES,
    DRAWS_AT_AN_END,
    HEAVY_TAILS,
    AUXILIARY_DRIFT,
    SEVERAL_MODES,
    NESTED_SCALES,
)
"""All that draws may be warned of."""


def judge(
    is_stuck: Bool[np.ndarray, "*batch chain"],
    log_density: Float[np.ndarray, "*batch chain draw"],
    inflation: float | None,
    rows: Sequence[dict[str, Any]],
    modes: Modes = NOT_LOOKED_FOR,
    is_path: bool = False,
    rounding: float = 0.0,
    at_ends: float = 0.0,
    reach: float = 0.0,
    advice: str | None = None,
) -> tuple[Warned, ...]:
    """Warn of chains, and of what describes their coordinates."""
    found = []
    if is_stuck.any():
        found.append(STUCK_CHAINS(stuck=int(is_stuck.sum()), total=is_stuck.size))
    lost = ~np.isfinite(log_density).all(axis=-1)
    if lost.any():
        found.append(DIVERGED_CHAINS(lost=int(lost.sum()), total=lost.size))
    if inflation is not None and not inflation <= INFLATION_LIMIT:
        found.append(BIASED_STEPS(share=inflation))
    found += warn_of(modes)
    if not rounding <= ROUNDING_LIMIT:
        found.append(ROUNDED_LOSSES(nats=rounding))
    if not at_ends <= AT_ENDS_LIMIT:
        found.append(DRAWS_AT_AN_END(share=at_ends))
    if reach > HEAVY:
        found.append(HEAVY_TAILS(reach=reach, remedy=advice or STRETCHED))
    worst = float(np.fmax.reduce([row["r_hat"] for row in rows]))
    if is_path:
        limit = _islands_limit(log_density.shape[-2], log_density.shape[-1], len(rows))
        if not worst <= limit:
            found.append(ISLANDS_DISAGREE(worst=worst, limit=limit))
    elif not worst <= RHAT_LIMIT:
        found.append(R_HAT(worst=worst, remedy=advice or LEFT_OUT))
    fewest = float(np.fmin.reduce([row["ess"] for row in rows]))
    if not fewest >= (ISLANDS_ESS if is_path else ESS_LIMIT):
        remedy = MORE_PARTICLES if is_path else advice or MORE_DRAWS
        found.append(FEW_EFFECTIVE_DRAWS(fewest=fewest, remedy=remedy))
    return tuple(found)


def _islands_limit(num_islands: int, num_each: int, num_coordinates: int) -> float:
    """R-hat that independent draws of islands, each in halves, exceed once in a thousand times."""
    groups, size = 2 * num_islands, max(2, num_each // 2)
    tail = 1.0 - 1e-3 / num_coordinates
    ratio = float(special.fdtri(groups - 1, groups * (size - 1), tail))
    return max(ISLANDS_LIMIT, math.sqrt(1.0 + (ratio - 1.0) / size))


# One verdict on draws: what has been checked, and never more.


def opening(warnings: Sequence[str]) -> str:
    """Begin a verdict: "checked", or "doubtful" with the names of the warnings."""
    names = names_of(warnings)
    return f"doubtful ({', '.join(names)})" if names else "checked"


def verdict_on_draws(
    warnings: Sequence[str], modes: Modes, num_particles: int | None, r_hat: float, ess: float
) -> str:
    """Say what speaks for draws and what against them."""
    tried = searched_for(modes)
    if num_particles is not None:
        tried = f"{num_particles} particles from the prior or a wide normal, weighed and moved"
        worth = f"islands worth {ess:.0f} independent draws"
        return f"{opening(warnings)}: {tried}; {worth}"
    return f"{opening(warnings)}: {tried}; R-hat {r_hat:.3f}; {ess:.0f} effective draws"
