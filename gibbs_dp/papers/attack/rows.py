"""From trials to rows: every attacker measured, beside what is computed and what is allowed."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import expit

from gibbs_dp._cautions import Warned
from gibbs_dp.auditing.report import Report
from gibbs_dp.auditing.report_data import FAILED_DATASETS
from gibbs_dp.engine.view import LOW_ACCEPT_SHARE, GammaResult, is_drifting, why_failed
from gibbs_dp.estimators import average
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.papers.attack.trial import ATTACK_ABOVE_DP, ATTACK_MISSES, EPSILON_REFUTED
from gibbs_dp.papers.tables import Row
from gibbs_dp.privacy import (
    epsilon_shown,
    largest_advantage,
    largest_tpr,
    pure_dp_epsilon,
)
from gibbs_dp.privacy.attacks import as_replace_one
from gibbs_dp.privacy.guarantee import Guarantee
from gibbs_dp.quantities.mixing import DRIFTING, LOW_ACCEPTANCE

# What trials say of an attacker: advantage, ROC, and their standard errors.

FALSE_POSITIVES = 0.01
# Fewer draws than these above a threshold say nothing of it.
LEAST_ABOVE = 5
# Groups of trials that are left out in turn.
NUM_GROUPS = 32

Scores = Float[np.ndarray, " trials"]
Curve = tuple[Float[np.ndarray, " points"], Float[np.ndarray, " points"]]


class Measured(NamedTuple):
    """How well an attacker did; every ``_se`` is over trials."""

    # advantage, advantage_se: True minus false positive rate at the threshold.
    advantage: float
    advantage_se: float
    # success_rate, success_rate_se: Share of right guesses of a fair coin.
    success_rate: float
    success_rate_se: float
    # tpr, fpr: Rates at which the dataset is guessed when it was trained on, and when it was
    # not.
    tpr: float
    fpr: float
    # tpr_1pct, tpr_1pct_se: True positive rate where the false one is 1%; NaN for too few
    # trials.
    tpr_1pct: float
    tpr_1pct_se: float
    # auc, auc_se: Area under the ROC of all trials.
    auc: float
    auc_se: float


def measure(scores: Scores, is_member: Bool[np.ndarray, " trials"], threshold: float) -> Measured:
    """Compare an attacker's guesses with the coins.

    >>> found = measure(np.array([2.0, 1.0, -1.0, 0.5]), np.array([True, True, False, False]), 0.0)
    >>> found.advantage, found.success_rate, found.auc
    (0.5, 0.75, 1.0)
    """
    scores = np.asarray(scores, np.float64)
    inside, outside = scores[is_member], scores[~is_member]
    if not (inside.size and outside.size):
        return Measured(*(math.nan,) * len(Measured._fields))
    guessed = scores > threshold
    tpr, fpr = float(np.mean(guessed[is_member])), float(np.mean(guessed[~is_member]))
    right = guessed == is_member
    auc = _auc(inside, outside)
    at_1pct = _tpr_at(roc(inside, outside), FALSE_POSITIVES, inside.size, outside.size)
    return Measured(
        tpr - fpr,
        math.hypot(_rate_se(guessed[is_member]), _rate_se(guessed[~is_member])),
        float(np.mean(right)),
        _rate_se(right),
        tpr,
        fpr,
        *at_1pct,
        *auc,
    )


def threshold_between(scores: Scores, is_member: Bool[np.ndarray, " trials"]) -> float:
    """Return the number half way between the medians of both kinds of trials.

    >>> threshold_between(np.array([0.0, 2.0, 4.0]), np.array([False, True, True]))
    1.5
    """
    kinds = scores[is_member], scores[~is_member]
    known = [float(np.median(kind)) for kind in kinds if kind.size]
    return sum(known) / len(known) if known else 0.0


def roc(inside: Scores, outside: Float[np.ndarray, " others"]) -> Curve:
    """ROC of two samples of scores, from (0, 0) to (1, 1); equal scores are one step.

    >>> fpr, tpr = roc(np.array([1.0, 3.0]), np.array([1.0, 0.0]))
    >>> fpr.tolist(), tpr.tolist()
    ([0.0, 0.0, 0.5, 1.0], [0.0, 0.5, 1.0, 1.0])
    """
    cuts = np.unique(np.concatenate([inside, outside]))
    rates = [
        np.concatenate([1.0 - np.searchsorted(np.sort(a), cuts) / a.size, [0.0]])[::-1]
        for a in (outside, inside)
    ]
    return rates[0], rates[1]


class Allowed(NamedTuple):
    """What the pairs of posteriors allow, from their own log ratios; ``_se`` over trials."""

    on_average_tv: float
    on_average_tv_se: float
    attack_tpr_1pct: float
    attack_tpr_1pct_se: float
    attack_auc: float
    attack_auc_se: float
    on_average_kl: float
    on_average_kl_se: float


def allowed(total_variation: Scores, log_ratios: Float[np.ndarray, "trials 2 draws"]) -> Allowed:
    """Compute what the best attacker reaches, without a coin, and on-average KL."""
    tv = average(total_variation)
    kl = average(-0.5 * np.diff(np.mean(log_ratios, axis=2), axis=1)[:, 0])
    groups = np.array_split(np.asarray(log_ratios, np.float64), min(NUM_GROUPS, len(log_ratios)))
    whole = _pooled(np.concatenate(groups))
    others = [_pooled(np.concatenate(groups[:i] + groups[i + 1 :])) for i in range(len(groups))]
    spread = np.std(others, axis=0) * math.sqrt(max(len(groups) - 1, 0))
    errors = spread.tolist()
    return Allowed(tv.value, tv.se, whole[0], errors[0], whole[1], errors[1], kl.value, kl.se)


def _pooled(log_ratios: Float[np.ndarray, "trials 2 draws"]) -> tuple[float, float]:
    """Rate at 1% and area of the pooled ROC: every draw of the mixture counts for both laws."""
    ratio = np.sort(log_ratios.ravel())[::-1]
    inside = expit(ratio)
    rates = [np.concatenate([[0.0], np.cumsum(w) / np.sum(w)]) for w in (1.0 - inside, inside)]
    area = float(np.sum(np.diff(rates[0]) * (rates[1][1:] + rates[1][:-1]) / 2))
    return float(np.interp(FALSE_POSITIVES, rates[0], rates[1])), area


def _rate_se(is_hit: Bool[np.ndarray, " trials"]) -> float:
    """Binomial standard error, positive even where all trials agree (Agresti & Coull 1998)."""
    count = is_hit.size + 2
    rate = (float(np.sum(is_hit)) + 1) / count
    return math.sqrt(rate * (1 - rate) / count)


def _auc(inside: Scores, outside: Float[np.ndarray, " others"]) -> tuple[float, float]:
    of_inside, of_outside = _share_below(inside, outside), 1.0 - _share_below(outside, inside)
    means = average(of_inside), average(of_outside)
    return means[0].value, math.hypot(means[0].se, means[1].se)


def _share_below(values: Scores, others: Float[np.ndarray, " others"]) -> Scores:
    others = np.sort(others)
    below = np.searchsorted(others, values), np.searchsorted(others, values, "right")
    share: Scores = 0.5 * (below[0] + below[1]) / others.size
    return share


def _tpr_at(curve: Curve, rate: float, num_inside: int, num_outside: int) -> tuple[float, float]:
    if rate * num_outside < LEAST_ABOVE:
        return math.nan, math.nan
    low, value, high = np.interp([rate / 2, rate, 2 * rate], *curve)
    slope = (high - low) / (1.5 * rate)  # of the ROC: how far a wrong threshold moves the rate
    variance = value * (1 - value) / num_inside + slope**2 * rate * (1 - rate) / num_outside
    return float(value), math.sqrt(variance)


# Standard errors beyond which a warning is due: 6 false alarms in 100,000.
MOST_Z = 4.0


def audited(report: Report | None, gamma: float) -> Row:
    """Return what a report has computed at a gamma; nothing without a report."""
    if report is None:
        return {}
    names = ("on_average_tv", "attack_auc", "attack_tpr_1pct", "on_average_kl")
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
        **({} if promise.gdp is None else {"dp_mu": promise.gdp}),
    }


# What scores show of epsilon: at this confidence in the rows, and at that of a warning.
CONFIDENCE, SURE = 0.95, 1.0 - 6e-5


def shown(
    scores: Scores,
    is_member: Bool[np.ndarray, " trials"],
    chooses: Bool[np.ndarray, " trials"],
    counts: Bool[np.ndarray, " trials"],
    beside: Row,
) -> Row:
    """Bound epsilon and mu from below; NaN for too few trials."""
    parts = [
        scores[where & side] for where in (counts, chooses) for side in (is_member, ~is_member)
    ]
    nothing = {"shown_epsilon": math.nan, "shown_mu": math.nan, "refuted": False}
    if min(part.size for part in parts) < LEAST_ABOVE:
        return nothing
    found, sure = (
        epsilon_shown(
            parts[0],
            parts[1],
            beside.get("dp_delta", 0.0),
            confidence=c,
            choosing=(parts[2], parts[3]),
        )
        for c in (CONFIDENCE, SURE)
    )
    is_refuted = sure.epsilon > beside.get("dp_epsilon", math.inf)
    is_refuted |= sure.mu > beside.get("dp_mu", math.inf)
    return {"shown_epsilon": found.epsilon, "shown_mu": found.mu, "refuted": is_refuted}


def measured_rows(
    result: GammaResult, separate: int, names: tuple[str, ...], beside: Row, computed: Row
) -> list[Row]:
    """Measure every attacker at one gamma."""
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
                **shown(scores, is_member, before, kept, shared),
                "z": (measured.advantage - shared["on_average_tv"]) / error,
            }
        )
    return rows


def warned(result: GammaResult, rows: list[Row]) -> list[Warned]:
    """Say where chains failed, and where measured and computed numbers cannot both be right."""
    return [*_health(result), *_refuted(rows)]


def _health(result: GammaResult) -> list[Warned]:
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
        if row["refuted"]:
            claim = {"epsilon": row["dp_epsilon"], "delta": row["dp_delta"]}
            found.append(EPSILON_REFUTED(attacker=row["attacker"], **claim))
    return found
