"""The commands that redraw and verify papers: figure2, double-descent, capacity, holdout ..."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gibbs_dp._options import Option, options_of
from gibbs_dp.cli import output
from gibbs_dp.cli.options import CHECK_OUTPUT, FLOAT64, OUTPUT
from gibbs_dp.cli.output import Stopped, UsageError
from gibbs_dp.cli.parser import given, parse, split_name
from gibbs_dp.cli.session import begin, start_session

FAILED = 1


def _save(
    parsed: argparse.Namespace,
    folder: Path | None,
    tables: Mapping[str, Any],
    draw: Callable[[], Mapping[str, Any]] = dict,
) -> None:
    """Write tables as CSV, and the figures that ``draw`` makes, where there is a folder."""
    if folder is None:
        return
    from gibbs_dp.papers.tables import save_tables

    paths = save_tables(tables, folder)
    output.tell_saved([*paths, *output.save_figures(draw(), folder)], parsed.json, parsed.quiet)


# Figure 2 of Wang, Lei & Fienberg (2016): both panels, numbers beside the picture.

FIGURE2_COUNTS = options_of(
    "gibbs_dp.papers.on_average_kl.figure2:figure2",
    gammas={
        "help": "inverse temperatures of both panels (default: two a decade, each panel its own)",
        "metavar": "G",
    },
    num_datasets="datasets per gamma",
    num_ghosts="fresh examples per dataset (default: as in audit)",
)
FIGURE2 = {"what to sample": (*FIGURE2_COUNTS, FLOAT64), "output": OUTPUT}


def run_figure2(arguments: Sequence[str]) -> None:
    """Run ``gibbs-dp figure2``."""
    summary = "Figure 2 of Wang, Lei & Fienberg (2016), from sampled posteriors."
    parsed = parse("figure2", summary, arguments, FIGURE2)
    folder = start_session(parsed)

    from gibbs_dp.auditing.audit import AuditInterrupted
    from gibbs_dp.papers.on_average_kl.figure2 import figure2

    counts = given(parsed, FIGURE2_COUNTS)
    try:
        result = figure2(key=parsed.seed, progress=not parsed.quiet, **counts)
    except AuditInterrupted:
        raise Stopped("nothing was saved; a panel needs its whole sweep.") from None
    output.present(parsed, result.rows(), result.summary, result.warnings)
    if folder is not None:
        saved: list[Path] = []
        for panel in result.panels:
            saved.append(folder / f"figure2_{panel.name.replace(' ', '_')}.nc")
            panel.report.save(saved[-1])
        saved += output.save_figures({"figure2": result.plot()}, folder)
        output.tell_saved(saved, parsed.json, parsed.quiet)


# Random features below and above interpolation, exact and sampled.

DOUBLE_DESCENT_COUNTS = options_of(
    "gibbs_dp.papers.on_average_kl.double_descent:double_descent",
    num_features={"help": "numbers of features", "metavar": "P"},
    gammas={"help": "inverse temperatures", "metavar": "G"},
    n=None,
    activation="of a feature",
    num_datasets="datasets sampled per gamma",
    num_references="datasets behind the closed form",
)
DOUBLE_DESCENT = {"what to sample": (*DOUBLE_DESCENT_COUNTS, FLOAT64), "output": OUTPUT}


def run_double_descent(arguments: Sequence[str]) -> None:
    """Run ``gibbs-dp double-descent``."""
    summary = "Risk and on-average KL of ridge regression on random features, over their number."
    parsed = parse("double-descent", summary, arguments, DOUBLE_DESCENT)
    folder = start_session(parsed)

    from gibbs_dp.auditing.audit import AuditInterrupted
    from gibbs_dp.papers.on_average_kl.double_descent import double_descent, plot_double_descent
    from gibbs_dp.papers.tables import table

    try:
        found = double_descent(
            key=parsed.seed,
            progress=not parsed.quiet,
            say=output.logger(parsed.quiet),
            **given(parsed, DOUBLE_DESCENT_COUNTS),
        )
    except AuditInterrupted:
        raise Stopped("nothing was saved: the picture needs every number of features.") from None
    if parsed.json:
        for row in found.rows:
            output.emit(json.dumps(row))
    else:
        columns = ("on_average_kl", "population_risk", "empirical_risk")
        names = [n + end for n in columns for end in ("", "_se", "_exact")]
        shown = [{n: row[n] for n in ("num_features", "gamma", *names)} for row in found.rows]
        output.emit(table(shown))
    output.warn(found.warnings, parsed.quiet)
    _save(
        parsed,
        folder,
        {"double_descent": found.rows},
        lambda: {"double_descent": plot_double_descent(found)},
    )


# Capacity-bounded differential privacy.

CAPACITY_COUNTS = options_of(
    "gibbs_dp.papers.capacity.figures:run_capacity",
    num_datasets="pairs of datasets per gamma",
    gammas={"help": "of both posteriors (default: each its own)", "metavar": "G"},
)
CAPACITY = {"what to sample": (*CAPACITY_COUNTS, FLOAT64), "output": OUTPUT}


def run_capacity(arguments: Sequence[str]) -> None:
    """Run ``gibbs-dp capacity``."""
    summary = (
        "Privacy against restricted adversaries: Laplace and normal noise, bounds, Gibbs "
        "posteriors."
    )
    parsed = parse("capacity", summary, arguments, CAPACITY)
    folder = start_session(parsed)

    from gibbs_dp.papers.capacity import figures

    found = figures.run_capacity(
        key=parsed.seed, say=output.logger(parsed.quiet), **given(parsed, CAPACITY_COUNTS)
    )
    if parsed.json:
        output.emit_parts(found.parts())
    else:
        output.emit(_capacity_summary(found))
    output.warn(found.warnings, parsed.quiet)
    tables = {f"capacity_{kind}": rows for kind, rows in found.parts().items()}
    _save(parsed, folder, tables, lambda: _capacity_figures(found))


def _capacity_figures(found: Any) -> dict[str, Any]:
    from gibbs_dp.papers.capacity import figures as plots

    return {
        "capacity_figure1": plots.plot_curves(found),
        "capacity_figure1_gaussian": plots.plot_gaussian_curves(found),
        "capacity_posterior": plots.plot_posteriors(found),
        "capacity_selection": plots.plot_selection(found),
        "capacity_analyst": plots.plot_analysts(found),
    }


def _capacity_summary(found: Any) -> str:
    from gibbs_dp.papers.tables import table

    shown, gaussian = (
        [row for row in rows if row["alpha"] in (2.0, 3.0, 10.0, 40.0)]
        for rows in (found.curves, found.gaussian)
    )
    names = ("panel", "gamma", "adversary", "capacity_kl", "capacity_kl_se")
    more = ("capacity_kl_exact", "on_average_kl", "on_average_kl_se", "share", "share_se")
    posterior = [
        {name: row[name] for name in (*names, *more) if name in row} for row in found.posterior
    ]
    edges: dict[tuple[str, float], float] = {}
    for row in found.regimes:
        failed = row["privacy"] if row["verdict"] == "fails" else 0.0
        key = (row["row"], row["alpha"])
        edges[key] = max(edges.get(key, 0.0), failed)
    fails = [
        {"row": name, "alpha": alpha, "fails_up_to_privacy": edge}
        for (name, alpha), edge in edges.items()
    ]
    sections = {
        "Renyi parameters of the Laplace mechanism, eps = 1, nats": shown,
        "Renyi parameters of the Gaussian mechanism, sigma = 1, nats": gaussian,
        "Printed bounds are below the exact value up to this eps or 1/sigma (0: nowhere)": fails,
        "Matrix mechanism, linear adversaries, Renyi, add/remove": found.matrix,
        "A selected query: its gap and bounds of it": found.selection,
        "Analysts: the gap of the last of hundreds of queries, and Theorem 6": found.analyst,
        "Gibbs posteriors: on-average KL that trained critics see (lower bounds), nats": posterior,
    }
    return "\n\n".join(f"{title}\n{table(rows)}" for title, rows in sections.items())


# Thousands of questions to one holdout.

# Also the keys of `papers.reusable_holdout.run.EXPERIMENTS`, which is slow to import.
EXPERIMENTS = {
    "classifier": "attributes selected by a holdout, signal and none (Dwork et al. 2015)",
    "correlated": "the same with correlated attributes and rows of a Markov chain (Zhao 2019)",
    "maxima": "subsets chosen by their maximum",
    "selection": "bias of a selected mean against sqrt(2 sigma^2 I)",
    "climb": "an analyst who climbs on the answers, against the promise",
    "accuracy": "error of many counting queries under one budget",
    "sparse": "sparse vector and its wrong variants: what they claim and what they leak",
    "sparse-approximate": "sparse vector at (epsilon, delta): noise as printed and as accounted",
}
SIZES = options_of(
    "gibbs_dp.papers.reusable_holdout.data:Sizes",
    n="rows of each set (default: the experiment's)",
    d="attributes (default: the experiment's)",
    repetitions="independent repetitions (default: the experiment's)",
)
HOLDOUT = {"sizes": SIZES, "output": OUTPUT}


def run_holdout(arguments: Sequence[str]) -> None:
    """Run ``gibbs-dp holdout``."""
    listing = "; ".join(f"{name}: {text}" for name, text in EXPERIMENTS.items())
    summary = "Adaptive questions to one holdout: plain, Thresholdout, and dependent rows."
    name, rest = split_name(arguments, (*SIZES, *OUTPUT))
    parsed = parse("holdout EXPERIMENT", f"{summary} Experiments: {listing}.", rest, HOLDOUT)
    if name not in EXPERIMENTS:
        wrong = "no experiment is given" if name is None else f"there is no experiment {name!r}"
        raise UsageError(f"{wrong}; choose one of {', '.join(EXPERIMENTS)}.")
    folder = start_session(parsed)

    from gibbs_dp import io
    from gibbs_dp.papers.reusable_holdout import run as experiments
    from gibbs_dp.papers.reusable_holdout.data import Sizes
    from gibbs_dp.papers.tables import table

    sizes = Sizes(**given(parsed, SIZES), key=parsed.seed)
    found = experiments.run_holdout(name, sizes, is_shown=not parsed.quiet)
    if parsed.json:
        for row in found.rows:
            output.emit(json.dumps(io.json_row({"experiment": name, **row})))
    else:
        output.emit(table(found.summary))
    for note in found.notes:
        output.log(note, parsed.quiet)
    tables = {f"holdout_{name}": found.rows}
    tables |= {f"holdout_{name}_{word}": rows for word, rows in found.more.items()}

    def draw() -> dict[str, Any]:
        from gibbs_dp.papers.reusable_holdout.plot import plot_holdout

        return {f"holdout_{name}": plot_holdout(found)}

    _save(parsed, folder, tables, draw)


# Notions of privacy over gamma, and what implies what.

NOTIONS_FILES = {
    "notion": "notions",
    "implication": "implications",
    "property": "properties",
    "curve": "curves",
}
NOTIONS_CURVES = options_of(
    "gibbs_dp.papers.notions.notions:compare_notions",
    n="examples per dataset",
    gammas={"help": "inverse temperatures, increasing", "shown": "0.01 to 30", "metavar": "G"},
)
NOTIONS = {"curves": NOTIONS_CURVES, "output": CHECK_OUTPUT}


def run_notions(arguments: Sequence[str]) -> int:
    """Run ``gibbs-dp notions``; return 1 if an order, implication or counterexample fails."""
    summary = "Notions of privacy over gamma on one finite problem, a table, and what implies what."
    parsed = parse("notions", summary, arguments, NOTIONS)
    folder = output.prepare_folder(parsed.out)

    from gibbs_dp.papers.notions import notions
    from gibbs_dp.papers.tables import table

    begin()
    curves = given(parsed, NOTIONS_CURVES)
    found = notions.compare_notions(say=output.logger(parsed.quiet), **curves)
    parts = found.parts()
    if parsed.json:
        output.emit_parts(parts)
    else:
        output.emit(table(parts["notion"]))
        decided = [row for row in parts["implication"] if "statement" in row]
        output.emit("\n" + table(decided))
        output.emit("\n" + table(parts["property"]))
    for line in found.failures:
        output.log(f"FAILS: {line}")

    def draw() -> dict[str, Any]:
        from gibbs_dp.papers.notions.plot import plot_curves, plot_implications, plot_verdicts

        return {
            "notions": plot_curves(found),
            "implications": plot_implications(found),
            "verdicts": plot_verdicts(found),
        }

    _save(parsed, folder, {NOTIONS_FILES[kind]: rows for kind, rows in parts.items()}, draw)
    return FAILED if found.failures else 0


# Every implemented theorem, and whether it holds.

CHECKS = (Option("exact_only", "flag", "leave out the sampled checks (seconds)"),)
VERIFY = {"what to check": CHECKS, "output": CHECK_OUTPUT}


def run_verify(arguments: Sequence[str]) -> int:
    """Run ``gibbs-dp verify``; return 0 if everything holds, 1 if anything fails."""
    summary = "Every implemented theorem and identity: both sides, difference, holds or not."
    parsed = parse("verify", summary, arguments, VERIFY)
    folder = start_session(parsed)

    from gibbs_dp import io
    from gibbs_dp.papers.verify.check import table
    from gibbs_dp.papers.verify.verify import verdict, verify

    checks = verify(sampled=not parsed.exact_only, say=output.logger(parsed.quiet))
    rows = [check._asdict() for check in checks]
    if parsed.json:
        for row in rows:
            output.emit(json.dumps(io.json_row(row)))
        output.log(verdict(checks), parsed.quiet)
    else:
        output.emit(table(checks))
        output.show(verdict(checks))
    _save(parsed, folder, {"verify": rows})
    return 0 if all(check.holds for check in checks) else FAILED
