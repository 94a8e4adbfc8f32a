"""``gibbs-dp calibrate``: the gamma of a privacy target, worst case or on average."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gibbs_dp import io
from gibbs_dp._options import Option, options_of
from gibbs_dp.cli import output
from gibbs_dp.cli.options import (
    ADJACENCY,
    DOMAIN,
    FLOAT64,
    NUM_DRAWS,
    OUTPUT,
    TARGETS,
    declared,
    require_adjacency,
)
from gibbs_dp.cli.output import UsageError
from gibbs_dp.cli.parser import given
from gibbs_dp.cli.problem import make_problem, parse_with_problem
from gibbs_dp.cli.session import start_session

SUMMARY = "The gamma that meets one privacy target or has the least risk, and why guarantees hold."

NUM_DATASETS = 512
(MAX_STEPS,) = options_of("gibbs_dp.privacy:calibrate_chain", max_steps="most steps of --chain")
COUNTS = (
    *options_of(
        "gibbs_dp:calibrate",
        n="examples per dataset (default: the problem's)",
        on_average_kl="target: on-average KL on the problem's population",
        attack_advantage="target: on-average advantage of the best attacker on one draw",
    ),
    Option("lowest", "str", "what is to be least on the population", choices=("population_risk",)),
    Option(
        "num_datasets",
        "int",
        "datasets per audit for targets on average and --lowest",
        shown=str(NUM_DATASETS),
    ),
    Option("chain", "flag", "settings of a private ULA run instead of exact draws"),
    MAX_STEPS,
    FLOAT64,
)
ON_AVERAGE = ("on_average_kl", "attack_advantage", "lowest")
PURPOSES = tuple(o for o in COUNTS if o.keyword in ON_AVERAGE)
GROUPS = {"target": (*TARGETS, *COUNTS), "what is declared": DOMAIN, "output": OUTPUT}


def run(arguments: Sequence[str]) -> None:
    """Run the command."""
    parsed, name = parse_with_problem("calibrate", SUMMARY, arguments, GROUPS)
    folder = start_session(parsed)
    problem = make_problem(parsed, name)
    posterior, domain = declared(parsed, problem)
    n = problem.n if parsed.n is None else parsed.n
    purpose = given(parsed, PURPOSES)
    if parsed.num_datasets is not None and not purpose:
        raise UsageError(
            "--num-datasets: it belongs to --on-average-kl, --attack-advantage and --lowest; leave "
            "it out."
        )
    if parsed.max_steps is not None and not parsed.chain:
        raise UsageError("--max-steps: it belongs to --chain; leave it out.")
    if purpose:
        text, row = _on_average(parsed, problem, posterior, n, purpose)
    elif parsed.chain:
        text, row = _chain(parsed, posterior, domain, n)
    else:
        text, row = _worst_case(parsed, posterior, domain, n)
    output.present(parsed, [row], lambda: text)
    if folder is not None:
        path = folder / "calibration.json"
        output.save_json(row, path)
        output.tell_saved([path], parsed.json, parsed.quiet)


def _worst_case(parsed: Any, posterior: Any, domain: Any, n: int) -> tuple[str, dict[str, Any]]:
    from gibbs_dp.auditing.calibrate import calibrate
    from gibbs_dp.privacy import account, explain

    require_adjacency(parsed)
    if domain is None and not posterior.structured:
        raise UsageError(
            "--x-bound: no bounds on the examples are declared; give --x-bound, and --y-range "
            "for losses other than logistic."
        )
    settings = {"n": n, "domain": domain, **given(parsed, (ADJACENCY, NUM_DRAWS))}
    found: Any = calibrate(posterior, **given(parsed, TARGETS), **settings)
    why = explain(account(posterior, gamma=found.gamma, **settings), delta=parsed.delta or 1e-5)
    return f"gamma = {found.gamma:.10g}\n{why}", {"n": n, **found.guarantee.to_dict()}


def _chain(parsed: Any, posterior: Any, domain: Any, n: int) -> tuple[str, dict[str, Any]]:
    from gibbs_dp.privacy import calibrate_chain

    require_adjacency(parsed)
    target = given(parsed, TARGETS)
    if set(target) != {"epsilon", "delta"} or parsed.num_draws not in (None, 1):
        raise UsageError("--chain: its target is --epsilon with --delta, for one draw.")
    if domain is None:
        raise UsageError("--x-bound: a chain needs declared bounds on the examples.")
    found = calibrate_chain(
        posterior, n=n, domain=domain, **target, **given(parsed, (ADJACENCY, MAX_STEPS))
    )
    row = {
        "n": n,
        "step_size": found.kernel.step_size,
        "num_steps": found.kernel.num_steps,
        "inaccuracy": found.inaccuracy,
        **found.guarantee.to_dict(),
    }
    text = (
        f"gamma = {found.gamma:.10g}, step size {found.kernel.step_size:.6g}, "
        f"{found.kernel.num_steps} steps; mean excess loss at most {found.inaccuracy:.4g}\n"
        f"{found.guarantee.summary()}"
    )
    return text, row


def _on_average(
    parsed: Any, problem: Any, posterior: Any, n: int, purpose: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Calibrate by audits."""
    from gibbs_dp.auditing.calibrate import calibrate

    found: Any = calibrate(
        posterior,
        n=n,
        population=problem.population,
        num_datasets=NUM_DATASETS if parsed.num_datasets is None else parsed.num_datasets,
        key=parsed.seed,
        progress=not parsed.quiet,
        **purpose,
        **given(parsed, (*TARGETS, ADJACENCY, NUM_DRAWS)),
    )
    output.warn(found.warnings, parsed.quiet)
    names = ("purpose", "gamma", "gamma_se", "gamma_low", "gamma_high", "value", "value_se")
    row = {"n": n, **{k: getattr(found, k) for k in (*names, "num_draws")}}
    what = found.purpose.replace("_", " ").replace("on average", "on-average").replace("kl", "KL")
    is_resolved = math.isfinite(found.gamma_se)
    text = (
        f"gamma = {found.gamma:.6g}, {'95% interval' if is_resolved else 'not resolved:'} "
        f"{found.gamma_low:.4g} to {found.gamma_high:.4g}\n"
        f"{what} of {found.num_draws} draw(s) there: {found.value:.6g} ± {found.value_se:.2g} "
        "(standard error); an average over the population, no worst case"
    )
    return text, io.json_row(row)
