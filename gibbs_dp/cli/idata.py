"""``gibbs-dp audit --idata``: one posterior, from the log-likelihoods in a file of its draws."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gibbs_dp._options import Option, options_of
from gibbs_dp.cli import output
from gibbs_dp.cli.options import CHECK_OUTPUT
from gibbs_dp.cli.output import HTML, UsageError, prepare_page, write_page
from gibbs_dp.cli.parser import given, parse, split_name
from gibbs_dp.cli.session import begin

SUMMARY = "What one example changes in a posterior whose draws and log-likelihoods are in a file."
EXAMPLE = """example:
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
CHOICES = (
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
GROUPS = {"one posterior, from a file": (IDATA, *CHOICES), "output": (*CHECK_OUTPUT, HTML)}


def is_named(arguments: Sequence[str]) -> bool:
    """Return whether a command line of ``audit`` names a file of draws."""
    return any(word.partition("=")[0] == IDATA.flag for word in arguments)


def run(arguments: Sequence[str], other_flags: set[str]) -> None:
    """Run ``gibbs-dp audit --idata``."""
    if not {"-h", "--help"}.isdisjoint(arguments):
        arguments = ["--help"]
    known = [option for options in GROUPS.values() for option in options]
    flags = {word.partition("=")[0] for word in arguments if word.startswith("--")}
    foreign = flags & (other_flags - {option.flag for option in known})
    if foreign:
        raise UsageError(
            f"{min(foreign)}: --idata reads a posterior that was sampled, and has no such option "
            f"(it has {', '.join(option.flag for option in CHOICES)})."
        )
    name, rest = split_name(arguments, known)
    if name is not None:
        raise UsageError(f"--idata: give a file or a problem ({name}), not both.")
    parsed = parse(
        "audit",
        SUMMARY,
        rest,
        GROUPS,
        usage="gibbs-dp audit --idata FILE [options]",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    folder = output.prepare_folder(parsed.out)
    prepare_page(parsed)

    from gibbs_dp.one_dataset.inference_data import audit_inference_data

    begin()
    paths = parsed.idata
    report = audit_inference_data(paths[0] if len(paths) == 1 else paths, **given(parsed, CHOICES))
    if parsed.json:
        output.emit(report.to_json())
        output.warn(report.warnings, parsed.quiet)
    else:
        output.show(report.summary())
    if folder is not None:
        path = folder / "one_dataset.nc"
        report.save(path)
        saved = output.save_figures({"one_dataset": report.plot()}, folder)
        output.tell_saved([path, *saved], parsed.json, parsed.quiet)
    names = ", ".join(Path(path).name for path in paths)
    write_page(parsed, report, f"Audit of {names}", [f"Draws and log-likelihoods of {names}."])
