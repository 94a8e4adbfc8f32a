"""Mutual information and Corollary 10: columns, and what a reader must know about them."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

from gibbs_dp.engine.asked import Asked
from gibbs_dp.engine.quantity import Row
from gibbs_dp.estimators import Average, Halves, constant, fold_of, halves, least_upper
from gibbs_dp.information import bounds
from gibbs_dp.quantities.mutual_information.information import Information

# Bounds that cross by more than this many standard errors contradict each other.
CROSSING_Z = 3.0
IDENTITY_Z = 4.0
NORMALIZER_Z = 4.0
CEILING_NATS = 1.0
POOR_OVERLAP_SHARE = 0.05
NORMALIZER_SE_LIMIT = 0.2


def information_row(
    settings: Asked,
    row: Row,
    kl: Float[np.ndarray, " datasets"],
    found: Information,
    sigma: tuple[float, str] | None,
) -> tuple[Row, list[str]]:
    """Add the information columns to a row's, and say where they cannot be believed.

    The upper bound is the least of: leave-one-out, variational with a Gaussian or a mixture, ``n``
    times on-average KL (Lemma 9) and ``2 n gamma^2 sigma^2`` (Corollary 10), where each half of
    the datasets measures what the other half found least (``least_upper``). Both bounds are meant
    with their errors: ``lower - 1.96 se`` and ``upper + 1.96 se``.

    Parameters
    ----------
    settings, row
        The audit, and the row so far.
    kl
        On-average KL of every dataset, NaN where it failed.
    found
        Information estimates at the row's gamma.
    sigma
        Subgaussian parameter of the loss and where it comes from.

    Returns
    -------
    Row, list[str]
        The columns, and a sentence for every reason not to believe them.
    """
    n, gamma = settings.n, row["gamma"]
    lower = found.contrast.lower
    replaced = _all_replaced(settings, kl)
    symmetrized = None if replaced is None else replaced.average
    uppers = {
        "leave-one-out": found.contrast.upper,
        "Gaussian marginal": found.gaussian,
        "mixture marginal": found.mixture,
        "all examples replaced": replaced,
    }
    if sigma is not None and gamma > 0 and sigma[0] > 0 and sigma[1] != SEEN:
        limit = bounds.gibbs_mutual_information(n, gamma, sigma=sigma[0])
        uppers["2 n (gamma sigma)^2"] = constant(limit, lower.num_datasets)
    name, upper = least_upper({k: v for k, v in uppers.items() if v is not None})
    columns: Row = {
        "mutual_information_lower": lower.value,
        "mutual_information_lower_se": lower.se,
        "mutual_information_lower_from": "contrastive",
        "mutual_information_upper": upper.value,
        "mutual_information_upper_se": upper.se,
        "mutual_information_upper_from": name,
    }
    columns |= _lautum(found, symmetrized, lower, upper)
    if gamma > 0 and not settings.posterior.structured:
        columns |= _generalization(settings, found, lower, upper, gamma, sigma)
    warnings = _warnings(found, symmetrized, lower, upper)
    return columns, warnings


SEEN = "largest standard deviation seen (no guarantee)"


def _all_replaced(settings: Asked, kl: Float[np.ndarray, " datasets"]) -> Halves | None:
    """``I + lautum`` from the report's on-average KL (Lemmas 6 and 9), where they apply."""
    if settings.posterior.structured and settings.group_size != settings.n:
        return None
    values = kl[np.isfinite(kl)] * (settings.n / settings.group_size)
    return halves(values, fold_of(values.shape[0]))


def _lautum(found: Information, symmetrized: Average | None, lower: Average, upper: Average) -> Row:
    """``I + lautum`` minus the middle of the bounds; the error covers the gap between them."""
    total = found.contrast.symmetrized
    if symmetrized is not None and symmetrized.se < total.se:
        total = symmetrized
    middle, half = 0.5 * (lower.value + upper.value), 0.5 * abs(upper.value - lower.value)
    error = math.sqrt(total.se**2 + max(lower.se, upper.se) ** 2 + half**2)
    return {"lautum_information": total.value - middle, "lautum_information_se": error}


def _generalization(
    settings: Asked,
    found: Information,
    lower: Average,
    upper: Average,
    gamma: float,
    sigma: tuple[float, str] | None,
) -> Row:
    n = settings.n
    out: Row = {
        "generalization_lower": bounds.generalization_lower_from_mutual_information(
            max(lower.value, 0.0), n, gamma
        ),
        "generalization_lower_se": lower.se / (n * gamma),
    }
    individual = found.contrast.individual
    if individual is not None:
        out["individual_information"] = individual.value
        out["individual_information_se"] = individual.se
    if sigma is None or not sigma[0] > 0 or settings.population.is_dependent:
        return out
    scale, origin = sigma
    out |= _root(
        "generalization_upper",
        bounds.generalization_from_mutual_information(max(upper.value, 0.0), n, sigma=scale),
        upper,
    )
    if individual is not None:
        value = bounds.generalization_from_individual_information(
            np.array([max(individual.value, 0.0)]), sigma=scale
        )
        out |= _root("generalization_upper_individual", value, individual)
    return out | {"sigma": scale, "sigma_from": origin}


def _root(name: str, value: float, information: Average) -> Row:
    """Add a bound proportional to the square root of an information, by the delta method."""
    share = information.se / (2.0 * max(information.value, information.se, 1e-300))
    return {name: value, f"{name}_se": value * share}


def _warnings(
    found: Information, symmetrized: Average | None, lower: Average, upper: Average
) -> list[str]:
    out = []
    if lower.value - upper.value > CROSSING_Z * math.hypot(lower.se, upper.se):
        out.append(
            f"the lower bound of mutual information, {lower.value:.3g}, is above the upper one, "
            f"{upper.value:.3g}, by more than their errors allow: draws or normalizers are wrong."
        )
    ceiling = math.log(lower.num_datasets)
    if lower.value > ceiling - CEILING_NATS:
        out.append(
            f"mutual_information_lower {lower.value:.2f} is near its ceiling, log M = "
            f"{ceiling:.2f} nats with M = {lower.num_datasets} datasets; the information may be "
            "far larger: raise num_datasets and num_information."
        )
    total = found.contrast.symmetrized
    if symmetrized is not None:
        error = math.hypot(total.se, symmetrized.se)
        if abs(total.value - symmetrized.value) > IDENTITY_Z * error + 1e-9:
            out.append(
                f"I + lautum from pairs of datasets, {total.value:.3g} (standard error "
                f"{total.se:.2g}), and n on_average_kl / group_size, {symmetrized.value:.3g} "
                f"({symmetrized.se:.2g}), are equal for exact draws and are not."
            )
    gap = found.normalizer_gap
    if gap is not None and abs(gap.value) > NORMALIZER_Z * gap.se + found.normalizer_gap_limit:
        out.append(
            "log normalizers by thermodynamic integration and by bridge sampling differ by "
            f"{gap.value:.3g} nats on average (standard error {gap.se:.2g}, spacing of gammas "
            f"{found.normalizer_gap_limit:.2g}): the mutual information cannot be trusted."
        )
    if found.poor_overlap > POOR_OVERLAP_SHARE:
        out.append(
            f"on {found.poor_overlap:.0%} of the datasets the fitted Gaussian hardly overlaps the "
            "posterior (several modes, or far from Gaussian): bridge sampling, and with it the "
            "mutual information, cannot be trusted."
        )
    elif found.normalizer_se > NORMALIZER_SE_LIMIT:
        out.append(
            f"a dataset's log normalizer is known to {found.normalizer_se:.2g} nats only, which "
            "biases the mutual information; raise num_samples."
        )
    return out
