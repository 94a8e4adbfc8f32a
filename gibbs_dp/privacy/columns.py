"""Declared columns of a private table, dates among them: how one cell becomes numbers."""

from __future__ import annotations

import abc
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from functools import cached_property, lru_cache
from io import BufferedIOBase
from typing import Any, ClassVar

from gibbs_dp.io.text_tables import ISO, DateFormat


@dataclass(frozen=True)
class Column(abc.ABC):
    """One declared column; as a label it is one number, as a feature one or more."""

    kind: ClassVar[str]

    @abc.abstractmethod
    def label(self, cell: bytes, decimal: bytes = b".") -> float | None:
        """Label of a cell; None where it cannot be read."""

    @abc.abstractmethod
    def label_rule(self, column: str) -> str:
        """How the label follows from a cell, in words."""

    @abc.abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the declaration as JSON."""

    @property
    def label_range(self) -> tuple[float, float]:
        """Smallest and largest label."""
        return 0.0, 1.0

    @property
    def norm(self) -> float:
        """Largest Euclidean norm of the features."""
        return 1.0

    def features(self, cell: bytes, decimal: bytes = b".") -> tuple[float, ...] | None:
        """Features of a cell; None where it cannot be read."""
        value = self.label(cell, decimal)
        return None if value is None else (value,)

    def names(self, column: str) -> tuple[str, ...]:
        """Name each feature."""
        return (column,)

    def rules(self, column: str) -> tuple[str, ...]:
        """How each feature follows from a cell, in words."""
        return (self.label_rule(column),)


@dataclass(frozen=True)
class Number(Column):
    """Numbers used as they are, moved into ``[low, high]``.

    Parameters
    ----------
    low, high
        Declared smallest and largest value; without them a feature has no bound of its own, and
        the schema needs ``x_bound``.

    Raises
    ------
    ValueError
        If ``low`` is above ``high``, or one is NaN.

    Examples
    --------
    >>> Number().label(b" 12.5 "), Number(0.0, 10.0).label(b"12.5"), Number().label(b"n/a")
    (12.5, 10.0, None)
    """

    kind = "number"
    low: float = -math.inf
    high: float = math.inf

    def __post_init__(self) -> None:
        if not self.low <= self.high or self.low == math.inf or self.high == -math.inf:
            raise ValueError(
                f"Number(low): give the smallest value, then the largest, got {self.low:g} and "
                f"{self.high:g}."
            )

    def label(self, cell: bytes, decimal: bytes = b".") -> float | None:
        """Return the number, moved into the declared interval."""
        value = to_number(cell, decimal)
        return None if value is None else min(max(value, self.low), self.high)

    def label_rule(self, column: str) -> str:
        """Say that the number is used as it is."""
        is_free = self.label_range == (-math.inf, math.inf)
        return column if is_free else f"{column}, moved into [{self.low:.12g}, {self.high:.12g}]"

    @property
    def label_range(self) -> tuple[float, float]:
        """The declared ends."""
        return self.low, self.high

    @property
    def norm(self) -> float:
        """The larger end."""
        return max(abs(self.low), abs(self.high))

    def to_dict(self) -> dict[str, Any]:
        """Return the ends, None for an infinite one."""
        low, high = (None if math.isinf(end) else end for end in (self.low, self.high))
        return {"kind": self.kind, "low": low, "high": high}


@dataclass(frozen=True)
class Range(Column):
    """Numbers mapped from ``[low, high]`` to the unit interval; those beyond move to its ends.

    Parameters
    ----------
    low, high
        Declared without looking at the table: what becomes 0 and what becomes 1.

    Raises
    ------
    ValueError
        If they are not finite, or ``low`` is not below ``high``.

    Examples
    --------
    >>> Range(20.0, 70.0).label(b"40"), Range(20.0, 70.0).label(b"-3"), Range(20.0, 70.0).label(b"")
    (0.4, 0.0, None)
    """

    kind = "range"
    low: float
    high: float

    def __post_init__(self) -> None:
        if not (self.low < self.high and math.isfinite(self.high - self.low)):
            raise ValueError(
                "Range(low): give the smallest value, then a larger one, both finite; got "
                f"{self.low:g} and {self.high:g}."
            )

    def label(self, cell: bytes, decimal: bytes = b".") -> float | None:
        """Return the number, moved into the interval and mapped."""
        value = to_number(cell, decimal)
        if value is None:
            return None
        if value <= self.low:
            return 0.0
        return 1.0 if value >= self.high else (value - self.low) / (self.high - self.low)

    def label_rule(self, column: str) -> str:
        """Spell out the map."""
        sign = "-" if self.low > 0 else "+"
        above = f"({column} {sign} {abs(self.low):.12g})" if self.low else column
        return f"{above} / {self.high - self.low:.12g}, moved into [0, 1]"

    def to_dict(self) -> dict[str, Any]:
        """Return the ends."""
        return {"kind": self.kind, "low": self.low, "high": self.high}


@dataclass(frozen=True)
class Levels(Column):
    """Declared texts: as a feature 0/1 indicators of all but the first, as a label 0, 1, ....

    Spaces around a cell do not count, capitals do. A level that is a number stands for every
    spelling of it ("1" for "1.0"). A cell that is no level cannot be read; where the level "" is
    declared, an empty cell is one.

    Parameters
    ----------
    levels
        Two or more texts.

    Raises
    ------
    ValueError
        If there are fewer than two, or two of them are the same.

    Examples
    --------
    >>> city = Levels(["Rome", "Oslo", "Lima"])
    >>> city.names("city"), city.features(b"Lima"), city.label(b"Lima"), city.label(b"lima")
    (('city=Oslo', 'city=Lima'), (0.0, 1.0), 2.0, None)
    """

    kind = "levels"
    levels: tuple[str, ...]

    def __init__(self, levels: Iterable[str]) -> None:
        object.__setattr__(self, "levels", tuple(level.strip() for level in levels))
        if len(self.levels) < 2 or isinstance(levels, str):
            raise ValueError(f"Levels(levels): give a list of two or more, got {levels!r}.")
        seen: dict[bytes | float, str] = {}
        for text in self.levels:
            for key in text_keys(text):
                if key in seen:
                    raise ValueError(
                        f"Levels(levels): {seen[key]!r} and {text!r} are the same; leave one out."
                    )
            seen |= dict.fromkeys(text_keys(text), text)

    @cached_property
    def _places(self) -> dict[bytes | float, int]:
        return {key: i for i, text in enumerate(self.levels) for key in text_keys(text)}

    def label(self, cell: bytes, decimal: bytes = b".") -> float | None:
        """Place of the level, from 0."""
        place = self._places.get(to_text(cell))
        if place is None:
            number = to_number(cell, decimal)
            place = None if number is None else self._places.get(number)
        return None if place is None else float(place)

    def label_rule(self, column: str) -> str:
        """Say which level is which number."""
        told = ", ".join(f"{i} for {level!r}" for i, level in enumerate(self.levels))
        return f"{column}: {told}"

    @property
    def label_range(self) -> tuple[float, float]:
        """From 0 to the number of levels less 1."""
        return 0.0, len(self.levels) - 1.0

    def features(self, cell: bytes, decimal: bytes = b".") -> tuple[float, ...] | None:
        """Return the indicators: at most one of them is 1."""
        place = self.label(cell, decimal)
        if place is None:
            return None
        return tuple(float(place == i) for i in range(1, len(self.levels)))

    def names(self, column: str) -> tuple[str, ...]:
        """``column=level`` for every level but the first."""
        return tuple(f"{column}={level}" for level in self.levels[1:])

    def rules(self, column: str) -> tuple[str, ...]:
        """Say when each indicator is 1."""
        return tuple(f"1 where {column} is {level!r}, else 0" for level in self.levels[1:])

    def to_dict(self) -> dict[str, Any]:
        """Return the levels."""
        return {"kind": self.kind, "levels": list(self.levels)}


@dataclass(frozen=True)
class Positive(Column):
    """1 where a cell is the declared text, 0 where it is another; an empty one cannot be read.

    Parameters
    ----------
    level
        The text, compared as in `Levels`.

    Raises
    ------
    ValueError
        If it is empty.

    Examples
    --------
    >>> [Positive("yes").label(cell) for cell in (b"yes", b"no", b"Yes", b" ")]
    [1.0, 0.0, 0.0, None]
    """

    kind = "positive"
    level: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "level", self.level.strip())
        if not self.level:
            raise ValueError("Positive(level): it is empty, as a missing value is; name a text.")

    def label(self, cell: bytes, decimal: bytes = b".") -> float | None:
        """1 for the text, 0 for another."""
        text, keys = to_text(cell), text_keys(self.level)
        if not text:
            return None
        return float(text in keys or (len(keys) > 1 and to_number(text, decimal) in keys))

    def label_rule(self, column: str) -> str:
        """Say what is 1."""
        return f"1 where {column} is {self.level!r}, else 0"

    def names(self, column: str) -> tuple[str, ...]:
        """``column=level``."""
        return (f"{column}={self.level}",)

    def to_dict(self) -> dict[str, Any]:
        """Return the text."""
        return {"kind": self.kind, "level": self.level}


def text_keys(text: str) -> tuple[bytes | float, ...]:
    """Keys by which a cell counts as a declared text: its bytes, or the number that it is.

    >>> text_keys(" yes"), text_keys("1.0")
    ((b'yes',), (b'1.0', 1.0))
    """
    key = to_text(text.encode())
    number = to_number(key)
    return (key,) if number is None else (key, number)


# A declared column of dates.


@dataclass(frozen=True)
class Date(Column):
    """Dates mapped from the days of ``[first, last]`` to the unit interval, earlier ones to 0.

    Parameters
    ----------
    first, last
        Declared without looking at the table: the day that becomes 0 and a later one, which
        becomes 1; dates beyond move to these.
    spelled
        How the table spells dates, with YYYY, MM and DD, as "DD/MM/YYYY"; a time of day behind a
        date is dropped. A cell that is spelled otherwise, or is no day of the calendar, cannot be
        read.

    Raises
    ------
    ValueError
        If one of the days is none, or they are not in order, or the spelling makes no sense.

    Examples
    --------
    >>> admitted = Date("2020-01-01", "2021-01-01")
    >>> admitted.label(b"2020-07-02"), admitted.label(b"1999-12-31"), admitted.label(b"2/7/2020")
    (0.5, 0.0, None)
    """

    kind = "date"
    first: str
    last: str
    spelled: str = ISO

    def __post_init__(self) -> None:
        spelled = DateFormat(self.spelled)
        days = [
            spelled.declared(f"Date({name})", getattr(self, name)) for name in ("first", "last")
        ]
        if not days[0] < days[1]:
            raise ValueError(
                f"Date(first): give the first day, then a later one; got {self.first} and "
                f"{self.last}."
            )
        for name, day in zip(("first", "last"), days, strict=True):
            object.__setattr__(self, name, date.fromordinal(day).isoformat())

    @cached_property
    def _days(self) -> tuple[DateFormat, int, int]:
        first, last = (date.fromisoformat(text).toordinal() for text in (self.first, self.last))
        return DateFormat(self.spelled), first, last

    def label(self, cell: bytes, decimal: bytes = b".") -> float | None:
        """Return the day, moved between the ends and mapped."""
        spelled, first, last = self._days
        text = to_text(cell)
        day = spelled.day(text.decode("ascii")) if text.isascii() else None
        return None if day is None else (min(max(day, first), last) - first) / (last - first)

    def label_rule(self, column: str) -> str:
        """Spell out the map."""
        _, first, last = self._days
        return f"days from {self.first} to {column}, / {last - first}, moved into [0, 1]"

    def to_dict(self) -> dict[str, Any]:
        """Return the days and the spelling."""
        ends = {"first": self.first, "last": self.last}
        return {"kind": self.kind, **ends, "spelled": self.spelled}


# Bytes of a private table, line by line and cell by cell, each read by itself.
#
# A line ends at the byte ``\n`` and nowhere else; a carriage return before it is dropped. Quotes
# never reach over the end of a line. What a line says is a function of its bytes alone, and nothing
# here raises an error about one.


# Longer lines are read as unreadable ones: one record cannot fill the memory.
MAX_LINE = 1 << 20
# Digits enough for any spelling of a double, and few enough to be read at once.
MAX_NUMBER = 100
_BLANKS = b" \t"
_NUMERIC = b"0123456789+-.eE" + _BLANKS


def read_line(file: BufferedIOBase) -> bytes | None:
    r"""Return the next line without its end; empty bytes where it is too long, None at the end.

    >>> import io
    >>> file = io.BytesIO(b"a\r\nb\r\rc\n\nd")
    >>> [read_line(file) for _ in range(5)]
    [b'a', b'b\r\rc', b'', b'd', None]
    """
    line = file.readline(MAX_LINE + 1)
    if not line:
        return None
    if len(line) > MAX_LINE and not line.endswith(b"\n"):
        while line and not line.endswith(b"\n"):
            line = file.readline(MAX_LINE)
        return b""
    return line.removesuffix(b"\n").removesuffix(b"\r")


def lines(file: BufferedIOBase) -> Iterator[bytes]:
    """Yield the remaining lines."""
    while (line := read_line(file)) is not None:
        yield line


def split_cells(line: bytes, separator: bytes) -> list[bytes] | None:
    r"""Split one line into cells; None where its quotes are not those of CSV (RFC 4180).

    A cell that begins with a quote ends with one, doubled quotes stand for one, and spaces around
    the quotes do not count. Anywhere else a quote is an ordinary character.

    >>> split_cells(b'"Doe, ""Jo"" J.",5"', b",")
    [b'Doe, "Jo" J.', b'5"']
    >>> split_cells(b'1,"a', b",") is None
    True
    """
    if b'"' not in line:
        return line.split(separator)
    match_cell = _cell(separator).match
    cells, at = [], 0
    while True:
        found = match_cell(line, at)
        if found is None:
            return None
        quoted, plain, end = found.groups()
        cells.append(plain if quoted is None else quoted.replace(b'""', b'"'))
        if not end:
            return cells
        at = found.end()


@lru_cache(maxsize=16)
def _cell(separator: bytes) -> re.Pattern[bytes]:
    mark = re.escape(separator)
    # Possessive (++, *+), so that no line takes longer than its length.
    quoted = rb' *+"([^"]*+(?:""[^"]*+)*+)" *+'
    plain = rb'(?! *+")([^' + mark + rb"]*+)"
    return re.compile(rb"(?:" + quoted + rb"|" + plain + rb")(" + mark + rb"|\Z)")


def to_text(cell: bytes) -> bytes:
    """Drop the spaces and tabs around a cell."""
    return cell.strip(_BLANKS)


def to_number(cell: bytes, decimal: bytes = b".") -> float | None:
    r"""Read a finite decimal number in ASCII; None for anything else.

    A sign, digits with at most one decimal mark, and an exponent, the first and the last optional:
    ``-1``, ``+.5``, ``2.``, ``1e-3``. Not a number: nothing, ``nan``, ``inf``, ``1e999``,
    ``0x10``, ``1_000``, ``1,000``, digits of other scripts, anything over 100 characters.

    >>> [to_number(cell) for cell in (b" +1.5e1 ", b"1_0", b"inf", b"", b"1e999")]
    [15.0, None, None, None, None]
    >>> to_number(b"1,5", b","), to_number(b"1.5", b",")
    (1.5, None)
    """
    if decimal != b".":
        if b"." in cell:
            return None
        cell = cell.replace(decimal, b".")
    # A text of these characters alone is a number here exactly when Python reads one.
    if len(cell) > MAX_NUMBER or cell.translate(None, _NUMERIC):
        return None
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if -math.inf < value < math.inf else None
