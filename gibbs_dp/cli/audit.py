"""``gibbs-dp audit``: sweep gamma over thousands of datasets, or one posterior; ``merge``."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gibbs_dp._options import Option, options_of, parameters
from gibbs_dp.cli import output
from gibbs_dp.cli.extensions import WITH, files_of, load_extensions
from gibbs_dp.cli.options import (
    ALL,
    BOUNDS,
    CHAINS,
    CHECK_OUTPUT,
    LEARN,
    OUTPUT,
    SAMPLE,
    with_bounds,
)
from gibbs_dp.cli.output import HTML, Stopped, UsageError, prepare_page, write_page
from gibbs_dp.cli.parser import given, parse, split_name
from gibbs_dp.cli.problem import make_problem, parse_with_problem, problem_options
from gibbs_dp.cli.samplers import SAMPLER, SAMPLERS, make_sampler, sampler_options
from gibbs_dp.cli.session import begin, start_session
from gibbs_dp.cli.store import DASK, STORE, executor_of, log_damage, make_store, recalled, remember

if TYPE_CHECKING:
    from gibbs_dp.auditing.report import Report
    from gibbs_dp.engine.quantity import Quantity
    from gibbs_dp.engine.store import Store
    from gibbs_dp.problems.base import Problem

SUMMARY = "Privacy and generalization of a Gibbs posterior over gamma, averaged over datasets."

COUNTS = options_of(
    "gibbs_dp:audit",
    n="examples per dataset (default: the problem's)",
    gammas={"help": "inverse temperatures (default: the problem's)", "metavar": "G"},
    rel_error="add datasets until on_average_kl is known to this share",
    block_size="datasets per compiled call (default: by the device)",
)
DATASETS = (
    Option("num_datasets", "int", "datasets per gamma (default: the problem's)"),
    Option("max_datasets", "int", "where --rel-error stops", shown="64 times --num-datasets"),
)
RUNS = options_of("gibbs_dp:Chains", **CHAINS)
ON_AVERAGE_KL = options_of(
    "gibbs_dp:OnAverageKL",
    num_ghosts="fresh examples per dataset",
    group_size="examples replaced at once",
    estimator="of on-average KL: auto, one-sided, two-sided or ghost",
)
INFORMATION = options_of(
    "gibbs_dp:MutualInformation",
    num_information="datasets compared for mutual information, 0 for none",
    sigma="subgaussian parameter of the loss",
    b="of a subexponential loss, with --sigma",
)
(NUM_RELEASES,) = options_of(
    "gibbs_dp:Attacker", num_releases="independent draws that the attacker sees together"
)
(ADJACENCY,) = options_of("gibbs_dp:WorstCase", adjacency="which datasets are neighbours")
MUTUAL = "mutual"
KINDS = parameters("gibbs_dp:FurtherInformation")["names"].choices
ON_REQUEST = (
    Option(
        "information",
        "str",
        "what datasets are compared for",
        choices=(MUTUAL, *KINDS),
        shown=MUTUAL,
        is_list=True,
        metavar="NAME",
    ),
    Option("exposure", "flag", "list the rows of a table that cost most; the list is sensitive"),
)

# One posterior, from the log-likelihoods in a file of its draws.

IDATA_SUMMARY = (
    "What one example changes in a posterior whose draws and log-likelihoods are in a file."
)
IDATA_EXAMPLE = """example:
  # a file that PyMC, NumPyro or Stan wrote through ArviZ, with a group log_likelihood
  gibbs-dp audit --idata fit.nc --var-names y --out results"""

IDATA = Option(
    "idata",
    "str",
    "a NetCDF-4 file with a group log_likelihood, or CSV files of CmdStan, a chain each",
    is_list=True,
    metavar="FILE",
)
GROUP = Option(
    "group", "str", "remove whole groups, by this dimension or coordinate", metavar="NAME"
)
# As the help of audits of problems has it.
DOOR = replace(IDATA, help="audit one posterior's file of draws; 'audit --idata --help' says how")
OF_IDATA = (
    *options_of(
        "gibbs_dp:audit_inference_data",
        var_names={"help": "log-likelihoods to add (default: all)", "metavar": "NAME"},
    ),
    GROUP,
    *options_of(
        "gibbs_dp:audit_inference_data",
        gamma={"help": "inverse temperature of these draws", "metavar": "G", "shown": "1"},
        examples={
            "help": "whether several variables have factors of the same examples",
            "shown": "as dimensions and labels tell",
        },
    ),
)
IDATA_GROUPS = {"one posterior, from a file": (IDATA, *OF_IDATA), "output": (*CHECK_OUTPUT, HTML)}

GROUPS = {
    "what to sample": (*COUNTS[:2], *DATASETS, *RUNS, *COUNTS[2:]),
    LEARN: (*ON_AVERAGE_KL, *INFORMATION, *ON_REQUEST, NUM_RELEASES),
    "what is declared, for the worst case": (ADJACENCY, *BOUNDS),
    SAMPLE: SAMPLER,
    "where to keep it": STORE,
    "where to run it": (DASK,),
    "one posterior, from a file": (DOOR,),
    "output": (*OUTPUT, ALL, HTML),
}


def run(arguments: Sequence[str]) -> None:
    """Run the command."""
    if _names_a_file(arguments):
        own = (option for options in GROUPS.values() for option in options)
        return _run_idata(arguments, {option.flag for option in (*own, *problem_options())})
    parsed, name = parse_with_problem("audit", SUMMARY, arguments, GROUPS)
    store = make_store(parsed, os.environ)
    is_shared = store is not None and store.num_processes > 1
    for flag, value in (("--out", parsed.out), ("--html", parsed.html)):
        if is_shared and value is not None:
            raise UsageError(
                f"{flag}: none of several processes makes the report; leave it out and run "
                f"'gibbs-dp merge {parsed.store} {flag} {value}' at the end."
            )
    folder = start_session(parsed)
    prepare_page(parsed)

    from gibbs_dp.engine.store import AuditIncomplete

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
        try:
            show_and_save(report, parsed, folder, problem)
        except KeyboardInterrupt:
            again = "" if store is None else " Its blocks are kept: run again for the rest."
            raise Stopped(f"the audit had ended; nothing more was saved.{again}") from None
    return None


def conduct(
    parsed: argparse.Namespace, name: str, store: Store | None, folder: Path | None
) -> tuple[Problem, Report]:
    """Audit the problem that a parsed command line names; raise Stopped on Ctrl-C."""
    problem = with_bounds(parsed, make_problem(parsed, name))
    for note in problem.notes:
        output.log(note, parsed.quiet)

    from gibbs_dp.auditing.audit import AuditInterrupted, audit

    settings: dict[str, Any] = {"n": problem.n, "gammas": problem.gammas} | given(parsed, COUNTS)
    settings["num_datasets"] = _num_datasets(parsed, problem)
    try:
        with log_damage(parsed.quiet), executor_of(parsed) as executor:
            report = audit(
                problem.posterior,
                problem.population,
                key=parsed.seed,
                learn=_learn(parsed),
                sampler=_sampler(parsed),
                domain=problem.domain,
                store=store,
                executor=executor,
                progress=not parsed.quiet,
                **settings,
            )
    except AuditInterrupted as interrupt:
        kept = None if store is None else os.fspath(store.path)
        raise Stopped(_save_partial(interrupt.report, parsed, folder, kept, problem)) from None
    return problem, report


def _num_datasets(parsed: argparse.Namespace, problem: Problem) -> int | tuple[int, int]:
    first = problem.num_datasets if parsed.num_datasets is None else parsed.num_datasets
    if parsed.max_datasets is None:
        return first
    if parsed.rel_error is None:
        raise UsageError("--max-datasets: it says where --rel-error stops; give that too.")
    return first, parsed.max_datasets


def _learn(parsed: argparse.Namespace) -> list[Quantity]:
    """Return the quantities that the command line asks for."""
    from gibbs_dp.quantities.attacker import Attacker
    from gibbs_dp.quantities.exposure import Exposure
    from gibbs_dp.quantities.further_information import FurtherInformation
    from gibbs_dp.quantities.mutual_information import MutualInformation
    from gibbs_dp.quantities.on_average_kl import OnAverageKL
    from gibbs_dp.quantities.registry import DEFAULT
    from gibbs_dp.quantities.worst_case import WorstCase

    kinds = [MUTUAL] if parsed.information is None else parsed.information
    further: list[Any] = [kind for kind in kinds if kind != MUTUAL]
    mutual = MutualInformation(**given(parsed, INFORMATION), is_shown=MUTUAL in kinds)
    return [
        *(q for q in DEFAULT if not isinstance(q, MutualInformation)),
        OnAverageKL(**given(parsed, ON_AVERAGE_KL)),
        *([mutual] if kinds else []),
        *([FurtherInformation(further)] if further else []),
        WorstCase(**given(parsed, (ADJACENCY,))),
        Attacker(**given(parsed, (NUM_RELEASES,))),
        *([Exposure()] if parsed.exposure else []),
        *parsed.extensions.learnt(given(parsed, parsed.extensions.quantity_options())),
    ]


def _sampler(parsed: argparse.Namespace) -> Any:
    """Return what draws: a kernel with the counts of its chains, or what runs none."""
    from gibbs_dp.sampling.as_sampler import Chains

    sampler: Any = make_sampler(parsed)
    counts = given(parsed, RUNS)
    return Chains(sampler, **counts) if counts else sampler


def show_and_save(
    report: Report, parsed: argparse.Namespace, folder: Path | None, problem: Problem
) -> None:
    """Print a report, and save it if a folder was given, or a page."""
    told = partial(output.report_in_words, report, parsed.all)
    output.present(parsed, report.to_json_rows(), told, report.warnings)
    if folder is not None:
        from gibbs_dp.results.plotting import literal

        path = folder / "audit.nc"
        report.save(path)
        title = literal(f"{problem.name}, n = {report.settings['n']}")
        figures = {"audit": report.plot(title)}
        if report.row_tables:
            figures["exposure"] = report.plot_exposure(title)
        paths = [path, *_save_exposure(report, folder), *output.save_figures(figures, folder)]
        output.tell_saved(paths, parsed.json, parsed.quiet)
    _write(report, parsed, problem)


def _save_exposure(report: Report, folder: Path) -> list[Path]:
    """Save what all rows of a table cost, where that was asked for."""
    if not report.row_tables:
        return []
    from gibbs_dp import io

    path = folder / "exposure.csv"
    with io.atomic_write(path) as temporary:
        report.exposure.to_csv(temporary, index=False)
    return [path]


def _write(report: Report, parsed: argparse.Namespace, problem: Problem) -> None:
    about = (problem.description, *problem.notes)
    write_page(parsed, report, f"Audit of {problem.name}", about)


def _save_partial(
    report: Report | None,
    parsed: argparse.Namespace,
    folder: Path | None,
    store: str | None,
    problem: Problem,
) -> str:
    kept = "" if store is None else f" Finished blocks are kept in {store}: run again to continue."
    if report is None:
        return f"no dataset was finished, nothing was saved.{kept}"
    finished = ", ".join(f"{row['gamma']:g} ({row['num_datasets']})" for row in report.rows)
    _write(report, parsed, problem)
    if folder is None:
        return f"no report was saved (no --out); finished gammas (datasets): {finished}.{kept}"
    path = folder / "audit.nc"
    report.save(path)
    _save_exposure(report, folder)
    return f"saved finished datasets to {path}; gammas (datasets): {finished}.{kept}"


def _names_a_file(arguments: Sequence[str]) -> bool:
    """Return whether a command line of ``audit`` names a file of draws."""
    return any(word.partition("=")[0] == IDATA.flag for word in arguments)


def _run_idata(arguments: Sequence[str], other_flags: set[str]) -> None:
    """Run ``gibbs-dp audit --idata``."""
    if not {"-h", "--help"}.isdisjoint(arguments):
        arguments = ["--help"]
    known = [option for options in IDATA_GROUPS.values() for option in options]
    flags = {word.partition("=")[0] for word in arguments if word.startswith("--")}
    foreign = flags & (other_flags - {option.flag for option in known})
    if foreign:
        raise UsageError(
            f"{min(foreign)}: --idata reads a posterior that was sampled, and has no such option "
            f"(it has {', '.join(option.flag for option in OF_IDATA)})."
        )
    name, rest = split_name(arguments, known)
    if name is not None:
        raise UsageError(f"--idata: give a file or a problem ({name}), not both.")
    parsed = parse(
        "audit",
        IDATA_SUMMARY,
        rest,
        IDATA_GROUPS,
        usage="gibbs-dp audit --idata FILE [options]",
        epilog=IDATA_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    folder = output.prepare_folder(parsed.out)
    prepare_page(parsed)

    from gibbs_dp.one_dataset.inference_data import audit_inference_data

    begin()
    paths = parsed.idata
    report = audit_inference_data(paths[0] if len(paths) == 1 else paths, **given(parsed, OF_IDATA))
    output.present(parsed, [report.to_json()], report.summary, report.warnings)
    if folder is not None:
        path = folder / "one_dataset.nc"
        report.save(path)
        saved = output.save_figures({"one_dataset": report.plot()}, folder)
        output.tell_saved([path, *saved], parsed.json, parsed.quiet)
    names = ", ".join(Path(path).name for path in paths)
    write_page(parsed, report, f"Audit of {names}", [f"Draws and log-likelihoods of {names}."])


# The report of a sweep that several processes sampled.

MERGE = {"options": (WITH, *CHECK_OUTPUT, ALL, HTML)}


def run_merge(arguments: Sequence[str]) -> None:
    """Run ``gibbs-dp merge``."""
    summary = "Report on a store if all its blocks are there; otherwise say which are missing."
    path, rest = split_name(arguments, MERGE["options"])
    usage = "gibbs-dp merge DIR [options]"
    here = parse("merge", summary, rest, MERGE, usage=usage)
    if path is None:
        raise UsageError("merge: no store is named; give the folder of --store.")
    files = files_of(arguments)
    own = load_extensions(files)
    groups = own.groups(GROUPS, sampler_options(SAMPLERS | own.sampler_paths))
    options = (option for options in groups.values() for option in options)
    name, asked, num_processes = recalled(path, options, own.all_problems, files)
    parsed = argparse.Namespace(**{**asked, **vars(here), "extensions": own})
    folder = start_session(parsed)
    prepare_page(parsed)

    from gibbs_dp.engine.store import AuditIncomplete, Store

    store = Store(path, num_processes, process_id=None)
    try:
        problem, report = conduct(parsed, name, store, folder)
    except AuditIncomplete as incomplete:
        raise UsageError(str(incomplete)) from None
    show_and_save(report, parsed, folder, problem)
