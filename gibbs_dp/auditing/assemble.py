"""From a finished sweep to its report: rows, warnings and what the numbers are conditional on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from gibbs_dp._cautions import Warned
from gibbs_dp.auditing.report import Report
from gibbs_dp.auditing.report_data import (
    FAILED_DATASETS,
    FEW_DATASETS,
    INTERRUPTED,
    PARTLY_UNDEFINED,
    REL_ERROR_MISSED,
    UNDEFINED,
)
from gibbs_dp.engine.quantity import Means, Row, RowTable, Settings
from gibbs_dp.engine.track import Track
from gibbs_dp.engine.view import GammaResult, why_failed
from gibbs_dp.estimators import average
from gibbs_dp.model.populations import Table
from gibbs_dp.quantities.on_average_kl import LEAST_COMPARED, routes_apart
from gibbs_dp.quantities.registry import COLUMNS, check_own_means
from gibbs_dp.sampling.cautions import opening
from gibbs_dp.sampling.modes import searched_for

# One verdict for every row of a report: what has been checked, and never more.


def routes(row: Row, of_datasets: Means) -> list[str]:
    """Say by how much two routes to on-average KL differ, with the error of the difference."""
    estimator = row.get("estimator")
    if estimator == "ghost":
        return ["one route to on_average_kl only, gamma times the generalization error"]
    names = ("on_average_kl", "on_average_kl_ghost")
    if not all(name in of_datasets for name in names):
        return []
    pair = [row.get(name, math.nan) for name in names]
    (_, error, _), most = routes_apart(of_datasets[names[0]], of_datasets[names[1]])
    gap = abs(pair[0] - pair[1])
    if not (math.isfinite(gap) and error > 0):
        return []
    kind = "two routes that rest on one symmetry" if estimator == "two-sided" else "two routes"
    size = f"{gap:.2g} ± {error:.2g} nats"
    if pair[0]:
        size = " ± ".join(_percent(x / abs(pair[0])) for x in (gap, error))
    limit = f"flagged above {most:.2g}" if math.isfinite(most) else "too few datasets to tell"
    return [f"{kind} differ by {size}, {gap / error:.1f} standard errors ({limit})"]


def _chains(settings: Settings, result: GammaResult, row: Row) -> list[str]:
    traits, pooled = settings.sampler.traits, result.pooled
    if traits.is_local:
        nodes = f"posteriors are sums over {settings.num_samples} nodes each"
        return [nodes, searched_for(result.tuned.modes)]
    if traits.is_exact:
        return ["posteriors are sums over given points"]
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


def make_report(
    settings: Settings, results: Sequence[GammaResult], extra: tuple[Warned, ...] = ()
) -> Report:
    """Turn the result of every gamma into a row."""
    rows, values, curves = [], [], []
    warnings: list[str] = [*extra, *(w for q in settings.quantities for w in q.cautions(settings))]
    for result in results:
        of_datasets = dataset_values(settings, result)
        row, told = make_row(settings, result, of_datasets)
        rows.append(row)
        warnings += [f"gamma={result.gamma:g}: {text}" for text in told]
        values.append(of_datasets)
        curves.append({k: v for q in settings.quantities for k, v in q.curves(result).items()})
    tables, of_rows = _row_tables(settings, results)
    warnings += of_rows
    notes = [note for q in settings.quantities for note in q.notes(settings, rows)]
    return Report(
        tuple(rows),
        settings.describe(),
        tuple(warnings),
        tuple(_of_population(settings) + notes),
        tuple(values),
        tuple(curves),
        tables,
        tuple(c for q in settings.quantities for c in q.columns if c.name not in COLUMNS),
    )


def partial_report(
    settings: Settings, tracks: Sequence[Track], extra: tuple[Warned, ...] = ()
) -> Report | None:
    """Report on what an interrupted sweep finished; None where that is too little."""
    usable = [t for t in tracks if t.summary() is not None and t.reported()[1].sum() >= 2]
    if not usable:
        return None
    return make_report(settings, [track.result() for track in usable], (INTERRUPTED(), *extra))


def make_row(
    settings: Settings, result: GammaResult, of_datasets: Means
) -> tuple[Row, list[Warned]]:
    """One gamma's row, and one sentence for everything about it that a reader must know."""
    total, count = result.is_good.size, int(result.is_good.sum())
    if count < 2:
        raise ValueError(
            f"posterior: {total - count} of {total} datasets failed at gamma={result.gamma:g} "
            f"({why_failed(result.summary, result.is_good)}); nothing can be estimated."
        )
    row: Row = {
        "gamma": result.gamma,
        "n": settings.n,
        "group_size": settings.group_size,
        "num_datasets": count,
    }
    told = _left_out(result)
    for name, values in of_datasets.items():
        estimate = average(values, np.isfinite(values))
        gaps = {"name": name, "count": estimate.num_datasets, "total": values.size}
        if estimate.num_datasets >= 2:
            row[name], row[f"{name}_se"] = estimate.value, estimate.se
            if estimate.num_datasets < int(result.is_good[: values.size].sum()):
                told.append(PARTLY_UNDEFINED(**gaps))
        elif name not in COLUMNS:  # ours are left out where they make no sense
            told.append(UNDEFINED(**gaps))
    for quantity in settings.quantities:
        more, warnings = quantity.finish(result, row)
        row |= more
        told += warnings
    row["failed_datasets"] = total - count
    told += _missed(settings, result, row)
    made = [*routes(row, of_datasets), *_chains(settings, result, row)]
    row["trust"] = f"{opening(told)}: {'; '.join(made)}"
    return row, told


def dataset_values(
    settings: Settings, result: GammaResult
) -> dict[str, Float[np.ndarray, " datasets"]]:
    """Return what the row's means are means of, in the datasets' order; NaN for failed ones."""
    found: dict[str, Any] = {}
    for quantity in settings.quantities:
        means = quantity.means(result)
        check_own_means(quantity, means)
        found |= means
    return {name: result.only_believed(values) for name, values in found.items()}


def _left_out(result: GammaResult) -> list[Warned]:
    """Say of how few datasets a row is, and how many are left out."""
    total, count = result.is_good.size, int(result.is_good.sum())
    few = {"count": count, "least": LEAST_COMPARED}
    found = [FEW_DATASETS(**few)] if count < LEAST_COMPARED else []
    if count == total:
        return found
    why = why_failed(result.summary, result.is_good)
    return [FAILED_DATASETS(failed=total - count, total=total, why=why), *found]


def _missed(settings: Settings, result: GammaResult, row: Row) -> list[Warned]:
    if not result.missed_rel_error:
        return []
    error = row[f"{settings.leading.name}_se"]
    gaps = {"rel_error": settings.rel_error, "most": settings.max_datasets, "se": error}
    return [REL_ERROR_MISSED(**gaps)]


def _row_tables(
    settings: Settings, results: Sequence[GammaResult]
) -> tuple[tuple[RowTable, ...], list[str]]:
    """Figures of single rows of the population's table, where they were asked for."""
    for quantity in settings.quantities:
        tables = quantity.by_row(results)
        if tables:
            told = [
                f"gamma={result.gamma:g}: {text}"
                for result, table in zip(results, tables, strict=True)
                for text in quantity.of_rows(result, table)
            ]
            return tables, told
    return (), []


def _of_population(settings: Settings) -> list[str]:
    population = settings.population
    if population.is_conditional:
        return [
            "training rows and ghosts are disjoint rows of one table: standard errors are "
            "conditional on the table."
        ]
    if isinstance(population, Table):
        return [
            "training rows and ghosts are drawn from one table with replacement: the table is the "
            "population, and nothing here is about people who are not in it."
        ]
    if getattr(population, "is_mixture", False):
        return [
            "every dataset has parameters of its own, shared by its ghosts: the numbers are means "
            "over the law of the parameters, and there is no mutual information."
        ]
    return []
