"""The command line: its commands, and one place that turns errors into one line (`main.py`)."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Command(NamedTuple):
    """A line for the help, and where a command's function and options by group stand."""

    summary: str
    module: str
    run: str = "run"
    groups: str = "GROUPS"


def _of_papers(summary: str, name: str) -> Command:
    return Command(summary, "papers", f"run_{name}", name.upper())


def _of_saved(summary: str, name: str) -> Command:
    return Command(summary, "saved", f"run_{name}", name.upper())


COMMANDS = {
    "demo": Command("a tour of all this on made-up data, in a minute", "demo"),
    "audit": Command("privacy and generalization of a posterior over gamma", "audit"),
    "attack": Command("attacks that are run, or what a guarantee allows them", "attack"),
    "merge": Command(
        "the report of an audit that several processes sampled", "audit", "run_merge", "MERGE"
    ),
    "show": _of_saved("what a saved result says", "show"),
    "plot": _of_saved("a saved result as a picture", "plot"),
    "explore": _of_saved("saved audits as one page to explore in a browser", "explore"),
    "compare": _of_saved("saved audits side by side, differences with errors", "compare"),
    "export": _of_saved("a saved result for a paper, a spreadsheet, a program", "export"),
    "sample": Command("draws from one posterior, with diagnostics", "sample"),
    "calibrate": Command("the gamma of a privacy target, worst case or on average", "calibrate"),
    "release": Command("private draws from a table, charged to a ledger", "release"),
    "predict": Command("what a released model says of another table", "predict"),
    "ledger": Command("make a privacy budget, and see what has been spent", "ledger"),
    "figure2": _of_papers(
        "Figure 2 of Wang, Lei & Fienberg (2016), from sampled posteriors", "figure2"
    ),
    "verify": _of_papers("every implemented theorem: both sides, and whether it holds", "verify"),
    "notions": _of_papers("notions of privacy over gamma, and what implies what", "notions"),
    "double-descent": _of_papers(
        "risk and privacy over the number of random features", "double_descent"
    ),
    "holdout": _of_papers("adaptive questions to one holdout, and what they cost", "holdout"),
    "capacity": _of_papers("what linear, kernel and neural adversaries can tell", "capacity"),
    "help": Command("a column, a warning or a word, explained", "topics"),
    "completion": Command("what a shell needs to complete all of this with TAB", "completion"),
}


def load(command: str) -> tuple[Callable[..., int | None], Mapping[str, Any]]:
    """Import a command; return its function and its options by group."""
    found = COMMANDS[command]
    module = importlib.import_module(f"gibbs_dp.cli.{found.module}")
    return getattr(module, found.run), getattr(module, found.groups)
