"""``gibbs-dp demo``: a tour that runs five commands on made-up data and reads their numbers."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import shlex
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gibbs_dp._options import Option
from gibbs_dp.cli import load, output
from gibbs_dp.cli.options import DEBUG, JSON
from gibbs_dp.cli.output import UsageError
from gibbs_dp.cli.parser import parse

SUMMARY = (
    "A tour on made-up data: an audit, a page to explore it, attacks that are run, a private draw, "
    "and the ledger that it is charged to. Each step is a command that is shown, run and read in "
    "plain words. About a minute on two cores."
)
GROUPS = {
    "how much": (
        Option(
            "num_datasets", "int", "datasets of the audit, and attacks on others, per gamma", 4096
        ),
    ),
    "output": (
        JSON,
        Option("out", "str", "folder for the files, new or empty", "demo", metavar="DIR"),
        Option("quiet", "flag", "no progress bar and no log on stderr"),
        DEBUG,
    ),
}

# The gamma that is read in words, one of those in the commands.
GAMMA = 10.0
# Files in the folder, beside those that the commands name.
TABLE, LEDGER, PAGE = "made_up.csv", "made_up.ledger", "explore.html"
NUM_ROWS = 1000
# Standard errors beyond which chance does not explain a difference: 3 in 1,000 are.
LIMIT = 3.0
# Addresses and names stay whole.
WORDS = textwrap.TextWrapper(100, break_long_words=False, break_on_hyphens=False)

Reading = tuple[str, dict[str, Any]]


class Step(NamedTuple):
    """One question, the commands that answer it, and how the answer is read."""

    name: str
    asks: str
    commands: tuple[str, ...]
    yours: tuple[str, ...]
    read: Callable[[Path], Reading]


def run(arguments: Sequence[str]) -> None:
    """Run the command."""
    parsed = parse("demo", SUMMARY, arguments, GROUPS)
    folder = Path(parsed.out)
    if folder.is_dir() and any(folder.iterdir()):
        raise UsageError(
            f"--out: {parsed.out!r} already holds files, and the tour overwrites none; give a "
            "folder that is new or empty."
        )
    from gibbs_dp.model.check import positive_count
    from gibbs_dp.papers.attack.attack import LEAST_TRIALS

    positive_count("num_datasets", parsed.num_datasets, least=LEAST_TRIALS)
    output.prepare_folder(parsed.out)
    make_table(folder / TABLE)
    for i, step in enumerate(STEPS, 1):
        _take(step, i, parsed, folder)


def _take(step: Step, i: int, parsed: argparse.Namespace, folder: Path) -> None:
    """Ask, run the commands, and say what their numbers mean."""
    if not parsed.json:
        output.emit(f"{i} of {len(STEPS)}. {step.asks}")
    shown = []
    for template in step.commands:
        words = [
            word.format(out=folder, num_datasets=parsed.num_datasets)
            for word in shlex.split(template)
        ]
        shown.append(shlex.join(["gibbs-dp", *words]))
        aside: Any = contextlib.nullcontext()
        if parsed.json:
            aside = contextlib.redirect_stdout(io.StringIO())
        else:
            output.emit(f"$ {shown[-1]}")
        function, _ = load(words[0])
        with aside:
            function([*words[1:], *["--quiet"] * parsed.quiet])
    says, numbers = step.read(folder)
    if parsed.json:
        told = {"asks": step.asks, "commands": shown, "says": says, "yours": step.yours}
        output.emit(json.dumps({"kind": step.name, **told, **numbers}))
        return
    lines = [WORDS.fill(f"In words: {says}"), *(f"Your own data: {line}" for line in step.yours)]
    output.emit("\n".join([*lines, *[""] * (i < len(STEPS))]))


def make_table(path: Path) -> None:
    """Make up patients of whom the older and the smokers are ill more often; always the same."""
    import numpy as np

    from gibbs_dp.io import atomic_write

    rng = np.random.default_rng(0)
    age, smoker = rng.integers(18, 91, NUM_ROWS), rng.random(NUM_ROWS) < 0.5
    is_ill = rng.random(NUM_ROWS) < 1.0 / (1.0 + np.exp(4.0 - 0.06 * age - smoker))
    names = ("no", "yes")
    rows = zip(age, smoker, is_ill, strict=True)
    lines = [f"{a},{names[int(s)]},{names[int(i)]}" for a, s, i in rows]
    with atomic_write(path) as temporary:
        temporary.write_text("\n".join(["age,smoker,ill", *lines]) + "\n", "utf-8")


# What the numbers that were printed say, from the files that the commands wrote.


def read_audit(folder: Path) -> Reading:
    """Say how often someone who sees a draw guesses right."""
    from gibbs_dp.auditing.explore import told_at

    report = _report(folder)
    i = _place(report)
    row = report.rows[i]
    numbers = {"gamma": row["gamma"], "on_average_kl": row["on_average_kl"], **_right(row)}
    return f"at {told_at(report, i)}", numbers


def read_page(folder: Path) -> Reading:
    """Say how the page is opened, and between which numbers it moves."""
    report = _report(folder)
    first, last = report.rows[0], report.rows[-1]
    page = (folder / PAGE).resolve().as_uri()
    ends = [_right(row)["right_in_100"] for row in (first, last)]
    says = (
        f"open {page} in a browser; it needs no network. There gamma moves from "
        f"{first['gamma']:g} to {last['gamma']:g}, and right guesses from {ends[0]:.2f} to "
        f"{ends[1]:.2f} in 100."
    )
    return says, {"page": page, "right_in_100": ends}


def read_attack(folder: Path) -> Reading:
    """Hold what the attacker reached against what the audit said."""
    import pandas as pd

    table = pd.read_csv(folder / "attack.csv")
    best = table[(table["gamma"] == GAMMA) & (table["attacker"] == "optimal")].iloc[0]
    report = _report(folder)
    said = _right(report.rows[_place(report)])
    measured, se = (float(100 * best[name]) for name in ("success_rate", "success_rate_se"))
    apart = abs(measured - said["right_in_100"]) / math.hypot(se, said["right_in_100_se"])
    verdict = "chance explains" if apart <= LIMIT else "chance does NOT explain"
    says = (
        f"the optimal attacker really guessed right {measured:.2f} ± {se:.2f} times in 100, where "
        f"the audit, which attacked nobody, said {said['right_in_100']:.2f}: {apart:.1f} standard "
        f"errors apart, which {verdict}."
    )
    numbers = {"measured_in_100": measured, "measured_in_100_se": se, **said}
    return says, {"gamma": GAMMA, **numbers, "standard_errors_apart": apart}


def read_release(folder: Path) -> Reading:
    """Say what is promised, and in the audit's own terms."""
    from gibbs_dp.cli.attack import allowed_by
    from gibbs_dp.privacy.guarantee import load_guarantee, promise_in_words

    guarantee = load_guarantee(folder / "release.json")
    most = math.ceil(1e4 * allowed_by(guarantee)["largest_success_rate"]) / 100
    promise = promise_in_words(guarantee)
    says = (
        f"{promise[0].lower()}{promise[1:]} So nobody who guesses which of two records was in the "
        f"table is right more than {most:.2f} times in 100, whomever they are about."
    )
    return says, {"epsilon": guarantee.epsilon, "delta": guarantee.delta, "most_in_100": most}


def read_ledger(folder: Path) -> Reading:
    """Say what was spent, and for how many such draws the rest is enough."""
    from gibbs_dp.privacy.ledger import Ledger

    ledger = Ledger(folder / LEDGER)
    budget, left, cost = ledger.budget(), ledger.left(), ledger.charges()[-1].amounts
    more = min(math.floor(left[name] / cost[name]) for name in cost)
    says = (
        f"of epsilon = {budget['epsilon']:g} the draw took {cost['epsilon']:g} and "
        f"{left['epsilon']:g} is left, enough for {more} more like it; what would cost more than "
        "is left is refused before anything is drawn."
    )
    return says, {"budget": budget, "charged": cost, "left": left, "more": more}


def _report(folder: Path) -> Any:
    from gibbs_dp.auditing.load_report import load_report

    return load_report(folder / "audit.nc")


def _place(report: Any) -> int:
    return [row["gamma"] for row in report.rows].index(GAMMA)


def _right(row: Any) -> dict[str, float]:
    """Return right guesses in 100, with their standard error."""
    advantage, se = (float(row[name]) for name in ("on_average_tv", "on_average_tv_se"))
    return {"right_in_100": 50 + 50 * advantage, "right_in_100_se": 50 * se}


PROBLEM = "linear-regression --theta-bound 2 --gammas 0.1 1 10 100"
COLUMNS = "--target ill --label no yes --range age 0 100 --levels smoker no yes"
YOURS = "--target COLUMN --label ZERO ONE --range FEATURE LOW HIGH"
TARGET = "--theta-ball 4 --adjacency replace-one --epsilon 1 --delta 1e-6"
BUDGET = "--adjacency replace-one --epsilon 2 --delta 1e-5"

STEPS = (
    Step(
        "audit",
        "What does one draw from a model give away about an example, on average?",
        (f"audit {PROBLEM} --num-information 0 --num-datasets {{num_datasets}} --out {{out}}",),
        ("gibbs-dp audit FILE.csv --target COLUMN --out results",),
        read_audit,
    ),
    Step(
        "explore",
        "Which gamma keeps a limit that one sets, and at what cost?",
        (f"explore {{out}}/audit.nc --out {{out}}/{PAGE}",),
        (f"gibbs-dp explore results/audit.nc --out results/{PAGE}",),
        read_page,
    ),
    Step(
        "attack",
        "Is that number true of attackers who try?",
        (f"attack {PROBLEM} --num-trials {{num_datasets}} --out {{out}}",),
        ("gibbs-dp attack FILE.csv --target COLUMN --out results",),
        read_attack,
    ),
    Step(
        "release",
        f"What may be handed out of a private table, here {NUM_ROWS:,} made-up patients?",
        (
            f"ledger create --ledger {{out}}/{LEDGER} {BUDGET}",
            f"release --data {{out}}/{TABLE} {COLUMNS} {TARGET} --ledger {{out}}/{LEDGER} "
            "--out {out}",
        ),
        (
            f"gibbs-dp ledger create --ledger my.ledger {BUDGET}",
            f"gibbs-dp release --data FILE.csv {YOURS} {TARGET} --ledger my.ledger --out results",
        ),
        read_release,
    ),
    Step(
        "ledger",
        "How much of the table's privacy is spent?",
        (f"ledger show --ledger {{out}}/{LEDGER}",),
        ("gibbs-dp ledger show --ledger my.ledger",),
        read_ledger,
    ),
)
