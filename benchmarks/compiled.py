"""What XLA makes of the engine's programs for a GPU, on a machine that has none.

    python benchmarks/compiled.py --cuda DIR           # DIR: see gpu_compiler.py

For every problem the program of a block of datasets is compiled for an H100 from its description:
kernels, host synchronizations and bytes of one HMC step, loops whose number of rounds is unknown
(the host is asked before every one), memory, and seconds of tracing and of compilation (by a CPU
that nothing was tuned on). Bytes are what kernels read and write, were nothing in a cache.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import gpu_compiler
import numpy as np

# Where the loop over the steps of a chain is.
STEP_LOOP = "sampling/chains.py"
PROBLEMS = ("logistic", "linear", "generic")


class Program(NamedTuple):
    """A function of arrays, for so many datasets, whose loops of unknown length have ``rounds``."""

    name: str
    call: Callable[..., Any]
    arguments: tuple[Any, ...]
    datasets: int
    rounds: int


def programs(names, datasets):
    """Yield the engine's programs as an accelerator gets them: a block of datasets, all at once."""
    import numpyro.distributions as dist
    from peers_problems import PROBLEMS as CASES
    from phases import last_block
    from roofline import own_logistic

    import gibbs_dp as gdp
    from gibbs_dp.engine.program import block_program

    for name in names:
        case = CASES["logistic" if name == "generic" else name]()
        if name == "generic":
            prior = dist.Normal(0.0, 1.0).expand([case.posterior.dim])
            posterior = gdp.GibbsPosterior(own_logistic, prior)
            case = dataclasses.replace(case, name="own loss", posterior=posterior)
        settings, plan, (population, roots, _, inputs) = last_block(case)

        def call(*arguments, settings=settings, plan=plan):
            static = settings.posterior, settings.sampler, plan, settings.traced
            return block_program("cuda").traced(*static, datasets, *arguments)

        numbers = np.zeros((2, datasets), np.int32)
        rounds = int(inputs.schedule.tuning.num_inner)
        yield Program(case.name, call, (population, roots, numbers, inputs), datasets, rounds)


def measure(program, place):
    """Compile one program and read it."""
    found, trace_s, compile_s = gpu_compiler.compile_for(place, program.call, program.arguments)
    read = gpu_compiler.Compiled(found.as_text())
    loops = read.loops()
    chains = [loop for loop in loops if loop.source.startswith(STEP_LOOP)]
    row = {"problem": program.name, "datasets": program.datasets}
    if chains:
        step = max(chains, key=lambda loop: loop.depth)
        kernels, waits, traffic = read.per_round(step, program.rounds)
        row |= {"gradients_per_step": program.rounds, "kernels_per_step": kernels}
        row |= {"synchronizations_per_step": waits}
        row |= {"bytes_per_dataset_and_step": traffic / program.datasets}
    memory = found.memory_analysis()
    return row | {
        "loops": len(loops),
        "loops_of_unknown_length": sum(loop.trips is None for loop in loops),
        "kernels_outside_loops": len(read.kernels(read.entry)),
        "memory_mib": (memory.temp_size_in_bytes + memory.output_size_in_bytes) / 2**20,
        "trace_s": trace_s,
        "compile_s": compile_s,
        "where": [f"{loop.depth} {loop.source} {loop.trips or '?'}" for loop in loops],
    }


def main():
    """Compile, read and save."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--cuda", required=True, help="folder with XLA's CUDA plugin")
    parser.add_argument("--datasets", type=int, default=4096, help="of a block")
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=PROBLEMS)
    parser.add_argument("--quick", action="store_true", help="linear regression only, 64 datasets")
    parser.add_argument("--out", help="folder (default: benchmarks/results)")
    parsed = parser.parse_args()
    if not gpu_compiler.is_installed(parsed.cuda):
        parser.error(f"--cuda: {parsed.cuda!r} has no plugin; {gpu_compiler.INSTALL}")
    if "jax" in sys.modules:
        raise RuntimeError("jax has been imported before its plugin: run this as a program.")
    gpu_compiler.prepare(parsed.cuda)
    import machine

    if parsed.quick:
        parsed.problems, parsed.datasets = ["linear"], 64
    place = gpu_compiler.placement()
    rows = []
    for program in programs(parsed.problems, parsed.datasets):
        rows.append(measure(program, place))
        settings = {"compiled_for": gpu_compiler.H100_NAME, "autotuned": False}
        path = machine.save("compiled", rows, settings, parsed.out)
    for row in rows:
        print()
        machine.show([{"figure": k, "value": v} for k, v in row.items() if k != "where"])
        print("\n".join(row["where"]))
    print("saved", path)


if __name__ == "__main__":
    main()
