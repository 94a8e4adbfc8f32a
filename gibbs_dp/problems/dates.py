"""Columns of dates as numbers of days."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any

import numpy as np
import pandas as pd

from gibbs_dp.io.dates import DateFormat
from gibbs_dp.problems.source import Source


def as_pairs(
    days: Mapping[str, str] | Sequence[Sequence[str]], categorical: Sequence[str]
) -> dict[str, str]:
    """Check which columns are dates, and from which day on they are counted.

    Returns
    -------
    dict
        Days by column.

    Raises
    ------
    ValueError
        If a column is named twice, or also as categorical, or has no day.

    Examples
    --------
    >>> as_pairs([("admitted", "2020-01-01")], [])
    {'admitted': '2020-01-01'}
    """
    found: dict[str, str] = {}
    pairs = days.items() if isinstance(days, Mapping) else days
    for pair in pairs:
        if isinstance(pair, str) or len(pair) != 2:
            raise ValueError(f"date: give columns with a day each, got {pair!r}.")
        name, day = pair
        if not isinstance(day, str):
            raise ValueError(f"date: give the day of {name!r} as a text, got {day!r}.")
        if name in found or name in categorical:
            what = "twice" if name in found else "also as categorical"
            raise ValueError(f"date: {name!r} is named {what}; once is enough.")
        found[name] = day
    return found


def with_days(source: Source, days: Mapping[str, str], spelled: DateFormat) -> Source:
    """Return a table in which columns of dates are numbers.

    Parameters
    ----------
    source
        The table.
    days
        The day from which each column's are counted.
    spelled
        How the dates are spelled in it.

    Returns
    -------
    Source
        Missing dates stay missing.

    Raises
    ------
    ValueError
        If there is no such column, or a day is none; when it is read, if a value is no date.
    """
    first = {name: spelled.declared(f"date: {name!r}", day) for name, day in days.items()}
    for name in days:
        if name not in source.columns:
            raise ValueError(f"date: there is no column {name!r}.")
    if not days:
        return source

    def chunks(columns: Sequence[str], text: frozenset[str]) -> Iterator[pd.DataFrame]:
        for frame in source.chunks(columns, text.union(first)):
            dated = [name for name in columns if name in first]
            yield frame.assign(**{k: _since(frame[k], first[k], spelled) for k in dated})

    return Source(source.columns, chunks, source.index)


def _since(column: pd.Series[Any], first: int, spelled: DateFormat) -> pd.Series[Any]:
    days = {value: _day(value, str(column.name), spelled) for value in column.dropna().unique()}
    return column.map(days).astype(float) - first


def _day(value: Any, name: str, spelled: DateFormat) -> int:
    if isinstance(value, np.datetime64):
        value = pd.Timestamp(value)
    if isinstance(value, date):  # pandas' own are of this kind
        return value.toordinal()
    found = spelled.day(str(value).strip())
    if found is None:
        raise ValueError(
            f"date: {str(value)[:40]!r} in column {name!r} is no date spelled {spelled.spelled}; "
            "give the spelling with date_format (--date-format), or name the value with na_values "
            "if it is missing."
        )
    return found
