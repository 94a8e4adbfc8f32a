"""Parsing: declared options, a problem's name anywhere among them, errors as exceptions."""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from gibbs_dp._options import Option
from gibbs_dp.cli import color
from gibbs_dp.cli.errors import UsageError
from gibbs_dp.io.damage import shown

# Whole numbers of more bits no command can use.
LIMIT = 2**63


class Parser(argparse.ArgumentParser):
    """argparse that raises :class:`UsageError` rather than printing its usage and exiting."""

    def __init__(self, **settings: Any) -> None:
        if sys.version_info >= (3, 14):
            settings.setdefault("color", False)  # all versions are coloured in one way, below
        super().__init__(allow_abbrev=False, **settings)

    def print_help(self, file: Any = None) -> None:
        """Print the help, with bold headings where a terminal shows them."""
        stream = sys.stdout if file is None else file
        stream.write(color.headed(self.format_help(), stream))

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; -1e6 is a value and no option, as -1 is to argparse."""
        given = sys.argv[1:] if args is None else args
        words = [f" {w}" if w[:1] == "-" and "e" in w and _is_number(w) else w for w in given]
        return super().parse_args(words, namespace)

    def error(self, message: str) -> NoReturn:
        """Raise the message; if values are missing, name them all."""
        told = message.removeprefix("argument ")
        flag = told.partition(":")[0]
        self.usage = None  # argparse's own names the values of every option
        if "expected" in told and (shape := re.search(rf"\[({flag} [^]]+)\]", self.format_usage())):
            told = f"{flag}: give it as {shape[1]}"
        raise UsageError(told + ".")


def parse(
    command: str,
    summary: str,
    arguments: Sequence[str],
    groups: Mapping[str, Iterable[Option]],
    **settings: Any,
) -> argparse.Namespace:
    """Parse the options of a command, which its help shows under the titles of ``groups``."""
    parser = Parser(prog=f"gibbs-dp {command}", description=summary, **settings)
    for title, options in groups.items():
        add_options(parser, options, title)
    return parser.parse_args(list(arguments))


def given(parsed: argparse.Namespace, options: Iterable[Option]) -> dict[str, Any]:
    """Return the options that were given, by keyword; functions have the defaults of the others."""
    return {
        option.keyword: value
        for option in options
        if (value := getattr(parsed, option.keyword, None)) is not None
        and not (option.kind == "flag" and value is option.is_off)
    }


def add_options(parser: argparse.ArgumentParser, options: Iterable[Option], title: str) -> None:
    """Add declared options under a title of the help."""
    group = parser.add_argument_group(title)
    for option in options:
        settings: dict[str, Any] = {"dest": option.keyword, "help": option.text.replace("%", "%%")}
        if option.kind == "flag":
            action = "store_false" if option.is_off else "store_true"
            group.add_argument(option.flag, action=action, **settings)
            continue
        if option.is_list or isinstance(option.metavar, tuple):
            settings["nargs"] = "+" if option.is_list else len(option.metavar or ())
        if option.is_repeatable:
            settings["action"] = "append"
        if option.kind == "str" and option.choices:
            settings["choices"] = option.choices
        else:
            settings["metavar"] = option.metavar or option.flag.strip("-").upper().replace("-", "_")
        group.add_argument(option.flag, type=_reader(option), default=option.default, **settings)


def _reader(option: Option) -> Callable[[str], Any]:
    """Return what makes a value of a word."""
    if option.kind == "str":
        return str
    convert, name = (int, "a whole number") if option.kind == "int" else (float, "a number")

    def read(word: str) -> Any:
        if word in option.choices:
            return word
        try:
            value = convert(word)
            if abs(value) >= LIMIT and option.kind == "int":
                raise ValueError
            return value
        except ValueError:
            wanted = " or ".join([name, *map(repr, option.choices)])
            raise argparse.ArgumentTypeError(f"{shown(word, 60)!r} is not {wanted}") from None

    return read


def split_name(arguments: Sequence[str], options: Iterable[Option]) -> tuple[str | None, list[str]]:
    """Take the one positional word out of a command line, wherever it stands.

    A list of numbers ends at the first word that is no number; argparse would swallow the name.

    Parameters
    ----------
    arguments
        The command line after the command.
    options
        All that the command has.

    Returns
    -------
    tuple
        The word, or None if there is none, and the other arguments.

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
        most = len(option.metavar) if isinstance(option.metavar, tuple) else 1
        while i < len(arguments) and _is_value(arguments[i], option):
            i += 1
            if not option.is_list and i - begin == most:
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
