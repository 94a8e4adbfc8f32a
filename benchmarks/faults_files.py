"""Full disks, limits, folders that may not be written, and blocks that are damaged."""

from __future__ import annotations

import random
import resource
import shutil
import subprocess
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from faults_runs import (
    NUM_BLOCKS,
    SWEEP,
    Place,
    Trials,
    Tried,
    as_ordinary_user,
    judged,
    torn,
    with_limit,
)

ROOM = 3 << 20


@contextmanager
def small_disk(place: Place, size: int) -> Iterator[Path | None]:
    """Mount a file system of so many bytes; None where that is not allowed."""
    folder = place.new()
    try:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder],
            capture_output=True,
            check=False,
        )
    except OSError:
        done = None
    if done is None or done.returncode:
        yield None
        return
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=False)


def full_disk(place: Place, whole: str, seconds: float) -> Trials:
    """Write to a disk that is full, to one that fills meanwhile, and to a full log."""
    for what, words in (("report", ["--out"]), ("page", ["--html"]), ("store", ["--store"])):
        for size in (4096, 200_000)[: place.num_tries(2)]:
            fault = f"full disk: {what}"
            with small_disk(place, size) as disk:
                if disk is None:
                    yield Tried(fault, "skipped", "no file system may be mounted here")
                    continue
                target = disk / ("a.html" if what == "page" else what)
                ran = place.run(*SWEEP, *words, target)
                outcome = "TORN" if torn(disk) else judged(ran, whole)
                yield Tried(fault, outcome, f"{size} bytes: {ran.err.strip()}")
                if what == "store":
                    grown = ["mount", "-o", f"remount,size={ROOM}", disk]
                    subprocess.run(grown, check=True)
                    again = judged(place.run(*SWEEP, *words, target), whole)
                    yield Tried("full disk: store, with room, run again", again, f"{size} bytes")
    for left in (0, 8192, 40_960, 73_728)[: place.num_tries(4)]:
        yield _filled_meanwhile(place, whole, left)
    for name in ("stdout", "stderr"):
        folder = place.new()
        with Path("/dev/full").open("w") as full:
            words = [word for word in SWEEP if word != "--quiet" or name == "stdout"]
            ran = place.run(*words, "--out", folder, **{name: full})
        outcome = judged(ran, whole)
        if name == "stderr" and not (folder / "audit.nc").exists():
            outcome = "LOST"
        yield Tried(f"full disk: {name}", outcome, ran.err.strip())


def _filled_meanwhile(place: Place, whole: str, left: int) -> Tried:
    fault = "the disk fills while an audit runs"
    with small_disk(place, ROOM) as disk:
        if disk is None:
            return Tried(fault, "skipped", "no file system may be mounted here")
        store = place.new()
        running = place.start(*SWEEP, "--store", store, "--out", disk)
        while running.process.poll() is None and not list(store.rglob("pilot-*.npz")):
            time.sleep(0.002)
        with (disk / "other").open("wb") as other:
            free = shutil.disk_usage(disk).free
            other.write(bytes(max(0, free - left)))
        ran = running.end()
        outcome = "TORN" if torn(disk) or list(disk.glob("*.part")) else judged(ran, None)
        if outcome == "identical" and not (disk / "audit.png").exists():
            outcome = "LOST"
        if outcome == "one line" and place.run(*SWEEP, "--store", store).out != whole:
            outcome = "LOST"
        return Tried(fault, outcome, f"{left} bytes left: {ran.err.strip()}")


def file_size_limit(place: Place, whole: str, seconds: float) -> Trials:
    """Limit the size of any file (EFBIG), as ``ulimit -f`` does."""
    for what, words in (("report", ["--out"]), ("page", ["--html"]), ("store", ["--store"])):
        for size in (1024, 16_384)[: place.num_tries(2)]:
            folder = place.new()
            target = folder / ("a.html" if what == "page" else what)
            ran = place.run(*SWEEP, *words, target, limit=with_limit(resource.RLIMIT_FSIZE, size))
            outcome = "TORN" if torn(folder) else judged(ran, whole)
            yield Tried(f"file-size limit: {what}", outcome, ran.err.strip())
            if what == "store":
                again = judged(place.run(*SWEEP, *words, target), whole)
                yield Tried("file-size limit: store, without it, run again", again, f"{size} B")


def read_only(place: Place, whole: str, seconds: float) -> Trials:
    """Folders that may be read and not written, without root's way around permissions."""
    finished = place.new() / "store"
    place.run(*SWEEP, "--store", finished)
    for what, words in (
        ("report", ["--out", "a"]),
        ("page", ["--html", "a.html"]),
        ("store", ["--store", "a"]),
        ("finished store", ["--store", finished]),
        ("cache of compiled programs", []),
    ):
        folder = place.new()
        given: list[Any] = [*words]
        environment = {}
        if what == "cache of compiled programs":
            environment = {"XDG_CACHE_HOME": str(folder)}
        closed = [finished, *finished.rglob("*")] if what == "finished store" else [folder]
        closed = [path for path in closed if path.is_dir()]
        for path in closed:
            path.chmod(0o555)
        if given and what != "finished store":
            given[1] = folder / given[1]
        ran = place.run(*SWEEP, *given, limit=as_ordinary_user, environment=environment)
        for path in closed:
            path.chmod(0o755)
        yield Tried(f"read-only folder: {what}", judged(ran, whole), ran.err.strip())


def regions(path: Path) -> dict[str, tuple[int, int]]:
    """Where the parts of a block's file lie: headers, numbers, checksums, directory, end."""
    found = {}
    size = path.stat().st_size
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            begin = member.header_offset
            content = path.read_bytes()[begin : begin + 30]
            head = 30 + int.from_bytes(content[26:28], "little")
            head += int.from_bytes(content[28:30], "little")
            name = member.filename.removesuffix(".npy")
            data = begin + head
            found[f"{name}: header of the member"] = (begin, data)
            found[f"{name}: header of the array"] = (data, data + 128)
            found[f"{name}: numbers"] = (data + 128, data + member.file_size)
        directory = archive.start_dir
    found["directory with checksums"] = (directory, size - 22)
    found["end record"] = (size - 22, size)
    return {name: (a, b) for name, (a, b) in found.items() if a < b}


def damaged(place: Place, whole: str, seconds: float) -> Trials:
    """Flip a byte in every region of blocks, cut them there, and harm the files beside them."""
    finished = place.new() / "store"
    place.run(*SWEEP, "--store", finished)
    rng = random.Random(3)
    path = next(iter(finished.glob("*/gamma-*/blocks-*/*.npz")))
    kinds = [("flip", name) for name in regions(path)]
    kinds += [("cut", name) for name in regions(path)] + [("cut", "all")]
    rounds = place.num_tries(3)
    for _ in range(rounds):
        rng.shuffle(kinds)
        for first in range(0, len(kinds), NUM_BLOCKS):
            yield from _with_damaged_blocks(place, finished, kinds[first:][:NUM_BLOCKS], rng, whole)
    for name in ("pilot-*.npz", "origin.npz", "configuration.json", "request.json", "reports/*"):
        for kind in ("flip", "cut")[: place.num_tries(2)]:
            store = _copy(place, finished, name.startswith("reports"))
            target = next(iter(store.rglob(name)))
            _harm(target, kind, (0, target.stat().st_size), rng)
            ran = place.run(*SWEEP, "--store", store)
            outcome = judged(ran, whole, "gibbs-dp: error: ")
            yield Tried(f"damaged {name}", outcome, ran.err.strip())


def _with_damaged_blocks(
    place: Place, finished: Path, kinds: list[tuple[str, str]], rng: random.Random, whole: str
) -> Trials:
    """Damage each block in another way, and run once: any change of a number shows."""
    store = _copy(place, finished, False)
    paths = sorted(store.glob("*/gamma-*/blocks-*/*.npz"))
    for path, (kind, name) in zip(paths, kinds, strict=False):
        _harm(path, kind, regions(path).get(name, (0, 1)), rng)
    words = [word for word in SWEEP if word != "--quiet"]
    ran = place.run(*words, "--store", store)
    outcome = judged(ran, whole, "gibbs-dp: error: ")
    for path, (kind, name) in zip(paths, kinds, strict=False):
        is_told = path.name in ran.err
        note = "found, computed again" if is_told else "harmless: numbers and labels as they were"
        region = name.partition(": ")[2] or name
        what = "byte flipped" if kind == "flip" else "file cut"
        yield Tried(f"block, {what}: {region}", outcome, note)


def _copy(place: Place, finished: Path, with_reports: bool) -> Path:
    store = place.new() / "store"
    shutil.copytree(finished, store)
    if not with_reports:
        for report in store.glob("*/reports/*"):
            report.unlink()
    return store


def _harm(path: Path, kind: str, region: tuple[int, int], rng: random.Random) -> None:
    content = bytearray(path.read_bytes())
    at = rng.randrange(*region)
    if kind == "cut":
        del content[at:]
    else:
        content[at] ^= rng.randrange(1, 256)
    path.write_bytes(content)
