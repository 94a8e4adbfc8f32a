"""SIGKILL, Ctrl-C and SIGTERM at many moments, and a worker of Dask that is killed."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

from faults_runs import SWEEP, Place, Trials, Tried, judged, torn

# After the first import, which Python's own start precedes; squares, as most happens early.
FIRST = 0.005


def moments(place: Place, count: int, seconds: float, seed: int) -> list[float]:
    """Moments of a run that takes so long, half of them in its first quarter."""
    rng = random.Random(seed)
    count = place.num_tries(count)
    return [FIRST + seconds * ((i + rng.random()) / count) ** 2 for i in range(count)]


def killed(place: Place, whole: str, seconds: float) -> Trials:
    """Kill an audit, with its store and its report being written, and run it again."""
    for moment in moments(place, 12, seconds, 1):
        folder = place.new()
        words = (*SWEEP, "--store", folder / "store", "--out", folder / "out")
        ran = place.start(*words).signal_after(moment, signal.SIGKILL)
        note = f"at {moment:.2f} s, {blocks(folder)} blocks"
        if ran.status == 0:
            yield Tried("SIGKILL of an audit, run again", judged(ran, whole), "it had ended")
            continue
        broken = torn(folder)
        again = judged(place.run(*words), whole)
        yield Tried("SIGKILL of an audit, run again", "TORN" if broken else again, note)


def asked_to_stop(place: Place, whole: str, seconds: float) -> Trials:
    """Send Ctrl-C and SIGTERM; what there is to resume is resumed."""
    for number, status, count in ((signal.SIGINT, 130, 20), (signal.SIGTERM, 143, 20)):
        fault = f"{number.name} to an audit"
        for moment in moments(place, count, seconds, int(number)):
            folder = place.new()
            words = (*SWEEP, "--store", folder / "store", "--out", folder / "out")
            ran = place.start(*words).signal_after(moment, number)
            outcome = judged(ran, whole)
            if outcome == "one line" and ran.status != status:
                outcome = "SILENT"
            # All was said and saved, and Python was on its way out.
            if outcome == "CRASHED" and ran.out == whole and ran.status == -number:
                outcome = "identical"
            if torn(folder) or list(folder.rglob("*.part")):
                outcome = "TORN"
            yield Tried(fault, outcome, f"at {moment:.2f} s: {ran.err.strip()}")
            if blocks(folder):
                again = place.run(*words)
                yield Tried(f"{fault}, run again", judged(again, whole), f"after {moment:.2f} s")


def blocks(folder: Path) -> int:
    """Count the blocks in a store below a folder."""
    return len(list(folder.glob("store/*/gamma-*/blocks-*/*.npz")))


def lost_worker(place: Place, whole: str, seconds: float) -> Trials:
    """Kill one of two workers of Dask while they sample."""
    fault = "a worker of Dask is killed"
    for _ in range(place.num_tries(3)):
        folder = place.new()
        running = place.start(
            *SWEEP, "--dask", "local:2", "--store", folder / "store", "--num-datasets", 512
        )
        victim, limit = None, time.monotonic() + 120
        while blocks(folder) < 2 and running.process.poll() is None and time.monotonic() < limit:
            time.sleep(0.005)
        for child in _below(running.process.pid):
            if "spawn_main" in _command(child):
                victim = child
        if victim is not None:
            os.kill(victim, signal.SIGKILL)
        ran, at = running.end(), blocks(folder)
        outcome = judged(ran, place.run(*SWEEP, "--num-datasets", 512).out)
        yield Tried(fault, outcome, f"{at} blocks" if victim else "no worker was found")


def _below(process: int) -> list[int]:
    """All processes that a process has started, and theirs."""
    found = []
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found += [child, *_below(child)]
    return found


def _command(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""
