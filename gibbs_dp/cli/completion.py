"""``gibbs-dp completion``: a script that completes commands, problems and options with TAB."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gibbs_dp._extras import install_hint
from gibbs_dp._options import Option
from gibbs_dp.cli import COMMANDS, load, output
from gibbs_dp.cli.extensions import WITH
from gibbs_dp.cli.ledger import ACTIONS
from gibbs_dp.cli.options import DEBUG, QUIET
from gibbs_dp.cli.output import UsageError
from gibbs_dp.cli.papers import EXPERIMENTS
from gibbs_dp.cli.parser import Parser, add_options, parse, split_name
from gibbs_dp.cli.topics import topics

SUMMARY = "A script on stdout with which a shell completes commands, problems and options."
SHELLS = ("bash", "zsh", "tcsh")
GROUPS = {"options": (QUIET, DEBUG)}
OF_PROBLEMS = ("audit", "attack", "sample", "calibrate")


def run(arguments: Sequence[str]) -> None:
    """Run the command."""
    shell, rest = split_name(arguments, GROUPS["options"])
    parse("completion", SUMMARY, rest, GROUPS, usage=f"gibbs-dp completion {'|'.join(SHELLS)}")
    if shell not in SHELLS:
        got = "" if shell is None else f", not {shell!r}"
        raise UsageError(f"completion: name a shell, {', '.join(SHELLS)}{got}.")
    try:
        import shtab
    except ImportError:
        raise UsageError(
            "completion: the scripts are made by shtab; " + install_hint("shtab")
        ) from None
    output.emit(shtab.complete(whole_parser(), shell).rstrip())


def whole_parser() -> argparse.ArgumentParser:
    """Return one parser of all commands, for what is offered while they are typed."""
    whole = Parser(prog="gibbs-dp", description="Privacy and generalization of Gibbs posteriors.")
    whole.add_argument("--version", action="store_true", help="show the version")
    commands = whole.add_subparsers(metavar="COMMAND")
    words = {"holdout": EXPERIMENTS, "ledger": ACTIONS, "completion": SHELLS}
    for name, command in COMMANDS.items():
        _, groups = load(name)
        parser = commands.add_parser(name, help=command.summary)
        if name in OF_PROBLEMS:
            _add_problems(parser, groups)
            continue
        _add(parser, groups)
        if name in words:
            parser.add_argument("word", choices=tuple(words[name]))
        elif name == "merge":
            _complete(parser.add_argument("store"), "DIR")
        elif name == "help":
            parser.add_argument("topic", choices=(*COMMANDS, *topics()))
        elif command.module == "saved":
            _complete(parser.add_argument("files", nargs="+"), "FILE")
    return whole


def _add_problems(parser: Any, groups: Mapping[str, Iterable[Option]]) -> None:
    """Let a problem's name stand next, with its own options; none for a table or one's own."""
    from gibbs_dp.problems.registry import PROBLEMS

    _add(parser, {"your own": (WITH, *PROBLEMS["table"].options), **groups})
    names = parser.add_subparsers(metavar="PROBLEM")
    for name, entry in PROBLEMS.items():
        _add(names.add_parser(name, help=entry.summary), {name: entry.options, **groups})


def _add(parser: argparse.ArgumentParser, groups: Mapping[str, Iterable[Option]]) -> None:
    for title, options in groups.items():
        declared = {option.keyword: option for option in options}
        add_options(parser, declared.values(), title)
        for action in parser._actions:
            option = declared.get(action.dest)
            if option is not None:
                _complete(action, option.metavar)
                action.choices = action.choices or option.choices or None


def _complete(action: Any, metavar: Any) -> None:
    import shtab

    found = {"FILE": shtab.FILE, "DIR": shtab.DIRECTORY}.get(str(metavar))
    if found is not None:
        action.complete = found
