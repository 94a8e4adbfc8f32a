"""Every warning, explained."""

from __future__ import annotations

from gibbs_dp._cautions import Caution
from gibbs_dp.auditing import certificate as certificates
from gibbs_dp.auditing import report_data as report
from gibbs_dp.engine import progress as sweeps
from gibbs_dp.one_dataset import report as one_dataset
from gibbs_dp.quantities import attacker, certified_kl, exposure, mixing, risks, worst_case
from gibbs_dp.quantities import mutual_information as information
from gibbs_dp.quantities import on_average_kl as kl
from gibbs_dp.sampling import calibration, modes
from gibbs_dp.sampling import cautions as draws

CAUTIONS: dict[str, tuple[Caution, ...]] = {
    "Of an audit": (
        report.FAILED_DATASETS,
        kl.ROUTES_DISAGREE,
        mixing.STARTS_DISAGREE,
        report.CHANGED_TO_SMC,
        modes.SEVERAL_MODES,
        modes.NESTED_SCALES,
        sweeps.DRIFTING,
        mixing.SLOW_MIXING,
        mixing.UNEVEN_MIXING,
        sweeps.LOW_ACCEPTANCE,
        mixing.VIRIAL,
        mixing.PATHS_DISAGREE,
        mixing.FEW_PARTICLES,
        mixing.POOR_PATH,
        kl.HEAVY_TAILS,
        kl.BEYOND_SUMS,
        attacker.ATTACK_TOO_WEAK,
        kl.RARE_EXAMPLES,
        kl.SKEWED_DATASETS,
        attacker.RENYI_LOWER_BOUND,
        risks.DOMINANT_DATASET,
        report.PARTLY_UNDEFINED,
        worst_case.OUTSIDE_DOMAIN,
        certified_kl.BEYOND_BOUNDS,
        report.REL_ERROR_MISSED,
        report.INTERRUPTED,
    ),
    "Of mutual information": (
        information.BOUNDS_CROSS,
        information.INFORMATION_CEILING,
        information.INDIVIDUAL_TOO_LARGE,
        information.IDENTITY_BROKEN,
        information.NORMALIZERS_DISAGREE,
        information.POOR_OVERLAP,
        information.NOISY_NORMALIZER,
    ),
    "Of the rows of a table": (exposure.SENSITIVE, exposure.FEW_HOLDERS, exposure.HEAVY_ROWS),
    "Of sums on a grid": (mixing.TOO_NARROW, mixing.TOO_COARSE),
    "Of draws from one posterior": (
        draws.R_HAT,
        draws.ISLANDS_DISAGREE,
        draws.FEW_EFFECTIVE_DRAWS,
        draws.STUCK_CHAINS,
        draws.DIVERGED_CHAINS,
        draws.BIASED_STEPS,
        draws.ROUNDED_LOSSES,
        draws.DRAWS_AT_AN_END,
        draws.HEAVY_TAILS,
        draws.AUXILIARY_DRIFT,
    ),
    "Of a model that is checked by simulation": (
        calibration.RANKS_NOT_UNIFORM,
        calibration.DEPENDENT_RANKS,
    ),
    "Of the audit of one posterior": (
        one_dataset.HIGH_K_HAT,
        one_dataset.CHAINS_DISAGREE,
        one_dataset.FEW_EFFECTIVE,
        one_dataset.ROUTES_DISAGREE,
    ),
    "Of certificates": (certificates.VACUOUS, certificates.NOISY_NORMALIZER),
    "Of gammas found for a purpose": (
        report.MINIMUM_AT_END,
        report.FLAT_CURVE,
        report.NEAR_CERTAINTY,
    ),
    "Of files and of the machine": (sweeps.DAMAGED_STORE, sweeps.OUT_OF_MEMORY),
}
"""Every warning, by what it is about."""


def explain_warnings() -> str:
    """Explain every warning: its sentence, what it means, and what to do.

    >>> print(explain_warnings().splitlines()[0])
    [failed-datasets] ... of ... datasets failed (...); the estimates are conditional on the \
others, which biases them.
    """
    return "\n\n".join(
        f"[{c.name}] {c.example}\n{c.meaning}\nWhat to do: {c.remedy}"
        for cautions in CAUTIONS.values()
        for c in cautions
    )
