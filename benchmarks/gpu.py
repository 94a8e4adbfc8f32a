"""Whether the library works on this GPU, and how fast: one command, under nine minutes.

    python benchmarks/gpu.py                           # on a machine with a GPU
    python benchmarks/gpu.py --quick                   # a minute or two on a CPU: does it run?
    python benchmarks/gpu.py --phases scaling peers    # some of it

Closed forms, 10^2 to 10^6 datasets, compile times, TF32 against float32, BlackJAX and NumPyro on
the same device (each skipped where it is not installed), the block that fills the device, shares of
peak arithmetic and of memory bandwidth, 16 GB of memory, mutual information, repeatability. The
JSON is written after every phase: a run that is cut off tells what it found; a phase that fails
says so, and the next one runs. "first" is with compilation, "again" without.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import traceback

BEGIN = time.perf_counter()
# So that peak memory means something, and other processes have some.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import gpu_phases  # noqa: E402
import machine  # noqa: E402
from gpu_audits import child, memory  # noqa: E402

# What a phase must find left to begin.
LEAST_SECONDS = 20.0


def run(phases, seconds, quick, save):
    """Run phases one after another; ``save`` is called with all rows after each."""
    rows, found = [], {}
    for phase, share in phases.items():
        name, begin = phase.__name__, time.perf_counter()
        end = BEGIN + seconds
        if not quick and end - begin < LEAST_SECONDS:
            rows.append({"phase": name, "failed": "no time left"})
            save(rows)
            continue
        end = min(end, begin + share * seconds)
        asked = gpu_phases.AuditSpec(lambda end=end: end - time.perf_counter(), quick, found)
        try:
            found[name] = phase(asked)
        except Exception:
            found[name] = [{"failed": traceback.format_exc()[-1500:]}]
        span, peak = time.perf_counter() - begin, memory("peak_bytes_in_use")
        rows += [{"phase": name, **row} for row in found[name]]
        rows.append({"phase": name, "phase_s": span, "peak_bytes": peak})
        save(rows)
        print(f"\n{name}: {span:.1f} s", flush=True)
        machine.show(found[name])
    return rows


def against_goals(rows):
    """Put the best figure of every goal beside it."""
    table = []
    for name, goal in gpu_phases.GOALS.items():
        values = [row[name] for row in rows if name in row]
        best = (max if name.startswith("times") else min)(values, default=None)
        table.append({"figure": name, "goal": goal, "measured": best})
    return table


def main():
    """Measure and save."""
    names = {phase.__name__: phase for phase in gpu_phases.PHASES}
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, default=480.0, help="of all phases together")
    parser.add_argument("--phases", nargs="+", choices=list(names), default=list(names))
    parser.add_argument("--quick", action="store_true", help="sizes that mean nothing")
    parser.add_argument("--child", type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("--out", help="folder (default: benchmarks/results)")
    parsed = parser.parse_args()
    if parsed.child is not None:
        child(parsed.child, BEGIN)
        return

    def save(rows):
        settings = {"quick": parsed.quick, "seconds": time.perf_counter() - BEGIN}
        settings["goals"] = against_goals(rows)
        return machine.save("gpu", rows, settings, parsed.out)

    chosen = {names[name]: gpu_phases.PHASES[names[name]] for name in parsed.phases}
    rows = run(chosen, parsed.seconds, parsed.quick, save)
    print()
    machine.show(against_goals(rows))
    print("saved", save(rows))
    sys.exit(any("failed" in row for row in rows))


if __name__ == "__main__":
    main()
