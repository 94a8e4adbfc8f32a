"""Mutual information and Corollary 10: columns, and what a reader must know about them."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

from gibbs_dp._cautions import Caution, Warned
from gibbs_dp.engine.plan import Asked
from gibbs_dp.engine.quantity import Row
from gibbs_dp.estimators import Average, Halves, constant, fold_of, halves, least_upper
from gibbs_dp.information import bounds
from gibbs_dp.quantities.mutual_information.information import Information
from gibbs_dp.quantities.mutual_information.tables import Tails

# Bounds that cross by more than this many standard errors contradict each other.
CROSSING_Z = 3.0
IDENTITY_Z = 4.0
NORMALIZER_Z = 4.0
CEILING_NATS = 1.0
POOR_OVERLAP_SHARE = 0.05
NORMALIZER_SE_LIMIT = 0.2

BOUNDS_CROSS = Caution(
    "bounds-cross",
    "the lower bound of mutual information, {lower:.3g}, is above the upper one, {upper:.3g}, by "
    "more than their errors allow: draws or normalizers are wrong.",
    "The two bounds contradict each other, which exact draws never make them do.",
    "Raise num_warmup and num_samples; look at the other warnings.",
)
INFORMATION_CEILING = Caution(
    "information-ceiling",
    "mutual_information_lower {lower:.2f} is near its ceiling, log M = {ceiling:.2f} nats with M = "
    "{count} datasets; the information may be far larger: raise num_datasets and num_information.",
    "A comparison among M datasets cannot show more than log M nats. The lower bound is still a "
    "bound, but a loose one.",
    "Raise num_datasets and num_information (cost grows with the square of the latter), or use the "
    "upper bound.",
)
IDENTITY_BROKEN = Caution(
    "identity-broken",
    "I + lautum from pairs of datasets, {pairs:.3g} (standard error {pairs_se:.2g}), and n "
    "on_average_kl / group_size, {replaced:.3g} ({replaced_se:.2g}), are equal for exact draws and "
    "are not.",
    "The sum of mutual and lautum information can be had from whole datasets exchanged and from "
    "single examples replaced (Lemmas 6 and 9); here they differ by more than their errors.",
    "Exchanging whole datasets moves posteriors far, where draws of one hardly visit another: "
    "raise num_samples, or trust on_average_kl and look at smaller gammas.",
)
NORMALIZERS_DISAGREE = Caution(
    "normalizers-disagree",
    "log normalizers by thermodynamic integration and by bridge sampling differ by {gap:.3g} nats "
    "on average (standard error {se:.2g}, spacing of gammas {limit:.2g}): the mutual information "
    "cannot be trusted.",
    "The normalizing constants of the posteriors, which mutual information needs, come out "
    "differently by two routes.",
    "Use a denser grid of gammas, raise num_samples, and look for several modes.",
)
POOR_OVERLAP = Caution(
    "poor-overlap",
    "on {share:.0%} of the datasets the fitted Gaussian hardly overlaps the posterior (several "
    "modes, or far from Gaussian): bridge sampling, and with it the mutual information, cannot be "
    "trusted.",
    "Normalizing constants are found from a Gaussian fitted to the draws; where the posterior is "
    "nothing like it, they are wrong.",
    "Leave mutual information out (MutualInformation(0)), reparametrize, or use gdp.Grid for one "
    "to three parameters.",
)
NOISY_NORMALIZER = Caution(
    "noisy-normalizer",
    "a dataset's log normalizer is known to {se:.2g} nats only, which biases the mutual "
    "information; raise num_samples.",
    "Noise in normalizing constants does not average out: it biases the bounds.",
    "Raise num_samples.",
)
INDIVIDUAL_TOO_LARGE = Caution(
    "individual-too-large",
    "individual_information {value:.3g} (standard error {se:.2g}) is more than independent "
    "examples can have, mutual_information_upper / n = {limit:.3g}: do not use it.",
    "The information about one example of n independent ones is at most that about all of them "
    "over n. What swapping one example does to a posterior is found from its draws, which miss "
    "the points that matter once a swap moves it far. generalization_upper_individual is left out.",
    "Use mutual_information_upper / n in its place, which is a bound; raise num_samples, or look "
    "at smaller gammas.",
)


def information_row(
    settings: Asked,
    row: Row,
    kl: Float[np.ndarray, " datasets"],
    found: Information,
    tails: Tails | None,
) -> tuple[Row, list[Warned]]:
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
    tails
        What is known of the loss's tails.

    Returns
    -------
    Row, list[Warned]
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
    if tails is not None and math.isfinite(limit := tails.information_upper(n, gamma)):
        name = "2 n (gamma sigma)^2" if tails.b is None else "Corollary 10, subexponential"
        uppers[name] = constant(limit, lower.num_datasets)
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
        columns |= _generalization(settings, found, lower, upper, gamma, tails)
    warnings = _warnings(found, symmetrized, lower, upper)
    individual = found.contrast.individual if "individual_information" in columns else None
    if individual is not None and _is_too_large(settings, individual, upper):
        gaps = {"value": individual.value, "se": individual.se, "limit": upper.value / n}
        warnings.append(INDIVIDUAL_TOO_LARGE(**gaps))
    return columns, warnings


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
    tails: Tails | None,
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
    if tails is None or not tails.sigma > 0 or settings.population.is_dependent:
        return out
    out |= _with_error("generalization_upper", tails.generalization_upper(upper, n))
    if individual is not None and not _is_too_large(settings, individual, upper):
        # Bu, Zou & Veeravalli 2020: the bound of one example, which is that of their mean.
        one = tails.generalization_upper(individual, 1)
        out |= _with_error("generalization_upper_individual", one)
    return out | {"sigma": tails.sigma, "sigma_from": tails.origin}


def _is_too_large(settings: Asked, individual: Average, upper: Average) -> bool:
    """Whether one example's information is above an ``n``-th of all, by more than errors allow.

    Rows of a table drawn without replacement are not independent, and nothing is known of them.
    """
    if settings.population.is_conditional:
        return False
    error = math.hypot(individual.se, upper.se / settings.n)
    return individual.value - upper.value / settings.n > CROSSING_Z * error


def _with_error(name: str, bound: tuple[float, float]) -> Row:
    return {name: bound[0], f"{name}_se": bound[1]}


def _warnings(
    found: Information, symmetrized: Average | None, lower: Average, upper: Average
) -> list[Warned]:
    out = []
    if lower.value - upper.value > CROSSING_Z * math.hypot(lower.se, upper.se):
        out.append(BOUNDS_CROSS(lower=lower.value, upper=upper.value))
    ceiling = math.log(lower.num_datasets)
    if lower.value > ceiling - CEILING_NATS:
        count = lower.num_datasets
        out.append(INFORMATION_CEILING(lower=lower.value, ceiling=ceiling, count=count))
    total = found.contrast.symmetrized
    if symmetrized is not None:
        error = math.hypot(total.se, symmetrized.se)
        if abs(total.value - symmetrized.value) > IDENTITY_Z * error + 1e-9:
            gaps = {"pairs": total.value, "pairs_se": total.se}
            gaps |= {"replaced": symmetrized.value, "replaced_se": symmetrized.se}
            out.append(IDENTITY_BROKEN(**gaps))
    gap = found.normalizer_gap
    if gap is not None and abs(gap.value) > NORMALIZER_Z * gap.se + found.normalizer_gap_limit:
        limit = found.normalizer_gap_limit
        out.append(NORMALIZERS_DISAGREE(gap=gap.value, se=gap.se, limit=limit))
    if found.poor_overlap > POOR_OVERLAP_SHARE:
        out.append(POOR_OVERLAP(share=found.poor_overlap))
    elif found.normalizer_se > NORMALIZER_SE_LIMIT:
        out.append(NOISY_NORMALIZER(se=found.normalizer_se))
    return out
