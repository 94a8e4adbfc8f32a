"""``gibbs-dp sample``: draws from one posterior, with a table of diagnostics."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gibbs_dp.cli import output
from gibbs_dp.cli.kernel import make_kernel
from gibbs_dp.cli.options import KERNEL, NUM_CHAINS, NUM_SAMPLES, NUM_WARMUP, OUTPUT
from gibbs_dp.cli.problem import make_problem, parse_with_problem
from gibbs_dp.cli.session import start_session
from gibbs_dp.problems.registry import Option

if TYPE_CHECKING:
    from gibbs_dp.problems.base import Problem
    from gibbs_dp.sampling.draws import Draws

SUMMARY = "Draws from the Gibbs posterior of one dataset."

COUNTS = (
    Option("gamma", "float", "inverse temperature (default 1)", 1.0),
    Option(
        "n", "int", "examples to draw (default: all rows of a table, else the problem's number)"
    ),
    NUM_CHAINS,
    NUM_WARMUP,
    NUM_SAMPLES,
)


def run(arguments: Sequence[str]) -> None:
    """Run the command.

    Raises
    ------
    ValueError
        For bad input.
    """
    groups = {"what to sample": COUNTS, "how to sample": KERNEL, "output": OUTPUT}
    parsed, name = parse_with_problem("sample", SUMMARY, arguments, groups)
    start_session(parsed.float64)
    problem = make_problem(parsed, name)
    kernel = make_kernel(parsed)
    folder = output.prepare_folder(parsed.out)
    for note in problem.notes:
        output.log(note, parsed.quiet)

    from gibbs_dp.sampling.sample import sample

    counts = {
        keyword: value
        for keyword in ("num_chains", "num_warmup", "num_samples")
        if (value := getattr(parsed, keyword)) is not None
    }
    draws = sample(
        problem.posterior,
        one_dataset(problem, parsed.n, parsed.seed),
        gamma=parsed.gamma,
        key=parsed.seed,
        kernel=kernel,
        **counts,
    )
    _show(draws, parsed.json, parsed.quiet)
    if folder is not None:
        path = folder / "draws.nc"
        draws.save(path)
        output.tell_saved([path], parsed.json, parsed.quiet)


def one_dataset(problem: Problem, n: int | None, seed: int) -> Any:
    """All rows of a table where ``n`` is not given, else ``n`` examples of the population.

    Raises
    ------
    ValueError
        If ``n`` is below 1, more than a table in split mode has, or absent for a weighted one.
    """
    import jax

    from gibbs_dp.model.check import positive_count
    from gibbs_dp.model.populations import Table

    if isinstance(problem.population, Table):
        if n is None and problem.population.weights is not None:
            raise ValueError(
                "n: the rows of the table are weighted, so that there is no one dataset of all of "
                "them; give --n, to draw that many by their weights."
            )
        if n is None:
            return problem.population.data
        problem.population.check_size(n, 0)
    count = positive_count("n", problem.n if n is None else n)
    # A stream of its own: the chains use the seed itself.
    return problem.population.sample(jax.random.fold_in(jax.random.key(seed), 1), count, 1)[0]


def _show(draws: Draws, is_json: bool, quiet: bool) -> None:
    if not is_json:
        output.emit(draws.summary())
        return
    for parameter, row in draws.to_dataframe().iterrows():
        numbers = {key: float(value) for key, value in row.items() if value == value}
        output.emit(json.dumps({"parameter": str(parameter), "gamma": draws.gamma, **numbers}))
    for warning in draws.warnings:
        output.log(f"warning: {warning}", quiet)
