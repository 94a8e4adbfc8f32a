"""Runs of the real program for ``faults.py``: started, disturbed, and set against a whole one."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
# One dataset's block takes a moment, and there are many of them to be caught between.
_SWEEP = (
    "audit linear-regression --n 10 --gammas 1 --num-datasets 256 --num-information 0 "
    "--block-size 16 --json --quiet"
)
SWEEP = _SWEEP.split()
NUM_BLOCKS = 16
# The installed script, which says when the first import of this package is done.
START = (
    "import os, sys; from _gibbs_dp_start import main; "
    "os.write(int(os.environ['GIBBS_DP_BEGUN']), b'.'); sys.exit(main())"
)
PATIENCE = 180.0
PR_CAPBSET_DROP = 24
ENDS = {".svg": b"</svg>", ".png": b"IEND", ".html": b"</html>"}

GOOD = ("identical", "one line")
BAD = ("WRONG", "LOST", "TORN", "TRACEBACK", "CRASHED", "HUNG", "SILENT")


class Ran(NamedTuple):
    """How a run ended; status None: it did not, and was killed."""

    status: int | None
    out: str
    err: str
    seconds: float


class Tried(NamedTuple):
    """One fault, once: how it ended, and what is worth saying of it."""

    fault: str
    outcome: str
    note: str = ""


Trials = Iterator[Tried]


@dataclass(frozen=True)
class Place:
    """A folder for everything, and the environment of all runs, which share compiled programs."""

    folder: Path
    num_tries: Callable[[int], int]

    @property
    def environment(self) -> dict[str, str]:
        """Variables of a run."""
        paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "FAKETIME"))}
        return kept | {
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
        }

    def new(self) -> Path:
        """Return a new folder."""
        return Path(tempfile.mkdtemp(dir=self.folder))

    def start(self, *words: Any, limit: Callable[[], None] | None = None, **more: Any) -> Running:
        """Start the program; return when its first import is done."""
        ours, theirs = os.pipe()
        variables = self.environment | more.pop("environment", {})

        def prepare() -> None:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # a job in the background ignores it
            if limit is not None:
                limit()

        given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": self.folder} | more
        process = subprocess.Popen(
            [sys.executable, "-c", START, *map(str, words)],
            env=variables | {"GIBBS_DP_BEGUN": str(theirs)},
            pass_fds=[theirs],
            preexec_fn=prepare,
            text=True,
            **given,
        )
        os.close(theirs)
        os.read(ours, 1)
        os.close(ours)
        return Running(process, time.monotonic())

    def run(self, *words: Any, **more: Any) -> Ran:
        """Run the program to its end."""
        return self.start(*words, **more).end()


class Running(NamedTuple):
    """A program at work."""

    process: subprocess.Popen[str]
    begun: float

    def end(self) -> Ran:
        """Wait for its end."""
        try:
            out, err = self.process.communicate(timeout=PATIENCE)
            status: int | None = self.process.returncode
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, err = self.process.communicate()
            status = None
        return Ran(status, out or "", err or "", time.monotonic() - self.begun)

    def signal_after(self, seconds: float, number: int) -> Ran:
        """Send a signal so long after the first import, and wait for the end."""
        time.sleep(max(0.0, self.begun + seconds - time.monotonic()))
        self.process.send_signal(number)
        return self.end()


def judged(ran: Ran, whole: str | None, words: str = "gibbs-dp: ") -> str:
    """Say how a run ended.

    ``whole`` is what an undisturbed one prints, None where anything may be printed.
    """
    lines = ran.err.splitlines()
    if ran.status is None:
        return "HUNG"
    if ran.status < 0:
        return "CRASHED"
    if "Traceback" in ran.err or "Exception ignored" in ran.err:
        return "TRACEBACK"
    if ran.status == 0:
        return "identical" if whole in (None, ran.out) else "WRONG"
    is_told = len([line for line in lines if line.startswith(words)]) == 1
    return "one line" if is_told and lines[-1].startswith(words) else "SILENT"


def torn(folder: Path) -> list[str]:
    """Names of files in a folder of results that are not whole; temporary ones do not count."""
    import gibbs_dp as gdp

    def read(path: Path) -> None:
        if path.suffix == ".nc":
            gdp.load_report(path)
        elif path.suffix == ".json":
            json.loads(path.read_text())
        elif ENDS[path.suffix] not in path.read_bytes()[-12:]:
            raise ValueError("no end")

    found = []
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix in {".nc", ".json", *ENDS}:
            try:
                read(path)
            except ValueError:
                found.append(path.name)
    return found


def as_ordinary_user() -> None:
    """Give up what lets root pass over permissions; an ordinary user has nothing to give up."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        for capability in range(64):
            libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)


def with_limit(kind: int, size: int) -> Callable[[], None]:
    """Return what sets a limit of the system in a process that begins."""
    return lambda: resource.setrlimit(kind, (size, size))
