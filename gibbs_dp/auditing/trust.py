"""One verdict for every row of a report: what has been checked, and never more."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gibbs_dp.engine.quantity import Row
from gibbs_dp.engine.result import Result
from gibbs_dp.engine.settings import Settings
from gibbs_dp.quantities.on_average_kl.warnings import DISAGREEMENT_Z
from gibbs_dp.sampling.modes import searched_for
from gibbs_dp.sampling.trust import opening


def verdict(settings: Settings, result: Result, row: Row, told: Sequence[str]) -> str:
    """Say what speaks for a row and what against it, in plain words.

    Parameters
    ----------
    settings, result
        What was run, and what is known of this gamma.
    row
        The numbers.
    told
        Warnings of this gamma.

    Returns
    -------
    str
        ``"checked: ..."``, or ``"doubtful (names of the warnings): ..."``, and then every check
        that was made with what it showed.
    """
    checks = [*routes(row), *_chains(settings, result, row)]
    return f"{opening(told)}: {'; '.join(checks)}"


def routes(row: Row) -> list[str]:
    """Say by how much two routes to on-average KL differ, with the error of that.

    Parameters
    ----------
    row
        The numbers.

    Returns
    -------
    list of str
        A part of the verdict, or nothing.
    """
    estimator = row.get("estimator")
    if estimator == "ghost":
        return ["one route to on_average_kl only, gamma times the generalization error"]
    pair = [row.get(f"on_average_kl{end}", math.nan) for end in ("", "_ghost")]
    errors = [row.get(f"on_average_kl{end}_se", math.nan) for end in ("", "_ghost")]
    error = math.hypot(*errors)
    if not (math.isfinite(pair[0] - pair[1]) and error > 0):
        return []
    gap = abs(pair[0] - pair[1])
    kind = "two routes that rest on one symmetry" if estimator == "two-sided" else "two routes"
    size = f"{gap:.2g} ± {error:.2g} nats"
    if pair[0]:
        size = " ± ".join(_percent(x / abs(pair[0])) for x in (gap, error))
    return [
        f"{kind} differ by {size}, {gap / error:.1f} standard errors "
        f"(flagged above {DISAGREEMENT_Z:g})"
    ]


def _chains(settings: Settings, result: Result, row: Row) -> list[str]:
    if settings.is_exact:
        return ["posteriors are sums over given points"]
    traits, pooled = settings.sampler.traits, result.pooled
    found = [searched_for(result.tuned.modes)]
    if traits.is_path:
        worst = float(result.good.health.worst_ess.min())
        found = [
            "particles from the prior or a wide normal to this gamma, at least "
            f"{worst:.0%} of them effective at every step",
            f"R-hat of two runs of the path {result.tuned.r_hat_starts:.2f}",
            f"islands worth {pooled.ess_min:.0f} independent draws a dataset",
        ]
    else:
        limit = f"{pooled.drift_size:.1g} posterior standard deviations"
        found.append(f"drift of {pooled.drift_z:.1f} standard errors ({limit})")
        found.append(f"R-hat {pooled.r_hat:.3f}")
    if row.get("virial_se"):
        off, se = abs(row["virial"] - 1.0), row["virial_se"]
        found.append(f"the virial is {_percent(off)} ± {_percent(se)} off that of exact draws")
    if not traits.is_adjusted:
        found.append("no acceptance step: biased by its step size")
    return found


def _percent(share: float) -> str:
    return f"{100 * share:.2g}%" if share < 0.995 else f"{100 * share:.0f}%"
