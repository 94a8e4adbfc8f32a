"""A declared column of dates."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Any

from gibbs_dp.io.dates import ISO, DateFormat
from gibbs_dp.privacy.cells import to_text
from gibbs_dp.privacy.columns import Column


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
