"""``gibbs-dp audit``: sweep gamma over thousands of datasets and report."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gibbs_dp.cli import output
from gibbs_dp.cli.errors import Stopped
from gibbs_dp.cli.kernel import make_kernel
from gibbs_dp.cli.options import KERNEL, NUM_CHAINS, NUM_SAMPLES, NUM_WARMUP, OUTPUT
from gibbs_dp.cli.problem import make_problem, parse_with_problem
from gibbs_dp.cli.session import start_session
from gibbs_dp.problems.registry import Option

if TYPE_CHECKING:
    from gibbs_dp.audit import Report

SUMMARY = "Privacy and generalization of a Gibbs posterior over gamma, averaged over datasets."

COUNTS = (
    Option("n", "int", "examples per dataset (default: the problem's)"),
    Option("gammas", "float", "inverse temperatures", is_list=True, metavar="G"),
    Option("num_datasets", "int", "datasets per gamma (default: the problem's)"),
    Option("num_ghosts", "int", "fresh examples per dataset (default 16)", 16),
    NUM_CHAINS,
    NUM_WARMUP,
    NUM_SAMPLES,
    Option("group_size", "int", "examples replaced at once (default 1)", 1),
    Option("rel_error", "float", "add datasets until on_average_kl is known to this share"),
    Option("max_datasets", "int", "where --rel-error stops trying"),
    Option("num_information", "int", "datasets compared for mutual information; 0: none"),
    Option("sigma", "str", "subgaussian parameter of the loss (default: its declared range's)"),
    Option(
        "estimator",
        "str",
        "of on-average KL (default auto)",
        "auto",
        ("auto", "one-sided", "two-sided"),
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
    groups = {"what to sample": COUNTS, "how to sample": KERNEL, "output": OUTPUT}
    parsed, name = parse_with_problem("audit", SUMMARY, arguments, groups)
    start_session(parsed.float64)
    problem = make_problem(parsed, name)
    kernel = make_kernel(parsed)
    folder = output.prepare_folder(parsed.out)
    for note in problem.notes:
        output.log(note, parsed.quiet)

    from gibbs_dp.audit import AuditInterrupted, audit

    counts = {
        keyword: value
        for keyword in ("num_chains", "num_warmup", "num_samples")
        if (value := getattr(parsed, keyword)) is not None
    }
    try:
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
        raise Stopped(_save_partial(interrupt.report, folder)) from None
    _show(report, parsed)
    if folder is not None:
        paths = _save(report, folder, problem.name)
        output.tell_saved(paths, parsed.json, parsed.quiet)


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


def _save_partial(report: Report | None, folder: Path | None) -> str:
    if report is None:
        return "no dataset was finished, nothing was saved."
    finished = ", ".join(f"{row['gamma']:g} ({row['num_datasets']})" for row in report.rows)
    if folder is None:
        return f"nothing was saved (no --out); finished gammas (datasets): {finished}."
    path = folder / "audit.nc"
    report.save(path)
    return f"saved finished datasets to {path}; gammas (datasets): {finished}."
