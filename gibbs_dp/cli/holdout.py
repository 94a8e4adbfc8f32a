"""``gibbs-dp holdout``: what a holdout says after thousands of questions, as table and picture."""

from __future__ import annotations

import json
from collections.abc import Sequence

from gibbs_dp._options import options_of
from gibbs_dp.cli import output
from gibbs_dp.cli.errors import UsageError
from gibbs_dp.cli.options import OUTPUT
from gibbs_dp.cli.parser import given, parse, split_name
from gibbs_dp.cli.session import start_session

SUMMARY = "Adaptive questions to one holdout: plain, Thresholdout, and dependent rows."
# Also the keys of `papers.reusable_holdout.run.EXPERIMENTS`, which is slow to import.
NAMES = {
    "classifier": "attributes selected by a holdout, signal and none (Dwork et al. 2015)",
    "correlated": "the same with correlated attributes and rows of a Markov chain (Zhao 2017)",
    "maxima": "subsets chosen by their maximum",
    "selection": "bias of a selected mean against sqrt(2 sigma^2 I)",
    "climb": "an analyst who climbs on the answers, against the promise",
    "accuracy": "error of many counting queries under one budget",
    "sparse": "sparse vector and its wrong variants: what they claim and what they leak",
    "sparse-approximate": "sparse vector at (epsilon, delta): noise as printed and as accounted",
}
SIZES = options_of(
    "gibbs_dp.papers.reusable_holdout.result:Sizes",
    n="rows of each set (default: the experiment's)",
    d="attributes (default: the experiment's)",
    repetitions="independent repetitions (default: the experiment's)",
    is_full="100 repetitions of classifier and correlated, a million rows for maxima",
)
GROUPS = {"sizes": SIZES, "output": OUTPUT}


def run(arguments: Sequence[str]) -> None:
    """Run the command."""
    listing = "; ".join(f"{name}: {text}" for name, text in NAMES.items())
    name, rest = split_name(arguments, (*SIZES, *OUTPUT))
    parsed = parse("holdout EXPERIMENT", f"{SUMMARY} Experiments: {listing}.", rest, GROUPS)
    if name not in NAMES:
        wrong = "no experiment is given" if name is None else f"there is no experiment {name!r}"
        raise UsageError(f"{wrong}; choose one of {', '.join(NAMES)}.")
    folder = start_session(parsed)

    from gibbs_dp import io
    from gibbs_dp.papers.reusable_holdout import run as program
    from gibbs_dp.papers.reusable_holdout.result import Sizes
    from gibbs_dp.papers.tables import save_tables, table

    sizes = Sizes(**given(parsed, SIZES), key=parsed.seed)
    found = program.run_holdout(name, sizes, is_shown=not parsed.quiet)
    if parsed.json:
        for row in found.rows:
            output.emit(json.dumps(io.json_row({"experiment": name, **row})))
    else:
        output.emit(table(found.summary))
    for note in found.notes:
        output.log(note, parsed.quiet)
    if folder is not None:
        from gibbs_dp.papers.reusable_holdout.plot import plot_holdout

        tables = {f"holdout_{name}": found.rows}
        tables |= {f"holdout_{name}_{word}": rows for word, rows in found.more.items()}
        paths = save_tables(tables, folder)
        paths += output.save_figures({f"holdout_{name}": plot_holdout(found)}, folder)
        output.tell_saved(paths, parsed.json, parsed.quiet)
