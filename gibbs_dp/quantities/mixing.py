"""How far draws can be believed: of chains, of sums on a grid, of kernels that are not adjusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gibbs_dp._cautions import REFUSE, Caution, Warned
from gibbs_dp.engine.plan import AuditSpec
from gibbs_dp.engine.quantity import Quantity, Row
from gibbs_dp.engine.view import LOW_ACCEPT_SHARE, GammaResult, View, is_drifting
from gibbs_dp.estimators import average, students
from gibbs_dp.results.table import Column
from gibbs_dp.sampling.grid import LEAST_POINTS
from gibbs_dp.sampling.modes import warn_of

# Whether chains are where they should be: R-hat, effective draws, acceptance, virial, drift.

R_HAT_STARTS_LIMIT = 1.1
# Effective draws per dataset below which the chains' starts may still show.
ESS_LIMIT = 8.0
# Cells of posteriors that are not Gaussian spread unequally: a tenth may exceed in health.
EXCEED_LIMIT = 0.15
# The virial identity's: significant, and larger than what a burn-in may leave.
VIRIAL_Z = 4.0
VIRIAL_SIZE = 0.02
# Share of particles that count after a step, and of the datasets on which it may be smaller.
LEAST_PATH_ESS, MOST_POOR = 0.05, 0.01

STARTS_DISAGREE = Caution(
    "starts-disagree",
    "chains started elsewhere reach different answers (R-hat between starts {r_hat:.2f}): several "
    "modes, or a mode search that fails; do not trust this row.",
    "On pilot datasets, chains that started far from the mode did not end where those that "
    "started at it did. The posterior probably has several modes, and the engine samples one.",
    "Do not use the row. In a hierarchical model, non-centre the sites whose scale is sampled "
    "(NumPyro: handlers.reparam with LocScaleReparam(0)), whose density grows without bound. "
    "Remove symmetries of the model (label switching), give a prior that prefers one mode, use "
    "gdp.Grid for one to three parameters, or look at smaller gammas, whose "
    "posteriors are smoother.",
    verdict=REFUSE,
)
SLOW_MIXING = Caution(
    "slow-mixing",
    "chains mix slowly (pooled R-hat {r_hat:.3f}, {ess:.1f} effective draws per dataset); raise "
    "num_samples or use another kernel.",
    "So few of the draws are independent that where chains started may still show.",
    "Raise num_samples; use gdp.HMC() where another kernel was chosen; rescale parameters whose "
    "sizes differ by orders of magnitude; non-centre hierarchical models.",
    verdict=REFUSE,
)
UNEVEN_MIXING = Caution(
    "uneven-mixing",
    "{share:.0%} of (dataset, coordinate) cells mix worse than their peers (1% expected): some "
    "datasets have chains that disagree.",
    "Averages over datasets look healthy, but on some datasets the chains of one posterior "
    "disagree with each other: several modes on these, or a few hard datasets.",
    "Raise num_warmup and num_samples; if the share stays, look at such a posterior with "
    "gdp.sample and its R-hat.",
)
DRIFTING = Caution(
    "drifting-chains",
    "the chains still drift (first against second half: {z:.0f} standard errors, {size:.2f} "
    "posterior standard deviations); raise num_warmup.",
    "Averaged over all datasets, which makes this test very sensitive, the first half of the draws "
    "differs from the second: the chains had not arrived when sampling began, and the numbers are "
    "biased towards where they started.",
    "Raise num_warmup, twofold at a time. If it stays, the posterior has directions that mix very "
    "slowly: rescale the parameters, or use another kernel.",
    verdict=REFUSE,
)
LOW_ACCEPTANCE = Caution(
    "low-acceptance",
    "only {accept:.0%} of proposals were accepted; lower the step size.",
    "Most proposals were refused, so that few draws differ from the ones before them.",
    "Give the kernel a smaller step_size. Jumps in the loss, as in 0/1 losses, make gradients "
    "useless; smooth it, or use gdp.Grid for one to three parameters.",
)
VIRIAL = Caution(
    "virial",
    "the mean of (theta - center) . grad U is {value:.3f} of the dimension (standard error "
    "{se:.3f}) and 1 for exact draws: the draws are not from the posterior (or its density jumps, "
    "which this check does not allow for).",
    "An identity that holds for draws of every smooth density does not hold for these: they are "
    "too wide (above 1) or too narrow (below 1), or gradients are not those of the loss.",
    "Raise num_warmup; lower the step size of kernels without an acceptance step. A loss that "
    "jumps, or whose gradient is not its own (stop_gradient, rounding), breaks the identity too.",
    verdict=REFUSE,
)


PATHS_DISAGREE = Caution(
    "paths-disagree",
    "two runs of SMC on the same pilots reach different answers (R-hat between them {r_hat:.2f}): "
    "modes are found by some particles and lost by others; raise SMC's num_particles.",
    "On pilot datasets, particles were run twice along the same path. Where the two runs differ by "
    "as much as this, masses of modes, or whether a mode is there at all, are left to chance.",
    "Raise num_particles, as in sampler=gdp.SMC(num_particles=1024), and least_ess; look at "
    "smaller gammas; give a prior that is less wide.",
    verdict=REFUSE,
)
FEW_PARTICLES = Caution(
    "few-particles",
    "SMC's islands differ so much that a dataset's particles are worth {ess:.1f} independent "
    "draws; raise SMC's num_particles.",
    "Islands of particles that never met tell different stories on each dataset: masses of modes "
    "are as noisy as so few counts.",
    "Raise num_particles, as in sampler=gdp.SMC(num_particles=1024).",
)
POOR_PATH = Caution(
    "poor-path",
    "on {share:.0%} of the datasets less than {least:.0%} of SMC's particles counted after some "
    "step of the path: it was found on pilots that are unlike these; raise SMC's least_ess.",
    "The steps of the path were frozen on pilot datasets. On these datasets one of them was too "
    "long: few particles carried nearly all of the weight, and modes may have been lost there.",
    "Raise least_ess, as in sampler=gdp.SMC(least_ess=0.8), for shorter steps, and num_particles.",
)


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

    def finish(self, result: GammaResult, row: Row) -> tuple[Row, list[Warned]]:
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


def _warnings(result: GammaResult, row: Row) -> list[Warned]:
    found: list[Warned] = []
    pooled, tuned = result.pooled, result.tuned
    most = students(VIRIAL_Z, int(result.is_good.sum()))
    is_off = abs(row["virial"] - 1.0) > max(VIRIAL_SIZE, most * row["virial_se"])
    if result.settings.sampler.traits.is_path:
        found += _path_warnings(result)
        return [*found, VIRIAL(value=row["virial"], se=row["virial_se"])] if is_off else found
    if tuned.r_hat_starts > R_HAT_STARTS_LIMIT:
        found.append(STARTS_DISAGREE(r_hat=tuned.r_hat_starts))
    found += warn_of(tuned.modes)
    if is_drifting(pooled):
        found.append(DRIFTING(z=pooled.drift_z, size=pooled.drift_size))
    if pooled.ess_min < ESS_LIMIT:
        found.append(SLOW_MIXING(r_hat=pooled.r_hat, ess=pooled.ess_min))
    if pooled.r_hat_exceed > EXCEED_LIMIT:
        found.append(UNEVEN_MIXING(share=pooled.r_hat_exceed))
    if row.get("accept_rate", 1.0) < LOW_ACCEPT_SHARE * result.settings.sampler.least_accept:
        found.append(LOW_ACCEPTANCE(accept=row["accept_rate"]))
    if is_off:
        found.append(VIRIAL(value=row["virial"], se=row["virial_se"]))
    return found


def _path_warnings(result: GammaResult) -> list[Warned]:
    """Warn of particles, which no burn-in or step size of a user's is to blame for."""
    found: list[Warned] = []
    if result.tuned.r_hat_starts > R_HAT_STARTS_LIMIT:
        found.append(PATHS_DISAGREE(r_hat=result.tuned.r_hat_starts))
    if result.pooled.ess_min < ESS_LIMIT:
        found.append(FEW_PARTICLES(ess=result.pooled.ess_min))
    poor = float(np.mean(result.good.health.worst_ess < LEAST_PATH_ESS))
    if poor > MOST_POOR:
        found.append(POOR_PATH(share=poor, least=LEAST_PATH_ESS))
    return found


# Whether a lattice is wide and fine enough for the posterior that it stands for.

# Weight of a lattice's rim beyond which the lattice shows.
EDGE_LIMIT = 1e-3

TOO_NARROW = Caution(
    "lattice-too-narrow",
    "the posterior reaches the lattice's rim (weight {edge:.2g} there), where the prior does not "
    "end; widen Grid(low, high), or sample with gibbs_dp.HMC().",
    "The lattice ends where the posterior still has weight, and cuts it off.",
    "Widen Grid(low, high), with more num_points; of a Line, whose ends are 40 posterior standard "
    "deviations away, tails are too heavy: give gdp.HMC().",
)
TOO_COARSE = Caution(
    "lattice-too-coarse",
    "a posterior lies on only {points:.1f} lattice points; raise Grid(num_points), or "
    "Line(num_nodes).",
    "The posterior of some dataset is narrower than a few cells of the grid, so that the sum over "
    "the grid is another posterior than the one that it stands for.",
    "Raise Grid(num_points) or Line(num_nodes), or narrow Grid(low, high).",
    verdict=REFUSE,
)


class LatticeValues(NamedTuple):
    """Of each dataset: one over the sum of squared weights, and the weight of the rim."""

    effective_points: Float[Array, "*b"]
    edge_weight: Float[Array, "*b"]


@dataclass(frozen=True)
class Lattice(Quantity):
    """Effective points of exact sums; its column ``ess_min`` is that of chains' draws too."""

    name = "lattice"
    Values = LatticeValues

    def per_dataset(self, view: View) -> LatticeValues:
        """Of a grid, or of a chain."""
        weight = view.draws.weight
        effective = 1.0 / jnp.mean(jnp.sum(weight**2, axis=1))
        return LatticeValues(effective, view.draws.edge_weight)

    def finish(self, result: GammaResult, row: Row) -> tuple[Row, list[Warned]]:
        """Say where the lattice is too narrow or too coarse."""
        traits, values = result.settings.sampler.traits, result.good.values.lattice
        if not traits.is_exact:
            return {}, []
        fewest, edge = float(np.min(values.effective_points)), float(np.max(values.edge_weight))
        found = []
        if traits.is_discretized and edge > EDGE_LIMIT:
            found.append(TOO_NARROW(edge=edge))
        if traits.is_discretized and fewest < LEAST_POINTS:
            found.append(TOO_COARSE(points=fewest))
        return {"ess_min": fewest}, found


# The bias of Langevin chains without an acceptance step, as their theory predicts it.


class DiscretizationValues(NamedTuple):
    """Of each dataset: relative excess of the draws' variance, and of their on-average KL."""

    variance: Float[Array, "*b"]
    kl: Float[Array, "*b"]


@dataclass(frozen=True)
class Discretization(Quantity):
    """Inflation by steps that are not corrected; only of samplers that are not adjusted."""

    name = "discretization"
    Values = DiscretizationValues
    columns = (
        Column(
            "variance_inflation",
            "Estimated relative excess of the draws' variance over the posterior's, a mean over "
            "coordinates, of kernels without an acceptance step; no bound.",
        ),
        Column(
            "kl_inflation",
            "Estimated relative excess of a one-sided on_average_kl, of kernels without an "
            "acceptance step; no bound.",
            title="KL infl. (est.)",
        ),
    )

    def per_dataset(self, view: View) -> DiscretizationValues:
        """Take what the sampler says of its draws."""
        return DiscretizationValues(jnp.mean(view.draws.inflation), view.draws.kl_inflation)

    def finish(self, result: GammaResult, row: Row) -> tuple[Row, list[Warned]]:
        """Both columns."""
        if result.settings.sampler.traits.is_adjusted:
            return {}, []
        values = result.good.values.discretization
        more: Row = {}
        for name, inflation in zip(values._fields, values, strict=True):
            excess = average(np.asarray(inflation, np.float64))
            more |= {f"{name}_inflation": excess.value, f"{name}_inflation_se": excess.se}
        return more, []

    def notes(self, settings: AuditSpec, rows: Sequence[Row]) -> list[str]:
        """Say what the draws are not."""
        if settings.sampler.traits.is_adjusted:
            return []
        return [
            "the kernel has no acceptance step, so its draws are not the posterior's: "
            "variance_inflation (a mean over coordinates) and kl_inflation (of a one-sided "
            "on_average_kl) estimate their relative excess from a linear chain around the draws; "
            "they are no bounds."
        ]
