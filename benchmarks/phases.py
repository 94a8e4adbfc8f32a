"""Where the time of a block of datasets goes: the block's own program, cut off at each phase.

    python benchmarks/phases.py

For every problem of ``peers_problems.py`` the program that an audit runs is compiled again with
only some of its results; the compiler leaves out what these do not need. What a phase costs is the
difference to the one before. Times are the least of many runs on one core, which is where a block
of an audit runs; a phase is known to about a tenth of a millisecond. Then the same for logistic
regression with more examples.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import time
from operator import attrgetter

if __name__ == "__main__" and hasattr(os, "sched_setaffinity"):  # before JAX starts its threads
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import jax
import machine
import numpy as np
from peers_problems import PROBLEMS

import gibbs_dp as gdp
from gibbs_dp._jaxlib.compile import compiler_options
from gibbs_dp.engine import program as block
from gibbs_dp.engine.runner import Runner

CHAINS = ("health.mean_u", "health.accept_prob")
RISKS = (*CHAINS, "values.risks.empirical", "values.risks.population")
# Each a part of the next: what is left out of a program is what the results do not need.
PHASES = {
    "data, mode, chains": CHAINS,
    "losses, risks": RISKS,
    "direct estimate": (*RISKS, "values.on_average_kl.one_sided"),
    "rest": None,
}


def last_block(case):
    """Return settings and arguments of a block of the main run, pilots behind it."""
    seen = []
    call = Runner._run_job

    def remember(runner, sheet, job, device, at_once):
        seen.append((runner, sheet, job, device))
        return call(runner, sheet, job, device, at_once)

    Runner._run_job = remember
    try:
        gdp.audit(
            case.posterior,
            case.population,
            case.n,
            [case.gamma],
            num_datasets=64,
            learn=[
                *gdp.DEFAULT,
                gdp.OnAverageKL(num_ghosts=case.num_ghosts),
                gdp.MutualInformation(0),
            ],
            progress=False,
        )
    finally:
        Runner._run_job = call
    runner, sheet, job, device = seen[-1]
    population, roots, inputs = runner._place(sheet, job, device)
    return runner.settings, job.plan, (population, roots, job.numbers(None), inputs)


def compiled(settings, plan, arguments, fields):
    """Compile the block's program as the engine does, for some of its results."""

    def run(*arguments):
        found = block._block(
            settings.posterior,
            settings.sampler,
            plan,
            settings.traced,
            settings.num_at_once,
            *arguments,
        )
        return found if fields is None else [attrgetter(name)(found) for name in fields]

    options = compiler_options(jax.default_backend(), settings.is_brief)
    return jax.jit(run, compiler_options=options).lower(*arguments).compile()


def measure(case, runs):
    """Milliseconds of a block, and of each of its phases."""
    settings, plan, arguments = last_block(case)
    programs = {name: compiled(settings, plan, arguments, f) for name, f in PHASES.items()}
    least = dict.fromkeys(programs, np.inf)
    for _ in range(runs):  # in turn, so that a slow minute is everybody's
        for name, program in programs.items():
            begin = time.perf_counter()
            jax.block_until_ready(program(*arguments))
            least[name] = min(least[name], time.perf_counter() - begin)
    schedule = arguments[-1].schedule
    row = {
        "problem": case.name,
        "datasets": settings.block_size,
        "steps": int(schedule.num_burn_in) + settings.num_samples,
        "gradients_per_step": int(schedule.tuning.num_inner),
    }
    before = 0.0
    for name in programs:
        row[f"{name} ms"] = 1e3 * (least[name] - before)
        before = least[name]
    return row | {"block ms": 1e3 * before, "dataset ms": 1e3 * before / settings.block_size}


def main():
    """Measure and save."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--problems", nargs="*", choices=list(PROBLEMS), default=list(PROBLEMS))
    parser.add_argument("--examples", nargs="*", type=int, default=[1_000, 10_000, 100_000])
    parser.add_argument("--quick", action="store_true", help="the private mean only, two runs")
    parser.add_argument("--out", help="folder (default: benchmarks/results)")
    parsed = parser.parse_args()
    if parsed.quick:
        parsed.runs, parsed.problems, parsed.examples = 2, ["private-mean"], []
    rows = [measure(PROBLEMS[name](), parsed.runs) for name in parsed.problems]
    for n in parsed.examples:
        case = dataclasses.replace(PROBLEMS["logistic"](), name=f"logistic, n = {n:,}", n=n)
        rows.append(measure(case, max(10, parsed.runs * 200 // n)))
    machine.show(rows)
    print("saved", machine.save("phases", rows, {"runs": parsed.runs}, parsed.out))


if __name__ == "__main__":
    main()
