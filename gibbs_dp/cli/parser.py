"""Parsing: declared options, a problem's name anywhere among them, errors as exceptions."""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from gibbs_dp.cli.errors import UsageError
from gibbs_dp.problems.registry import Option

_TYPES = {"int": int, "float": float, "str": str}


class Parser(argparse.ArgumentParser):
    """argparse that raises :class:`UsageError` rather than printing its usage and exiting."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, **settings)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; -1e6 is a value, as -1 is to argparse, and no option."""
        given = sys.argv[1:] if args is None else args
        words = [f" {w}" if w[:1] == "-" and "e" in w and _is_number(w) else w for w in given]
        return super().parse_args(words, namespace)

    def error(self, message: str) -> NoReturn:
        """Raise the message; where values are missing, with the names of them all."""
        told = message.removeprefix("argument ")
        flag = told.partition(":")[0]
        if "expected" in told and (shape := re.search(rf"\[({flag} [^]]+)\]", self.format_usage())):
            told = f"{flag}: give it as {shape[1]}"
        raise UsageError(told + ".")


def add_options(parser: argparse.ArgumentParser, options: Iterable[Option], title: str) -> None:
    """Add declared options under a title of the help."""
    group = parser.add_argument_group(title)
    for option in options:
        if option.kind == "flag":
            group.add_argument(option.flag, action="store_true", help=option.help)
            continue
        settings: dict[str, Any] = {"nargs": "+"} if option.is_list else {}
        if isinstance(option.metavar, tuple) and not option.is_list:
            settings["nargs"] = len(option.metavar)
        if option.is_repeatable:
            settings["action"] = "append"
        if option.choices:
            settings["choices"] = option.choices
        group.add_argument(
            option.flag,
            type=_TYPES[option.kind],
            default=option.default,
            metavar=None if option.choices else option.metavar or option.keyword.upper(),
            help=option.help.replace("%", "%%"),
            **settings,
        )


def split_name(arguments: Sequence[str], options: Iterable[Option]) -> tuple[str | None, list[str]]:
    """Take the one positional word out of a command line, wherever it stands.

    Options with several numbers, which argparse would let swallow it, end at the first word that
    is no number.

    Raises
    ------
    UsageError
        If there are several positional words, or an option that is not known.

    Examples
    --------
    >>> several = Option("gammas", "float", "", is_list=True)
    >>> split_name(["--gammas", "0.1", "1", "private-mean"], [several])
    ('private-mean', ['--gammas', '0.1', '1'])
    """
    known = {option.flag: option for option in options}
    words: list[str] = []
    rest: list[str] = []
    i = 0
    while i < len(arguments):
        word = arguments[i]
        i += 1
        if not word.startswith("-") or word == "-":
            words.append(word)
            continue
        rest.append(word)
        option = known.get(word.partition("=")[0])
        if option is None:
            _refuse_unknown(word, known)
        if option is None or option.kind == "flag" or "=" in word:
            continue
        begin = i
        while i < len(arguments) and _is_value(arguments[i], option):
            i += 1
            if not option.is_list:
                break
        rest += arguments[begin:i]
    if len(words) > 1:
        raise UsageError(
            f"{words[1]!r} is unexpected after {words[0]!r}; give one problem, and options as "
            "--name value."
        )
    return (words[0] if words else None), rest


def _refuse_unknown(word: str, known: Iterable[str]) -> None:
    if word in ("-h", "--help"):
        return
    near = difflib.get_close_matches(word, list(known), n=1)
    hint = f"; did you mean {near[0]}?" if near else "; --help lists the options."
    raise UsageError(f"there is no option {word}{hint}")


def _is_value(word: str, option: Option) -> bool:
    if option.is_list and option.kind != "str":
        return _is_number(word)
    return not word.startswith("--")


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
