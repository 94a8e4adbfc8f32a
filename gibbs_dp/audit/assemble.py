"""From a finished sweep to its report: rows, warnings and what the numbers are conditional on."""

from __future__ import annotations

import math
from typing import Any

from gibbs_dp.audit.information import Information
from gibbs_dp.audit.information_columns import EMPIRICAL, information_columns
from gibbs_dp.audit.report import Report
from gibbs_dp.audit.rows import dataset_values, make_row
from gibbs_dp.audit.settings import Settings
from gibbs_dp.audit.track import Track
from gibbs_dp.information import bounds
from gibbs_dp.privacy.constants import declared_range


def make_report(
    settings: Settings,
    tracks: list[Track],
    information: list[Information | None] | None = None,
    extra: tuple[str, ...] = (),
) -> Report:
    """Turn every gamma's track, and its information where estimated, into a row."""
    rows, warnings = [], list(extra)
    for i, track in enumerate(tracks):
        row, found = make_row(settings, track)
        estimates = information[i] if information else None
        if estimates is not None:
            sigma = subgaussian_sigma(settings, estimates)
            kl = dataset_values(track)["on_average_kl"]
            columns, more = information_columns(settings, row, kl, estimates, sigma)
            row, found = row | columns, found + more
        rows.append(row)
        warnings += found
    return Report(
        tuple(rows),
        settings.describe(),
        tuple(warnings),
        _notes(settings, rows),
        tuple(dataset_values(track) for track in tracks),
    )


def subgaussian_sigma(settings: Settings, information: Information) -> tuple[float, str] | None:
    """Subgaussian parameter of the loss and where it comes from; None where there is none."""
    if settings.sigma == "empirical":
        spread = information.largest_spread
        return None if spread is None else (spread, EMPIRICAL)
    if settings.sigma is not None:
        return settings.sigma, "given"
    limits = declared_range(settings.posterior, settings.domain)
    if limits is None or not all(map(math.isfinite, limits)):
        return None
    return bounds.subgaussian_parameter(*limits), "declared range"


def _notes(settings: Settings, rows: list[dict[str, Any]]) -> tuple[str, ...]:
    notes = []
    if settings.population.is_conditional:
        notes.append(
            "training rows and ghosts are disjoint rows of one table: standard errors are "
            "conditional on the table."
        )
    if settings.is_unadjusted:
        notes.append(
            "the kernel has no acceptance step, so its draws are not the posterior's: "
            "variance_inflation (a mean over coordinates) and kl_inflation (of a one-sided "
            "on_average_kl) estimate their relative excess from a linear chain around the draws; "
            "they are no bounds."
        )
    if any("dp_epsilon" in row for row in rows):
        notes.append(
            "dp_epsilon holds for one exact draw and replace-one neighbours on the declared "
            "domain; the chains' draws are approximate."
        )
    if any(row["estimator"] == "two-sided" for row in rows):
        notes.append(
            "two-sided rows: on_average_kl and gamma times gen rest on the same symmetry, so their "
            "agreement is no independent check there."
        )
    if any(row["estimator"] == "ghost" for row in rows):
        notes.append(
            "ghost rows: on_average_kl is gamma times the generalization error, which it equals "
            "for exact draws (Theorem 4); no second route checks it there."
        )
    if not all("excess_risk" in row for row in rows):
        notes.append("excess_risk is absent: no best parameter of the population was found.")
    estimated = any("mutual_information_lower" in row for row in rows)
    if estimated and not any("generalization_upper" in row for row in rows):
        notes.append(
            "generalization_upper is absent: no subgaussian parameter is known (an unbounded or "
            "structured loss); declare a domain on which the loss is bounded, or pass sigma."
        )
    if any(row.get("sigma_from") == EMPIRICAL for row in rows):
        notes.append("generalization_upper uses an empirical sigma: it guarantees nothing.")
    return tuple(notes)


def partial_report(settings: Settings, tracks: list[Track]) -> Report | None:
    """Report on what an interrupted sweep finished; None where that is too little."""
    usable = [t for t in tracks if t.summary() is not None and t.reported()[1].sum() >= 2]
    if not usable:
        return None
    text = "interrupted: only finished blocks of datasets are in this report."
    return make_report(settings, usable, extra=(text,))
