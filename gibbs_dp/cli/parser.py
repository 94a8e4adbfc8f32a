"""Parsing: declared options, a problem's name anywhere among them, errors as exceptions."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from gibbs_dp._options import Option
from gibbs_dp.cli import color
from gibbs_dp.cli.errors import UsageError
from gibbs_dp.cli.mistakes import (
    YES_NO,
    bad_number,
    is_number,
    refuse_misplaced,
    refuse_unknown,
    refuse_value,
)

# Whole numbers of more bits no command can use.
LIMIT = 2**63
# And with a point or an exponent, all that are exact.
LARGEST = 2**53


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
        words = [f" {w}" if w[:1] == "-" and "e" in w and is_number(w) else w for w in given]
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
    name, rest = split_name(arguments, [o for options in groups.values() for o in options])
    if name is not None:
        raise UsageError(
            f"{name!r} is unexpected; 'gibbs-dp {command}' takes options only, as --name value."
        )
    return parser.parse_args(rest)


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
        elif option.is_list:
            settings["action"] = "extend"  # given twice, it takes all
        if option.kind == "str" and option.choices:
            settings["choices"] = option.choices
        else:
            settings["metavar"] = option.metavar or option.flag.strip("-").upper().replace("-", "_")
        group.add_argument(option.flag, type=_reader(option), default=option.default, **settings)


def _reader(option: Option) -> Callable[[str], Any]:
    """Return what makes a value of a word."""
    if option.kind == "str":
        return str

    def read(word: str) -> Any:
        if word in option.choices:
            return word
        try:
            return _whole(word) if option.kind == "int" else float(word)
        except (ValueError, OverflowError):
            raise argparse.ArgumentTypeError(bad_number(word, option)) from None

    return read


def _whole(word: str) -> int:
    """Read a whole number; 1e3 and 100.0 are some."""
    value = int(word) if word.strip().lstrip("+-").replace("_", "").isdigit() else float(word)
    if value != int(value) or abs(value) >= (LIMIT if isinstance(value, int) else LARGEST):
        raise ValueError
    return int(value)


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
        If there are several positional words or one that is a misplaced value, an option that is
        not known, or two values of an option that takes one.

    Examples
    --------
    >>> several = Option("gammas", "float", "", is_list=True)
    >>> split_name(["--gammas", "0.1", "1", "private-mean"], [several])
    ('private-mean', ['--gammas', '0.1', '1'])
    """
    known = {option.flag: option for option in options}
    words: list[str] = []
    rest: list[str] = []
    seen: set[str] = set()
    option: Option | None = None
    i = 0
    while i < len(arguments):
        word = arguments[i]
        i += 1
        if not word.startswith("-") or word == "-":
            refuse_misplaced(arguments[i - 1 :], option)
            words.append(word)
            if len(words) > 1:
                _refuse_second(words, option)
            continue
        rest.append(word)
        flag, has_value, value = word.partition("=")
        option = known.get(flag)
        if option is None:
            refuse_unknown(word, known)
            continue
        if option.kind == "flag":
            if has_value:
                refuse_value(option, value)
            continue
        if has_value and not value:
            raise UsageError(f"{flag}: leave out spaces around '='; give it as {flag} value.")
        _refuse_again(option, seen)
        if has_value:
            continue
        begin = i
        most = len(option.metavar) if isinstance(option.metavar, tuple) else 1
        while i < len(arguments) and _is_value(arguments[i], option):
            i += 1
            if not option.is_list and i - begin == most:
                break
        if arguments[begin:i] == ["="] and option.metavar != "MARK":
            refuse_misplaced(["="], option)
        rest += arguments[begin:i]
    return (words[0] if words else None), rest


def _refuse_second(words: Sequence[str], option: Option | None) -> None:
    from gibbs_dp.problems.registry import PROBLEMS

    if option is not None and option.kind == "flag" and words[1].lower() in YES_NO:
        refuse_value(option, words[1])
    hint = "give one problem, and options as --name value."
    if "-".join(words).lower() in PROBLEMS:
        hint = f"did you mean {'-'.join(words).lower()}?"
    raise UsageError(f"{words[1]!r} is unexpected after {words[0]!r}; {hint}")


def _refuse_again(option: Option, seen: set[str]) -> None:
    """Raise for two values of what takes one; lists are put together."""
    if option.flag in seen and not (option.is_list or option.is_repeatable):
        raise UsageError(f"{option.flag}: it is given twice; give it once.")
    seen.add(option.flag)


def _is_value(word: str, option: Option) -> bool:
    if option.is_list and option.kind != "str":
        return is_number(word) or word in option.choices
    return not word.startswith("--")
