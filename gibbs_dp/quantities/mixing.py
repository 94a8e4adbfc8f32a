"""Whether chains are where they should be: R-hat, effective draws, acceptance, virial, drift."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gibbs_dp.engine.health import is_drifting
from gibbs_dp.engine.quantity import Column, Quantity, Row
from gibbs_dp.engine.result import Result
from gibbs_dp.engine.view import View
from gibbs_dp.estimators import average

R_HAT_STARTS_LIMIT = 1.1
# Effective draws per dataset below which the chains' starts may still show.
ESS_LIMIT = 8.0
# Cells of posteriors that are not Gaussian spread unequally: a tenth may exceed in health.
EXCEED_LIMIT = 0.15
ACCEPT_LIMIT = 0.4
# The virial identity's: significant, and larger than what a burn-in may leave.
VIRIAL_Z = 4.0
VIRIAL_SIZE = 0.02


class MixingValues(NamedTuple):
    """Of each dataset: the mean of ``v . grad U(v)`` over the dimension, 1 for exact draws."""

    virial: Float[Array, "*b"]


@dataclass(frozen=True)
class Mixing(Quantity):
    """Convergence of the chains, pooled over datasets."""

    name = "mixing"
    Values = MixingValues
    columns = (
        Column(
            "r_hat",
            "Gelman and Rubin's R-hat of the worst whitened coordinate, its variances averaged "
            "over datasets: 1 for chains that agree.",
            title="R-hat",
        ),
        Column(
            "r_hat_exceed",
            "Share of (dataset, coordinate) cells whose chains disagree beyond the 99% quantile of "
            "independent draws: about 0.01 when all datasets mix alike.",
        ),
        Column(
            "ess_min",
            "Effective draws per dataset in the worst coordinate; of an exact sum, the fewest "
            "effective points of a dataset.",
            title="ESS",
        ),
        Column(
            "virial",
            "Mean of (theta - center) . grad U over the dimension: 1 for exact draws of a smooth "
            "posterior.",
        ),
        Column("accept_rate", "Mean Metropolis acceptance probability.", title="accept"),
    )

    def per_dataset(self, view: View) -> MixingValues:
        """Average over the chains of one dataset."""
        return MixingValues(jnp.mean(view.draws.virial) / view.posterior.dim)

    def finish(self, result: Result, row: Row) -> tuple[Row, list[str]]:
        """Diagnostics, and what they say."""
        if result.settings.is_exact:
            return {}, []
        pooled, good = result.pooled, result.good
        virial = average(np.asarray(good.values.mixing.virial, np.float64))
        more: Row = {
            "r_hat": pooled.r_hat,
            "r_hat_exceed": pooled.r_hat_exceed,
            "ess_min": pooled.ess_min,
            "virial": virial.value,
            "virial_se": virial.se,
        }
        if result.settings.sampler.traits.is_adjusted:
            more["accept_rate"] = float(np.mean(good.health.accept_prob))
        return more, _warnings(result, more)


def _warnings(result: Result, row: Row) -> list[str]:
    found, pooled, tuned = [], result.pooled, result.tuned
    if tuned.r_hat_starts > R_HAT_STARTS_LIMIT:
        found.append(
            "chains started elsewhere reach different answers (R-hat between starts "
            f"{tuned.r_hat_starts:.2f}): several modes, or a mode search that fails; do not trust "
            "this row."
        )
    if is_drifting(pooled):
        found.append(
            f"the chains still drift (first against second half: {pooled.drift_z:.0f} standard "
            f"errors, {pooled.drift_size:.2f} posterior standard deviations); raise num_warmup."
        )
    if pooled.ess_min < ESS_LIMIT:
        found.append(
            f"chains mix slowly (pooled R-hat {pooled.r_hat:.3f}, {pooled.ess_min:.1f} effective "
            "draws per dataset); raise num_samples or use another kernel."
        )
    if pooled.r_hat_exceed > EXCEED_LIMIT:
        found.append(
            f"{pooled.r_hat_exceed:.0%} of (dataset, coordinate) cells mix worse than their peers "
            "(1% expected): some datasets have chains that disagree."
        )
    if row.get("accept_rate", 1.0) < ACCEPT_LIMIT:
        found.append(
            f"only {row['accept_rate']:.0%} of proposals were accepted; lower the step size."
        )
    if abs(row["virial"] - 1.0) > max(VIRIAL_SIZE, VIRIAL_Z * row["virial_se"]):
        found.append(
            f"the mean of (theta - center) . grad U is {row['virial']:.3f} of the dimension "
            f"(standard error {row['virial_se']:.3f}) and 1 for exact draws: the draws are not "
            "from the posterior (or its density jumps, which this check does not allow for)."
        )
    return found
