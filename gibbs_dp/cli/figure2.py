"""``gibbs-dp figure2``: both panels of Figure 2, numbers beside the picture."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from gibbs_dp.cli import output
from gibbs_dp.cli.errors import Stopped
from gibbs_dp.cli.options import OUTPUT
from gibbs_dp.cli.parser import Parser, add_options
from gibbs_dp.cli.session import start_session
from gibbs_dp.problems.registry import Option

SUMMARY = "Figure 2 of Wang, Lei & Fienberg (2016), from sampled posteriors."

COUNTS = (
    Option("num_datasets", "int", "datasets per gamma (default 512)", 512),
    Option("num_ghosts", "int", "fresh examples per dataset (default: as audit)"),
    Option("float64", "flag", "compute in double precision"),
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
    parser = Parser(prog="gibbs-dp figure2", description=SUMMARY)
    add_options(parser, COUNTS, "what to sample")
    add_options(parser, OUTPUT, "output")
    parsed = parser.parse_args(arguments)
    start_session(parsed.float64)
    folder = output.prepare_folder(parsed.out)

    from gibbs_dp.auditing import AuditInterrupted
    from gibbs_dp.experiments.figure2 import figure2

    try:
        result = figure2(
            num_datasets=parsed.num_datasets,
            num_ghosts=parsed.num_ghosts,
            key=parsed.seed,
            progress=not parsed.quiet,
        )
    except AuditInterrupted:
        raise Stopped("nothing was saved: a panel needs its whole sweep.") from None
    if parsed.json:
        for row in result.rows():
            output.emit(json.dumps(row))
        for warning in result.warnings:
            output.log(f"warning: {warning}", parsed.quiet)
    else:
        output.emit(result.summary())
    if folder is not None:
        saved: list[Path] = []
        for panel in result.panels:
            saved.append(folder / f"figure2_{panel.name.replace(' ', '_')}.nc")
            panel.report.save(saved[-1])
        saved.append(folder / "figure2.png")
        output.save_figure(result.plot(), saved[-1])
        output.tell_saved(saved, parsed.json, parsed.quiet)
