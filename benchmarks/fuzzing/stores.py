"""Folders of stores: blocks, finished reports, configurations and requests."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np

from fuzzing.guarantees import DEEP, replaced
from fuzzing.harm import harmed
from fuzzing.verdict import Case, Failure

LABELS = {"gamma": 1.0, "first": 0, "pilot": "ab"}
CONFIGURATION = {"format": 7, "n": 10, "key": [0, 1], "block_size": 8}
REPORT = {"rows": [{"gamma": 1.0, "kl": 0.1}], "settings": {}, "warnings": [], "notes": []}


class Inner(NamedTuple):
    """Part of a record."""

    y: np.ndarray
    word: str


class Block(NamedTuple):
    """A record."""

    x: np.ndarray
    count: int
    inner: Inner
    flag: np.ndarray | None


def prepare(folder: Path, is_small: bool) -> dict[str, bytes]:
    """Write one file of each kind."""
    from gibbs_dp.engine.store.archive import Archive, Store
    from gibbs_dp.io import save_record

    block = Block(np.linspace(0, 1, 50), 3, Inner(np.arange(6).reshape(2, 3), "abc"), None)
    save_record(folder / "b.npz", block, LABELS)
    archive = Archive(Store(folder), CONFIGURATION)
    archive.save_report("r", REPORT | {"curves": []})
    asked = {"problem": "gaussian-mean", "options": {}, "num_processes": 1}
    asked["options"] = {"n": 5, "dim": 2, "gammas": [1.0], "seed": 0, "num_datasets": 4}
    return {
        "block": (folder / "b.npz").read_bytes(),
        "report": next(folder.glob("*/reports/r.json")).read_bytes(),
        "configuration": json.dumps(CONFIGURATION).encode(),
        "request": json.dumps(asked).encode(),
    }


def make(rng: Random, base: dict[str, bytes]) -> Case:
    """Harm a file, or edit what it holds."""
    kind = rng.choice(("block", "block", "report", "configuration", "request"))
    content = base[kind]
    way = rng.randrange(5)
    if way < 2:
        content = harmed(rng, content)
    elif kind == "block":
        content = _repacked(rng, content)
    else:
        held = json.loads(content)
        for _ in range(rng.choice((1, 1, 2))):
            replaced(rng, held)
        if kind == "request" and rng.randrange(3) == 0 and isinstance(held.get("options"), dict):
            held["options"] |= _ASKED[rng.randrange(len(_ASKED))]
        content = json.dumps(held).encode()
        if rng.randrange(10) == 0:
            content = content[:-1] + b',"deep":' + rng.choice(DEEP).encode() + b"}"
    return Case(content, kind, None, base[kind])


_ASKED: tuple[dict[str, Any], ...] = (
    {"dask": "tcp://127.0.0.1:9"},
    {"dask": "local:1"},
    {"problem": "os:system"},
    {"kernel": "../../x"},
    {"kernel": "hmc", "step_size": "x"},
    {"gammas": "1"},
    {"n": 2.5},
    {"num_datasets": 10**30},
    {"seed": 10**30},
    {"data": "/dev/zero", "target": "y"},
    {"float64": "yes"},
    {"store": "/", "out": "/", "html": "/x"},
)


def judge(case: Case, folder: Path) -> bool:
    """Read the file as its kind; what is accepted is what was written."""
    return _JUDGES[case.name](case, folder)


def _block(case: Case, folder: Path) -> bool:
    from gibbs_dp.io import load_record

    path = folder / "b.npz"
    path.write_bytes(case.content)
    found = load_record(path, Block, LABELS)
    if [p.name for p in folder.iterdir()] != ["b.npz"]:
        raise Failure("another file was written")
    is_same = (
        np.array_equal(found.x, np.linspace(0, 1, 50))
        and (found.count, found.inner.word, found.flag) == (3, "abc", None)
        and np.array_equal(found.inner.y, np.arange(6).reshape(2, 3))
    )
    if not is_same:
        raise Failure("a block is accepted with other numbers than were saved")
    return True


def _report(case: Case, folder: Path) -> bool:
    from gibbs_dp.engine.store.archive import Archive, Store

    archive = Archive(Store(folder), CONFIGURATION)
    path = archive.folder / "reports" / "r.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(case.content)
    found = archive.report("r")
    if found is not None and json.dumps(found) != json.dumps(
        {name: json.loads(case.expected)["report"][name] for name in found}
    ):
        raise Failure("a report is accepted with other numbers than were saved")
    return found is not None


def _configuration(case: Case, folder: Path) -> bool:
    from gibbs_dp.engine.store.archive import Store
    from gibbs_dp.engine.store.configuration import open_archive

    (folder / "configuration.json").write_bytes(case.content)
    open_archive(Store(folder), lambda: CONFIGURATION)
    return True


def _request(case: Case, folder: Path) -> bool:
    from fuzzing.command_lines import ran

    (folder / "request.json").write_bytes(case.content)
    return ran(["merge", str(folder)])


_JUDGES = {
    "block": _block,
    "report": _report,
    "configuration": _configuration,
    "request": _request,
}


def _repacked(rng: Random, content: bytes) -> bytes:
    """Pack the members again: others, twice, compressed, or with other names or headers."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    held = io.BytesIO()
    way = zipfile.ZIP_DEFLATED if rng.randrange(8) == 0 else zipfile.ZIP_STORED
    change, at = rng.randrange(7), rng.randrange(len(members))
    name, member = members[at]
    match change:
        case 0:
            members[at] = (name, harmed(rng, member))
        case 1:
            members.append((name, member))
        case 2:
            members[at] = (rng.choice(("../" + name, "/etc/x", name.upper(), "\x1b")), member)
        case 3:
            del members[at]
        case 4:
            members[at] = (name, member.replace(b"'descr': '", b"'descr': '|O"))
        case 5:
            members[at] = (name, member.replace(b"(", b"(__import__('os').system('true'),"))
        case _:
            members[at] = (name, bytes(10**6))
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that are there twice
        with zipfile.ZipFile(held, "w", way) as archive:
            for name, member in members:
                archive.writestr(name, member)
    return held.getvalue()
