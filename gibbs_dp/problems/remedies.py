"""What to do about a column of text that was probably meant to be something else."""

from __future__ import annotations

from gibbs_dp.io.damage import shown
from gibbs_dp.io.dates import ISO, looks_like_a_date
from gibbs_dp.problems.source import is_number
from gibbs_dp.problems.survey import Column

# One value in so many may be another kind than the rest of a column, and be a slip.
ONE_IN = 5
# Characters of an odd value that a message shows.
ODD = 60


def refuse_dates(column: Column, role: str = "features") -> None:
    """Raise a ValueError for a column of text in which each value looks like a date."""
    if column.is_text and column.levels and all(map(looks_like_a_date, column.levels)):
        name, example = column.name, shown(min(column.levels), 60)
        raise ValueError(
            f"{role}: column {name!r} holds dates ({example}); use it as days since one of them "
            f"with date (--date {_word(name)} {ISO}, and --date-format where they are not spelled "
            "so), as levels with categorical, or leave it out."
        )


def odd_number(column: Column) -> str | None:
    """Return a value that keeps a column from being one of numbers, if there are few such.

    Examples
    --------
    >>> odd_number(Column("age", True, levels={"31", "45", "50", "62", "?"}))
    '?'
    >>> odd_number(Column("city", True, levels={"a", "b"})) is None
    True
    """
    if not column.is_text:
        return None
    odd = sorted(text for text in column.levels if not is_number(text))
    is_few = 0 < len(odd) * ONE_IN <= len(column.levels)
    return odd[0] if is_few else None


def remedy(column: Column) -> str:
    """Say what to do about a text column with too many values."""
    return f"group them or leave the column out{also(column)}"


def also(column: Column) -> str:
    """Say what else a column of text may be: numbers with a comma, or with marks among them."""
    if not column.is_text:
        return ""
    levels, odd = column.levels, odd_number(column)
    if odd is not None:
        text = odd if len(odd) < ODD else odd[:ODD] + "..."
        return f"; if {text!r} means a missing value, name it with na_values (--na-values)"
    if not any(map(is_number, levels)) and all(is_number(text, ",") for text in levels):
        return "; if its decimal mark is a comma, give decimal=',' (--decimal ,)"
    return ""


def _word(name: str) -> str:
    return name if name.isalnum() else repr(name)
