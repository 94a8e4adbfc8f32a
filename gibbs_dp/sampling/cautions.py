"""What the draws of one posterior may be warned of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from gibbs_dp._cautions import Caution, Warned

RHAT_LIMIT = 1.01
ESS_LIMIT = 100.0
INFLATION_LIMIT = 0.05

STUCK_CHAINS = Caution(
    "stuck-chains",
    "{stuck} of {total} chains never moved; lower step_size or reparametrize.",
    "Every proposal of these chains was refused: they show one point again and again.",
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
R_HAT = Caution(
    "r-hat",
    "R-hat reaches {worst:.3f}: the chains disagree (several modes, or too short); raise "
    "num_warmup and num_samples, or do not trust them.",
    "Chains of one posterior have not mixed with each other. Above 1.01 ArviZ and Stan warn too.",
    "Raise num_warmup and num_samples. Where R-hat stays above 1.1, chains sit in different modes.",
)
FEW_EFFECTIVE_DRAWS = Caution(
    "few-effective-draws",
    "only {fewest:.0f} effective draws in some coordinate; raise num_samples.",
    "Means and quantiles of that coordinate are as noisy as those of so few independent draws.",
    "Raise num_samples.",
)


def judge(
    is_stuck: Bool[np.ndarray, "*batch chain"],
    log_density: Float[np.ndarray, "*batch chain draw"],
    inflation: float | None,
    rows: Sequence[dict[str, Any]],
) -> tuple[Warned, ...]:
    """Warn of chains, and of what describes their coordinates.

    Parameters
    ----------
    is_stuck
        Chains that never moved.
    log_density
        Of every draw.
    inflation
        Estimated relative excess of the variance, if known.
    rows
        Effective draws ``ess`` and ``r_hat`` of coordinates.

    Returns
    -------
    tuple
        Sentences; empty if there is nothing to say.
    """
    found = []
    if is_stuck.any():
        found.append(STUCK_CHAINS(stuck=int(is_stuck.sum()), total=is_stuck.size))
    lost = ~np.isfinite(log_density).all(axis=-1)
    if lost.any():
        found.append(DIVERGED_CHAINS(lost=int(lost.sum()), total=lost.size))
    if inflation is not None and not inflation <= INFLATION_LIMIT:
        found.append(BIASED_STEPS(share=inflation))
    worst = float(np.fmax.reduce([row["r_hat"] for row in rows]))
    if not worst <= RHAT_LIMIT:
        found.append(R_HAT(worst=worst))
    fewest = float(np.fmin.reduce([row["ess"] for row in rows]))
    if not fewest >= ESS_LIMIT:
        found.append(FEW_EFFECTIVE_DRAWS(fewest=fewest))
    return tuple(found)
