"""From trials to rows: every attacker measured, beside what is computed and what is allowed."""

from __future__ import annotations

import math

import numpy as np

from gibbs_dp._cautions import Warned
from gibbs_dp.auditing import Report
from gibbs_dp.auditing.cautions import FAILED_DATASETS
from gibbs_dp.engine.health import (
    DRIFTING,
    LOW_ACCEPT_SHARE,
    LOW_ACCEPTANCE,
    is_drifting,
    why_failed,
)
from gibbs_dp.engine.result import Result
from gibbs_dp.experiments.attack_measured import (
    FALSE_POSITIVES,
    allowed,
    measure,
    threshold_between,
)
from gibbs_dp.experiments.tables import Row
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.privacy import (
    Guarantee,
    as_replace_one,
    largest_advantage,
    largest_tpr,
    pure_dp_epsilon,
)
from gibbs_dp.quantities.attack import ATTACK_ABOVE_DP, ATTACK_MISSES

# Standard errors beyond which a warning is due: 6 false alarms in 100,000.
MOST_Z = 4.0


def audited(report: Report | None, gamma: float) -> Row:
    """Return what a report has computed at a gamma; nothing without a report.

    Raises
    ------
    ValueError
        If the report does not have it.
    """
    if report is None:
        return {}
    names = ("on_average_tv", "attack_auc", "attack_tpr_1pct")
    for row in report.rows:
        if math.isclose(row["gamma"], gamma) and row.get("on_average_tv") is not None:
            both = [name for one in names for name in (one, f"{one}_se")]
            return {"computed_from": "audit"} | {k: row[k] for k in both if k in row}
    raise ValueError(f"report: it has no on_average_tv at gamma={gamma:g}; audit that gamma.")


def worst_case(
    posterior: GibbsPosterior,
    n: int,
    gamma: float,
    domain: Domain | None,
    guarantee: Guarantee | None,
) -> Row:
    """Return what the worst case allows: of a guarantee, or of a declared domain; else nothing."""
    if guarantee is None:
        epsilon = pure_dp_epsilon(posterior, gamma, n, domain, adjacency="replace-one")
        if epsilon is None:
            return {}
        promise = Guarantee("replace-one", "exact draw", 1, gamma, float(epsilon), 0.0)
    else:
        promise = as_replace_one(guarantee)
    return {
        "dp_from": "domain" if guarantee is None else "guarantee",
        "dp_epsilon": promise.epsilon,
        "dp_delta": promise.delta,
        "dp_advantage": largest_advantage(promise),
        "dp_tpr_1pct": float(largest_tpr(promise, FALSE_POSITIVES)[0]),
    }


def measured_rows(
    result: Result, separate: int, names: tuple[str, ...], beside: Row, computed: Row
) -> list[Row]:
    """Measure every attacker at one gamma.

    Parameters
    ----------
    result
        All trials; the first ``separate`` ones only find thresholds.
    separate
        How many those are.
    names
        Of the attackers.
    beside
        What the worst case allows.
    computed
        What an audit computed; empty: what the same pairs say.

    Returns
    -------
    list of dict
        One an attacker.
    """
    values, is_good = result.summary.values.attack, result.is_good
    is_reported = np.arange(is_good.size) >= separate
    is_member = np.asarray(values.coin) > 0.5
    kept, before = is_good & is_reported, is_good & ~is_reported
    found = allowed(
        np.asarray(values.total_variation, np.float64)[kept],
        np.asarray(values.log_ratios, np.float64)[kept],
    )
    shared: Row = {"computed_from": "the same pairs"} | found._asdict() | computed | beside
    rows: list[Row] = []
    for name in names:
        scores = np.asarray(getattr(values, name), np.float64)
        threshold = 0.0
        if name == "loss":
            threshold = threshold_between(scores[before], is_member[before])
        measured = measure(scores[kept], is_member[kept], threshold)
        error = math.hypot(measured.advantage_se, shared["on_average_tv_se"])
        rows.append(
            {
                "gamma": result.gamma,
                "n": result.settings.n,
                "attacker": name,
                "num_trials": int(kept.sum()),
                "failed_trials": int((is_reported & ~is_good).sum()),
                "threshold": threshold,
                **measured._asdict(),
                **shared,
                "z": (measured.advantage - shared["on_average_tv"]) / error,
            }
        )
    return rows


def warned(result: Result, rows: list[Row]) -> list[Warned]:
    """Say where chains failed, and where measured and computed numbers cannot both be right."""
    return [*_health(result), *_refuted(rows)]


def _health(result: Result) -> list[Warned]:
    kept, found = result.is_good, []
    if not kept.all():
        why = why_failed(result.summary, kept)
        found.append(FAILED_DATASETS(failed=int((~kept).sum()), total=kept.size, why=why))
    if not kept.any() or result.settings.is_exact:
        return found
    accept = float(np.mean(result.good.health.accept_prob))
    if accept < LOW_ACCEPT_SHARE * result.settings.sampler.least_accept:
        found.append(LOW_ACCEPTANCE(accept=accept))
    if kept.sum() > 1 and is_drifting(result.pooled):
        found.append(DRIFTING(z=result.pooled.drift_z, size=result.pooled.drift_size))
    return found


def _refuted(rows: list[Row]) -> list[Warned]:
    """Say where what was measured and what was computed cannot both be right."""
    found = []
    for row in rows:
        names = {"attacker": row["attacker"], "advantage": row["advantage"]}
        if row["z"] > MOST_Z or (row["z"] < -MOST_Z and row["attacker"] == "optimal"):
            side = "above" if row["z"] > 0 else "below"
            most = row["on_average_tv"]
            found.append(ATTACK_MISSES(**names, allowed=most, z=abs(row["z"]), side=side))
        z = (row["advantage"] - row.get("dp_advantage", math.inf)) / row["advantage_se"]
        if z > MOST_Z:
            found.append(ATTACK_ABOVE_DP(**names, allowed=row["dp_advantage"], z=z))
    return found
