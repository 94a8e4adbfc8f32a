"""Tables of results: as text, and in files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from gibbs_dp import io

Row = dict[str, Any]


def table(rows: Sequence[Row]) -> str:
    """Align rows under their column names.

    >>> print(table([{"a": 1, "b": "x"}, {"a": 10}]))
    a   b
    1   x
    10
    """
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return aligned([columns, *[[_cell(row.get(name)) for name in columns] for row in rows]])


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Lay out lines of cells in columns.

    >>> print(aligned([("a", "b"), ("10", "x")]))
    a   b
    10  x
    """
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    laid = ("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) for line in lines)
    return "\n".join(line.rstrip() for line in laid)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def column(rows: Sequence[Row], name: str) -> Float[np.ndarray, " rows"]:
    """Return one number a row, NaN where it is absent."""
    return np.array([row.get(name, np.nan) for row in rows], dtype=np.float64)


def save_tables(tables: Mapping[str, Sequence[Row]], folder: Path) -> list[Path]:
    """Write ``NAME.csv`` for every name."""
    paths = [folder / f"{name}.csv" for name in tables]
    for path, rows in zip(paths, tables.values(), strict=True):
        io.save_rows(path, rows)
    return paths
