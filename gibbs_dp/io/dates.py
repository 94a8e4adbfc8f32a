"""Dates in tables: as whole days, by a declared spelling, the same on every machine."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date

from gibbs_dp.io.atomic import shown

ISO = "YYYY-MM-DD"
_PARTS = {"YYYY": r"(?P<year>[0-9]{4})", "MM": "(?P<month>{})", "DD": "(?P<day>{})"}
_TIME = r"(?:[ T][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?)?"
_ANY = re.compile(
    r"(?:[0-9]{4}([-/.])[0-9]{1,2}\1[0-9]{1,2}|[0-9]{1,2}([-/.])[0-9]{1,2}\2[0-9]{4})" + _TIME
)


@dataclass(frozen=True)
class DateFormat:
    """How dates are spelled.

    Parameters
    ----------
    spelled
        ``YYYY``, ``MM`` and ``DD``, once each, with or without marks between them: "YYYY-MM-DD",
        "DD/MM/YYYY", "YYYYMMDD". With marks, months and days may have one digit. A time of day
        behind a date is dropped.

    Raises
    ------
    ValueError
        If one of the three is missing, or there are other letters or digits.

    Examples
    --------
    >>> german = DateFormat("DD.MM.YYYY")
    >>> german.day("1.2.2020") - german.day("31.01.2020"), german.day("30.02.2020")
    (1, None)
    >>> DateFormat().day("2020-01-01T12:30:00Z") == date(2020, 1, 1).toordinal()
    True
    """

    spelled: str = ISO

    def __post_init__(self) -> None:
        rest = self.spelled
        for part in _PARTS:
            rest = rest.replace(part, "", 1)
        is_whole = all(part in self.spelled for part in _PARTS)
        if not is_whole or any(c.isalnum() or c in "\"'\n\r" for c in rest):
            raise ValueError(
                f"date_format: {shown(repr(self.spelled), 60)} must have YYYY, MM and DD, once "
                "each, and marks between them, as YYYY-MM-DD or DD/MM/YYYY."
            )
        digits = "[0-9]{1,2}" if rest else "[0-9]{2}"
        pattern = re.escape(self.spelled)
        for part, group in _PARTS.items():
            pattern = pattern.replace(part, group.replace("{}", digits), 1)
        object.__setattr__(self, "_pattern", re.compile(pattern + _TIME))

    def day(self, text: str) -> int | None:
        """Return the number of a day, days after another being larger by so many; None for no date.

        Parameters
        ----------
        text
            A cell without blanks around it.

        Returns
        -------
        int or None
            As ``datetime.date.toordinal`` counts.
        """
        found = self._pattern.fullmatch(text)
        if found is None:
            return None
        try:
            return date(*(int(found[name]) for name in ("year", "month", "day"))).toordinal()
        except ValueError:  # the 30th of February
            return None

    def declared(self, name: str, text: str) -> int:
        """Return the day of a declared date, which may also be spelled as ISO does.

        Raises
        ------
        ValueError
            If it is none; the message begins with ``name``.
        """
        for spelled in (self, DateFormat()):
            found = spelled.day(text.strip())
            if found is not None:
                return found
        raise ValueError(f"{name}: {shown(repr(text), 60)} is no day; give one as {ISO}.")

    _pattern = re.compile("")


def looks_like_a_date(text: str) -> bool:
    """Say whether a text has year, month and day with marks between them, in a usual order.

    >>> [looks_like_a_date(t) for t in ("2020-01-31", "31/1/2020 10:00", "1.5", "2020", "a-b-c")]
    [True, True, False, False, False]
    """
    return _ANY.fullmatch(text.strip()) is not None
