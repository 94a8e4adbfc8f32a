"""``gibbs-dp audit``: sweep gamma over thousands of datasets and report."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gibbs_dp.cli import output
from gibbs_dp.cli.errors import Stopped, UsageError
from gibbs_dp.cli.kernel import make_kernel
from gibbs_dp.cli.options import KERNEL, NUM_CHAINS, NUM_SAMPLES, NUM_WARMUP, OUTPUT
from gibbs_dp.cli.place import STORE, damage_told, make_store, remember
from gibbs_dp.cli.problem import make_problem, parse_with_problem
from gibbs_dp.cli.session import start_session
from gibbs_dp.problems.registry import Option

if TYPE_CHECKING:
    from gibbs_dp.auditing import Report, Store
    from gibbs_dp.problems.base import Problem

SUMMARY = "Privacy and generalization of a Gibbs posterior over gamma, averaged over datasets."

COUNTS = (
    Option("n", "int", "examples per dataset (default: the problem's)"),
    Option("gammas", "float", "inverse temperatures", is_list=True, metavar="G"),
    Option("num_datasets", "int", "datasets per gamma (default: the problem's)"),
    Option(
        "num_ghosts",
        "int",
        "fresh examples per dataset (default: n from 64 to 256; structured loss: 64)",
    ),
    NUM_CHAINS,
    NUM_WARMUP,
    NUM_SAMPLES,
    Option("group_size", "int", "examples replaced at once (default 1)", 1),
    Option("rel_error", "float", "add datasets until on_average_kl is known to this share"),
    Option("max_datasets", "int", "where --rel-error stops trying"),
    Option("num_information", "int", "datasets compared for mutual information; 0: none"),
    Option("block_size", "int", "datasets per compiled call (default: by the device)"),
    Option("sigma", "str", "subgaussian parameter of the loss (default: its declared range's)"),
    Option(
        "estimator",
        "str",
        "of on-average KL (default auto)",
        "auto",
        ("auto", "one-sided", "two-sided", "ghost"),
    ),
)


def run(arguments: Sequence[str]) -> None:
    """Run the command.

    Raises
    ------
    ValueError
        For bad input.
    Stopped
        On Ctrl-C.
    """
    groups = {
        "what to sample": COUNTS,
        "how to sample": KERNEL,
        "where to keep it": STORE,
        "output": OUTPUT,
    }
    parsed, name = parse_with_problem("audit", SUMMARY, arguments, groups)
    store = make_store(parsed, os.environ)
    is_shared = store is not None and store.num_processes > 1
    if is_shared and parsed.out is not None:
        raise UsageError(
            "--out: of several processes none makes the report; leave it out and run 'gibbs-dp "
            f"merge {parsed.store} --out {parsed.out}' at the end."
        )
    start_session(parsed.float64)
    folder = output.prepare_folder(parsed.out)

    from gibbs_dp.auditing import AuditIncomplete

    if store is not None:
        remember(parsed, name, store, is_first=True)
    try:
        problem, report = conduct(parsed, name, store, folder)
    except AuditIncomplete as incomplete:
        report, told = None, str(incomplete)
    else:
        told = f"so are all others: 'gibbs-dp merge {parsed.store}' makes the report."
    if store is not None:
        remember(parsed, name, store)
    if report is None or is_shared:
        output.log(f"this process is done; {told}", parsed.quiet)
    else:
        show_and_save(report, parsed, folder, problem.name)


def conduct(
    parsed: argparse.Namespace, name: str, store: Store | None, folder: Path | None
) -> tuple[Problem, Report]:
    """Audit the problem that a parsed command line names.

    Raises
    ------
    ValueError
        For bad input.
    Stopped
        On Ctrl-C.
    AuditIncomplete
        If blocks of other processes are missing.
    """
    problem = make_problem(parsed, name)
    kernel = make_kernel(parsed)
    for note in problem.notes:
        output.log(note, parsed.quiet)

    from gibbs_dp.auditing import AuditInterrupted, audit

    counts = {
        keyword: value
        for keyword in ("num_chains", "num_warmup", "num_samples", "block_size")
        if (value := getattr(parsed, keyword)) is not None
    }
    if store is not None:
        counts["store"] = store
    try:
        with damage_told(parsed.quiet):
            report = audit(
                problem.posterior,
                problem.population,
                n=_given(parsed.n, problem.n),
                gammas=_given(parsed.gammas, problem.gammas),
                num_datasets=_given(parsed.num_datasets, problem.num_datasets),
                num_ghosts=parsed.num_ghosts,
                key=parsed.seed,
                kernel=kernel,
                group_size=parsed.group_size,
                rel_error=parsed.rel_error,
                max_datasets=parsed.max_datasets,
                domain=problem.domain,
                estimator=parsed.estimator,
                num_information=parsed.num_information,
                sigma=_sigma(parsed.sigma),
                progress=not parsed.quiet,
                **counts,
            )
    except AuditInterrupted as interrupt:
        kept = None if store is None else os.fspath(store.path)
        raise Stopped(_save_partial(interrupt.report, folder, kept)) from None
    return problem, report


def _sigma(value: str | None) -> float | Literal["empirical"] | None:
    if value is None:
        return None
    if value == "empirical":
        return "empirical"
    try:
        return float(value)
    except ValueError:
        raise ValueError(f"--sigma: {value!r} is neither a number nor 'empirical'.") from None


def _given(value: Any, default: Any) -> Any:
    return default if value is None else value


def show_and_save(
    report: Report, parsed: argparse.Namespace, folder: Path | None, title: str
) -> None:
    """Print a report, and save it where a folder was given."""
    _show(report, parsed)
    if folder is not None:
        output.tell_saved(_save(report, folder, title), parsed.json, parsed.quiet)


def _show(report: Report, parsed: argparse.Namespace) -> None:
    if not parsed.json:
        output.emit(report.summary())
        return
    for row in report.to_json_rows():
        output.emit(row)
    for warning in report.warnings:
        output.log(f"warning: {warning}", parsed.quiet)


def _save(report: Report, folder: Path, title: str) -> list[Path]:
    numbers, picture = folder / "audit.nc", folder / "audit.png"
    report.save(numbers)
    output.save_figure(report.plot(f"{title}, n = {report.settings['n']}"), picture)
    return [numbers, picture]


def _save_partial(report: Report | None, folder: Path | None, store: str | None) -> str:
    kept = "" if store is None else f" Finished blocks are kept in {store}: run again to continue."
    if report is None:
        return f"no dataset was finished, nothing was saved.{kept}"
    finished = ", ".join(f"{row['gamma']:g} ({row['num_datasets']})" for row in report.rows)
    if folder is None:
        return f"no report was saved (no --out); finished gammas (datasets): {finished}.{kept}"
    path = folder / "audit.nc"
    report.save(path)
    return f"saved finished datasets to {path}; gammas (datasets): {finished}.{kept}"
