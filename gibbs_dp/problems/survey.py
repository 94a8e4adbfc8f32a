"""The contents of columns, from one pass over a table in chunks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd

from gibbs_dp.io.damage import shown
from gibbs_dp.problems.source import Source

Missing = Literal["refuse", "drop"]
# A column of text with more levels than this is an identifier, a date or free text.
MAX_LEVELS = 100
# Standard deviations beyond these have squares that double precision does not hold.
LEAST_SPREAD, LARGEST_SPREAD = 1e-150, 1e150


@dataclass
class Column:
    """Running facts about one column, over the used rows.

    ``levels`` are its distinct values, as text where ``is_text``, not tracked beyond
    ``MAX_LEVELS + 1``. Mean and squared deviations are merged as in Chan, Golub & LeVeque (1983).
    """

    name: str
    is_text: bool
    count: int = 0
    missing: int = 0
    infinite: int = 0
    mean: float = 0.0
    squares: float = 0.0
    low: float = np.inf
    levels: set[Any] = field(default_factory=set)

    def add(self, values: pd.Series[Any]) -> None:
        """Include the used rows of one chunk."""
        if not self.has_many_levels:
            found = values.astype(str) if self.is_text else values
            self.levels.update(found.unique().tolist())
        size = len(values)
        if self.is_text or not size:
            self.count += size
            return
        numbers = values.to_numpy(float)
        self.infinite += int(np.sum(~np.isfinite(numbers)))
        if self.infinite:
            return
        with np.errstate(over="ignore", invalid="ignore"):  # `survey` refuses what is too large
            mean = float(numbers.mean())
            squares = float(np.sum((numbers - mean) ** 2))
        total, shift = self.count + size, mean - self.mean
        self.squares += squares + shift * shift * self.count * size / total
        self.mean += shift * size / total
        self.low = min(self.low, float(numbers.min()))
        self.count = total

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
    """The columns of a table, its used rows, and a way to read them again.

    The index of ``chunks`` is the numbers of the rows in the whole table.
    """

    columns: dict[str, Column]
    num_rows: int
    num_dropped: int
    chunks: Callable[[], Any]


def survey(
    source: Source, names: Sequence[str], categorical: Sequence[str], missing: Missing
) -> Survey:
    """Read a table once and find out what each column holds.

    A column is text unless all its chunks are numeric; if chunks differ, the file is read again
    with those columns as spelled.

    Parameters
    ----------
    source
        The table.
    names
        Columns to use.
    categorical
        Columns to treat as text, whatever they hold.
    missing
        "drop" leaves out rows with a missing value in a used column.

    Returns
    -------
    Survey
        Facts about every used column.

    Raises
    ------
    ValueError
        For infinite values, and for missing ones unless they are dropped.
    """
    text = frozenset(categorical)
    while True:
        mixed, found = _read(source, names, text, missing)
        if not mixed:
            break
        text |= mixed
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


def _read(
    source: Source, names: Sequence[str], text: frozenset[str], missing: Missing
) -> tuple[frozenset[str], Survey]:
    """Read once; return columns whose chunks disagree about their type, and the survey."""
    kinds: dict[str, str] = dict.fromkeys(text, "text")
    columns: dict[str, Column] = {}
    absent = dict.fromkeys(names, 0)
    seen = used = 0
    for frame in source.chunks(names, text):
        complete = frame.dropna()
        seen, used = seen + len(frame), used + len(complete)
        for name in names:
            lost = int(frame[name].isna().sum())
            absent[name] += lost
            if lost == len(frame):  # a chunk without values has no type
                continue
            kind = "text" if name in text else _kind(frame[name])
            if kinds.setdefault(name, kind) != kind:
                return frozenset({name}), Survey({}, 0, 0, list)
            columns.setdefault(name, Column(name, kind == "text")).add(complete[name])
    for name in names:
        columns.setdefault(name, Column(name, is_text=False)).missing = absent[name]

    def chunks() -> Any:
        first = 0
        for frame in source.chunks(names, text):
            numbered = frame.set_axis(range(first, first + len(frame)), axis=0)
            first += len(frame)
            yield numbered.dropna() if missing == "drop" else numbered

    return frozenset(), Survey(columns, used, seen - used, chunks)


def _kind(column: pd.Series[Any]) -> str:
    if pd.api.types.is_bool_dtype(column):
        return "flag"
    return "number" if pd.api.types.is_numeric_dtype(column) else "text"


def few(names: Sequence[str], most: int = 20) -> str:
    """Join names, leaving out all but the first few.

    >>> few(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(shown(name, 60) for name in names[:most]) + more
