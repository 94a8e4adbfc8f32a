"""Mutual information between dataset and draw, and what it says of generalization."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from gibbs_dp._cautions import REFUSE, Caution, Warned
from gibbs_dp.engine.plan import AuditSpec
from gibbs_dp.engine.quantity import Quantity, Row
from gibbs_dp.engine.view import Explored, GammaResult, View
from gibbs_dp.estimators import Average, Halves, constant, fold_of, halves, least_upper, students
from gibbs_dp.information import bounds
from gibbs_dp.model.check import positive_count
from gibbs_dp.privacy.constants import declared_range
from gibbs_dp.quantities.dataset_comparison import (
    MIN_INFORMATION,
    Information,
    compare_all,
    rehearse,
)
from gibbs_dp.quantities.dataset_losses import Kept as DrawsKept
from gibbs_dp.quantities.dataset_losses import has_statistics, keep_draws
from gibbs_dp.results.table import Column, Style
from gibbs_dp.sampling.laplace import MAX_LAPLACE_DIM

# Tails of a loss, and the upper bounds of the generalization error that follow from them.

SEEN = "largest standard deviation seen (no guarantee)"


class TailBound(NamedTuple):
    """``log E exp(s (loss(theta, z) - R(theta))) <= s^2 sigma^2 / 2`` for every theta."""

    sigma: float  # subgaussian or, with ``b``, subexponential parameter, in units of the loss
    origin: str  # where it comes from
    # It holds for ``|s| < 1/b`` only, in units of the loss; None: for every ``s``.
    b: float | None = None

    def information_upper(self, n: int, gamma: float) -> float:
        """Corollary 10, both sides: what the information of a Gibbs posterior cannot exceed."""
        if self.origin == SEEN or not (gamma > 0 and self.sigma > 0):
            return math.inf
        return bounds.gibbs_mutual_information(n, gamma, sigma=self.sigma, b=self.b)

    def generalization_upper(self, information: Average, n: int) -> tuple[float, float]:
        """Bound of the gap from ``n`` examples' information, with its error (delta method).

        The root of the information, and for a subexponential loss a line from where the line
        touches it (Russo & Zou 2016, Proposition 3).
        """
        nats = max(information.value, 0.0)
        root = bounds.generalization_from_mutual_information(nats, n, sigma=self.sigma)
        share = information.se / (2.0 * max(information.value, information.se, 1e-300))
        if self.b is None:
            return root, root * share
        value = bounds.generalization_subexponential(nats, n, sigma=self.sigma, b=self.b)
        return value, root * share if value == root else self.b * information.se / n


# Mutual information and Corollary 10: columns, and what a reader must know about them.

# Bounds that cross by more than this many standard errors contradict each other.
CROSSING_Z = 3.0
IDENTITY_Z = 4.0
NORMALIZER_Z = 4.0
# Nats below which numbers are rounding, whatever their errors.
ROUNDED_NATS = 1e-9
# Of the information: between sums over a line, whose own errors are as small as rounding.
NEGLIGIBLE_GAP = 1e-3
CEILING_NATS = 1.0
POOR_OVERLAP_SHARE = 0.05
NORMALIZER_SE_LIMIT = 0.2

BOUNDS_CROSS = Caution(
    "bounds-cross",
    "the lower bound of mutual information, {lower:.3g}, is above the upper one, {upper:.3g}, by "
    "more than their errors allow: draws or normalizers are wrong.",
    "The two bounds contradict each other, which exact draws never make them do.",
    "Raise num_warmup and num_samples; look at the other warnings.",
    verdict=REFUSE,
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
    verdict=REFUSE,
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
    settings: AuditSpec,
    row: Row,
    kl: Float[np.ndarray, " datasets"],
    found: Information,
    tails: TailBound | None,
) -> tuple[Row, list[Warned]]:
    """Add the information columns to a row's, and say where they cannot be believed.

    The upper bound is the least of: leave-one-out, variational with a Gaussian or a mixture, ``n``
    times on-average KL (Lemma 9) and ``2 n gamma^2 sigma^2`` (Corollary 10), where each half of
    the datasets measures what the other half found least (``least_upper``). Both bounds are meant
    with their errors: ``lower - 1.96 se`` and ``upper + 1.96 se``.
    """
    n, gamma = settings.n, row["gamma"]
    lower = found.contrast.lower
    replaced = _all_replaced(settings, kl)
    is_more = settings.population.is_conditional
    symmetrized = None if replaced is None or is_more else replaced.average
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


def _all_replaced(settings: AuditSpec, kl: Float[np.ndarray, " datasets"]) -> Halves | None:
    """``I + lautum`` from the report's on-average KL (Lemmas 6 and 9), where they apply.

    Of rows drawn without replacement it is more: the new row is none of the old ones, where those
    of two datasets overlap (``N / (N - n)`` times as much, of a table of ``N`` rows).
    """
    if settings.posterior.structured and settings.group_size != settings.n:
        return None
    values = kl[np.isfinite(kl)] * (settings.n / settings.group_size)
    return halves(values, fold_of(values.shape[0]))


def _lautum(found: Information, symmetrized: Average | None, lower: Average, upper: Average) -> Row:
    """Symmetrized KL information, and lautum: it minus the middle of the bounds on ``I``.

    The error of lautum information covers the gap between these.
    """
    total = found.contrast.symmetrized
    if symmetrized is not None and symmetrized.se < total.se:
        total = symmetrized
    middle, half = 0.5 * (lower.value + upper.value), 0.5 * abs(upper.value - lower.value)
    error = math.sqrt(total.se**2 + max(lower.se, upper.se) ** 2 + half**2)
    return {
        "symmetrized_kl_information": total.value,
        "symmetrized_kl_information_se": total.se,
        "lautum_information": total.value - middle,
        "lautum_information_se": error,
    }


def _generalization(
    settings: AuditSpec,
    found: Information,
    lower: Average,
    upper: Average,
    gamma: float,
    tails: TailBound | None,
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
    if tails is None or not tails.sigma > 0 or not settings.has_independent_examples:
        return out
    out |= _with_error("generalization_upper", tails.generalization_upper(upper, n))
    if individual is not None and not _is_too_large(settings, individual, upper):
        # Bu, Zou & Veeravalli 2020: the bound of one example, which is that of their mean.
        one = tails.generalization_upper(individual, 1)
        out |= _with_error("generalization_upper_individual", one)
    return out | {"sigma": tails.sigma, "sigma_from": tails.origin}


def _is_too_large(settings: AuditSpec, individual: Average, upper: Average) -> bool:
    """Whether one example's information is above an ``n``-th of all, by more than errors allow.

    Rows of a table drawn without replacement are not independent, and nothing is known of them.
    """
    if settings.population.is_conditional:
        return False
    error = math.hypot(individual.se, upper.se / settings.n)
    most = students(CROSSING_Z, min(individual.num_datasets, upper.num_datasets))
    return individual.value - upper.value / settings.n > most * error


def _with_error(name: str, bound: tuple[float, float]) -> Row:
    return {name: bound[0], f"{name}_se": bound[1]}


def _warnings(
    found: Information, symmetrized: Average | None, lower: Average, upper: Average
) -> list[Warned]:
    out = []
    most = students(CROSSING_Z, min(lower.num_datasets, upper.num_datasets))
    if lower.value - upper.value > most * math.hypot(lower.se, upper.se) + ROUNDED_NATS:
        out.append(BOUNDS_CROSS(lower=lower.value, upper=upper.value))
    ceiling = math.log(lower.num_datasets)
    if lower.value > ceiling - CEILING_NATS:
        count = lower.num_datasets
        out.append(INFORMATION_CEILING(lower=lower.value, ceiling=ceiling, count=count))
    total = found.contrast.symmetrized
    if symmetrized is not None:
        error = math.hypot(total.se, symmetrized.se)
        most = students(IDENTITY_Z, min(total.num_datasets, symmetrized.num_datasets))
        if abs(total.value - symmetrized.value) > most * error + ROUNDED_NATS:
            gaps = {"pairs": total.value, "pairs_se": total.se}
            gaps |= {"replaced": symmetrized.value, "replaced_se": symmetrized.se}
            out.append(IDENTITY_BROKEN(**gaps))
    gap = found.normalizer_gap
    allowed = found.normalizer_gap_limit + NEGLIGIBLE_GAP * abs(lower.value)
    most = students(NORMALIZER_Z, gap.num_datasets if gap is not None else 0)
    if gap is not None and abs(gap.value) > most * gap.se + allowed:
        limit = found.normalizer_gap_limit
        out.append(NORMALIZERS_DISAGREE(gap=gap.value, se=gap.se, limit=limit))
    if found.poor_overlap > POOR_OVERLAP_SHARE:
        out.append(POOR_OVERLAP(share=found.poor_overlap))
    elif found.normalizer_se > NORMALIZER_SE_LIMIT:
        out.append(NOISY_NORMALIZER(se=found.normalizer_se))
    return out


# Columns of mutual information, and how they are drawn.

COLUMNS = (
    Column(
        "mutual_information_lower",
        "Lower bound (contrastive) of the mutual information between dataset and draw; at most the "
        "log of the datasets compared.",
        "nats",
        "MI >=",
        Style("mutual information, lower bound", "#0072B2", "-", "^", "information"),
    ),
    Column("mutual_information_lower_from", "Where the lower bound comes from."),
    Column(
        "mutual_information_upper",
        "Upper bound of the mutual information between dataset and draw: the least of several, "
        "chosen on one half of the datasets and measured on the other.",
        "nats",
        "MI <=",
        Style("mutual information, upper bound", "#D55E00", "-", "v", "information"),
    ),
    Column("mutual_information_upper_from", "Which of the upper bounds was the least."),
    Column(
        "lautum_information",
        "Lautum information between dataset and draw: KL divergence from the product of their laws "
        "to the joint one.",
        "nats",
        style=Style("lautum information", "#CC79A7", ":", "o", "information"),
    ),
    Column(
        "symmetrized_kl_information",
        "Mutual plus lautum information; of a per-example loss and independent examples also n "
        "gamma times the generalization error (Aminian, Bu, Toni, Rodrigues & Wornell 2021, "
        "Theorem 1) and n times on-average KL.",
        "nats",
    ),
    Column(
        "individual_information", "Mutual information between one example and the draw.", "nats"
    ),
    Column(
        "generalization_lower",
        "Lower bound of the generalization error from the mutual information (Wang, Lei & Fienberg "
        "2016, Corollary 10): information over n gamma.",
        "loss",
        style=Style("I / (n gamma)", "#0072B2", "-", "^", "generalization"),
    ),
    Column(
        "generalization_upper",
        "Upper bound of the generalization error from the mutual information, for a sigma^2-"
        "subgaussian loss: sqrt(2 sigma^2 I / n); with b, for a subexponential one.",
        "loss",
        "gen <=",
        Style("√(2σ² I / n)", "#D55E00", "-", "v", "generalization"),
    ),
    Column(
        "generalization_upper_individual",
        "The same from the information of single examples (Bu, Zou & Veeravalli 2020).",
        "loss",
        style=Style("√(2σ² I(θ; z))", "#E69F00", "--", "v", "generalization"),
    ),
    Column("sigma", "Subgaussian parameter of the loss.", "loss"),
    Column("sigma_from", "Where sigma comes from."),
)


# Datasets compared by default, and of losses whose comparison is two matrix products.
DEFAULT_INFORMATION, DEFAULT_OF_STATISTICS = 512, 1024
EMPIRICAL: Final = "empirical"


@dataclass(frozen=True)
class MutualInformation(Quantity):
    """Bounds of the mutual information, from the draws of datasets compared with each other.

    Parameters
    ----------
    num_information
        Datasets compared with each other, ``M``: the lower bound cannot exceed ``log M``, and the
        cost grows like ``M^2 n``. None: the audit's ``num_datasets``, at most 512 (1,024 of
        quadratic losses, of which only statistics are compared), or none where that is below 32 or
        theta has more than 512 coordinates; 0: none.
    sigma
        ``loss(theta, z)`` is ``sigma^2``-subgaussian in ``z`` for every theta, for the upper end
        of Corollary 10 (Wang, Lei & Fienberg 2016). None: half the loss's range on the declared
        domain, if that is finite; "empirical": the largest standard deviation seen over draws,
        which guarantees nothing.
    b
        Declares the loss subexponential only (exponential or squared Gaussian data, say): ``log E
        exp(s (loss - R)) <= s^2 sigma^2 / 2`` for ``|s| < 1/b``, with the given number ``sigma``;
        in units of the loss. The upper end is then ``b I / n + sigma^2 / (2 b)``, and that of
        subgaussian losses where ``2 I / (n sigma^2) <= 1 / b^2`` (Russo & Zou 2016, Proposition
        3). None: for every ``s``.
    is_shown
        Whether there are columns; other information may be all that is wanted of the comparison.

    Raises
    ------
    ValueError
        If sigma is neither a positive number, "empirical" nor None, or b is not positive or
        without a number for sigma.
    """

    num_information: int | None = None
    sigma: float | Literal["empirical"] | None = None
    b: float | None = None
    is_shown: bool = field(default=True, kw_only=True)

    name = "mutual_information"
    Kept = DrawsKept
    columns = COLUMNS

    @property
    def is_of_losses(self) -> bool:
        """Where it is asked for, posteriors are compared: names that differ are taken for news."""
        return self.num_information == 0

    def __post_init__(self) -> None:
        sigma: Any = self.sigma
        if self.b is not None:
            self._check_b(self.b)
        if sigma is None or (isinstance(sigma, str) and sigma == EMPIRICAL):
            return
        if isinstance(sigma, str) or not (math.isfinite(sigma) and sigma > 0):
            raise ValueError(f"sigma: must be a positive number or 'empirical', got {sigma!r}.")
        object.__setattr__(self, "sigma", float(sigma))

    def _check_b(self, b: float) -> None:
        if not (math.isfinite(b) and b > 0):
            raise ValueError(f"b: must be positive and finite, or None, got {b!r}.")
        if self.sigma is None or isinstance(self.sigma, str):
            raise ValueError(
                "b: goes with a sigma that holds for |s| < 1/b; give sigma as a number, got "
                f"{self.sigma!r}."
            )

    def complete(self, spec: AuditSpec) -> MutualInformation:
        """Say how many datasets are compared."""
        count = check_information(
            self.num_information,
            spec.num_datasets,
            spec.posterior.dim,
            getattr(spec.population, "is_mixture", False),
            DEFAULT_OF_STATISTICS if has_statistics(spec.posterior) else DEFAULT_INFORMATION,
        )
        return replace(self, num_information=count)

    def resolved(self, spec: AuditSpec, learnt: Mapping[str, Quantity]) -> Sequence[Quantity]:
        """Say how many datasets are compared."""
        return (self.complete(spec),)

    @property
    def count(self) -> int:
        """Datasets to compare, as resolved."""
        assert self.num_information is not None
        return self.num_information

    # -- of one dataset -------------------------------------------------------------------

    def traced(self) -> MutualInformation:
        """Draws and normalizers are kept, or they are not."""
        return MutualInformation(min(1, self.count))

    def keep(self, view: View) -> DrawsKept:
        """Normalize the posterior and keep its draws."""
        return keep_draws(view)

    @property
    def num_kept(self) -> int:
        """The datasets to be compared."""
        return self.count

    @property
    def num_stored(self) -> int:
        """As many as are compared by default, where any are: more may be asked for later."""
        return max(self.count, DEFAULT_OF_STATISTICS) if self.num_information else 0

    # -- of all datasets ------------------------------------------------------------------

    def rehearse(self, settings: AuditSpec) -> None:
        """Compile the comparison."""
        rehearse(settings, self.count)

    def explore(self, sweep: Explored) -> list[Information | None]:
        """Compare the datasets at every gamma."""
        return compare_all(sweep, self.count, with_spread=self.sigma == EMPIRICAL)

    def finish(self, result: GammaResult, row: Row) -> tuple[Row, list[Warned]]:
        """Bounds of information and of the generalization error."""
        found: Information | None = result.found.get(self.name)
        if found is None or not self.is_shown:
            return {}, []
        kl = result.only_believed(result.leading)
        sigma = self.subgaussian_sigma(result.settings, found)
        return information_row(result.settings, row, kl, found, sigma)

    def subgaussian_sigma(self, settings: AuditSpec, information: Information) -> TailBound | None:
        """Say what is known of the loss's tails, and from where; None where nothing is."""
        if self.sigma == EMPIRICAL:
            spread = information.largest_spread
            return None if spread is None else TailBound(spread, SEEN)
        if self.sigma is not None:
            only = "" if self.b is None else f", subexponential with b = {self.b:g}"
            return TailBound(self.sigma, f"given{only}", self.b)
        limits = declared_range(settings.posterior, settings.domain)
        if limits is None or not all(map(math.isfinite, limits)):
            return None
        return TailBound(bounds.subgaussian_parameter(*limits), "declared range")

    def notes(self, settings: AuditSpec, rows: Sequence[Row]) -> list[str]:
        """Say why there is no upper bound of generalization, or what it rests on."""
        found = []
        estimated = any("mutual_information_lower" in row for row in rows)
        is_absent = estimated and not any("generalization_upper" in row for row in rows)
        if is_absent and settings.population.is_conditional:
            found.append(
                "generalization_upper is absent: it is a bound for independent examples, which "
                "rows drawn without replacement are not."
            )
        elif is_absent:
            found.append(
                "generalization_upper is absent: no subgaussian parameter is known (an unbounded "
                "or structured loss); declare a domain on which the loss is bounded, or pass "
                "sigma."
            )
        if any(row.get("sigma_from") == SEEN for row in rows):
            found.append("generalization_upper uses an empirical sigma: it guarantees nothing.")
        return found

    # -- what was asked for -----------------------------------------------------------------

    def identity(self) -> bool:
        """Whether draws are kept."""
        return self.count > 0

    def request(self, settings: AuditSpec) -> list[Any]:
        """How many datasets are compared, and what is known of the loss's tails."""
        del settings
        return [self.num_information, self.sigma, *(() if self.b is None else (self.b,))]

    def settings(self) -> dict[str, Any]:
        """All of these."""
        sigma = "declared range" if self.sigma is None else self.sigma
        found: dict[str, Any] = {"num_information": self.num_information, "sigma": sigma}
        return found if self.b is None else found | {"b": self.b}


def check_information(
    value: int | None,
    num_datasets: int,
    dim: int,
    is_mixture: bool = False,
    most: int = DEFAULT_INFORMATION,
) -> int:
    """Return how many datasets to compare for mutual information.

    None where datasets have laws of their own (``is_mixture``): what bounds generalization then is
    the information given the law, which draws of all datasets together do not show.
    """
    if is_mixture:
        if value:
            raise ValueError(
                "num_information: every dataset has parameters of its own, and the bounds are for "
                "one law of all; pass num_information=0, or one value of the parameters."
            )
        return 0
    if value is None:
        value = min(num_datasets, most)
        return value if value >= MIN_INFORMATION and dim <= MAX_LAPLACE_DIM else 0
    value = positive_count("num_information", value, least=0)
    if value == 0:
        return 0
    if value < MIN_INFORMATION or value > num_datasets:
        raise ValueError(
            f"num_information: must be 0 or between {MIN_INFORMATION} and num_datasets "
            f"({num_datasets}), got {value}."
        )
    if dim > MAX_LAPLACE_DIM:
        raise ValueError(
            f"num_information: normalizers are out of reach for {dim} coordinates (at most "
            f"{MAX_LAPLACE_DIM}); pass num_information=0."
        )
    return value
