"""``gibbs-dp double-descent``: random features below and above interpolation, exact and sampled."""

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

SUMMARY = "Risk and on-average KL of ridge regression on random features, over their number."

COUNTS = (
    Option("num_features", "int", "numbers of features", is_list=True, metavar="P"),
    Option("gammas", "float", "inverse temperatures", is_list=True, metavar="G"),
    Option("n", "int", "examples per dataset (default 20)", 20),
    Option("activation", "str", "of a feature (default tanh)", "tanh", ("tanh", "relu")),
    Option("num_datasets", "int", "datasets sampled per gamma (default 256)", 256),
    Option("num_references", "int", "datasets behind the closed form (default 4096)", 4096),
    Option("float64", "flag", "compute in double precision"),
)
SHOWN = ("on_average_kl", "population_risk", "empirical_risk")


def run(arguments: Sequence[str]) -> None:
    """Run the command.

    Raises
    ------
    ValueError
        For bad input.
    Stopped
        On Ctrl-C.
    """
    parser = Parser(prog="gibbs-dp double-descent", description=SUMMARY)
    add_options(parser, COUNTS, "what to sample")
    add_options(parser, OUTPUT, "output")
    parsed = parser.parse_args(list(arguments))
    start_session(parsed.float64)
    folder = output.prepare_folder(parsed.out)

    from gibbs_dp.audit import AuditInterrupted
    from gibbs_dp.experiments.double_descent import GAMMAS, NUM_FEATURES, double_descent
    from gibbs_dp.experiments.tables import table

    try:
        found = double_descent(
            num_features=parsed.num_features or NUM_FEATURES,
            gammas=parsed.gammas or GAMMAS,
            n=parsed.n,
            activation=parsed.activation,
            num_datasets=parsed.num_datasets,
            num_references=parsed.num_references,
            key=parsed.seed,
            progress=not parsed.quiet,
            say=lambda text: output.log(text, parsed.quiet),
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
    for warning in found.warnings:
        output.log(f"warning: {warning}", parsed.quiet)
    if folder is not None:
        output.tell_saved(_save(found, folder), parsed.json, parsed.quiet)


def _save(found: object, folder: Path) -> list[Path]:
    from gibbs_dp.experiments.double_descent import DoubleDescent
    from gibbs_dp.experiments.double_descent_plot import plot_double_descent
    from gibbs_dp.experiments.tables import save_tables

    assert isinstance(found, DoubleDescent)
    paths = [*save_tables({"double_descent": found.rows}, folder), folder / "double_descent.png"]
    output.save_figure(plot_double_descent(found), paths[-1])
    return paths
