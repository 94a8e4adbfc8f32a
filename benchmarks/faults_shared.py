"""Two processes in one store or one ledger, releases that are killed, clocks that jump, memory."""

from __future__ import annotations

import json
import random
import resource
import shutil
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from faults_files import ROOM, small_disk
from faults_runs import SWEEP, Place, Ran, Trials, Tried, judged, torn, with_limit

_RELEASE = (
    "release --target ill --label no yes --range age 0 100 --adjacency replace-one "
    "--accept exact-draw float-arithmetic --pure-epsilon 0.5 --json --quiet"
)
RELEASE = _RELEASE.split()
YEAR = 365 * 24 * 3600
# Losses of all draws of its datasets take hundreds of megabytes at once.
_LARGE = (
    "audit linear-regression --n 1000 --gammas 1 --num-datasets 8 --num-samples 1000 "
    "--num-warmup 20 --num-information 0 --block-size 8 --json"
)
LARGE = _LARGE.split()
ENDED = {
    "bad_alloc": "ended by C++ (std::bad_alloc)",
    "pthread_create": "ended by jaxlib (no memory for a thread)",
}
LIMITS_MB = (300, 400, 500, 600, 700, 900, 1100)


def two_in_one_store(place: Place, whole: str, seconds: float) -> Trials:
    """Two processes that each do all of it at once, then two that share it."""
    for _ in range(place.num_tries(3)):
        store = place.new() / "store"
        running = [place.start(*SWEEP, "--store", store) for _ in range(2)]
        for one in running:
            yield Tried("two processes, one store, all of it each", judged(one.end(), whole))
        store = place.new() / "store"
        shares = [("--num-processes", 2, "--process-id", i) for i in range(2)]
        running = [place.start(*SWEEP, "--store", store, *share) for share in shares]
        for one in running:
            one.end()
        merged = place.run("merge", store, "--json", "--quiet")
        yield Tried("two processes, one store, half each, merged", judged(merged, whole))


def _dataset(place: Place, epsilon: float = 1.0) -> Path:
    """Make a folder with a table and a ledger of its budget."""
    folder = place.new()
    lines = [f"{20 + i},{'yes' if i % 3 else 'no'}" for i in range(60)]
    (folder / "t.csv").write_text("\n".join(["age,ill", *lines]) + "\n")
    budget = ("--adjacency", "replace-one", "--epsilon", epsilon)
    place.run("ledger", "create", "--ledger", folder / "l", *budget)
    return folder


def _release(folder: Path) -> tuple[object, ...]:
    return (*RELEASE, "--data", folder / "t.csv", "--ledger", folder / "l")


def _charges(place: Place, folder: Path) -> int:
    """Count charges; -1 where the ledger cannot be read."""
    ran = place.run("ledger", "show", "--ledger", folder / "l", "--json")
    kinds = [json.loads(line)["kind"] for line in ran.out.splitlines()]
    return kinds.count("charge") if ran.status == 0 else -1


def _kept(ran: Ran, out: Path, charges: int) -> str:
    """Judge one release: nothing is handed out without its charge, and no file is torn."""
    if torn(out):
        return "TORN"
    is_out = '"draw"' in ran.out or (out / "release.json").exists()
    if charges not in (0, 1) or (is_out and charges != 1):
        return "LOST"
    return "released and charged" if is_out else f"charged {charges} times, nothing handed out"


def releases(place: Place, whole: str, seconds: float) -> Trials:
    """Kill and interrupt releases; let two race for the last of a budget; fill their disk."""
    rng = random.Random(7)
    folder = _dataset(place)
    took = place.run(*_release(folder)).seconds
    for number, count in ((signal.SIGKILL, 12), (signal.SIGINT, 6), (signal.SIGTERM, 6)):
        for i in range(place.num_tries(count)):
            folder = _dataset(place)
            # Most is imports: charge, draw and files are in the last third.
            moment = took * (0.6 + 0.5 * rng.random() if i % 3 else rng.random())
            running = place.start(*_release(folder), "--out", folder / "out")
            ran = running.signal_after(moment, number)
            outcome = _kept(ran, folder / "out", _charges(place, folder))
            # All was said and saved, and Python was on its way out.
            has_ended = ran.status == -number and '"guarantee"' in ran.out and not ran.err
            told = "identical" if has_ended else judged(ran, None)
            if number != signal.SIGKILL and told not in ("identical", "one line"):
                outcome = told
            note = f"at {moment:.2f} s: {ran.status} {ran.err.strip()}"
            yield Tried(f"{number.name} to a release", outcome, note)
    for _ in range(place.num_tries(3)):
        folder = _dataset(place, 0.5)
        racing = [place.start(*_release(folder)) for _ in range(2)]
        ended = sorted(one.end().status or 0 for one in racing)
        is_right = ended == [0, 2] and _charges(place, folder) == 1
        outcome = "one charged, one refused" if is_right else "WRONG"
        yield Tried("two releases for the last of a budget", outcome)
    for size in (4096, 40_960, ROOM)[: place.num_tries(3)]:
        yield _on_a_small_disk(place, size)
    yield from _new_ledgers(place)


def _on_a_small_disk(place: Place, size: int) -> Tried:
    fault = "full disk: ledger and release"
    with small_disk(place, ROOM) as disk:
        if disk is None:
            return Tried(fault, "skipped", "no file system may be mounted here")
        folder = _dataset(place)
        shutil.copy(folder / "l", disk / "l")
        with (disk / "other").open("wb") as other:
            other.write(bytes(shutil.disk_usage(disk).free - (size if size < ROOM else 0)))
        shutil.copy(disk / "l", folder / "before")
        words = (*RELEASE, "--data", folder / "t.csv", "--ledger", disk / "l")
        ran = place.run(*words, "--out", disk / "out" if size == ROOM else folder / "out")
        out = disk / "out" if size == ROOM else folder / "out"
        (disk / "other").unlink()
        shutil.copy(disk / "l", folder / "l")
        outcome = _kept(ran, out, _charges(place, folder))
        if judged(ran, None) not in ("identical", "one line"):
            outcome = judged(ran, None)
        return Tried(fault, outcome, ran.err.strip())


def _new_ledgers(place: Place) -> Trials:
    """Make ledgers where there is no room: the name stays free."""
    for size in (0, 1024, 4096)[: place.num_tries(3)]:
        folder = place.new()
        words = ("ledger", "create", "--ledger", folder / "l", "--adjacency", "replace-one")
        words = (*words, "--epsilon", 1)
        ran = place.run(*words, limit=with_limit(resource.RLIMIT_FSIZE, size))
        outcome = judged(ran, None)
        if outcome == "one line" and place.run(*words).status != 0:
            outcome = "LOST"
        yield Tried("file-size limit: a new ledger", outcome, ran.err.strip())
    folder = _dataset(place)
    content = (folder / "l").read_bytes()
    with closing(sqlite3.connect(folder / "l")) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        running = place.start(*_release(folder))
        time.sleep(5.0)
        holder.rollback()
    ran = running.end()
    is_kept = judged(ran, None) == "identical" and (folder / "l").read_bytes() != content
    outcome = "waited, released and charged" if is_kept else "LOST"
    yield Tried("a ledger that another process holds for 5 s", outcome)


def clocks(place: Place, whole: str, seconds: float) -> Trials:
    """Set the clock years on and back while an audit runs, by libfaketime; monotonic time stays."""
    library = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
    for jump in (0, -3 * YEAR, 3 * YEAR):
        fault = "the clock is set by 3 years while an audit runs" if jump else "the clock is left"
        if library is None:
            yield Tried(fault, "skipped", "libfaketime is not installed")
            continue
        folder = place.new()
        offset = folder / "offset"
        offset.write_text("+0\n")
        faked = {
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(offset),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        store = folder / "store"
        running = place.start(*SWEEP, "--store", store, environment=faked)
        while running.process.poll() is None and not list(store.rglob("pilot-*.npz")):
            time.sleep(0.005)
        offset.write_text(f"{jump:+d}\n")
        ran = running.end()
        yield Tried(fault, judged(ran, whole), f"{jump:+d} s: took {ran.seconds:.1f} s")
        if jump:
            again = judged(place.run(*SWEEP, "--store", store), whole)
            yield Tried("the clock was set, run again", again, f"{jump:+d} s")


def memory(place: Place, whole: str, seconds: float) -> Trials:
    """Limit memory (RLIMIT_DATA), from too little to start to plenty."""
    large = place.run(*LARGE)
    count = place.num_tries(len(LIMITS_MB))
    for limit in LIMITS_MB[-count:]:
        size = limit << 20
        ran = place.run(*LARGE, limit=with_limit(resource.RLIMIT_DATA, size))
        outcome = judged(ran, large.out)
        if outcome == "identical" and "memory did not hold" in ran.err:
            outcome = "smaller blocks, said, identical"
        if outcome == "CRASHED":
            # Nothing in Python hears of it: the process is gone, as with kill -9.
            outcome = next((end for sign, end in ENDED.items() if sign in ran.err), outcome)
        yield Tried("memory limit", outcome, f"{limit} MiB: {ran.err.strip()}")
