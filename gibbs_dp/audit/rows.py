"""From finished tracks to the columns, warnings and notes of a report."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, Float

from gibbs_dp.audit.choice import LARGE_KL, jackknife_shift, shift_limit
from gibbs_dp.audit.pilot import is_drifting, kept_datasets
from gibbs_dp.audit.plan import Summary
from gibbs_dp.audit.settings import Settings
from gibbs_dp.audit.track import Track, kl_values
from gibbs_dp.estimators import average, mean_interval
from gibbs_dp.privacy import pure_dp_epsilon
from gibbs_dp.sampling.diagnostics import Pooled, pool
from gibbs_dp.sampling.grid import Grid

Row = dict[str, Any]

_NO_CHAINS = Pooled(rhat=1.0, rhat_exceed=0.0, ess_min=np.inf, drift_z=0.0, drift_size=0.0)
# Weight of a lattice's rim and effective lattice points beyond which the lattice shows.
EDGE_LIMIT = 1e-3
POINTS_LIMIT = 5.0

RHAT_STARTS_LIMIT = 1.1
# Effective draws per dataset below which the chains' starts may still show.
ESS_LIMIT = 8.0
# Cells of posteriors that are not Gaussian spread unequally: a tenth may exceed in health.
EXCEED_LIMIT = 0.15
ACCEPT_LIMIT = 0.4
# Two routes to one number that differ by more than this many standard errors: of 16 gammas, a
# false alarm once in a thousand audits.
DISAGREEMENT_Z = 4.0
# A single dataset that carries this share of a sum makes its standard error meaningless.
DOMINANT_SHARE = 0.4
# The virial identity's: significant, and larger than what a burn-in may leave.
VIRIAL_Z = 4.0
VIRIAL_SIZE = 0.02
MIN_DATASETS_TO_JUDGE = 256
# Of the longer side of the interval, over 1.96 standard errors: by a quarter longer, these cover
# some 93% (lognormal data at 128 datasets: 88%, and the interval 93%).
SKEWED = 1.25
# Times the pilots' limit.
TAIL_LIMIT = 1.5


def make_row(settings: Settings, track: Track) -> tuple[Row, list[str]]:
    """One gamma's row, and one sentence for everything about it that a reader must know."""
    summary, is_good = track.reported()
    total, count = is_good.size, int(is_good.sum())
    gamma, estimator = track.gamma, track.tuned.estimator
    if count < 2:
        raise ValueError(
            f"posterior: {total - count} of {total} datasets failed at gamma={gamma:g} "
            f"({_why_failed(summary, is_good)}); nothing can be estimated."
        )
    good = summary if count == total else jax.tree.map(lambda a: a[is_good], summary)
    pooled = (
        _NO_CHAINS
        if settings.is_exact
        else pool(good.spread, settings.num_chains, settings.num_samples)
    )
    row: Row = {
        "gamma": gamma,
        "n": settings.n,
        "group_size": settings.group_size,
        "num_datasets": count,
    }
    incomplete: dict[str, int] = {}
    for name, values in dataset_values(track).items():
        estimate = average(values, np.isfinite(values))
        if estimate.num_datasets >= 2:
            row[name], row[f"{name}_se"] = estimate.value, estimate.se
            if name == "on_average_kl":
                found = mean_interval(values[np.isfinite(values)])
                row |= {f"{name}_low": found.low, f"{name}_high": found.high}
            if estimate.num_datasets < count:
                incomplete[name] = estimate.num_datasets
    epsilon = pure_dp_epsilon(
        settings.posterior, gamma, settings.n, settings.domain, adjacency="replace-one"
    )
    if epsilon is not None and np.isfinite(settings.group_size * epsilon):
        row["dp_epsilon"] = settings.group_size * epsilon
    elif epsilon is not None:
        row["dp_epsilon"] = float("inf")
    if settings.is_exact:
        row |= {"estimator": "exact sum", "ess_min": float(np.min(good.effective_points))}
    else:
        virial = average(np.asarray(good.virial, np.float64))
        row |= {
            "estimator": estimator,
            "rhat": pooled.rhat,
            "rhat_exceed": pooled.rhat_exceed,
            "ess_min": pooled.ess_min,
            "virial": virial.value,
            "virial_se": virial.se,
            "accept_rate": float(np.mean(good.accept_prob)),
            "tail_flag": estimator == "one-sided"
            and jackknife_shift(good, settings.num_draws)
            > TAIL_LIMIT * shift_limit(settings.num_draws),
        }
    if settings.is_unadjusted:
        del row["accept_rate"]
        for name, inflation in (("variance", good.inflation), ("kl", good.kl_inflation)):
            excess = average(np.asarray(inflation, np.float64))
            row |= {f"{name}_inflation": excess.value, f"{name}_inflation_se": excess.se}
    row["failed_datasets"] = total - count
    failures = _failures(row, summary, is_good, incomplete)
    chains = _grid_warnings(settings, good) + _warnings(settings, track, row, good, pooled)
    return row, [f"gamma={gamma:g}: {text}" for text in failures + chains]


def _columns(track: Track, found: Summary) -> dict[str, Any]:
    """Every estimate that is a mean over datasets: one number per dataset."""
    return {
        "on_average_kl": kl_values(found, track.tuned.estimator),
        "on_average_kl_ghost": found.kl_ghost,
        "generalization_error": found.generalization,
        "empirical_risk": found.empirical_risk,
        "population_risk": found.population_risk,
        "excess_risk": found.excess_risk,
    }


def dataset_values(track: Track) -> dict[str, Float[np.ndarray, " datasets"]]:
    """Return what the row's means are means of, in the datasets' order; NaN for failed ones."""
    summary = track.summary()
    assert summary is not None
    kept = kept_datasets(summary)
    columns = {k: np.asarray(v, np.float64) for k, v in _columns(track, summary).items()}
    return {k: np.where(kept & np.isfinite(v), v, np.nan) for k, v in columns.items()}


def _failures(
    row: Row, summary: Summary, kept: Bool[np.ndarray, " datasets"], incomplete: dict[str, int]
) -> list[str]:
    """Say which estimates leave datasets out."""
    found = []
    if row["failed_datasets"]:
        found.append(
            f"{row['failed_datasets']} of {kept.size} datasets failed "
            f"({_why_failed(summary, kept)}); the estimates are conditional on the others, which "
            "biases them."
        )
    for name, count in incomplete.items():
        found.append(
            f"{name} is the mean over {count} of {kept.size} datasets, without those where it is "
            "not finite, which biases it."
        )
    return found


def _why_failed(summary: Summary, kept: Bool[np.ndarray, " datasets"]) -> str:
    improper = int(np.sum(summary.is_improper))
    stuck = int(np.sum(summary.is_stuck & ~summary.is_improper))
    other = int(np.sum(~kept)) - improper - stuck
    parts = [f"{improper} improper"] * (improper > 0) + [f"{stuck} stuck chains"] * (stuck > 0)
    return ", ".join(parts + [f"{other} not finite"] * (other > 0))


def _warnings(
    settings: Settings, track: Track, row: Row, good: Summary, pooled: Pooled
) -> list[str]:
    found = []
    if track.tuned.rhat_starts > RHAT_STARTS_LIMIT:
        found.append(
            "chains started elsewhere reach different answers "
            f"(R-hat between starts {track.tuned.rhat_starts:.2f}): several modes, or a mode "
            "search that fails; do not trust this row."
        )
    if is_drifting(pooled):
        found.append(
            f"the chains still drift (first against second half: {pooled.drift_z:.0f} standard "
            f"errors, {pooled.drift_size:.2f} posterior standard deviations); raise num_warmup."
        )
    if not settings.is_exact and pooled.ess_min < ESS_LIMIT:
        found.append(
            f"chains mix slowly (pooled R-hat {pooled.rhat:.3f}, {pooled.ess_min:.1f} effective "
            "draws per dataset); raise num_samples or use another kernel."
        )
    if pooled.rhat_exceed > EXCEED_LIMIT:
        found.append(
            f"{pooled.rhat_exceed:.0%} of (dataset, coordinate) cells mix worse than their peers "
            "(1% expected): some datasets have chains that disagree."
        )
    if row.get("accept_rate", 1.0) < ACCEPT_LIMIT:
        found.append(
            f"only {row['accept_rate']:.0%} of proposals were accepted; lower the step size."
        )
    if row.get("tail_flag"):
        found.append(
            "exp(-delta) has heavy tails (the jackknife moves the KL of a pair by "
            f"{jackknife_shift(good, settings.num_draws):.0%}): the "
            "one-sided on_average_kl is too small; use estimator='two-sided'."
        )
    direct, ghost = row["on_average_kl"], row.get("on_average_kl_ghost", np.nan)
    error = float(np.hypot(row["on_average_kl_se"], row.get("on_average_kl_ghost_se", np.nan)))
    if abs(direct - ghost) > DISAGREEMENT_Z * error:
        why = "the draws are not from the posterior"
        if track.tuned.estimator == "two-sided":
            why = (
                "either the draws are not from the posterior, or on_average_kl is wrong, as two "
                "posteriors that hardly overlap make it; then trust the latter, or raise "
                "num_samples"
            )
        elif max(direct, ghost) > LARGE_KL:
            why = (
                "either the draws are not from the posterior, or the one-sided on_average_kl "
                "fails, as it does for large ones; use estimator='two-sided'"
            )
        found.append(
            f"on_average_kl {direct:.3g} and gamma times the generalization error {ghost:.3g} "
            f"differ by {abs(direct - ghost) / error:.1f} standard errors, but they are equal for "
            f"exact draws: {why}."
        )
    off = abs(row.get("virial", 1.0) - 1.0)
    if off > max(VIRIAL_SIZE, VIRIAL_Z * row.get("virial_se", 0.0)):
        found.append(
            f"the mean of (theta - center) . grad U is {row['virial']:.3f} of the dimension "
            f"(standard error {row['virial_se']:.3f}) and 1 for exact draws: the draws are not "
            "from the posterior (or its density jumps, which this check does not allow for)."
        )
    reach = max(direct - row["on_average_kl_low"], row["on_average_kl_high"] - direct)
    if reach > SKEWED * 1.96 * row["on_average_kl_se"]:
        found.append(
            "the datasets' KLs are skewed, and 1.96 standard errors of on_average_kl cover less "
            f"than 95%: its interval is [{row['on_average_kl_low']:.4g}, "
            f"{row['on_average_kl_high']:.4g}], up to {reach / row['on_average_kl_se']:.1f} "
            "standard errors away; raise num_datasets."
        )
    share = _dominant_share(good, settings)
    if share > DOMINANT_SHARE:
        found.append(
            f"one dataset carries {share:.0%} of the generalization error's variance: its "
            "standard error cannot be trusted; the gap may have infinite variance here."
        )
    if track.missed_rel_error:
        found.append(
            f"rel_error={settings.rel_error:g} was not reached with max_datasets="
            f"{settings.max_datasets} (standard error {row['on_average_kl_se']:.2g})."
        )
    return found


def _grid_warnings(settings: Settings, good: Summary) -> list[str]:
    """Say where a lattice is too narrow or too coarse for the posterior it stands for."""
    kernel, found = settings.kernel, []
    if not isinstance(kernel, Grid) or not kernel.is_lattice:
        return []
    edge = float(np.max(good.edge_weight))
    if edge > EDGE_LIMIT:
        found.append(
            f"the posterior reaches the lattice's rim (weight {edge:.2g} there); unless that is "
            "the prior's own bound, widen Grid(low, high)."
        )
    fewest = float(np.min(good.effective_points))
    if fewest < POINTS_LIMIT:
        found.append(
            f"a posterior lies on only {fewest:.1f} lattice points; raise Grid(num_points)."
        )
    return found


def _dominant_share(good: Summary, settings: Settings) -> float:
    """Largest share of one dataset in the variance of the gap, once datasets are many."""
    gap = np.asarray(good.generalization, np.float64)
    gap = gap[np.isfinite(gap)]
    if gap.shape[0] < MIN_DATASETS_TO_JUDGE:
        return 0.0
    squares = (gap - gap.mean()) ** 2
    return float(squares.max() / max(squares.sum(), 1e-300))
