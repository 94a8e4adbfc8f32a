"""What a column is: numbers, flags, or texts that stand for levels. Anything else is refused."""

from __future__ import annotations

import decimal
import numbers
import re
import shlex
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

import numpy as np
import pandas as pd

from gibbs_dp.information.checks import is_missing
from gibbs_dp.io.files import shown
from gibbs_dp.io.text_tables import (
    ISO,
    LONGEST_SPELLED,
    PLAIN,
    NumberFormat,
    guess_format,
    looks_like_a_date,
)

# Texts with a unit that is no known one, such as "5 kg", and categories that are numbers: more of
# them are rather numbers.
MANY = 10
# Characters of an odd value that a message shows.
ODD = 60
_TIME = re.compile(r"(?:-?[0-9]+ days?,? )?[+-]?[0-9]{1,3}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)?")
_DURATION = re.compile(r"-?P(?=[0-9T])[0-9.,YMWDTHS]+|-?[0-9]+ days?")
_HEX = re.compile(r"[+-]?0[xX][0-9a-fA-F]+")
_BRACKETS = re.compile(r"\(\s*(.*?)\s*\)")
_NESTED = (list, tuple, dict, set, frozenset, np.ndarray)

Use = Literal["level", "number", "auto"]


@dataclass(frozen=True)
class Declared:
    """What is said of columns: how texts spell numbers, which are levels, and which numbers."""

    spelled: NumberFormat = PLAIN
    categorical: frozenset[str] = frozenset()
    numbers: frozenset[str] = frozenset()

    def use(self, name: str) -> Use:
        """Return what a column is declared to be."""
        return "level" if name in self.categorical else "number" if name in self.numbers else "auto"


UNDECLARED = Declared()


# -- values by their types --------------------------------------------------------------------


def settled(column: pd.Series[Any], use: Use) -> pd.Series[Any]:
    """Return a column as numbers, flags, or texts without blanks around them.

    Examples
    --------
    >>> settled(pd.Series([decimal.Decimal("0.5"), 2, None], dtype=object), "auto").tolist()
    [0.5, 2.0, nan]
    >>> settled(pd.Series([" a", "", "b "]), "auto").tolist()
    ['a', None, 'b']
    """
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return _of_categories(column, use)
    if pd.api.types.is_complex_dtype(dtype):
        _refuse(column, "complex numbers", "split them into two columns of numbers")
    if pd.api.types.is_bool_dtype(dtype) or pd.api.types.is_numeric_dtype(dtype):
        if use == "level":
            return _texts(column)
        if isinstance(dtype, pd.ArrowDtype) and dtype.kind not in "iufb":  # a decimal fraction
            return _numbers(column)
        return column
    if isinstance(dtype, pd.StringDtype):
        return _texts(column)
    return _of_objects(column.astype(object), use)


def _of_objects(column: pd.Series[Any], use: Use) -> pd.Series[Any]:
    """Settle a column by the types of its values."""
    kind = pd.api.types.infer_dtype(column, skipna=True)
    if kind == "bytes":
        _refuse(column, "bytes", "decode them to text")
    if kind == "complex":
        _refuse(column, "complex numbers", "split them into two columns of numbers")
    if kind in ("mixed", "mixed-integer", "unknown-array"):
        for value in column:
            if isinstance(value, (*_NESTED, bytes)):
                what = f"a {type(value).__name__} in a cell"
                _refuse(column, what, "make a column of each number in it")
    if use == "level" or kind in ("string", "empty"):
        return _texts(column)
    if kind in ("timedelta", "timedelta64"):
        return pd.to_timedelta(column).dt.total_seconds()
    if kind == "time":
        _refuse(column, "times of day", "make them numbers, such as hours since midnight", True)
    if kind == "period":
        _refuse(column, "periods", "make them days (.dt.to_timestamp()) or numbers", True)
    if kind == "boolean":
        return column.astype("boolean")
    is_number = kind in ("floating", "integer", "decimal", "mixed-integer-float")
    if is_number or (kind in ("mixed", "mixed-integer") and all(map(_is_number, column.dropna()))):
        return _numbers(column)
    return _texts(column)


def _of_categories(column: pd.Series[Any], use: Use) -> pd.Series[Any]:
    """Settle a column that its type makes one of categories, which many numbers hardly are."""
    held = column.astype(object)
    if use == "number":
        return _of_objects(held, use)
    values = [v for v in column.cat.categories if _is_number(v)]
    if use == "auto" and values and (len(values) > MANY or any(v % 1 for v in values)):
        refuse_categories(str(column.name), len(values))
    return _of_objects(held, "level").astype("category")


def refuse_categories(name: str, count: int) -> NoReturn:
    """Raise a ValueError for a type of categories that many numbers have."""
    raise ValueError(
        f"features: column {shown(name, ODD)!r} has {count} categories that are numbers; list it "
        "in numbers (--numbers) if it holds some, or in categorical (--categorical) if these are "
        "names of levels."
    )


def _is_number(value: Any) -> bool:
    is_real = isinstance(value, (numbers.Real, decimal.Decimal))
    return is_real and not isinstance(value, (bool, np.bool_))


def _numbers(column: pd.Series[Any]) -> pd.Series[Any]:
    return column.astype(object).map(_to_float, na_action="ignore").astype(float)


def _to_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # a whole number beyond all floating-point ones
        return np.inf if value > 0 else -np.inf


def _texts(column: pd.Series[Any]) -> pd.Series[Any]:
    if isinstance(column.dtype, pd.StringDtype):
        texts = column.str.strip()
    else:
        texts = column.astype(object).map(lambda value: str(value).strip(), na_action="ignore")
    texts = texts.astype(object)
    is_absent = texts.isna() | (texts == "")
    return texts.where(~is_absent, None) if is_absent.any() else texts


def _refuse(
    column: pd.Series[Any], what: str, remedy: str, may_be_levels: bool = False
) -> NoReturn:
    name = shown(str(column.name), ODD)
    levels = ", list it in categorical (--categorical) if these are names of levels"
    raise ValueError(
        f"data: column {name!r} holds {what}; {remedy}{levels * may_be_levels}, or leave it out "
        "with features."
    )


def labels_of(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return labels of groups as they are, None where one is missing or an empty text."""
    held = column.astype(object).tolist()
    if any(isinstance(value, _NESTED) for value in held):
        _refuse(column, "lists or records", "name groups by texts or whole numbers")
    plain = [value.strip() if isinstance(value, str) else value for value in held]
    # As objects: floating-point numbers would hold only the first digits of long ones.
    found = np.empty(len(plain), object)
    found[:] = [None if is_missing(value) else value for value in plain]
    return pd.Series(found, index=column.index, name=column.name)


# -- texts ------------------------------------------------------------------------------------


def parsed(column: pd.Series[Any], spelled: NumberFormat) -> pd.Series[Any]:
    """Make numbers of a column of texts, all of which are some."""
    return column.map(spelled.number, na_action="ignore").astype(float)


def refuse_moments(name: str, texts: Iterable[str], role: str = "features") -> None:
    """Raise a ValueError for a column of texts that are all dates, times or durations."""
    levels = sorted(texts)
    if levels and all(map(looks_like_a_date, levels)):
        raise ValueError(
            f"{role}: column {name!r} holds dates ({shown(levels[0], ODD)}); use it as days since "
            f"one of them with date (--date {shlex.quote(name)} {ISO}, and --date-format where "
            "they are not spelled so), as levels with categorical, or leave it out."
        )
    if levels and all(_TIME.fullmatch(text) or _DURATION.fullmatch(text) for text in levels):
        raise ValueError(
            f"{role}: column {name!r} holds times ({shown(levels[0], ODD)}); make them numbers, "
            "such as minutes, list it in categorical (--categorical) if these are names of "
            "levels, or leave it out."
        )


def refuse_meant(name: str, counts: dict[str, int], spelled: NumberFormat) -> None:
    """Raise a ValueError for texts most of which are numbers, or are by another spelling."""
    guess = _guessed(counts, spelled)
    read = [text for text in counts if _is_read(text, guess)]
    rows = sum(counts[text] for text in read)
    is_most = 2 * len(read) > len(counts) or 5 * rows >= 4 * sum(counts.values())
    if len(read) > 1 and is_most:
        raise ValueError(
            f"features: column {name!r} holds texts most of which are numbers "
            f"({examples(counts, spelled)})"
            f"{remedies(counts, spelled)}; if they are names of levels, list it in categorical "
            "(--categorical)."
        )


def remedies(texts: Collection[str], spelled: NumberFormat) -> str:
    """Say, after what is wrong with a column of texts, what makes numbers of them.

    Examples
    --------
    >>> remedies(["31", "45", "50", "?"], PLAIN)
    "; if '?' means a missing value, name it with na_values (--na-values)"
    >>> remedies(["0,5", "1,5"], PLAIN), remedies(["a", "b"], PLAIN)
    ("; if its decimal mark is a comma, give decimal=',' (--decimal ,)", '')
    """
    guess = _guessed(texts, spelled)
    read = [text for text in texts if guess.plain(text) is not None]
    told = ""
    given = []
    if guess.thousands != spelled.thousands and guess.thousands is not None:
        mark = "space" if guess.thousands == " " else guess.thousands
        given.append(f"thousands={mark!r} (--thousands {shlex.quote(mark)})")
    if guess.decimal != spelled.decimal:
        given.append(f"decimal={guess.decimal!r} (--decimal {guess.decimal})")
    if guess.units != spelled.units:
        flags = " ".join(map(shlex.quote, guess.units))
        given.append(f"units={list(guess.units)!r} (--units {flags})")
    if given == ["decimal=',' (--decimal ,)"]:
        told += "; if its decimal mark is a comma, give decimal=',' (--decimal ,)"
    elif given:
        told += f"; if these are numbers, give {' and '.join(given)}"
        other = NumberFormat(",", None, guess.units)
        is_either = guess.thousands == "," and all(map(other.plain, read))
        told += ", or decimal=',' (--decimal ,)" if is_either else ""
    odd = sorted(set(texts) - set(read))
    if any(_in_brackets(text, guess) for text in odd):
        odd = [text for text in odd if not _in_brackets(text, guess)]
        told += "; write negative numbers with a minus, not in parentheses"
    if any(map(_HEX.fullmatch, odd)):
        odd = [text for text in odd if not _HEX.fullmatch(text)]
        told += "; write hexadecimal numbers as decimal ones"
    if odd and len(odd) < len(read):
        text = odd[0] if len(odd[0]) < ODD else odd[0][:ODD] + "..."
        told += f"; if {text!r} means a missing value, name it with na_values (--na-values)"
    return told


def _is_read(text: str, spelled: NumberFormat) -> bool:
    """Whether a person reads a number in a text."""
    return spelled.plain(_opened(text)) is not None or _HEX.fullmatch(text) is not None


def _guessed(texts: Iterable[str], spelled: NumberFormat) -> NumberFormat:
    return guess_format([_opened(text) for text in texts], spelled, MANY)


def _opened(text: str) -> str:
    """Drop parentheses, as accountants have them around negative numbers."""
    return _BRACKETS.sub(r"\1", text) if len(text) <= LONGEST_SPELLED else text


def _in_brackets(text: str, spelled: NumberFormat) -> bool:
    return _opened(text) != text and spelled.plain(_opened(text)) is not None


def examples(texts: Iterable[str], spelled: NumberFormat, most: int = 3) -> str:
    """Show a few texts, first those that are no numbers."""
    ordered = sorted(texts, key=lambda text: (spelled.plain(text) is not None, text))
    few = ordered if len(ordered) <= most else [*ordered[: most - 1], ordered[-1]]
    return ", ".join(repr(shown(text, 20)) for text in few)
