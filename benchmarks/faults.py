"""What becomes of a run that is killed, starved, damaged, raced or told to stop.

    python benchmarks/faults.py            # a quarter of an hour; --quick for a look
    python benchmarks/faults.py signals    # one of kills, signals, disk, limits, permissions, ...

Every fault is done to the real program in processes of their own, and what it prints is compared
with that of an undisturbed run of the same settings. A run may end with the identical report, or
with one line that says what is wrong; anything else is in capitals. Small file systems are mounted
where that is allowed, clocks are set where libfaketime is installed; what is skipped is said.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import faults_files as files
import faults_shared as shared
import faults_signals as signals
import machine
from faults_runs import BAD, SWEEP, Place, Tried

QUESTIONS = {
    "kills": signals.killed,
    "signals": signals.asked_to_stop,
    "workers": signals.lost_worker,
    "disk": files.full_disk,
    "limits": files.file_size_limit,
    "permissions": files.read_only,
    "damage": files.damaged,
    "processes": shared.two_in_one_store,
    "releases": shared.releases,
    "clocks": shared.clocks,
    "memory": shared.memory,
}
QUICK_TRIES = 2


def counted(question: str, trials: list[Tried]) -> list[dict[str, object]]:
    """Rows: a fault, how it ended, how often, and what was said the last time."""
    counts = Counter((trial.fault, trial.outcome) for trial in trials)
    notes = {(trial.fault, trial.outcome): trial.note for trial in trials}
    return [
        {"question": question, "fault": fault, "outcome": outcome, "times": times, "last": note}
        for (fault, outcome), times in counts.items()
        for note in [notes[fault, outcome]]
    ]


def main() -> None:
    """Do the faults asked for, all by default; print and save how they ended."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("questions", nargs="*", metavar="QUESTION", help=", ".join(QUESTIONS))
    parser.add_argument("--quick", action="store_true", help="each fault once or twice")
    parser.add_argument("--out", help="folder (default: benchmarks/results)")
    given = parser.parse_args()
    asked = given.questions or list(QUESTIONS)
    for name in set(asked) - set(QUESTIONS):
        parser.error(f"unknown question {name!r}; choose from {', '.join(QUESTIONS)}.")
    rows = machine.rows_of_others("faults", "question", asked, given.out)
    with tempfile.TemporaryDirectory(prefix="gibbs_dp_faults_") as folder:
        place = Place(Path(folder), (lambda count: min(count, QUICK_TRIES)) if given.quick else int)
        place.run(*SWEEP, "--out", place.new())  # compiles
        whole = place.run(*SWEEP, "--out", place.new())
        # Of this run, and of what else made a folder for a while: names of one machine.
        temporary = re.compile(rf"[^\s']*{folder}/\w+|{tempfile.gettempdir()}/[\w./-]+")
        for name in asked:
            began, trials = time.perf_counter(), []
            for found in QUESTIONS[name](place, whole.out, whole.seconds):
                trial = found._replace(note=temporary.sub("DIR", found.note))
                trials.append(trial)
                sign = "  <----" if trial.outcome in BAD else ""
                print(f"{trial.fault}: {trial.outcome} ({trial.note}){sign}", flush=True)
            rows += counted(name, trials)
            print(f"-- {name}: {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    machine.show([{k: v for k, v in row.items() if k != "last"} for row in rows])
    settings = {"sweep": " ".join(SWEEP), "is_quick": given.quick}
    print("saved", machine.save("faults", rows, settings, given.out))
    bad = [f"{row['fault']}: {row['outcome']}" for row in rows if row["outcome"] in BAD]
    if bad:
        sys.exit("; ".join(bad))


if __name__ == "__main__":
    main()
