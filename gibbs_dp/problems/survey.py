"""The contents of columns, from one pass over a table in chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd
from jaxtyping import Float

from gibbs_dp.io.files import shown
from gibbs_dp.io.text_tables import NumberFormat, looks_like_a_code
from gibbs_dp.problems.kinds import (
    MANY,
    UNDECLARED,
    Declared,
    examples,
    labels_of,
    parsed,
    refuse_categories,
    remedies,
    settled,
)
from gibbs_dp.problems.source import Source

Missing = Literal["refuse", "drop"]
# A column of text with more levels than this is an identifier, a date or free text.
MAX_LEVELS = 100
# Standard deviations beyond these have squares that double precision does not hold.
LEAST_SPREAD, LARGEST_SPREAD = 1e-150, 1e150


@dataclass
class ColumnFacts:
    """Running facts about one column, over the used rows."""

    name: str
    is_text: bool
    count: int = 0
    missing: int = 0
    infinite: int = 0
    mean: float = 0.0
    squares: float = 0.0
    low: float = np.inf
    levels: dict[Any, int] = field(default_factory=dict)
    # Of texts: whether all are numbers, or digits alone, some with zeros in front; their units.
    is_spelled: bool = True
    is_whole: bool = True
    has_codes: bool = False
    units: set[str] = field(default_factory=set)
    # Whether its type makes it one of categories.
    is_category: bool = False
    # Whether numbers were texts, or each is the last one and 1.
    was_text: bool = False
    is_counting: bool = True
    last: float | None = None

    def add(self, values: pd.Series[Any], spelled: NumberFormat) -> None:
        """Include the used rows of one chunk."""
        size = len(values)
        if self.is_text:
            self._add_texts(values, spelled)
        elif not self.has_many_levels:
            self._add_levels(values)
        if self.is_text or not size:
            self.count += size
            return
        numbers = values.to_numpy(float)
        self.infinite += int(np.sum(~np.isfinite(numbers)))
        if self.infinite:
            return
        self._add_steps(numbers)
        with np.errstate(over="ignore", invalid="ignore"):  # `survey` refuses what is too large
            mean = float(numbers.mean())
            squares = float(np.sum((numbers - mean) ** 2))
        total, shift = self.count + size, mean - self.mean
        self.squares += squares + shift * shift * self.count * size / total
        self.mean += shift * size / total
        self.low = min(self.low, float(numbers.min()))
        self.count = total

    def _add_levels(self, values: pd.Series[Any]) -> None:
        for value, count in values.value_counts().items():
            if not count:  # a category that nothing is in
                continue
            self.levels[value] = self.levels.get(value, 0) + int(count)
            if self.has_many_levels:
                return

    def _add_texts(self, values: pd.Series[Any], spelled: NumberFormat) -> None:
        if not self.has_many_levels:
            self._add_levels(values)
        if not self.is_spelled:
            return
        for text in values.unique():
            found = spelled.plain(text)
            if found is None:
                self.is_spelled = False
                return
            number, unit = found
            self.is_whole = self.is_whole and text.isdigit()
            self.has_codes = self.has_codes or looks_like_a_code(text)
            if unit or float(number):  # nothing is nothing in all units
                self.units.add(unit)

    def _add_steps(self, numbers: Float[np.ndarray, " rows"]) -> None:
        if self.is_counting:
            before = [] if self.last is None else [self.last]
            self.is_counting = bool((np.diff(np.concatenate([before, numbers])) == 1).all())
            self.last = float(numbers[-1])

    @property
    def is_code(self) -> bool:
        """Whether it is of whole numbers as texts, some with zeros in front."""
        return self.is_text and self.is_spelled and self.is_whole and self.has_codes

    @property
    def std(self) -> float:
        """Standard deviation."""
        return float(np.sqrt(self.squares / self.count))

    @property
    def has_many_levels(self) -> bool:
        """Whether there are too many distinct values for levels."""
        return len(self.levels) > MAX_LEVELS


@dataclass(frozen=True)
class Survey:
    """The columns of a table, its used rows, and a way to read them again."""

    columns: dict[str, ColumnFacts]
    num_rows: int
    num_dropped: int
    chunks: Callable[[], Any]


def survey(
    source: Source,
    names: Sequence[str],
    missing: Missing,
    declared: Declared = UNDECLARED,
    classes: frozenset[str] = frozenset(),
    group: str | None = None,
) -> Survey:
    """Read a table and find out what each column holds."""
    # Labels beyond double precision would be the same as numbers.
    text = declared.categorical | ({group} if group else set())
    as_numbers: frozenset[str] = frozenset()
    while True:
        mixed, found = _read(source, names, text, missing, declared, as_numbers, group)
        if mixed <= text and mixed:
            raise ValueError(
                f"data: column {few(sorted(mixed))!r} holds values of different types; make them "
                "of one, or leave the column out with features."
            )
        if mixed:
            text |= mixed
            continue
        more = {
            column.name
            for column in found.columns.values()
            if column.is_text
            and column.name not in classes | declared.categorical
            and _is_number(column, declared)
        }
        if not more:
            break
        as_numbers |= more
        text |= more
    absent = [f"{c.name} ({c.missing})" for c in found.columns.values() if c.missing]
    if absent and missing == "refuse":
        raise ValueError(
            f"data: missing values in {few(absent)}; leave those rows out with missing='drop' "
            "(--missing drop), fill the values in, or leave the columns out with features."
        )
    for column in found.columns.values():
        if column.infinite:
            raise ValueError(f"data: column {column.name!r} holds infinite values; replace them.")
        if column.is_text or len(column.levels) < 2:
            continue
        if not LEAST_SPREAD < column.std < LARGEST_SPREAD:
            raise ValueError(
                f"data: the numbers of column {column.name!r} are too large or too close together "
                "for double precision; rescale them, or leave the column out with features."
            )
    return found


def _is_number(column: ColumnFacts, declared: Declared) -> bool:
    """Whether a column of texts is one of numbers; a ValueError where that was declared wrongly."""
    name, is_declared = column.name, column.name in declared.numbers
    if is_declared and not column.is_spelled:
        raise ValueError(
            f"numbers: column {name!r} holds texts that are none "
            f"({examples(column.levels, declared.spelled)})"
            f"{remedies(column.levels, declared.spelled)}."
        )
    is_number = column.is_spelled and column.count > 0 and (is_declared or not column.is_code)
    if is_number and len(column.units) > 1:
        shown_units = ", ".join(repr(unit) if unit else "none" for unit in sorted(column.units))
        raise ValueError(
            f"units: column {name!r} has numbers of different units ({shown_units}); make them of "
            "one, or leave the column out with features."
        )
    if is_number and column.is_category and not is_declared:
        if len(column.levels) > MANY:
            refuse_categories(name, len(column.levels))
        return False
    return is_number


def _read(
    source: Source,
    names: Sequence[str],
    text: frozenset[str],
    missing: Missing,
    declared: Declared,
    as_numbers: frozenset[str],
    group: str | None,
) -> tuple[frozenset[str], Survey]:
    """Read once; return columns whose chunks disagree about their type, and the survey."""
    kinds: dict[str, str] = {}
    columns: dict[str, ColumnFacts] = {}
    absent = dict.fromkeys(names, 0)
    seen = used = 0

    def chunks() -> Iterator[pd.DataFrame]:
        first = 0
        for frame in source.chunks(names, text):
            settled = _settled(frame, declared, as_numbers, group)
            settled.index = pd.RangeIndex(first, first + len(frame))
            first += len(frame)
            yield settled

    for frame in chunks():
        complete = frame.dropna()
        seen, used = seen + len(frame), used + len(complete)
        for name in names:
            lost = int(frame[name].isna().sum())
            absent[name] += lost
            if lost == len(frame):  # a chunk without values has no type
                continue
            kind = _kind(frame[name])
            if kinds.setdefault(name, kind) != kind:
                return frozenset({name}), Survey({}, 0, 0, list)
            column = columns.setdefault(name, ColumnFacts(name, kind == "text"))
            column.was_text = name in as_numbers
            column.is_category |= isinstance(frame[name].dtype, pd.CategoricalDtype)
            if name != group:
                column.add(complete[name], declared.spelled)
    for name in names:
        columns.setdefault(name, ColumnFacts(name, is_text=False)).missing = absent[name]

    def used_chunks() -> Iterator[pd.DataFrame]:
        return (frame.dropna() if missing == "drop" else frame for frame in chunks())

    return frozenset(), Survey(columns, used, seen - used, used_chunks)


def _settled(
    frame: pd.DataFrame, declared: Declared, as_numbers: frozenset[str], group: str | None
) -> pd.DataFrame:
    """Make numbers, flags and texts of all columns, but labels of groups."""
    found = {}
    for name in frame.columns:
        values = frame[name]
        if name == group:
            found[name] = labels_of(values)
            continue
        found[name] = settled(values, declared.use(name))
        if name in as_numbers:
            found[name] = parsed(found[name], declared.spelled)
    return pd.DataFrame(found)


def _kind(column: pd.Series[Any]) -> str:
    if pd.api.types.is_bool_dtype(column.dtype):
        return "flag"
    return "number" if pd.api.types.is_numeric_dtype(column.dtype) else "text"


def few(names: Sequence[str], most: int = 20) -> str:
    """Join names, leaving out all but the first few.

    >>> few(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(shown(name, 60) for name in names[:most]) + more
