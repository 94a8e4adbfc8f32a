"""Command lines: real options with values that no one expects, up to where the work would begin."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

from fuzzing.verdict import Case, Failure, not_a_sentence

VALUES = (
    *("-1", "0", "1", "2", "7", "-0.0", "0.5", "1e5", "1e-300", "1e400", "-1e400", "nan", "inf"),
    *("-inf", "NaN", "1_0", "0x10", "٣", "1" + "0" * 30, "-" + "9" * 25, "9" * 5000, "2147483648"),
    *(
        "9223372036854775807",
        "9223372036854775808",
        "",
        " ",
        "x",
        "é",
        "🙂",
        "\udcff",
        "\x00",
        "a\x00b",
    ),
    *(
        "\x1b[31m",
        "a\nb",
        "\u202ea",
        "--",
        "-",
        "-x",
        "--n",
        "--help",
        "--",
        "=",
        "a=b",
        "tab",
        ",",
    ),
    *(".", "..", "/", "/dev/null", "/dev/full", "/proc/self/mem", "no/such/folder/x", "a.csv"),
    *("t.csv", "t.parquet", "t.json", "l", "report.nc", "folder", "y", "a", "age", "c" * 5000, "~"),
    *("os:system", "os.path:join", "../x:y", "hmc", "smc", "sgld", "local:999999", "replace-one"),
    *(
        "add-remove",
        "logistic",
        "squared",
        "page.html",
        "$(id)",
        "%s",
        "{}",
        "2020-01-01",
        "utf-16",
    ),
)
# Options that would start other programs, wait for other machines, or import what they name.
LEFT_OUT = {"--dask", "--with"}


class Started(BaseException):
    """Work began: the command line was accepted."""


def prepare(folder: Path, is_small: bool) -> dict[str, Any]:
    """Read the options of every command from the commands themselves."""
    from gibbs_dp.cli import COMMANDS, load
    from gibbs_dp.problems.registry import PROBLEMS

    options = {}
    for command in COMMANDS:
        _, groups = load(command)
        options[command] = [option for group in groups.values() for option in group]
    problems = {name: list(entry.options) for name, entry in PROBLEMS.items()}
    return {"options": options, "problems": problems}


def make(rng: Random, base: dict[str, Any]) -> Case:
    """Put options and values together, most of them of the command, in any order."""
    commands = tuple(base["options"])
    command = rng.choice(commands)
    options = list(base["options"][command])
    words: list[str] = []
    if command in ("audit", "attack", "sample", "calibrate"):
        problem = rng.choice(tuple(base["problems"]))
        if problem == "table":
            words += ["--data", rng.choice(("t.csv", "t.csv", "t.parquet", ".", "x.csv"))]
            words += ["--target", rng.choice(("y", "y", "c"))]
        else:
            words.append(problem)
        options += base["problems"][problem] * 2
    elif command == "ledger":
        words += [
            rng.choice(("show", "create", "x")),
            "--ledger",
            rng.choice(("l", "new", "t.csv")),
        ]
    elif command == "merge":
        words.append(rng.choice(("folder", ".", "x", "l", "\x00")))
    elif command == "holdout":
        words.append(rng.choice(("classifier", "accuracy", "sparse", "climb", "x")))
    elif command == "completion":
        words.append(rng.choice(("bash", "zsh", "fish")))
    elif command == "release":
        words += RELEASE
    for _ in range(rng.choice((0, 1, 1, 2, 3, 6))):
        words += _option(rng, options)
    if rng.randrange(20) == 0:
        words.insert(rng.randrange(len(words) + 1), rng.choice(VALUES))
    if rng.randrange(40) == 0:
        words += words
    return Case([command, *words], "words")


RELEASE = (
    *("--data", "t.csv", "--target", "c", "--positive", "1", "--range", "a", "0", "9"),
    *("--ledger", "l", "--adjacency", "replace-one", "--theta-ball", "1", "--pure-epsilon", "0.1"),
)


def _option(rng: Random, options: list[Any]) -> list[str]:
    usual = [option for option in options if option.flag not in LEFT_OUT]
    if not usual:
        return []
    option = usual[rng.randrange(len(usual))]
    flag = option.flag
    if rng.randrange(25) == 0:
        flag = rng.choice((flag[:-1], flag.upper(), flag + "=", "-" + flag, flag + "\x1b[2J"))
    if option.kind == "flag":
        return [flag]
    count = len(option.metavar) if isinstance(option.metavar, tuple) else 1
    if option.is_list or rng.randrange(15) == 0:
        count = rng.choice((0, 1, 2, 5))
    values = [_value(rng, option) for _ in range(count)]
    if values and rng.randrange(8) == 0:
        return [f"{flag}={values[0]}", *values[1:]]
    return [flag, *values]


def _value(rng: Random, option: Any) -> str:
    if option.choices and rng.randrange(3):
        return rng.choice(option.choices)
    if option.kind in ("int", "float") and rng.randrange(3):
        return VALUES[rng.randrange(23)]
    return rng.choice(VALUES)


def judge(case: Case, folder: Path) -> bool:
    """Run a command line in a folder of its own."""
    with contextlib.chdir(folder):
        _fill(folder)
        return ran(case.content)


def _fill(folder: Path) -> None:
    import gibbs_dp as gdp

    lines = [f"{k % 7},{k % 2},{(k * k) % 5}" for k in range(20)]
    (folder / "t.csv").write_text("a,c,y\n" + "\n".join(lines) + "\n")
    (folder / "t.json").write_text(json.dumps({"adjacency": "replace-one"}))
    (folder / "folder").mkdir()
    ledger = gdp.Ledger.create(folder / "l", adjacency="replace-one", epsilon=1.0)
    ledger.charge(purpose="\x41", epsilon=0.5)


def ran(words: list[str]) -> bool:
    """Run the program here, without its compiled work; return whether it was accepted.

    Raises
    ------
    Failure
        For a traceback, a message of several lines, an escape sequence, or an odd status.
    """
    from gibbs_dp.cli.main import main

    out, err = io.StringIO(), io.StringIO()
    with (
        _without_work(),
        mock.patch.dict(os.environ, {"JAX_COMPILATION_CACHE_DIR": "", "COLUMNS": "80"}),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            status = main(words)
        except Started:
            status = 0
    _check_output(words, status, out.getvalue(), err.getvalue())
    return status != 2


def _check_output(words: list[str], status: int, out: str, err: str) -> None:
    is_debug = "--debug" in words
    if (
        status not in (0, 1, 2)
        or "error: unexpected " in err
        or (status == 1 and words[0] != "verify")
    ):
        raise Failure(f"status {status}: {err.strip()[-400:]}")
    if not is_debug and ("Traceback" in err or "Warning:" in err):
        raise Failure(f"more than a sentence: {err.strip()[-400:]}")
    last = err.strip().splitlines()[-1:] if status == 2 else []
    if status == 2 and not (last and last[0].startswith("gibbs-dp: error: ")):
        raise Failure(f"refused without a sentence: {err.strip()[-300:]!r}")
    for line in [] if is_debug else (out + "\n" + err).split("\n"):
        wrong = not_a_sentence(line.expandtabs()) if line.strip() else ""
        if wrong and "characters" not in wrong:
            raise Failure(wrong)
    if last and len(last[0]) > MOST + sum(map(len, words)):
        raise Failure(f"its refusal has {len(last[0])} characters: {last[0][:200]}")


# Characters of a refusal, beside those of the command line itself.
MOST = 1200
# Where the compiled work of the commands begins, after all that is checked before.
WORK = (
    ("gibbs_dp.auditing.audit", "run_sweep"),
    ("gibbs_dp.auditing.audit", "_check"),
    ("gibbs_dp.papers.attack.attack", "run_sweep"),
    ("gibbs_dp.papers.attack.attack", "check_examples"),
    ("gibbs_dp.sampling.sample", "_begin"),
    ("gibbs_dp.sampling.sample", "sample_path"),
    ("gibbs_dp.privacy.releases.release", "check_program"),
    ("gibbs_dp.privacy.charge", "charge_guarantee"),
    ("gibbs_dp.papers.reusable_holdout.run", "Progress"),
    ("gibbs_dp.papers.capacity.figures", "curve_rows"),
    ("gibbs_dp.papers.verify.verify", "verify"),
    ("gibbs_dp.papers.on_average_kl.figure2", "figure2"),
    ("gibbs_dp.papers.on_average_kl.double_descent", "double_descent"),
    ("gibbs_dp.papers.capacity.on_average", "run_sweep"),
    ("gibbs_dp.papers.notions.notions", "compare_notions"),
)


@contextlib.contextmanager
def _without_work() -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for module, name in WORK:
            importlib.import_module(module)
            stack.enter_context(mock.patch(f"{module}.{name}", side_effect=Started))
        yield
