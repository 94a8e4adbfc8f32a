"""``gibbs-dp attack``: attacks that are run on posteriors, and what a guarantee allows."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gibbs_dp._options import Option, options_of
from gibbs_dp.cli import output
from gibbs_dp.cli.options import BOUNDS, CHAINS, CHECK_OUTPUT, OUTPUT, SAMPLE, with_bounds
from gibbs_dp.cli.output import HTML, UsageError, prepare_page, write_page
from gibbs_dp.cli.parser import given, parse, split_name
from gibbs_dp.cli.problem import make_problem, parse_with_problem, problem_options
from gibbs_dp.cli.samplers import SAMPLER, make_sampler
from gibbs_dp.cli.session import start_session

if TYPE_CHECKING:
    from gibbs_dp.privacy.guarantee import Guarantee
    from gibbs_dp.problems.base import Problem

SUMMARY = (
    "Attacks that are run: posteriors of a dataset or of its neighbour, one draw of each, and "
    "attackers who guess which; measured against what is computed and what the worst case allows."
)
OF_GUARANTEE = "What a guarantee allows an attacker, whoever it is. No attack is run."
ATTACK = "gibbs_dp.papers.attack.attack:attack"
COUNTS = options_of(
    ATTACK,
    n="examples per dataset (default: the problem's)",
    gammas={"help": "inverse temperatures (default: the problem's)", "metavar": "G"},
    num_trials="datasets, coins and draws per gamma",
    attackers={"help": "optimal, loss, lira (default: all)", "shown": "", "metavar": "NAME"},
    **CHAINS,
)
# An audit in one run, and what has no meaning for it.
ONE_RUN = (
    Option(
        "canaries",
        "int",
        "audit in one run instead: toss a coin for each of so many examples, which of two it is, "
        "draw once, and guess all coins",
        metavar="M",
    ),
    *options_of(
        "gibbs_dp.papers.attack.attack:attack_in_one_run",
        delta="with --canaries: delta at which epsilon is bounded",
        num_draws="with --canaries: draws that are released together",
    ),
)
OF_MANY_RUNS = ("num_trials", "attackers", *CHAINS, "is_worst_pair", "guarantee", "html")
WORST_PAIR = Option(
    "is_worst_pair", "flag", "replace one example by another, the worst found among 64 fresh ones"
)
GUARANTEE = Option(
    "guarantee",
    "str",
    "JSON file of a release: compare with what it allows; without a problem, only say that",
    metavar="FILE",
)
GROUPS = {
    "what to attack": (*COUNTS, WORST_PAIR),
    "in one run": ONE_RUN,
    "what is declared, for the worst case": (*BOUNDS, GUARANTEE),
    SAMPLE: SAMPLER,
    "output": (*OUTPUT, HTML),
}
RATES = (0.001, 0.01, 0.1)
NOT_RUN = (
    "no attack was run: the file holds a guarantee, not the posterior and the population. "
    "'gibbs-dp attack PROBLEM --guarantee FILE' attacks a problem that you name, at its gamma."
)


def run(arguments: Sequence[str]) -> None:
    """Run the command."""
    if _is_of_guarantee_alone(arguments):
        return _show_guarantee(arguments)
    parsed, name = parse_with_problem("attack", SUMMARY, arguments, GROUPS)
    options = [option for group in GROUPS.values() for option in group]
    wrong = OF_MANY_RUNS if parsed.canaries is not None else ("delta", "num_draws")
    for option in options:
        if option.keyword in wrong and option.keyword in given(parsed, options):
            is_with = "" if parsed.canaries is None else "out"
            raise UsageError(f"{option.flag}: it goes with{is_with} --canaries; leave it out.")
    folder = start_session(parsed)
    prepare_page(parsed)
    guarantee = None if parsed.guarantee is None else _load(parsed.guarantee)
    problem = with_bounds(parsed, make_problem(parsed, name))
    sampler = make_sampler(parsed)
    for note in problem.notes:
        output.log(note, parsed.quiet)

    if parsed.canaries is not None:
        return _in_one_run(parsed, problem, sampler, folder)

    from gibbs_dp.papers.attack.attack import attack

    found = attack(
        problem.posterior,
        problem.population,
        key=parsed.seed,
        sampler=sampler,
        domain=problem.domain,
        pair="worst" if parsed.is_worst_pair else None,
        guarantee=guarantee,
        progress=not parsed.quiet,
        **(_defaults(problem, guarantee) | given(parsed, COUNTS)),
    )
    output.present(parsed, found.to_json_rows(), found.summary, found.warnings)
    if folder is not None:
        from gibbs_dp import io
        from gibbs_dp.results.plotting import literal

        path = folder / "attack.csv"
        io.save_rows(path, found.rows())
        title = literal(f"{problem.name}, n = {found.settings['n']}")
        saved = output.save_figures({"attack": found.plot(title)}, folder)
        output.tell_saved([path, *saved], parsed.json, parsed.quiet)
    write_page(parsed, found, f"Attacks on {problem.name}", (problem.description, *problem.notes))
    return None


def _in_one_run(
    parsed: argparse.Namespace, problem: Problem, sampler: Any, folder: Path | None
) -> None:
    """Guess coins of one run at each gamma, and say what that shows of epsilon."""
    import jax

    from gibbs_dp import io
    from gibbs_dp.model.check import as_key
    from gibbs_dp.papers.attack.attack import attack_in_one_run

    counts = _defaults(problem, None) | given(parsed, COUNTS)
    canaries, n = parsed.canaries, counts["n"]
    if not 1 <= canaries <= n:
        raise UsageError(f"--canaries: they are among the n = {n} examples; give 1 to {n}.")
    rows = []
    for k, gamma in enumerate(counts["gammas"]):
        keys = jax.random.split(jax.random.fold_in(as_key(parsed.seed), k))
        train, fresh = problem.population.sample(keys[0], n, canaries)
        first, data = (
            jax.tree.map(lambda a, part=part: a[part], train)
            for part in (slice(canaries), slice(canaries, None))
        )
        shown = attack_in_one_run(
            problem.posterior,
            (first, fresh),
            gamma,
            data if canaries < n else None,
            key=keys[1],
            sampler=sampler,
            **given(parsed, ONE_RUN[1:]),
        )
        rows.append(
            {"kind": "one run", "gamma": float(gamma), "n": n, "canaries": canaries} | asdict(shown)
        )
        if parsed.json:
            output.emit(json.dumps(rows[-1]))
    if not parsed.json:
        output.show(in_a_table(rows))
    if folder is not None:
        path = folder / "one_run.csv"
        io.save_rows(path, rows)
        output.tell_saved([path], parsed.json, parsed.quiet)


def in_a_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Say what coins of one run have shown."""
    from gibbs_dp.results.table import Heading, TextTable

    first = rows[0]
    texts = [
        [
            *(f"{row['gamma']:.6g}", f"{row['num_right']} of {row['num_guesses']}"),
            *(f"{row[name]:.4g}" for name in ("epsilon", "mu")),
        ]
        for row in rows
    ]
    nothing = "0: nothing was shown, which does not say that nothing is told"
    last = [nothing] * any(row["epsilon"] == 0 or row["mu"] == 0 for row in rows)
    table = TextTable([*map(Heading, ("gamma", "right guesses", "epsilon >=", "mu >="))], texts)
    lines = [
        f"{first['canaries']} coins of one run, each for one of two examples; n = {first['n']}",
        table.to_text(),
        f"of replace-one neighbours, epsilon at delta = {first['delta']:g}; each bound holds with "
        f"{first['confidence']:.0%} (Steinke et al. 2023; Mahloujifar et al. 2025)",
    ]
    return "\n".join([*lines, *last])


def _defaults(problem: Problem, guarantee: Guarantee | None) -> dict[str, Any]:
    gamma = None if guarantee is None else guarantee.gamma
    return {"n": problem.n, "gammas": problem.gammas if gamma is None else (gamma,)}


def _is_of_guarantee_alone(arguments: Sequence[str]) -> bool:
    """Return whether a guarantee is named and nothing to attack."""
    flags = {word.partition("=")[0] for word in arguments if word.startswith("--")}
    if GUARANTEE.flag not in flags or not flags.isdisjoint({"--data", "--with"}):
        return False
    known = [option for options in GROUPS.values() for option in options]
    return split_name(arguments, [*known, *problem_options()])[0] is None


def _load(path: str) -> Guarantee:
    from gibbs_dp.privacy import load_guarantee

    try:
        return load_guarantee(path)
    except OSError as error:
        raise UsageError(
            f"--guarantee: cannot read {path!r} ({error.strerror}); name a JSON file."
        ) from error
    except UnicodeDecodeError:
        raise UsageError(f"--guarantee: {path!r} is no text; name a JSON file.") from None


def _show_guarantee(arguments: Sequence[str]) -> None:
    of_file = replace(GUARANTEE, help="JSON file of a release")
    parsed = parse(
        "attack",
        OF_GUARANTEE,
        arguments,
        {"a guarantee": (of_file,), "output": (*CHECK_OUTPUT, HTML)},
        usage="gibbs-dp attack --guarantee FILE [options]",
    )
    folder = output.prepare_folder(parsed.out)
    prepare_page(parsed)
    guarantee = _load(parsed.guarantee)
    found = allowed_by(guarantee)
    text = in_words(guarantee, found)
    output.present(parsed, [found], lambda: text)
    if folder is not None:
        path = folder / "attack.json"
        output.save_json(found, path)
        output.tell_saved([path], parsed.json, parsed.quiet)
    write_page(parsed, guarantee, "What a guarantee allows an attacker", text.splitlines()[1:])


def allowed_by(guarantee: Guarantee) -> dict[str, Any]:
    """Return the largest advantage and rates that a guarantee allows; plain numbers."""
    from gibbs_dp.privacy import largest_advantage, largest_tpr

    advantage = largest_advantage(guarantee)
    return {
        "kind": "allowed",
        **{key: value for key, value in guarantee.to_dict().items() if key in _SHOWN},
        "largest_advantage": advantage,
        "largest_success_rate": 0.5 + 0.5 * advantage,
        "largest_tpr": {
            f"{rate:g}": float(tpr)
            for rate, tpr in zip(RATES, largest_tpr(guarantee, RATES), strict=True)
        },
        "attacks_run": 0,
    }


_SHOWN = ("adjacency", "num_draws", "gamma", "epsilon", "delta", "pure_epsilon", "zcdp", "gdp")


def in_words(guarantee: Guarantee, found: dict[str, Any]) -> str:
    """Say what is allowed, and what was not done."""
    rates = ", ".join(
        f"{tpr:.2%} at {float(rate):.1%}" for rate, tpr in found["largest_tpr"].items()
    )
    lines = [
        *guarantee.summary().splitlines()[:1],
        f"advantage (true minus false positive rate): at most {found['largest_advantage']:.4g}",
        f"right guesses of a fair coin: at most {found['largest_success_rate']:.2%}",
        f"true positive rate at a false positive rate: at most {rates}",
        f"of every attacker who tells {guarantee.adjacency} neighbours apart from all "
        f"{guarantee.num_draws} draws, and knows everything else.",
    ]
    if guarantee.is_idealized:
        lines.append("IDEALIZED: of exact draws; the draws of a Markov chain are approximate")
    return "\n".join([*lines, f"note  {NOT_RUN}"])
