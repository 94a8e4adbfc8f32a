"""A report as people see it: cells, one line, and HTML."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from numbers import Integral
from typing import Any

from gibbs_dp.quantities.registry import COLUMNS
from gibbs_dp.results.table import (
    MOST_LINES,
    Column,
    Heading,
    TextTable,
    block,
    counted,
    plain,
    remarks,
    with_error,
)

Rows = Sequence[Mapping[str, Any]]

# A caption holds a name this long.
WIDTH = 40


def known_columns(own: Sequence[Column]) -> dict[str, Column]:
    """Return every column that a report may have, by name: the library's, and one's own."""
    return COLUMNS | {column.name: column for column in own}


def cells(rows: Rows, own: Sequence[Column] = ()) -> dict[str, list[str]]:
    """Return the columns of the printed table, by their names in rows: a text a gamma."""
    present = set(chain.from_iterable(rows))
    found = {"gamma": [f"{row['gamma']:g}" for row in rows]}
    for column in known_columns(own).values():
        if column.title is not None and column.name in present:
            found[column.name] = [_cell(row, column.name) for row in rows]
    return found


def one_line(rows: Rows, settings: Mapping[str, Any], warnings: Sequence[str]) -> str:
    """Say what a report is of.

    Parameters
    ----------
    rows, settings, warnings
        Of the report; any of them may be empty.

    Returns
    -------
    str
        Less than a line.

    Examples
    --------
    >>> rows = [{"gamma": g, "n": 200, "num_datasets": 1024} for g in (0.1, 1.0, 10.0)]
    >>> one_line(rows, {"loss": "logistic"}, ["a warning"])
    'logistic, n=200, gammas 0.1 .. 10 (3), 1,024 datasets, 1 warning'
    """
    loss = plain(str(settings.get("loss", "")), WIDTH)
    n = settings.get("n", rows[0].get("n") if rows else None)
    parts = [loss] if loss else []
    parts += [f"n={plain(str(n), WIDTH)}"] if n is not None else []
    parts.append(_span([row.get("gamma", math.nan) for row in rows]))
    counts = [c for row in rows if isinstance(c := row.get("num_datasets"), Integral)]
    if counts:
        few = "" if min(counts) == max(counts) else f"{min(counts):,} to "
        parts.append(few + counted(int(max(counts)), "dataset"))
    parts += [counted(len(warnings), "warning")] if warnings else []
    return ", ".join(parts)


def as_html(
    head: str,
    rows: Rows,
    warnings: Sequence[str],
    notes: Sequence[str],
    own: Sequence[Column] = (),
) -> str:
    """Show a report in a notebook: the printed table, its warnings and its notes.

    Parameters
    ----------
    head
        A line above it.
    rows, warnings, notes, own
        Of the report; the last are columns that are not the library's. A pointer on a column's
        title sees what the column means.

    Returns
    -------
    str
        HTML.
    """
    columns, known = cells(rows[:MOST_LINES], own), known_columns(own)
    headings = [_heading(known[name]) for name in columns]
    lines = list(zip(*columns.values(), strict=True))
    hidden = len(rows) - MOST_LINES
    marks = [("WARNING", text) for text in warnings] + [("note", text) for text in notes]
    return block(head, TextTable(headings, lines, hidden, "gammas"), remarks(marks))


def _cell(row: Mapping[str, Any], name: str) -> str:
    if name not in row:
        return "-"
    value = row[name]
    if f"{name}_se" in row:
        return with_error(value, row[f"{name}_se"])
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _heading(column: Column) -> Heading:
    return Heading(column.title or column.name, f"{column.name_and_unit}: {column.meaning}")


def _span(gammas: Sequence[float]) -> str:
    if len(gammas) < 2:
        return f"gamma {gammas[0]:g}" if gammas else "no gammas"
    return f"gammas {min(gammas):g} .. {max(gammas):g} ({len(gammas)})"
