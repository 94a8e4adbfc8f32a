"""Parsing: declared options, a problem's name anywhere among them, and what is typed by mistake."""

from __future__ import annotations

import argparse
import difflib
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from gibbs_dp._options import Option
from gibbs_dp.cli import COMMANDS, load
from gibbs_dp.cli.output import UsageError, headed
from gibbs_dp.io.files import shown

# What programs that write text make of quotes and of hyphens.
QUOTES = "\"'`\u00ab\u00bb\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u2032\u2033"
DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d"
_TYPED = str.maketrans(dict.fromkeys(QUOTES, "") | dict.fromkeys(DASHES, "-"))
BRACKETS = "[](){} ,;"
YES_NO = ("true", "false", "yes", "no", "on", "off", "0", "1")
NO = ("false", "no", "off", "0")
SHORT = {"d": "--data", "j": "--json", "o": "--out", "q": "--quiet", "s": "--seed", "h": "--help"}
# What options are called elsewhere.
OTHER_NAMES = {
    **dict.fromkeys(("y", "label", "outcome", "response", "dependent", "predict"), "--target"),
    **dict.fromkeys(("x", "columns", "predictors", "covariates"), "--features"),
    **dict.fromkeys(("csv", "file", "input", "table"), "--data"),
    **dict.fromkeys(("output", "outdir", "save"), "--out"),
    **dict.fromkeys(("separator", "delimiter"), "--sep"),
    **dict.fromkeys(("size", "sample-size", "rows"), "--n"),
    "silent": "--quiet",
}
# Words as alike as this are taken for one another.
ALIKE = 0.68
# Whole numbers of more bits no command can use; with a point or an exponent, all that are exact.
LIMIT, LARGEST = 2**63, 2**53


def is_number(word: str) -> bool:
    """Return whether Python reads a number."""
    try:
        float(word)
    except ValueError:
        return False
    return True


def is_meant_as_number(word: str) -> bool:
    """Return whether a word is a number, or numbers, as some people write them.

    >>> [is_meant_as_number(word) for word in ("0.1,1", "[2", "50%", "10k", "ill", "k-means")]
    [True, True, True, True, False, False]
    """
    inner = word.translate(_TYPED).strip(BRACKETS)
    parts = [part for part in re.split(r"[,;\s]+", inner) if part]
    shape = r"[-+$]?(\d[\d_.]*|\.\d+)([eE][-+]?\d+)?\s*([%kKmM]|([*/^x]|\*\*)\s*\d[\d.^*]*)?"
    return bool(parts) and all(re.fullmatch(shape, part) or is_number(part) for part in parts)


def number_remedy(word: str, kind: str, is_list: bool = False) -> str:
    """Say what to type for a word that is no number; nothing where there is no guess.

    >>> number_remedy("0.1,1,10", "float", True)
    '; separate numbers by spaces: 0.1 1 10'
    >>> number_remedy("1,000", "int"), number_remedy("50%", "float")
    ('; leave out the separators: 1000', '; give the share: 0.5')
    """
    if word.strip() == "=":
        return "; leave out the spaces around '='"
    if kind == "int" and is_number(word):
        return "; give a whole number" if abs(float(word)) < LARGEST else "; it is too large"
    typed = word.translate(_TYPED).strip()
    inner = typed.strip(BRACKETS)
    parts = [part for part in re.split(r"[,;\s]+", inner) if part]
    if is_number(inner) and (kind == "float" or float(inner).is_integer()):
        return f"; type {inner}"
    if re.fullmatch(r"[-+]?\d{1,3}(,\d{3})+(\.\d+)?", typed) and not is_list:
        return f"; leave out the separators: {typed.replace(',', '')}"
    if len(parts) > 1 and all(map(is_number, parts)):
        point = typed.replace(",", ".")
        is_comma = bool(re.fullmatch(r"[-+]?\d+,\d+", typed)) and kind == "float"
        if is_list:
            other = f", or give a decimal point: {point}" if is_comma else ""
            return f"; separate numbers by spaces: {' '.join(parts)}{other}"
        return f"; give a decimal point: {point}" if is_comma else "; give one number"
    if found := re.fullmatch(r"(.+?)\s*%", inner):
        if is_number(found[1]) and kind == "int":
            return "; give a count"
        if is_number(found[1]):
            return f"; give the share: {float(found[1]) / 100:.10g}"
    elif found := re.fullmatch(r"(.+?)\s*([kKM])", inner):
        if is_number(found[1]):
            return f"; write it out: {float(found[1]) * (1e6 if found[2] == 'M' else 1e3):.10g}"
    elif found := re.fullmatch(r"(\d[\d.]*)\s*/\s*(\d[\d.]*)", inner):
        numbers = is_number(found[1]) and is_number(found[2])
        if numbers and float(found[2]) and kind == "float":
            return f"; write it out: {float(found[1]) / float(found[2]):.10g}"
    elif found := re.fullmatch(r"10\s*(?:\^|\*\*)\s*([-+]?\d{1,3})", inner):
        return f"; write it as 1e{found[1]}"
    return ""


def bad_number(word: str, option: Option) -> str:
    """Say that a word is none of the numbers that an option takes, and what to type."""
    kind = "a whole number" if option.kind == "int" else "a number"
    wanted = " or ".join([kind, *map(repr, option.choices)])
    hint = number_remedy(word, option.kind, option.is_list)
    return f"{shown(word, 60)!r} is not {wanted}{hint or '; give one'}"


def refuse_misplaced(words: Sequence[str], option: Option | None) -> None:
    """Raise for a word, before others, that no option took: a value of the option before it."""
    word = words[0]
    if word[:1] in DASHES or any(mark in word for mark in set(QUOTES) - set("'")):
        typed = word.translate(_TYPED)
        bare = typed.strip("-")
        flag = f"--{bare}" if word.translate(_TYPED)[:1] == "-" and bare else typed
        raise UsageError(
            f"{shown(word, 60)!r} has a dash or quotes of a text program; type {flag}."
        )
    if word == "=":
        flag = "--name" if option is None else option.flag
        raise UsageError(f"{flag}: leave out the spaces around '='; give it as {flag} value.")
    if option is None:
        return
    if option.kind == "flag" and word.lower() in YES_NO[:6]:
        refuse_value(option, word)
    if option.kind in ("int", "float") and is_meant_as_number(word):
        run = [word]
        for more in words[1:]:
            if more.startswith("-") or not is_meant_as_number(more):
                break
            run.append(more)
        if all(map(is_number, run)):
            raise UsageError(f"{option.flag}: it takes one number; leave out {' '.join(run)}.")
        raise UsageError(f"{option.flag}: {bad_number(' '.join(run), option)}.")


def refuse_value(option: Option, value: str) -> None:
    """Raise for a value of a flag."""
    what = option.flag if value.lower() in NO else repr(shown(value, 60))
    raise UsageError(f"{option.flag}: it takes no value; leave out {what}.")


def refuse_unknown(word: str, known: Collection[str]) -> None:
    """Raise for an option that a command does not have, with those that may be meant."""
    flag = word.partition("=")[0]
    if flag in ("-h", "--help"):
        return
    hint = "--help lists the options."
    if near := _near(flag, known):
        hint = f"did you mean {' or '.join(near)}?"
    elif others := [command for command, flags in _options_of_all().items() if flag in flags]:
        hint = f"{_listed([f'gibbs-dp {name}' for name in others])} has it."
    elif near := _near(flag, set().union(*_options_of_all().values())):
        others = [command for command, flags in _options_of_all().items() if near[0] in flags]
        hint = f"{near[0]} is of {_listed([f'gibbs-dp {name}' for name in others])}."
    raise UsageError(f"there is no option {shown(flag, 60)} here; {hint}")


def _near(flag: str, known: Collection[str]) -> list[str]:
    """Options that one may be a misspelling or a beginning of, the likeliest first."""
    name = flag.lstrip("-").replace("_", "-").lower()
    if f"--{name}" in known:
        return [f"--{name}"]
    if OTHER_NAMES.get(name) in known:
        return [OTHER_NAMES[name]]
    if len(name) == 1:
        return [SHORT[name]] if SHORT.get(name) in known else []
    if len(name) > 2:
        starts = [o for o in known if o.startswith(f"--{name}") or o[2:] == name.removesuffix("s")]
        parts = [o for o in known if any(p.startswith(name) for p in o[2:].split("-"))]
        ends = [o for o in known if o.endswith(f"-{name}")]
        for found in (starts, ends, parts):
            if found:
                return sorted(found, key=len)[:3]
    names = [option[2:] for option in known]
    return [f"--{one}" for one in difflib.get_close_matches(name, names, n=1, cutoff=ALIKE)]


def _options_of_all() -> dict[str, set[str]]:
    return {
        command: {option.flag for options in load(command)[1].values() for option in options}
        for command in COMMANDS
    }


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def nearest(name: str, names: Collection[str]) -> str | None:
    """Return the name that another is a misspelling of, or None.

    >>> nearest("Gaussian_Mean", ["k-means", "gaussian-mean"]), nearest("x", ["k-means"])
    ('gaussian-mean', None)
    """
    plain = {one.lower().replace("_", "-"): one for one in names}
    wanted = re.sub(r"[\s_]+", "-", name.strip().lower())
    close = difflib.get_close_matches(wanted, list(plain), n=1, cutoff=ALIKE)
    return plain[close[0]] if close else None


def unknown_command(name: str, commands: Collection[str], problems: Collection[str]) -> str:
    """Say what may have been meant by a command that there is not."""
    told = f"there is no command {shown(name, 60)!r}; "
    if name.lower() == "version":
        return told + "did you mean 'gibbs-dp --version'?"
    if near := nearest(name, commands):
        return told + f"did you mean 'gibbs-dp {near}'?"
    if near := nearest(name, problems):
        return told + f"did you mean 'gibbs-dp audit {near}'?"
    if looks_like_a_path(name):
        return told + f"did you mean 'gibbs-dp audit {name}'?"
    return told + f"choose one of {', '.join(commands)}, before its options."


def looks_like_a_path(name: str) -> bool:
    """Return whether a word is a file, not a name: it is there, or is written as one."""
    has_end = re.search(r"\.[A-Za-z]\w{0,8}$", name) is not None
    return has_end or "/" in name or os.sep in name or Path(name).exists()


def missing_file(flag: str, path: str) -> str:
    """Say that there is no such file, and which may be meant."""
    folder = Path(path).parent
    if Path(path).is_dir():
        names = sorted(one.name for one in Path(path).glob("*.nc"))
        inner = f"did you mean {shown(str(Path(path) / names[0]), 200)!r}?" if names else ""
        return f"{flag}: {shown(path, 200)!r} is a folder; {inner or 'name a file in it.'}"
    told = f"{flag}: there is no file {shown(path, 200)!r}; "
    if "://" in path:
        return told + "download it first, and give its path here."
    if not folder.is_dir():
        return told + f"there is no folder {shown(str(folder), 200)!r} either."
    try:
        names = [one.name for one in folder.iterdir() if one.is_file()]
    except OSError:
        names = []
    near = difflib.get_close_matches(Path(path).name, names, n=1, cutoff=ALIKE)
    if near:
        return told + f"did you mean {shown(str(folder / near[0]), 200)!r}?"
    return told + "give the path of one, from the folder that you are in."


# Parsing: declared options, a problem's name anywhere among them, errors as exceptions.


class Parser(argparse.ArgumentParser):
    """argparse that raises :class:`UsageError` rather than printing its usage and exiting."""

    def __init__(self, **settings: Any) -> None:
        if sys.version_info >= (3, 14):
            settings.setdefault("color", False)  # all versions are coloured in one way, below
        super().__init__(allow_abbrev=False, **settings)

    def print_help(self, file: Any = None) -> None:
        """Print the help, with bold headings where a terminal shows them."""
        stream = sys.stdout if file is None else file
        stream.write(headed(self.format_help(), stream))

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
        if found := re.fullmatch(r".*invalid choice: '(.*)' \(choose from (.*)\)", told, re.DOTALL):
            near = nearest(found[1], re.findall(r"[\w-]+", found[2]))
            if near is not None:
                raise UsageError(f"{told}; did you mean {near}?")
        if "expected" in told and (
            shape := re.search(rf"\[({flag} [^][]+(\[[^]]+\])?)", self.format_usage())
        ):
            told = f"{flag}: give it as {' '.join(shape[1].split())}"
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
        flags = {option.flag for options in groups.values() for option in options}
        told = f"'gibbs-dp {command}' takes options only, as --name value."
        if "--data" in flags and looks_like_a_path(name):
            told = f"did you mean --data {shown(name, 200)}?"
        raise UsageError(f"{shown(name, 200)!r} is unexpected; {told}")
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

    >>> several = Option("gammas", "float", "", is_list=True)
    >>> split_name(["--gammas", "0.1", "1", "private-mean"], [several])
    ('private-mean', ['--gammas', '0.1', '1'])
    """
    words, rest = split_words(arguments, options, is_one=True)
    return (words[0] if words else None), rest


def split_words(
    arguments: Sequence[str], options: Iterable[Option], is_one: bool = False
) -> tuple[list[str], list[str]]:
    """Take all positional words out of a command line, as `split_name` does one."""
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
            if is_one and len(words) > 1:
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
    return words, rest


def _refuse_second(words: Sequence[str], option: Option | None) -> None:
    from gibbs_dp.problems.registry import PROBLEMS

    if option is not None and option.kind == "flag" and words[1].lower() in YES_NO:
        refuse_value(option, words[1])
    is_name = words[1] in PROBLEMS or looks_like_a_path(words[1])
    if option is not None and option.is_list and option.kind != "str" and not is_name:
        raise UsageError(f"{option.flag}: {bad_number(words[1], option)}.")
    hint = "give one problem, and options as --name value."
    if looks_like_a_path(words[0]):
        hint = f"did you mean --target {shown(words[1], 60)}?"
        if looks_like_a_path(words[1]):
            hint = "give one file."
    if "-".join(words).lower() in PROBLEMS:
        hint = f"did you mean {'-'.join(words).lower()}?"
    raise UsageError(f"{shown(words[1], 60)!r} is unexpected after {words[0]!r}; {hint}")


def _refuse_again(option: Option, seen: set[str]) -> None:
    """Raise for two values of what takes one; lists are put together."""
    if option.flag in seen and not (option.is_list or option.is_repeatable):
        raise UsageError(f"{option.flag}: it is given twice; give it once.")
    seen.add(option.flag)


def _is_value(word: str, option: Option) -> bool:
    if option.is_list and option.kind != "str":
        return is_number(word) or word in option.choices
    return not word.startswith("--")
