"""Whether tests notice formulas that are slightly wrong: every one of `mutants.toml`, in turn.

    python benchmarks/mutants.py                 # all of them: hours; --quick: one in every room
    python benchmarks/mutants.py --part 2/8      # every eighth, from the second on
    python benchmarks/mutants.py --only NAME ... # those with these names; --list prints all

Each is made in a copy of the repository, where the tests that its area names are run until one
fails; not the examples in docstrings of the library, whose numbers the code printed itself. If all
pass, and the formula is one that `gibbs-dp verify` is about, it is asked too. What neither notices
has survived. All must be well on the copy as it is: what fails before catches nothing. Runs that
take much longer than on the right code count as caught, and are told as hanging.

What was caught is in the saved table and is not tried again (--again: all are); survivors are, and
keep the mark of having survived, so that the table tells what new tests are for.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import math
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import machine

ROOT = Path(__file__).parent.parent
LIST = Path(__file__).with_name("mutants.toml")
COPIED = ("gibbs_dp", "tests", "docs", "benchmarks", "notebooks", ".ci")
SKIPPED = shutil.ignore_patterns("__pycache__")
# What `gibbs-dp verify` is about, beside the papers.
VERIFIED = ("information", "exact")
# A run may take this many times the seconds of a processor that it takes on the right code, and as
# many more. Tests that wait without computing end themselves.
PATIENCE, GRACE = 4.0, 30.0
CAUGHT, HANGS, SURVIVED = "caught", "hangs", "SURVIVED"


class Mutant(NamedTuple):
    """A formula, and what it is replaced by."""

    name: str
    file: str
    old: str
    new: str
    why: str
    tests: tuple[str, ...]

    @property
    def room(self) -> str:
        """Folder of the library; of the papers, that of one of them."""
        parts = Path(self.file).parts[1:-1]
        return "/".join(parts[: 2 if parts[:1] == ("papers",) else 1]) or "gibbs_dp"

    @property
    def is_verified(self) -> bool:
        """Whether `gibbs-dp verify` should notice it."""
        return self.room.startswith("papers") or self.room in VERIFIED

    @property
    def digest(self) -> str:
        """Of the change itself."""
        return hashlib.sha256(f"{self.file}\n{self.old}\n{self.new}".encode()).hexdigest()[:12]

    def applied(self, text: str) -> str:
        """Make the change in the file's text."""
        return text.replace(self.old, self.new)


def read_list() -> list[Mutant]:
    """Read all mutants, in the order of the file."""
    return [
        Mutant(file=area["file"], tests=tuple(area["tests"]), **one)
        for area in tomllib.loads(LIST.read_text())["areas"]
        for one in area["mutants"]
    ]


def faults_of(mutants: Sequence[Mutant]) -> list[str]:
    """Say what is wrong with the list: names given twice, texts that are not in their file once."""
    counts = Counter(m.name for m in mutants)
    found = [
        f"{name}: the name is given {count} times" for name, count in counts.items() if count > 1
    ]
    texts = {file: (ROOT / file).read_text() for file in {m.file for m in mutants}}
    trees = {file: ast.dump(ast.parse(text)) for file, text in texts.items()}
    for m in mutants:
        text = texts[m.file]
        if text.count(m.old) != 1:
            found.append(f"{m.name}: {m.old!r} is {text.count(m.old)} times in {m.file}")
            continue
        found += [f"{m.name}: there is no {test}" for test in m.tests if not (ROOT / test).exists()]
        try:
            if ast.dump(ast.parse(m.applied(text))) == trees[m.file]:
                found.append(f"{m.name}: changes nothing")
        except SyntaxError as error:
            found.append(f"{m.name}: {error}")
    return found


class Ran(NamedTuple):
    """How a command ended."""

    is_right: bool
    is_late: bool
    by: str  # first test or check that failed
    seconds: float  # of a processor


class Copy:
    """A copy of the repository, in which formulas are broken one at a time."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in COPIED:
            shutil.copytree(ROOT / name, root / name, ignore=SKIPPED)
        for path in ROOT.iterdir():
            if path.is_file() and not path.name.startswith(".git"):
                shutil.copy2(path, root)
        self._right: dict[tuple[str, ...], float] = {}

    @cached_property
    def _environment(self) -> dict[str, str]:
        own = {"PYTHONPATH": str(self.root), "XDG_CACHE_HOME": str(self.root / ".cache")}
        return os.environ | own | {"MPLBACKEND": "Agg", "GIBBS_DP_FAST": "1"}

    def put(self, file: str, text: str) -> None:
        """Write a file; what Python compiled of it before is removed, as clocks are coarse."""
        path = self.root / file
        path.write_text(text)
        for old in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            old.unlink()

    def _run(self, words: Sequence[str], most: float | None) -> Ran:
        before = _seconds_of_children()
        process = subprocess.Popen(
            [sys.executable, *words],
            cwd=self.root,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if most is not None:
            resource.prlimit(process.pid, resource.RLIMIT_CPU, (math.ceil(most), math.ceil(most)))
        told, _ = process.communicate()
        seconds = _seconds_of_children() - before
        if most is not None and -process.returncode in (signal.SIGXCPU, signal.SIGKILL):
            return Ran(False, True, "", seconds)
        found = re.findall(r"^(?:FAILED|ERROR|FAILS:) *(.*?)(?: - .*)?$", told, re.MULTILINE)
        by = found[0] if found else " ".join(told.splitlines()[-3:])
        return Ran(process.returncode == 0, False, by, seconds)

    def run(self, words: tuple[str, ...]) -> Ran:
        """Run a command on broken code, no longer than that on the right code lets expect."""
        return self._run(words, PATIENCE * self._right[words] + GRACE)

    def require_right(self, words: tuple[str, ...]) -> None:
        """Run a command on the right code, once; end here where it fails."""
        if words not in self._right:
            found = self._run(words, None)
            if not found.is_right:
                sys.exit(f"{' '.join(words)}: fails on the code as it is: {found.by}")
            self._right[words] = found.seconds


def _seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def commands_of(mutant: Mutant) -> list[tuple[str, ...]]:
    """List what is asked about a mutant, one after another."""
    plain = ("-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider")
    found = [(*plain, *mutant.tests)]
    if mutant.is_verified:
        found.append(("-m", "gibbs_dp.cli.main", "verify", "--exact-only"))
    return found


def tried(copy: Copy, mutant: Mutant) -> dict[str, object]:
    """Break one formula and ask the tests: a row of the table."""
    text = (ROOT / mutant.file).read_text()
    seconds = 0.0
    outcome, by = SURVIVED, ""
    for words in commands_of(mutant):
        copy.require_right(words)
        copy.put(mutant.file, mutant.applied(text))
        try:
            found = copy.run(words)
        finally:
            copy.put(mutant.file, text)
        seconds += found.seconds
        if not found.is_right:
            is_verify = "verify" in words
            outcome = HANGS if found.is_late else CAUGHT
            by = f"verify: {found.by}" if is_verify else found.by.replace("::", " ")
            break
    return {
        "name": mutant.name,
        "room": mutant.room,
        "file": mutant.file,
        "why": mutant.why,
        "outcome": outcome,
        "by": by,
        "seconds": round(seconds, 1),
        "change": mutant.digest,
    }


def chosen(mutants: Sequence[Mutant], given: argparse.Namespace) -> list[Mutant]:
    """Choose those that are asked for."""
    if given.only:
        unknown = set(given.only) - {m.name for m in mutants}
        if unknown:
            sys.exit(f"mutants: --only: no mutant is called {', '.join(sorted(unknown))}.")
        return [m for m in mutants if m.name in given.only]
    if given.quick:
        return list({m.room: m for m in reversed(mutants)}.values())[::-1]
    first, step = given.part
    return list(mutants[first - 1 :: step])


def part_of(text: str) -> tuple[int, int]:
    """Read ``K/N``."""
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    part = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= part[0] <= part[1]:
        raise argparse.ArgumentTypeError(f"give K/N with K from 1 to N, not {text!r}")
    return part


def known_rows(mutants: Iterable[Mutant], out: str | None) -> dict[str, dict[str, object]]:
    """Read saved rows of mutants that are still in the list, by name."""
    changes = {m.name: m.digest for m in mutants}
    rows = machine.rows_of_others("mutants", "name", (), out)
    return {row["name"]: row for row in rows if changes.get(row["name"]) == row["change"]}


def save(mutants: Sequence[Mutant], rows: dict[str, dict[str, object]], out: str | None) -> Path:
    """Write the table in the order of the list, with counts."""
    ordered = [rows[m.name] for m in mutants if m.name in rows]
    counts = Counter(str(row["outcome"]) for row in ordered)
    settings = {
        "listed": len(mutants),
        "tried": len(ordered),
        **{name.lower(): counts[name] for name in (CAUGHT, HANGS, SURVIVED)},
        "survived_at_first": sum(bool(row.get("survived_at_first")) for row in ordered),
    }
    return machine.save("mutants", ordered, settings, out)


def main() -> None:
    """Try the mutants asked for, one line each; print the survivors and save the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="the first mutant of every room")
    parser.add_argument(
        "--part", type=part_of, default=(1, 1), metavar="K/N", help="every N-th, from the K-th on"
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", help="mutants by their names")
    parser.add_argument("--list", action="store_true", help="print the mutants, and end")
    parser.add_argument("--again", action="store_true", help="try those known to be caught, too")
    parser.add_argument("--out", help="folder (default: benchmarks/results)")
    given = parser.parse_args()
    mutants = read_list()
    if faults := faults_of(mutants):
        sys.exit("\n".join(faults))
    asked = chosen(mutants, given)
    if given.list:
        for m in asked:
            print(f"{m.room:24} {m.name:36} {m.why}")
        return
    before = known_rows(mutants, given.out)
    left = [
        m for m in asked
        if given.again or before.get(m.name, {}).get("outcome", SURVIVED) == SURVIVED
    ]  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="gibbs_dp_mutants_") as folder:
        copy = Copy(Path(folder))
        for m in left:
            row = tried(copy, m)
            rows = known_rows(mutants, given.out)
            old = rows.get(m.name, {})
            survived = row["outcome"] == SURVIVED or old.get("outcome") == SURVIVED
            if survived or old.get("survived_at_first"):
                row["survived_at_first"] = True
            save(mutants, rows | {m.name: row}, given.out)
            spent, by = f"{row['seconds']:6.1f} s", row["by"]
            print(f"{row['outcome']:9} {m.room:22} {m.name:34} {spent}  {by}", flush=True)
    rows = known_rows(mutants, given.out)
    print("saved", save(mutants, rows, given.out))
    alive = [m for m in asked if rows[m.name]["outcome"] == SURVIVED]
    for m in alive:
        print(f"SURVIVED: {m.name} in {m.file}: {m.why}\n    {m.old.strip()}\n -> {m.new.strip()}")
    if alive:
        sys.exit(f"{len(alive)} of {len(asked)} broken formulas were not noticed.")


if __name__ == "__main__":
    main()
