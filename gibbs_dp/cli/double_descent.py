"""``gibbs-dp double-descent``: random features below and above interpolation, exact and sampled."""

from __future__ import annotations

import json
from collections.abc import Sequence

from gibbs_dp._options import options_of
from gibbs_dp.cli import output
from gibbs_dp.cli.errors import Stopped
from gibbs_dp.cli.options import FLOAT64, OUTPUT
from gibbs_dp.cli.parser import given, parse
from gibbs_dp.cli.session import start_session

SUMMARY = "Risk and on-average KL of ridge regression on random features, over their number."

COUNTS = options_of(
    "gibbs_dp.papers.on_average_kl.double_descent:double_descent",
    num_features={"help": "numbers of features", "metavar": "P"},
    gammas={"help": "inverse temperatures", "metavar": "G"},
    n=None,
    activation="of a feature",
    num_datasets="datasets sampled per gamma",
    num_references="datasets behind the closed form",
)
GROUPS = {"what to sample": (*COUNTS, FLOAT64), "output": OUTPUT}
SHOWN = ("on_average_kl", "population_risk", "empirical_risk")


def run(arguments: Sequence[str]) -> None:
    """Run the command."""
    parsed = parse("double-descent", SUMMARY, arguments, GROUPS)
    folder = start_session(parsed)

    from gibbs_dp.auditing import AuditInterrupted
    from gibbs_dp.papers.on_average_kl.double_descent import double_descent
    from gibbs_dp.papers.tables import save_tables, table

    try:
        found = double_descent(
            key=parsed.seed,
            progress=not parsed.quiet,
            say=output.logger(parsed.quiet),
            **given(parsed, COUNTS),
        )
    except AuditInterrupted:
        raise Stopped("nothing was saved: the picture needs every number of features.") from None
    if parsed.json:
        for row in found.rows:
            output.emit(json.dumps(row))
    else:
        names = [n + end for n in SHOWN for end in ("", "_se", "_exact")]
        shown = [{n: row[n] for n in ("num_features", "gamma", *names)} for row in found.rows]
        output.emit(table(shown))
    output.warn(found.warnings, parsed.quiet)
    if folder is not None:
        from gibbs_dp.papers.on_average_kl.double_descent import plot_double_descent

        paths = save_tables({"double_descent": found.rows}, folder)
        figures = {"double_descent": plot_double_descent(found)}
        output.tell_saved(
            [*paths, *output.save_figures(figures, folder)], parsed.json, parsed.quiet
        )
