"""Where an on-average KL cannot be believed."""

from __future__ import annotations

import math
from typing import NamedTuple

from gibbs_dp.engine.quantity import Row
from gibbs_dp.quantities.on_average_kl.choice import LARGE_KL
from gibbs_dp.quantities.on_average_kl.two_sided import TwoSided

# Two routes to one number that differ by more than this many standard errors: of 16 gammas, a
# false alarm once in a thousand audits.
DISAGREEMENT_Z = 4.0
# Of the longer side of the interval, over 1.96 standard errors: by a quarter longer, these cover
# some 93% (lognormal data at 128 datasets: 88%, and the interval 93%).
SKEWED = 1.25


class KLRow(NamedTuple):
    """The estimate of a row, its error and interval, and the second route's."""

    value: float
    se: float
    low: float
    high: float
    ghost: float
    ghost_se: float

    @classmethod
    def of(cls, row: Row) -> KLRow:
        """Take them from a row; NaN where there is no second route."""
        names = ("", "_se", "_low", "_high", "_ghost", "_ghost_se")
        return cls(*(row.get(f"on_average_kl{name}", math.nan) for name in names))


def kl_warnings(row: KLRow, estimator: str, heavy_shift: float | None) -> list[str]:
    """Say where tails are heavy, routes disagree, or datasets are skewed.

    Parameters
    ----------
    row
        The numbers.
    estimator
        That ``on_average_kl`` comes from.
    heavy_shift
        How far the jackknife moves a pair's KL, where that is too far; None: not so.

    Returns
    -------
    list[str]
        A sentence each.
    """
    found = []
    if heavy_shift is not None:
        found.append(
            f"exp(-delta) has heavy tails (the jackknife moves the KL of a pair by "
            f"{heavy_shift:.0%}): the one-sided on_average_kl is too small; use "
            "estimator='two-sided'."
        )
    error = math.hypot(row.se, row.ghost_se)
    if abs(row.value - row.ghost) > DISAGREEMENT_Z * error:
        found.append(
            f"on_average_kl {row.value:.3g} and gamma times the generalization error "
            f"{row.ghost:.3g} differ by {abs(row.value - row.ghost) / error:.1f} standard errors, "
            f"but they are equal for exact draws: {_why(row, estimator)}."
        )
    reach = max(row.value - row.low, row.high - row.value)
    if reach > SKEWED * 1.96 * row.se:
        found.append(
            "the datasets' KLs are skewed, and 1.96 standard errors of on_average_kl cover less "
            f"than 95%: its interval is [{row.low:.4g}, {row.high:.4g}], up to "
            f"{reach / row.se:.1f} standard errors away; raise num_datasets."
        )
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
            "it does for large ones; use estimator='two-sided'"
        )
    return "the draws are not from the posterior"
