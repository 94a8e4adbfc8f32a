"""Which datasets count, and whether their chains are stuck, slow or drifting."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool

from gibbs_dp._cautions import Caution
from gibbs_dp.engine.summary import Summary
from gibbs_dp.sampling.diagnostics import Pooled

DRIFT_Z = 4.0
DRIFT_SIZE = 0.02
# Effective draws over draws: below it 16 steps of burn-in left 2% of bias on a box.
LEAST_ESS = 0.5
# Of the acceptance below which tuning looks for shorter steps: below it readers are told.
LOW_ACCEPT_SHARE = 0.8

DRIFTING = Caution(
    "drifting-chains",
    "the chains still drift (first against second half: {z:.0f} standard errors, {size:.2f} "
    "posterior standard deviations); raise num_warmup.",
    "Averaged over all datasets, which makes this test very sensitive, the first half of the draws "
    "differs from the second: the chains had not arrived when sampling began, and the numbers are "
    "biased towards where they started.",
    "Raise num_warmup, twofold at a time. If it stays, the posterior has directions that mix very "
    "slowly: rescale the parameters, or use another kernel.",
)
LOW_ACCEPTANCE = Caution(
    "low-acceptance",
    "only {accept:.0%} of proposals were accepted; lower the step size.",
    "Most proposals were refused, so that few draws differ from the ones before them.",
    "Give the kernel a smaller step_size. Jumps in the loss, as in 0/1 losses, make gradients "
    "useless; smooth it, or use gdp.Grid for one to three parameters.",
)


def is_believed(summary: Summary) -> Bool[np.ndarray, " datasets"]:
    """Datasets whose chains can be believed: finite, moving, with a proper posterior.

    What is estimated from them may fail on its own, and is then left out on its own: an estimate
    that is not reported has no say in which datasets those are that do count.
    """
    health = summary.health
    return np.asarray(health.is_finite) & ~health.is_stuck & ~health.is_improper


def believed(summary: Summary) -> Summary:
    """Drop the datasets that failed."""
    return summary.only(is_believed(summary))


def why_failed(summary: Summary, is_good: Bool[np.ndarray, " datasets"]) -> str:
    """Count the reasons for which datasets are left out."""
    health = summary.health
    improper = int(np.sum(health.is_improper))
    stuck = int(np.sum(health.is_stuck & ~health.is_improper))
    other = int(np.sum(~is_good)) - improper - stuck
    parts = [f"{improper} improper"] * (improper > 0) + [f"{stuck} stuck chains"] * (stuck > 0)
    return ", ".join(parts + [f"{other} not finite"] * (other > 0))


def is_drifting(pooled: Pooled) -> bool:
    """Whether the first half of the draws differs from the second, visibly and significantly."""
    return pooled.drift_z > DRIFT_Z and pooled.drift_size > DRIFT_SIZE


def is_slow(pooled: Pooled, num_draws: int) -> bool:
    """Whether chains forget so slowly that a short burn-in leaves a drift too small to see here."""
    return pooled.ess_min < LEAST_ESS * num_draws
