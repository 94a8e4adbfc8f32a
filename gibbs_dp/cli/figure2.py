"""``gibbs-dp figure2``: both panels of Figure 2, numbers beside the picture."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from gibbs_dp._options import options_of
from gibbs_dp.cli import output
from gibbs_dp.cli.errors import Stopped
from gibbs_dp.cli.options import FLOAT64, OUTPUT
from gibbs_dp.cli.parser import given, parse
from gibbs_dp.cli.session import start_session

SUMMARY = "Figure 2 of Wang, Lei & Fienberg (2016), from sampled posteriors."

COUNTS = options_of(
    "gibbs_dp.papers.on_average_kl.figure2:figure2",
    gammas={
        "help": "inverse temperatures of both panels (default: two a decade, each panel its own)",
        "metavar": "G",
    },
    num_datasets="datasets per gamma",
    num_ghosts="fresh examples per dataset (default: as in audit)",
)
GROUPS = {"what to sample": (*COUNTS, FLOAT64), "output": OUTPUT}


def run(arguments: Sequence[str]) -> None:
    """Run the command."""
    parsed = parse("figure2", SUMMARY, arguments, GROUPS)
    folder = start_session(parsed)

    from gibbs_dp.auditing import AuditInterrupted
    from gibbs_dp.papers.on_average_kl.figure2 import figure2

    try:
        result = figure2(key=parsed.seed, progress=not parsed.quiet, **given(parsed, COUNTS))
    except AuditInterrupted:
        raise Stopped("nothing was saved; a panel needs its whole sweep.") from None
    if parsed.json:
        for row in result.rows():
            output.emit(json.dumps(row))
        output.warn(result.warnings, parsed.quiet)
    else:
        output.show(result.summary())
    if folder is not None:
        saved: list[Path] = []
        for panel in result.panels:
            saved.append(folder / f"figure2_{panel.name.replace(' ', '_')}.nc")
            panel.report.save(saved[-1])
        saved += output.save_figures({"figure2": result.plot()}, folder)
        output.tell_saved(saved, parsed.json, parsed.quiet)
