"""How long a user waits before anything is computed: imports, help, first and second runs.

    python benchmarks/starts.py

Every figure is the least of several fresh processes, and a ratio to `import jax, numpyro` in the
same run: seconds depend on the machine, and on what else it does. Commands run with an empty cache
folder first and then again, when programs are neither traced nor compiled; of first runs the
programs that XLA compiles are counted, too.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import machine

IMPORTS = {
    "import jax, numpyro": "import jax, numpyro",
    "import gibbs_dp": "import gibbs_dp",
    "import gibbs_dp; gibbs_dp.audit": "import gibbs_dp; gibbs_dp.audit",
}
COMMAND = "import sys, _gibbs_dp_start as start; sys.argv[0] = 'gibbs-dp'; start.main()"
# The same, and how many programs were compiled is the last line of the standard error.
COUNTING = (
    "import atexit, sys; from jax import monitoring; seen = []; "
    "listen = lambda event, *_, **__: seen.append('backend_compile' in event); "
    "monitoring.register_event_duration_secs_listener(listen); "
    "atexit.register(lambda: print(sum(seen), file=sys.stderr)); "
) + COMMAND
LOOKS = {"gibbs-dp --help": ["--help"], "gibbs-dp audit --help": ["audit", "--help"]}
GRID = ["0.1", "0.14", "0.18", "0.25", "0.34", "0.46", "0.63", "0.86", "1.2", "1.6", "2.2"]
GRID += ["2.9", "4", "5.4", "7.4", "10"]
RUNS = {
    "audit, one gamma": ["audit", "linear-regression", "--gammas", "1"],
    "audit, 16 gammas to 1%": ["audit", "linear-regression", "--rel-error", "0.01", "--gammas"],
}
RUNS["audit, 16 gammas to 1%"] += GRID
RUNS["sample"] = ["sample", "logistic-regression"]


def seconds(code, arguments=(), **environment):
    """Wall-clock and processor seconds of a fresh process."""
    before, begin = os.times(), time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": ""} | environment,  # compiled, as installed
        check=True,
        capture_output=True,
    )
    elapsed, after = time.perf_counter() - begin, os.times()
    used = after.children_user + after.children_system
    return elapsed, used - before.children_user - before.children_system


def programs(arguments):
    """Count the programs that a command compiles in a fresh process, without a cache folder."""
    done = subprocess.run(
        [sys.executable, "-c", COUNTING, *arguments],
        env=os.environ | {"JAX_COMPILATION_CACHE_DIR": ""},
        check=True,
        capture_output=True,
        text=True,
    )
    return int(done.stderr.split()[-1])


def least(repeats, *given, **environment):
    """Least of several, wall-clock and processor each."""
    found = [seconds(*given, **environment) for _ in range(repeats)]
    return tuple(min(column) for column in zip(*found, strict=True))


def measure(repeats, runs):
    """Rows of all figures."""
    figures = {name: least(repeats, code) for name, code in IMPORTS.items()}
    figures |= {name: least(repeats, COMMAND, words) for name, words in LOOKS.items()}
    for name in runs:
        with tempfile.TemporaryDirectory() as home:
            given = COMMAND, [*RUNS[name], "--quiet"]
            place = {"XDG_CACHE_HOME": str(Path(home) / "cache")}
            figures[f"{name}, first run"] = seconds(*given, **place)
            figures[f"{name}, again"] = least(repeats, *given, **place)
    counts = {f"{name}, first run": programs([*RUNS[name], "--quiet"]) for name in runs}
    unit = figures["import jax, numpyro"]
    return [
        {
            "figure": name,
            "seconds": wall,
            "processor seconds": used,
            "over import jax, numpyro": wall / unit[0],
            "programs": counts.get(name),
        }
        for name, (wall, used) in figures.items()
    ]


def main():
    """Measure and save."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="imports and help, once")
    parser.add_argument("--out", help="folder (default: benchmarks/results)")
    parsed = parser.parse_args()
    repeats = 1 if parsed.quick else parsed.repeats
    rows = measure(repeats, () if parsed.quick else RUNS)
    path = machine.save("starts", rows, {"repeats": repeats}, parsed.out)
    machine.show(rows)
    print("saved", path)


if __name__ == "__main__":
    main()
