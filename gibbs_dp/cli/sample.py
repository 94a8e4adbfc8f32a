"""``gibbs-dp sample``: draws from one posterior, with a table of diagnostics."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gibbs_dp._options import Option, options_of
from gibbs_dp.cli import output
from gibbs_dp.cli.options import CHAINS, OUTPUT, SAMPLE
from gibbs_dp.cli.output import HTML, prepare_page, write_page
from gibbs_dp.cli.parser import given
from gibbs_dp.cli.problem import make_problem, parse_with_problem
from gibbs_dp.cli.samplers import SAMPLER, make_sampler
from gibbs_dp.cli.session import start_session

if TYPE_CHECKING:
    from gibbs_dp.problems.base import Problem

SUMMARY = "Draws from the Gibbs posterior of one dataset."

SETTINGS = options_of("gibbs_dp:sample", gamma=None, **CHAINS, max_seconds=None)
NUM_EXAMPLES = Option(
    "n", "int", "examples to draw", shown="all rows of a table, else the problem's number"
)
GROUPS = {"what to sample": (NUM_EXAMPLES, *SETTINGS), SAMPLE: SAMPLER, "output": (*OUTPUT, HTML)}


def run(arguments: Sequence[str]) -> None:
    """Run the command."""
    parsed, name = parse_with_problem("sample", SUMMARY, arguments, GROUPS)
    folder = start_session(parsed)
    prepare_page(parsed)
    problem = make_problem(parsed, name)
    sampler = make_sampler(parsed)
    for note in problem.notes:
        output.log(note, parsed.quiet)

    from gibbs_dp.sampling.sample import sample

    draws = sample(
        problem.posterior,
        one_dataset(problem, parsed.n, parsed.seed),
        key=parsed.seed,
        sampler=sampler,
        progress=not parsed.quiet,
        **given(parsed, SETTINGS),
    )
    is_vector = len(problem.names) == problem.posterior.dim  # else a matrix, a row a name
    if problem.names:
        parts = "coordinates" if is_vector else "rows"
        told = f"theta's {parts}, in order: {', '.join(problem.names)}."
        draws = replace(draws, settings={**draws.settings, "notes": [*draws.notes, told]})
    if parsed.json:
        for i, (parameter, row) in enumerate(draws.to_dataframe().iterrows()):
            found: dict[str, Any] = {"parameter": str(parameter)}
            if is_vector:
                found["column"] = problem.names[i]
            numbers = {key: float(value) for key, value in row.items() if value == value}
            output.emit(json.dumps({**found, "gamma": draws.gamma, **numbers}))
        output.warn(draws.warnings, parsed.quiet)
    else:
        output.show(draws.summary())
    if folder is not None:
        path = folder / "draws.nc"
        draws.save(path)
        output.tell_saved([path], parsed.json, parsed.quiet)
    about = (problem.description, *problem.notes)
    write_page(parsed, draws, f"Draws of {problem.name}", about)


def one_dataset(problem: Problem, n: int | None, seed: int) -> Any:
    """Take all rows of a table if ``n`` is None, else draw ``n`` examples from the population."""
    from gibbs_dp._jaxlib.devices import key_of
    from gibbs_dp.engine.datasets import drawn_in_one_program
    from gibbs_dp.model.check import positive_count
    from gibbs_dp.model.populations import Table

    if isinstance(problem.population, Table):
        if n is None and problem.population.weights is not None:
            raise ValueError(
                "n: the rows of the table are weighted, so all of them together are no dataset; "
                "give --n to draw that many by their weights."
            )
        if n is None:
            return problem.population.data
        problem.population.check_size(n, 0)
    count = positive_count("n", problem.n if n is None else n)
    # A stream of its own: the chains use the seed itself.
    return drawn_in_one_program(problem.population, key_of(seed), 1, count, 1)[0]
