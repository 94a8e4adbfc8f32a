"""Hostile input: every file and command line is accepted rightly, or refused in a sentence.

Cases of every format (`fuzzing/`) are judged in processes with limits of time and memory, under
an audit hook that hears of any pickle, program or connection. A failure is a traceback, anything
but one sentence for a terminal, a process that dies, over a minute or a gigabyte, anything run, or
a file that is accepted as something else than was saved. The same seed makes the same cases.

    python benchmarks/fuzz.py --cases 10000
    python benchmarks/fuzz.py --cases 10000 --formats CSV ledgers
"""

from __future__ import annotations

import argparse
import os
import sys
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import machine
from fuzzing import confined
from fuzzing.formats import FORMATS

# Cases of one process, and texts of failures that are kept of a format.
BATCH, SHOWN = 400, 20


def fuzz(name: str, count: int, seed: int) -> dict[str, object]:
    """Judge cases of one format.

    Parameters
    ----------
    name
        Of the format.
    count
        Cases.
    seed
        Of all cases.

    Returns
    -------
    dict
        A row of the results.
    """
    began, found = time.perf_counter(), []
    for first in range(0, count, BATCH):
        for one in confined.judged(name, range(first, min(first + BATCH, count)), seed):
            found.append(one)
            if one.verdict.startswith("failed"):
                print(f"{name} {one.number}: {one.verdict}", flush=True)
    failures = [one for one in found if one.verdict.startswith("failed")]
    return {
        "format": name,
        "cases": len(found),
        "accepted": sum(one.verdict == "accepted" for one in found),
        "refused": sum(one.verdict == "refused" for one in found),
        "failures": len(failures),
        "slowest_seconds": max(one.seconds for one in found),
        "largest_megabytes": max(one.megabytes for one in found),
        "seconds": round(time.perf_counter() - began, 1),
        "examples": [f"{one.number}: {one.verdict}" for one in failures[:SHOWN]],
    }


def main() -> None:
    """Judge all formats, print and save."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=10_000, help="cases of all formats")
    parser.add_argument("--seed", type=int, default=0, help="seed of all cases")
    parser.add_argument("--formats", nargs="+", choices=tuple(FORMATS), help="these only")
    parser.add_argument("--quick", action="store_true", help="500 cases")
    parser.add_argument("--out", help="folder for the results")
    given = parser.parse_args()
    cases = 500 if given.quick else given.cases
    names = given.formats or list(FORMATS)
    rows = machine.rows_of_others("fuzz", "format", names, given.out) if given.formats else []
    settings = {
        "cases": cases,
        "seed": given.seed,
        "seconds_of_a_case": confined.SECONDS,
        "megabytes_of_a_case": confined.MEMORY >> 20,
    }
    for name in names:
        rows.append(fuzz(name, round(FORMATS[name].share * cases), given.seed))
        machine.show([{k: v for k, v in rows[-1].items() if k != "examples"}])
    rows.sort(key=lambda row: list(FORMATS).index(row["format"]))
    # Not before the end: it starts JAX, after which processes cannot be forked.
    machine.save("fuzz", rows, settings, given.out)
    failures = sum(row["failures"] for row in rows if row["format"] in names)
    if failures:
        sys.exit(f"{failures} of these cases failed.")


if __name__ == "__main__":
    main()
