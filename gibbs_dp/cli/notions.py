"""``gibbs-dp notions``: notions of privacy over gamma, in a table, and what implies what."""

from __future__ import annotations

from collections.abc import Sequence

from gibbs_dp.cli import output
from gibbs_dp.cli.options import CHECK_OUTPUT
from gibbs_dp.cli.parser import Parser, add_options
from gibbs_dp.problems.registry import Option

SUMMARY = "Notions of privacy over gamma on one finite problem, a table, and what implies what."
FAILED = 1
FILES = {
    "notion": "notions",
    "implication": "implications",
    "property": "properties",
    "curve": "curves",
}

CURVES = (
    Option("n", "int", "examples per dataset (default 4)", 4),
    Option("gammas", "float", "increasing (default 0.01 to 30)", is_list=True, metavar="G"),
)


def run(arguments: Sequence[str]) -> int:
    """Run the command.

    Returns
    -------
    int
        0 if every order, implication and counterexample stands, 1 if one does not.

    Raises
    ------
    ValueError
        For bad input.
    """
    parser = Parser(prog="gibbs-dp notions", description=SUMMARY)
    add_options(parser, CURVES, "curves")
    add_options(parser, CHECK_OUTPUT, "output")
    parsed = parser.parse_args(list(arguments))
    folder = output.prepare_folder(parsed.out)

    from gibbs_dp.experiments import notions as program
    from gibbs_dp.experiments.tables import save_tables, table

    found = program.compare_notions(
        n=parsed.n,
        gammas=program.GAMMAS if parsed.gammas is None else parsed.gammas,
        say=lambda text: output.log(text, parsed.quiet),
    )
    parts = found.parts()
    if parsed.json:
        output.emit_parts(parts)
    else:
        output.emit(table(parts["notion"]))
        decided = [row for row in parts["implication"] if "statement" in row]
        output.emit("\n" + table(decided))
        output.emit("\n" + table(parts["property"]))
    for line in found.failures:
        output.log(f"FAILS: {line}")
    if folder is not None:
        from gibbs_dp.experiments.notions_plot import plot_curves, plot_implications

        paths = save_tables({FILES[kind]: rows for kind, rows in parts.items()}, folder)
        pictures = {"notions.png": plot_curves, "implications.png": plot_implications}
        for name, plot in pictures.items():
            output.save_figure(plot(found), folder / name)
            paths.append(folder / name)
        output.tell_saved(paths, parsed.json, parsed.quiet)
    return FAILED if found.failures else 0
