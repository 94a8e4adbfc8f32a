"""Cases judged in a process of their own, below limits of time and memory."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

from fuzzing.formats import FORMATS
from fuzzing.verdict import verdict

# Of one case: seconds, and bytes beyond those of the process before it.
SECONDS, MEMORY = 60.0, 1 << 30
# Address space beyond what a process has at its beginning, where the kernel itself says no.
ADDRESSES = 8 << 30


class Judged(NamedTuple):
    """What became of a case."""

    number: int
    verdict: str
    seconds: float
    megabytes: float


def judged(name: str, numbers: range, seed: int) -> Iterator[Judged]:
    """Judge some cases of a format in a process, and go on in another where one ends it.

    Parameters
    ----------
    name
        Of the format.
    numbers
        Of the cases.
    seed
        Of all of them.

    Yields
    ------
    Judged
        In their order.
    """
    at = numbers.start
    while at < numbers.stop:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            _work(name, range(at, numbers.stop), seed, writing)
        os.close(writing)
        try:
            for found in _heard(reading, at, numbers.stop):
                yield found
                at = found.number + 1
        finally:
            os.close(reading)
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _heard(reading: int, first: int, stop: int) -> Iterator[Judged]:
    """Read what a process tells, until it has done all, was silent for too long, or ended."""
    held, waited = b"", 3 * SECONDS  # it prepares first
    began = time.monotonic()
    while first < stop:
        ready, _, _ = select.select([reading], [], [], max(0.0, began + waited - time.monotonic()))
        part = os.read(reading, 1 << 16) if ready else b""
        if not part:
            why = "the process died" if ready else f"it took more than {waited:g} s"
            yield Judged(first, f"failed: {why}", time.monotonic() - began, 0.0)
            return
        held += part
        *lines, held = held.split(b"\n")
        for line in lines:
            yield Judged(*json.loads(line))
            first, began, waited = first + 1, time.monotonic(), SECONDS


def _work(name: str, numbers: range, seed: int, writing: int) -> None:
    """Judge cases, and tell of each; never returns."""
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 2)
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    status = 1
    try:
        os.chdir(folder)
        format_, base = FORMATS[name], folder / "base"
        base.mkdir()
        made = format_.prepare(base, False)
        limit = _memory("VmSize") + ADDRESSES
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        for number in numbers:
            case, own = format_.make(Random(f"{seed} {name} {number}"), made), folder / "case"
            own.mkdir()
            before, began = _reset_peak(), time.perf_counter()
            told = verdict(format_, case, own)
            taken, used = time.perf_counter() - began, _memory("VmHWM") - before
            if used > MEMORY and not told.startswith("failed"):
                told = f"failed: it took {used >> 20} MB"
            line = json.dumps([number, told[:400], round(taken, 3), round(used / 2**20, 1)])
            os.write(writing, line.encode() + b"\n")
            shutil.rmtree(own, ignore_errors=True)
        status = 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(status)


def _memory(field: str) -> int:
    """Bytes, from Linux's account of this process; 0 elsewhere."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1]) * 1024
    return 0


def _reset_peak() -> int:
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _memory("VmRSS")
