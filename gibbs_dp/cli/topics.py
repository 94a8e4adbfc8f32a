"""``gibbs-dp help TOPIC``: a command, a column, a warning or a word of the glossary, explained."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from functools import cache
from importlib import resources

from gibbs_dp.cli import COMMANDS, load, output
from gibbs_dp.cli.options import DEBUG, QUIET
from gibbs_dp.cli.output import UsageError
from gibbs_dp.cli.parser import nearest, parse, split_words
from gibbs_dp.io.files import shown

SUMMARY = "A command, a column of a report, a warning or a word, explained."
GROUPS = {"output": (QUIET, DEBUG)}
TOPICS = (
    "'gibbs-dp help TOPIC' explains a column (on_average_kl), a warning (starts-disagree), a word "
    "(advantage)."
)
# Roles of the glossary's Markdown, and signs of its formulas.
_ROLE = re.compile(r"\{[\w:]+\}`([^`<]*?)(?: <[^>]*>)?`")
_SIGNS = {r"\ge": ">=", r"\le": "<=", r"\cdot": "*", r"\ell": "l", r"\theta": "theta"}
_SIGNS |= {r"\gamma": "gamma", r"\text": "", r"\exp": "exp", "$": "", "{": "", "}": ""}


def run(arguments: Sequence[str]) -> int | None:
    """Run the command."""
    words, rest = split_words(arguments, GROUPS["output"])
    parse("help", SUMMARY, rest, GROUPS, usage="gibbs-dp help TOPIC")
    topic = " ".join(words)
    if not topic:
        from gibbs_dp.cli.main import overview

        output.emit(f"{overview()}\n{TOPICS}")
        return None
    if topic in COMMANDS:
        function, _ = load(topic)
        return function(["--help"])
    found = topics()
    begin = [name for name in found if name.startswith(f"{_plain(topic)}-")]
    texts = found.get(_plain(topic)) or (found[begin[0]] if len(begin) == 1 else None)
    if texts is None:
        near = nearest(_plain(topic), (*COMMANDS, *found))
        hint = f"did you mean {near!r}?" if near else "'gibbs-dp --help' lists commands."
        raise UsageError(f"help: there is nothing about {shown(topic, 60)!r}; {hint}")
    for text in texts:
        output.emit("\n".join(textwrap.wrap(text, 100, break_on_hyphens=False)))
    return None


def _plain(topic: str) -> str:
    return re.sub(r"[\s_]+", "-", topic.strip().strip("[]").lower())


def topics() -> dict[str, list[str]]:
    """Return what is said of every topic: paragraphs, by its name in small letters."""
    from gibbs_dp.auditing.summary import CAUTIONS, SHOWN, VERDICT
    from gibbs_dp.quantities.registry import COLUMNS

    found: dict[str, list[str]] = {}

    def add(name: str, *texts: str) -> None:
        found.setdefault(_plain(name), []).extend(texts)

    for name, text in glossary().items():
        add(name, f"{name}: {text}")
    for column in COLUMNS.values():
        told = f"{column.name_and_unit}, a column of reports: {column.meaning}"
        add(column.name, told)
        if column.title and _plain(column.title) != _plain(column.name):
            add(column.title, told)
    for title, name, meaning, _ in SHOWN:
        told = f"{title}, in the printed table: {meaning or COLUMNS[name].meaning} [{name}]"
        add(title, told)
    add("verdict", f"verdict, in the printed table: {VERDICT}")
    for caution in (c for cautions in CAUTIONS.values() for c in cautions):
        texts = (f"[{caution.name}] {caution.example}", caution.meaning)
        add(caution.name, *texts, f"What to do: {caution.remedy}")
        found[_plain(caution.name)].append(f"Verdict on a row that has it: {caution.verdict}.")
    return found


@cache
def glossary() -> dict[str, str]:
    """Return the words of the documentation's glossary, which is this package's file."""
    text = resources.files(__package__).joinpath("glossary.md").read_text(encoding="utf-8")
    found: dict[str, str] = {}
    for block in re.findall(r"```\{glossary\}\n(.*?)```", text, re.DOTALL):
        for entry in re.split(r"\n\n", block.strip()):
            lines = entry.splitlines()
            names = [line for line in lines if not line.startswith(" ")]
            told = " ".join(line.strip() for line in lines if line.startswith(" "))
            told = _ROLE.sub(r"\1", told).replace("*", "").replace("`", "")
            for sign, plain in _SIGNS.items():
                told = told.replace(sign, plain)
            found |= dict.fromkeys(names, told)
    return found
