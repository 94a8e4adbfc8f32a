"""What the draws of one posterior may be warned of."""

from __future__ import annotations

from gibbs_dp._cautions import Caution

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
