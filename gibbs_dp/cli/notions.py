"""``gibbs-dp notions``: notions of privacy over gamma, in a table, and what implies what."""

from __future__ import annotations

from collections.abc import Sequence

from gibbs_dp._options import options_of
from gibbs_dp.cli import output
from gibbs_dp.cli.options import CHECK_OUTPUT
from gibbs_dp.cli.parser import given, parse
from gibbs_dp.cli.session import begin

SUMMARY = "Notions of privacy over gamma on one finite problem, a table, and what implies what."
FAILED = 1
FILES = {
    "notion": "notions",
    "implication": "implications",
    "property": "properties",
    "curve": "curves",
}

CURVES = options_of(
    "gibbs_dp.papers.notions.notions:compare_notions",
    n="examples per dataset",
    gammas={"help": "inverse temperatures, increasing", "shown": "0.01 to 30", "metavar": "G"},
)
PICTURES = options_of(
    "gibbs_dp.papers.notions.plot:plot_curves",
    all_curves="draw all notions in the picture of --out, not only the main eight",
)
GROUPS = {"curves": CURVES, "output": (*PICTURES, *CHECK_OUTPUT)}


def run(arguments: Sequence[str]) -> int:
    """Run the command; return 1 if an order, implication or counterexample fails, else 0."""
    parsed = parse("notions", SUMMARY, arguments, GROUPS)
    folder = output.prepare_folder(parsed.out)

    from gibbs_dp.papers.notions import notions as program
    from gibbs_dp.papers.tables import save_tables, table

    begin()
    found = program.compare_notions(say=output.logger(parsed.quiet), **given(parsed, CURVES))
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
        from gibbs_dp.papers.notions.plot import plot_curves, plot_implications, plot_verdicts

        paths = save_tables({FILES[kind]: rows for kind, rows in parts.items()}, folder)
        figures = {
            "notions": plot_curves(found, **given(parsed, PICTURES)),
            "implications": plot_implications(found),
            "verdicts": plot_verdicts(found),
        }
        paths += output.save_figures(figures, folder)
        output.tell_saved(paths, parsed.json, parsed.quiet)
    return FAILED if found.failures else 0
