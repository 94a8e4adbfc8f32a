"""Draws as notebooks show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gibbs_dp.results.table import Heading, TextTable, block, remarks

# What a pointer on a column's title sees in a notebook.
MEANINGS = {
    "ess": "Effective number of draws: so many independent ones would know the mean as well.",
    "r_hat": "Split R-hat: about 1 where the chains agree.",
}
ONLY_SHOWN = (
    "ess and r_hat are computed for the coordinates above only; .warnings looks at all of them."
)


def as_html(
    title: str,
    rows: Sequence[dict[str, Any]],
    total: int,
    warnings: Sequence[str],
    is_batch: bool,
) -> str:
    """Show a row a coordinate.

    Parameters
    ----------
    title
        What they are of.
    rows
        What describes the first coordinates.
    total
        Coordinates of all datasets.
    warnings
        Of the coordinates in ``rows``.
    is_batch
        Whether they are of several datasets.

    Returns
    -------
    str
        HTML.
    """
    names = [name for name in rows[0] if name != "dataset" or is_batch]
    cells = [
        [f"{x:.4g}" if isinstance(x, float) else str(x) for x in map(row.get, names)]
        for row in rows
    ]
    marks: list[tuple[str, str]] = [("WARNING", text) for text in warnings]
    if total > len(rows):
        marks.append(("note", ONLY_SHOWN))
    return block(
        title,
        TextTable(
            [Heading(n, MEANINGS.get(n, ""), n == "parameter") for n in names],
            cells,
            total - len(rows),
            "coordinates",
        ),
        remarks(marks),
    )
