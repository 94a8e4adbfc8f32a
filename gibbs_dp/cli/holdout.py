"""``gibbs-dp holdout``: what a holdout says after thousands of questions, as table and picture."""

from __future__ import annotations

import json
from collections.abc import Sequence

from gibbs_dp.cli import output
from gibbs_dp.cli.errors import UsageError
from gibbs_dp.cli.options import OUTPUT
from gibbs_dp.cli.parser import Parser, add_options, split_name
from gibbs_dp.cli.session import start_session
from gibbs_dp.problems.registry import Option

SUMMARY = "Adaptive questions to one holdout: plain, Thresholdout, and dependent rows."
# Also the keys of `experiments.holdout.EXPERIMENTS`, which is slow to import.
NAMES = {
    "classifier": "attributes selected by a holdout, signal and none (Dwork et al. 2015)",
    "correlated": "the same with correlated attributes and rows of a Markov chain",
    "maxima": "subsets chosen by their maximum",
    "selection": "bias of a selected mean against sqrt(2 sigma^2 I)",
    "climb": "an analyst who climbs on the answers, against the promise",
    "accuracy": "error of many counting queries under one budget",
}
SIZES = (
    Option("n", "int", "rows of each set (default: the experiment's)"),
    Option("d", "int", "attributes (default: the experiment's)"),
    Option("repetitions", "int", "independent repetitions (default: the experiment's)"),
    Option("full", "flag", "the published setting, n = d = 10,000: minutes"),
)


def run(arguments: Sequence[str]) -> None:
    """Run the command.

    Raises
    ------
    ValueError
        For bad input.
    """
    parser = Parser(
        prog="gibbs-dp holdout EXPERIMENT",
        description=SUMMARY
        + " Experiments: "
        + "; ".join(f"{name}: {text}" for name, text in NAMES.items())
        + ".",
    )
    add_options(parser, SIZES, "sizes")
    add_options(parser, OUTPUT, "output")
    name, rest = split_name(arguments, (*SIZES, *OUTPUT))
    parsed = parser.parse_args(rest)
    if name not in NAMES:
        given = "no experiment is given" if name is None else f"there is no experiment {name!r}"
        raise UsageError(f"{given}; choose one of {', '.join(NAMES)}.")
    folder = output.prepare_folder(parsed.out)
    start_session(False)

    from gibbs_dp.experiments import holdout as program
    from gibbs_dp.experiments.holdout_result import Sizes
    from gibbs_dp.experiments.tables import save_tables, table

    sizes = Sizes(parsed.n, parsed.d, parsed.repetitions, parsed.full, parsed.seed)
    found = program.run_holdout(name, sizes, is_shown=not parsed.quiet)
    if parsed.json:
        for row in found.rows:
            output.emit(json.dumps({"experiment": name, **row}, allow_nan=False))
    else:
        output.emit(table(found.summary))
    for note in found.notes:
        output.log(note, parsed.quiet)
    if folder is not None:
        from gibbs_dp.experiments.holdout_plot import plot_holdout

        paths = save_tables({f"holdout_{name}": found.rows}, folder)
        paths.append(folder / f"holdout_{name}.png")
        output.save_figure(plot_holdout(found), paths[-1])
        output.tell_saved(paths, parsed.json, parsed.quiet)
