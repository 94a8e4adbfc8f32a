"""Where an on-average KL cannot be believed."""

from __future__ import annotations

import math
from typing import NamedTuple

from gibbs_dp._cautions import Caution, Warned
from gibbs_dp.engine.quantity import Row
from gibbs_dp.quantities.on_average_kl.estimators import LARGE_KL, TwoSided

# Two routes to one number that differ by more than this many standard errors: of 16 gammas, a
# false alarm once in a thousand audits.
DISAGREEMENT_Z = 4.0
# Of the longer side of the interval, over 1.96 standard errors: by a quarter longer, these cover
# some 93% (lognormal data at 128 datasets: 88%, and the interval 93%).
SKEWED = 1.25

HEAVY_TAILS = Caution(
    "heavy-tails",
    "exp(-delta) has heavy tails (the jackknife moves the KL of a pair by {shift:.0%}, and about "
    "{lost:.1%} of the KL is in pairs beyond its reach): the one-sided on_average_kl is too small; "
    "use the two-sided estimator.",
    "Replacing one example moves the posterior so far that draws of one posterior hardly visit "
    "the other: their average of exp(-delta) misses what counts, and the KL comes out too small.",
    "Leave the estimator 'auto', or learn gdp.OnAverageKL('two-sided'), which samples the other "
    "posteriors too; raise num_samples; or look at smaller gammas.",
)
RARE_EXAMPLES = Caution(
    "rare-examples",
    "at least {share:.0%} of on_average_kl comes from rare examples that weigh much, in about "
    "{holding:.0f} of {total} datasets: its standard error is itself uncertain, and "
    "on_average_kl_ghost, gen_error and the risks, which see them in few training sets, may miss "
    "most of it; read the interval, and raise num_datasets.",
    "A few examples move a posterior by many nats, as outliers do under a squared loss. However "
    "well each is measured, how often they occur is known from the few that were drawn.",
    "Raise num_datasets until the share is spread over some dozens of datasets; clip the examples "
    "or use a loss with bounded slope (losses.huber), which also bounds what they give away.",
)
ROUTES_DISAGREE = Caution(
    "routes-disagree",
    "on_average_kl {value:.3g} and gamma times the generalization error {ghost:.3g} differ by "
    "{z:.1f} standard errors, but they are equal for exact draws: {why}.",
    "Two routes to one number (Theorem 4 of Wang, Lei & Fienberg 2016) lead to different ones, so "
    "that at least one of them is wrong: usually the draws are not from the posterior.",
    "Look at the other warnings first. Raise num_warmup and num_samples; use HMC instead of a "
    "kernel without an acceptance step; where the KL is above about 2 nats, "
    "the two-sided estimator; check that the loss is a function of its arguments alone.",
)
SKEWED_DATASETS = Caution(
    "skewed-datasets",
    "the datasets' KLs are skewed, and 1.96 standard errors of on_average_kl cover less than 95%: "
    "its interval is [{low:.4g}, {high:.4g}], up to {reach:.1f} standard errors away; raise "
    "num_datasets.",
    "A few datasets have a far larger KL than the others, and the sample may hold too few of "
    "them. on_average_kl_low and on_average_kl_high allow for that, the standard error does not.",
    "Quote the interval instead of the standard error, or raise num_datasets.",
)


# Share of the KL in pairs that one side does not reach, and datasets that hold it, from and up to
# which one speaks of rare examples: an error from 20 is known to a sixth.
RARE_SHARE, RARE_DATASETS = 0.05, 20.0


class Tails(NamedTuple):
    """What one side's draws do not reach.

    Attributes
    ----------
    shift
        How far the jackknife moves a pair's KL.
    lost
        Share of the KL in pairs beyond reach.
    num_holding, num_datasets
        Datasets that hold these, about, and all.
    """

    shift: float
    lost: float
    num_holding: float
    num_datasets: int


class KLRow(NamedTuple):
    """The estimate of a row, its error and interval, the second route's, and their difference's."""

    value: float
    se: float
    low: float
    high: float
    ghost: float
    ghost_se: float
    apart_se: float = math.nan

    @classmethod
    def of(cls, row: Row) -> KLRow:
        """Take them from a row; NaN where there is no second route."""
        names = ("", "_se", "_low", "_high", "_ghost", "_ghost_se")
        return cls(*(row.get(f"on_average_kl{name}", math.nan) for name in names))


def kl_warnings(
    row: KLRow, estimator: str, tails: Tails | None = None, is_heavy: bool = False
) -> list[Warned]:
    """Say where tails are heavy, routes disagree, or datasets are skewed.

    Parameters
    ----------
    row
        The numbers.
    estimator
        That ``on_average_kl`` comes from.
    tails
        What one side's draws do not reach; None: exact sums, which reach everything.
    is_heavy
        Whether that makes the estimate wrong.

    Returns
    -------
    list[Warned]
        A sentence each.
    """
    found = []
    if tails is not None and is_heavy:
        found.append(HEAVY_TAILS(shift=tails.shift, lost=tails.lost))
    if tails is not None and tails.lost > RARE_SHARE and tails.num_holding < RARE_DATASETS:
        found.append(
            RARE_EXAMPLES(share=tails.lost, holding=tails.num_holding, total=tails.num_datasets)
        )
    # Over the same datasets, whose examples move both routes: their errors are not independent.
    if abs(row.value - row.ghost) > DISAGREEMENT_Z * row.apart_se:
        z, why = abs(row.value - row.ghost) / row.apart_se, _why(row, estimator)
        found.append(ROUTES_DISAGREE(value=row.value, ghost=row.ghost, z=z, why=why))
    reach = max(row.value - row.low, row.high - row.value)
    if reach > SKEWED * 1.96 * row.se:
        low = max(row.low, 0.0) if row.value > 0 else row.low  # as the row shows it
        found.append(SKEWED_DATASETS(low=low, high=row.high, reach=reach / row.se))
    return found


def _why(row: KLRow, estimator: str) -> str:
    if estimator == TwoSided.name:
        return (
            "either the draws are not from the posterior, or on_average_kl is wrong, as two "
            "posteriors that hardly overlap make it; then trust the latter, or raise num_samples"
        )
    if max(row.value, row.ghost) > LARGE_KL:
        return (
            "either the draws are not from the posterior, or the one-sided on_average_kl fails, as "
            "it does for large ones; use the two-sided estimator"
        )
    return "the draws are not from the posterior"
