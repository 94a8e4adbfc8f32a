"""What people type by mistake, and what to type instead."""

from __future__ import annotations

import difflib
import importlib
import os
import re
from collections.abc import Collection, Sequence
from pathlib import Path

from gibbs_dp._options import Option
from gibbs_dp.cli.errors import UsageError
from gibbs_dp.io.atomic import shown

# What programs that write text make of quotes and of hyphens.
QUOTES = "\"'`\u00ab\u00bb\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u2032\u2033"
DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d"
_TYPED = str.maketrans(dict.fromkeys(QUOTES, "") | dict.fromkeys(DASHES, "-"))
BRACKETS = "[](){} ,;"
YES_NO = ("true", "false", "yes", "no", "on", "off", "0", "1")
NO = ("false", "no", "off", "0")
SHORT = {"d": "--data", "j": "--json", "o": "--out", "q": "--quiet", "s": "--seed", "h": "--help"}
# Words as alike as this are taken for one another.
ALIKE = 0.68
# Whole numbers from here on no option takes.
MOST = 2.0**53


def is_number(word: str) -> bool:
    """Whether Python reads a number."""
    try:
        float(word)
    except ValueError:
        return False
    return True


def is_meant_as_number(word: str) -> bool:
    """Whether a word is a number, or numbers, as some people write them.

    >>> [is_meant_as_number(word) for word in ("0.1,1", "[2", "50%", "10k", "ill", "k-means")]
    [True, True, True, True, False, False]
    """
    inner = word.translate(_TYPED).strip(BRACKETS)
    parts = [part for part in re.split(r"[,;\s]+", inner) if part]
    shape = r"[-+$]?(\d[\d_.]*|\.\d+)([eE][-+]?\d+)?\s*([%kKmM]|([*/^x]|\*\*)\s*\d[\d.^*]*)?"
    return bool(parts) and all(re.fullmatch(shape, part) or is_number(part) for part in parts)


def number_remedy(word: str, kind: str, is_list: bool = False) -> str:
    """Say what to type for a word that is no number; nothing where there is no guess.

    Parameters
    ----------
    word
        As it was given.
    kind
        "int" or "float".
    is_list
        Whether several numbers may be given.

    Returns
    -------
    str
        The end of a sentence, beginning with "; ".

    Examples
    --------
    >>> number_remedy("0.1,1,10", "float", True)
    '; separate numbers by spaces: 0.1 1 10'
    >>> number_remedy("1,000", "int"), number_remedy("50%", "float")
    ('; leave out the separators: 1000', '; give the share: 0.5')
    """
    if word.strip() == "=":
        return "; leave out the spaces around '='"
    if kind == "int" and is_number(word):
        return "; give a whole number" if abs(float(word)) < MOST else "; it is too large"
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
    return f"{shown(word, 60)!r} is not {wanted}{hint}"


def refuse_misplaced(words: Sequence[str], option: Option | None) -> None:
    """Raise for a word, before others, that no option took: what belongs to the option before it.

    Raises
    ------
    UsageError
        If it is no name of anything.
    """
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
    from gibbs_dp.cli.commands import COMMANDS

    found = {}
    for command, (file, _) in COMMANDS.items():
        groups = importlib.import_module(f"gibbs_dp.cli.{file}").GROUPS
        found[command] = {option.flag for options in groups.values() for option in options}
    return found


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
    if name.lower() == "help":
        return told + "'gibbs-dp --help' lists them, 'gibbs-dp COMMAND --help' says how to use one."
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
    """Whether a word is a file rather than a name: it is there, or is written as one."""
    has_end = re.search(r"\.[A-Za-z]\w{0,8}$", name) is not None
    return has_end or "/" in name or os.sep in name or Path(name).exists()


def missing_file(flag: str, path: str) -> str:
    """Say that there is no such file, and which may be meant."""
    folder = Path(path).parent
    told = f"{flag}: there is no file {shown(path, 200)!r}; "
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
