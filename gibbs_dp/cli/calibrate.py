"""``gibbs-dp calibrate``: the gamma of a privacy target, worst case or on average."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from gibbs_dp.cli import output
from gibbs_dp.cli.errors import UsageError
from gibbs_dp.cli.options import OUTPUT
from gibbs_dp.cli.problem import make_problem, parse_with_problem
from gibbs_dp.cli.session import start_session
from gibbs_dp.cli.targets import DOMAIN, TARGETS, declared, require_adjacency, targets
from gibbs_dp.problems.registry import Option

SUMMARY = "The largest gamma that meets one privacy target, and why each guarantee holds or not."

COUNTS = (
    Option("n", "int", "examples per dataset (default: the problem's)"),
    Option("on_average_kl", "float", "target: on-average KL on the problem's population"),
    Option("num_datasets", "int", "datasets per audit for --on-average-kl (default 512)"),
    Option("chain", "flag", "settings of a private ULA run instead of exact draws"),
    Option("max_steps", "int", "most steps of --chain (default 1000)"),
    Option("float64", "flag", "compute in double precision"),
)


def run(arguments: Sequence[str]) -> None:
    """Run the command.

    Raises
    ------
    ValueError
        For bad input.
    """
    groups = {"target": (*TARGETS, *COUNTS), "what is declared": DOMAIN, "output": OUTPUT}
    parsed, name = parse_with_problem("calibrate", SUMMARY, arguments, groups)
    start_session(parsed.float64)
    folder = output.prepare_folder(parsed.out)
    problem = make_problem(parsed, name)
    posterior, domain = declared(parsed, problem)
    n = problem.n if parsed.n is None else parsed.n
    for keyword, needs in (("num_datasets", "on_average_kl"), ("max_steps", "chain")):
        if getattr(parsed, keyword) is not None and not getattr(parsed, needs):
            flag = "--" + keyword.replace("_", "-")
            raise UsageError(f"{flag}: it belongs to --{needs.replace('_', '-')}; leave it out.")
    if parsed.on_average_kl is not None:
        text, row = _on_average(parsed, problem, posterior, n)
    elif parsed.chain:
        text, row = _chain(parsed, posterior, domain, n)
    else:
        text, row = _worst_case(parsed, posterior, domain, n)
    output.emit(json.dumps(row) if parsed.json else text)
    if folder is not None:
        from gibbs_dp import io

        path = folder / "calibration.json"
        with io.atomic_write(path) as temporary:
            temporary.write_text(json.dumps(row, indent=2) + "\n")
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
    given = {
        "n": n,
        "adjacency": parsed.adjacency,
        "domain": domain,
        "num_draws": parsed.num_draws,
    }
    found: Any = calibrate(posterior, **targets(parsed), **given)
    why = explain(account(posterior, gamma=found.gamma, **given), delta=parsed.delta or 1e-5)
    return f"gamma = {found.gamma:.10g}\n{why}", {"n": n, **found.guarantee.to_dict()}


def _chain(parsed: Any, posterior: Any, domain: Any, n: int) -> tuple[str, dict[str, Any]]:
    from gibbs_dp.privacy import calibrate_chain

    require_adjacency(parsed)
    given = targets(parsed)
    if set(given) != {"epsilon", "delta"} or parsed.num_draws != 1:
        raise UsageError("--chain: its target is --epsilon with --delta, for one draw.")
    if domain is None:
        raise UsageError("--x-bound: a chain needs declared bounds on the examples.")
    found = calibrate_chain(
        posterior,
        **given,
        n=n,
        adjacency=parsed.adjacency,
        domain=domain,
        max_steps=1000 if parsed.max_steps is None else parsed.max_steps,
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


def _on_average(parsed: Any, problem: Any, posterior: Any, n: int) -> tuple[str, dict[str, Any]]:
    from gibbs_dp.auditing.calibrate import calibrate

    found: Any = calibrate(
        posterior,
        n=n,
        on_average_kl=parsed.on_average_kl,
        population=problem.population,
        adjacency=parsed.adjacency,
        num_draws=parsed.num_draws,
        num_datasets=512 if parsed.num_datasets is None else parsed.num_datasets,
        key=parsed.seed,
        progress=not parsed.quiet,
        **targets(parsed),
    )
    for warning in found.warnings:
        output.log(f"warning: {warning}", parsed.quiet)
    names = ("gamma", "gamma_se", "on_average_kl", "on_average_kl_se", "num_draws")
    row = {"n": n, **{k: getattr(found, k) for k in names}}
    text = (
        f"gamma = {found.gamma:.6g} ± {found.gamma_se:.2g} (standard error)\n"
        f"on-average KL of {found.num_draws} draw(s) there: {found.on_average_kl:.6g} ± "
        f"{found.on_average_kl_se:.2g} nats; an average over the population, no worst case"
    )
    return text, row
