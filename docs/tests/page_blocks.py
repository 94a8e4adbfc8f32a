"""Fenced blocks of a Markdown page: found, run in order, and compared with the output shown."""

from __future__ import annotations

import io
import math
import re
import shlex
import subprocess
import sys
import tomllib
from contextlib import redirect_stderr, redirect_stdout
from itertools import zip_longest
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from gibbs_dp.cli.main import main as gibbs_dp

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FENCE = re.compile(
    r"^(?:<!-- test: (?P<change>.*?) -->\n)?^```(?P<kind>[^\n]*)\n(?P<text>.*?)^```$", re.M | re.S
)
# A file of the reader's own, as its first line says: written, not run.
FILE = re.compile(r"# (\w+\.py)\n")
SHOWN = {"text", "none"}  # output of the block above; nothing to run
# Also that a stage goes on, where it takes long.
STAGE = re.compile(
    r"(tuning|sampling) \d+ \w+|mutual information|[a-z ]+(, \d+ of \d+ \w+)?, \d+ s$"
)
NUMBER = re.compile(r"[-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:e[-+]?\d+)?")
IN_PAPER = re.compile(r"(\d[\d.]*)\((\d+)\)(e[-+]\d+)?")
# Sentences below a table, and how their further lines begin.
MARKED = re.compile(r"(WARNING|note|more|assumes|assumed|caveat) ")
WRAPPED = re.compile(r" {9}\S")
TOLERANCE = 0.05
# What only a shell runs.
SCRIPT = re.compile(r"(for|while|if|export|#!|srun|sbatch|mpiexec|mkdir|.* > )")


class Block(NamedTuple):
    """One fenced block."""

    kind: str
    text: str
    line: int
    change: str | None

    def changed(self) -> str:
        """The text as it is run: sizes smaller than the printed ones, where the page says so."""
        text = self.text
        for pair in (self.change or "").split(";"):
            if pair.strip():
                old, new = (part.strip() for part in pair.split("->"))
                assert old in text, f"line {self.line}: nothing to replace: {old!r}"
                text = text.replace(old, new)
        return text


def blocks(page: Path) -> list[Block]:
    """All blocks of a page, in order."""
    text = page.read_text()
    return [
        Block(m["kind"], m["text"], text.count("\n", 0, m.start()) + 1, m["change"])
        for m in FENCE.finditer(text)
    ]


def run_page(page: Path) -> dict[str, object]:
    """Run the blocks of a page in the working directory; return the names that it defined."""
    # A module of its own: dataclasses look for the one that they are in.
    module = sys.modules["page"] = ModuleType("page")
    namespace = module.__dict__
    found = blocks(page)
    # A page may be all text and tables.
    for block, after in zip_longest(found, found[1:]):
        where = f"{page.name}:{block.line}"
        if block.kind == "python" and (file := FILE.match(block.text)):
            Path(file[1]).write_text(block.changed())
        elif block.kind == "python":
            printed = run_python(block, namespace, where)
            if after is not None and after.kind == "text":
                compare(after.text, printed, where)
        elif block.kind in ("console", "sh"):
            run_commands(block, where)
        else:  # a directive of the site has braces
            assert block.kind in SHOWN or block.kind[:1] == "{", f"{where}: {block.kind!r}"
    return namespace


def run_python(block: Block, namespace: dict[str, object], where: str) -> str:
    """Execute; return what was printed."""
    out = io.StringIO()
    with redirect_stdout(out):
        exec(compile(block.changed(), where, "exec"), namespace)
    return out.getvalue()


def run_commands(block: Block, where: str) -> None:
    """Run each command and compare its output with the lines under it."""
    text = block.changed()
    if block.kind == "sh":
        run_script(text, where)
        return
    for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
        # A command goes on where a line ends with a backslash.
        command, _, shown = re.sub(r"\\\n\s*", "", part).partition("\n")
        printed = run_program(command, where)
        if shown.strip():
            compare(shown, printed, f"{where}: {command}")


def run_script(text: str, where: str) -> None:
    """Run lines of a shell; whole scripts by bash, with stand-ins for what is not here."""
    assert subprocess.run(["bash", "-n"], input=text, text=True).returncode == 0, where
    lines = [line for line in re.sub(r"\\\n\s*", "", text).splitlines() if line.strip()]
    if any(map(SCRIPT.match, lines)):
        stand_ins = Path("bin")
        stand_ins.mkdir(exist_ok=True)
        (stand_ins / "srun").write_text(
            '#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\n"$@"\n'
        )
        (stand_ins / "srun").chmod(0o755)
        programs = Path(sys.executable).parent
        env = f"export PATH=$PWD/bin:{programs}:$PATH SCRATCH=$PWD HOME=$PWD\n"
        done = subprocess.run(["bash", "-e"], input=env + text, text=True, capture_output=True)
        assert done.returncode == 0, f"{where}: {done.stdout}{done.stderr}"
        return
    for line in lines:
        run_program(line.partition("  #")[0], where)


def run_program(command: str, where: str) -> str:
    """Run ``gibbs-dp``; of installing and cloning, check the names. Return what was printed."""
    words = shlex.split(command, comments=True)
    if not words:
        return ""
    name, *arguments = words
    if name == "gibbs-dp":
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            status = gibbs_dp(arguments)
        assert status == 0, f"{where}: {command}: {out.getvalue()}{err.getvalue()}"
        return err_lines(err.getvalue()) + out.getvalue()
    if name == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.M)
        assert {a for a in arguments if "=" not in a} <= set(targets), f"{where}: {command}"
    elif words[:2] == ["pip", "install"]:
        for extras in re.findall(
            r"\[([\w,-]+)\]", " ".join(w for w in words if "gibbs" in w or w.startswith("."))
        ):
            assert set(extras.split(",")) <= PROJECT["optional-dependencies"].keys(), where
        for url in re.findall(r"git\+(\S+)", " ".join(words)):
            assert url == PROJECT["urls"].get("Repository"), where
    elif words[:2] == ["git", "clone"]:
        assert words[2] == PROJECT["urls"].get("Repository"), where
    elif name == "python" and arguments and arguments[0].endswith(".py"):
        assert (ROOT / arguments[0]).is_file(), f"{where}: {command}"
    else:
        assert name in ("cd", "eval", "autoload", "source", "apt-get"), f"{where}: {command}"
    return ""


def err_lines(text: str) -> str:
    """What a command logs, without the stages of its progress."""
    return "".join(
        line + "\n" for line in text.splitlines() if line.strip() and not STAGE.fullmatch(line)
    )


def compare(shown: str, printed: str, where: str) -> None:
    """Word by word; numbers agree within the errors shown beside them, or to 5%."""
    kept, rest = lines_of(shown), lines_of(printed)
    skips = False
    for line in kept:
        if line.strip() == "...":
            skips = True
            continue
        while skips and rest and not same(line, rest[0]):
            rest.pop(0)
        assert rest, f"{where}: not printed: {line}\nprinted:\n{printed}"
        assert same(line, rest[0]), f"{where}:\n{line}\n{rest[0]}\nprinted:\n{printed}"
        rest.pop(0)
        skips = False
    assert skips or not rest, f"{where}: printed, but not shown:\n" + "\n".join(rest)


def lines_of(text: str) -> list[str]:
    """Lines that are not empty; a sentence that was wrapped is one of them."""
    found: list[str] = []
    for line in filter(str.strip, text.splitlines()):
        if found and MARKED.match(found[-1]) and WRAPPED.match(line):
            found[-1] += " " + line.strip()
        else:
            found.append(line)
    return found


def spelled(found: re.Match[str]) -> str:
    """Spell 0.00674(4), as papers have it, as 0.00674 ± 0.00004."""
    value, error, power = found.groups(default="")
    unit = 10.0 ** -len(value.partition(".")[2])
    return f"{value}{power} ± {int(error) * unit:.3g}{power}"


def same(shown: str, printed: str) -> bool:
    """Whether two lines say the same."""
    shown, printed = (IN_PAPER.sub(spelled, text) for text in (shown, printed))
    shown, cut, _ = shown.partition(" ...")
    ours, theirs = NUMBER.sub("#", shown).split(), NUMBER.sub("#", printed).split()
    if cut:
        theirs = theirs[: len(ours)]
    if ours != theirs:
        return False
    pairs = list(zip(NUMBER.finditer(shown), NUMBER.finditer(printed), strict=False))
    values = [(number(a[0]), number(b[0]), shown[a.end() : a.end() + 3] == " ± ") for a, b in pairs]
    for i, (a, b, has_error) in enumerate(values):
        allowed = TOLERANCE * max(abs(a), abs(b))
        if has_error:
            allowed = max(allowed, values[i + 1][0], values[i + 1][1])
        if i and values[i - 1][2]:  # a standard error
            allowed = 0.5 * max(abs(a), abs(b))
        if not (abs(a - b) <= allowed or (math.isnan(a) and math.isnan(b))):
            return False
    return True


def number(text: str) -> float:
    """A number as it is printed."""
    return float(text.replace(",", ""))
