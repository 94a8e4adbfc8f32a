"""Read a report from its file: NetCDF, of which nothing is believed before it is checked."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from jaxtyping import Float

from gibbs_dp import io
from gibbs_dp.auditing.report import OF_CURVE, PER_DATASET, Report
from gibbs_dp.auditing.report_data import PER_ROW
from gibbs_dp.engine.quantity import RowTable
from gibbs_dp.quantities.registry import COLUMNS, check_own_column
from gibbs_dp.results.base import damage_named, sentences
from gibbs_dp.results.table import Column


def load_report(path: str | os.PathLike[str]) -> Report:
    """Read a report that :meth:`Report.save` wrote; runs no code from the file.

    Only what the file itself holds is read, and no more bytes than it has: links to other files,
    virtual and compressed arrays are refused.

    Raises
    ------
    ValueError
        If the file is missing or no report; :class:`gibbs_dp.io.DamagedFileError`, one of them,
        if it is damaged or not as :meth:`Report.save` writes it.
    """
    contents = io.load_netcdf(path, "report")
    with damage_named(path, "is a damaged report"):
        settings = io.parse_json(contents.attributes["settings"], dict)
        warnings = sentences(contents.attributes["warnings"])
        notes = sentences(contents.attributes["notes"])
        own = _own_columns(contents.attributes.get("columns", "[]"))
        rows, values, curves = _rows(contents, own), _per_dataset(contents), _curves(contents)
        tables = _row_tables(contents)
    return Report(rows, settings, warnings, notes, values, curves, tables, own)


def _own_columns(text: Any) -> tuple[Column, ...]:
    """Columns that are not the library's; never in the place of one that is."""
    found = tuple(Column.from_plain(held) for held in io.parse_json(text, list))
    for column in found:
        check_own_column(column, "it")
    return found


def _rows(contents: io.Contents, own: tuple[Column, ...]) -> tuple[dict[str, Any], ...]:
    gammas = contents.coordinates["gamma"]
    if gammas.ndim != 1 or gammas.dtype.kind != "f" or not gammas.size or contents.groups:
        raise ValueError("its gammas are no list of numbers")
    others = (PER_DATASET, PER_ROW)
    columns = {
        k: v for k, v in contents.variables.items() if not k.endswith(others) and OF_CURVE not in k
    }
    for name, column in columns.items():
        if column.shape != gammas.shape:
            raise ValueError(f"{name!r} has not one value for every gamma")
        if column.dtype.kind == "O" and not _may_be_text(name, own):
            raise ValueError(f"{name!r} is text where numbers should be")
    # NaN is what rows without a column have there; a column of nothing else is in some row.
    unknown = {k for k, v in columns.items() if v.dtype.kind == "f" and np.isnan(v).all()}
    rows = []
    for i, gamma in enumerate(gammas):
        row: dict[str, Any] = {"gamma": float(gamma)}
        for name, column in columns.items():
            value = column[i : i + 1].tolist()[0]
            if name in unknown or not (isinstance(value, float) and np.isnan(value)):
                row[name] = value
        rows.append(row)
    return tuple(rows)


def _may_be_text(name: str, own: tuple[Column, ...]) -> bool:
    """Whether a column is no number: one without unit or title, or one of another version."""
    column = (COLUMNS | {c.name: c for c in own}).get(name)
    is_number = column is not None and bool(column.unit or column.title)
    return not (is_number or name.endswith("_se"))


def _per_dataset(contents: io.Contents) -> tuple[dict[str, Float[np.ndarray, " _datasets"]], ...]:
    tables = {k: v for k, v in contents.variables.items() if k.endswith(PER_DATASET)}
    if not tables:
        return ()
    shapes = {table.shape for table in tables.values()}
    gammas = contents.coordinates["gamma"].size
    is_table = all(table.dtype.kind == "f" and table.ndim == 2 for table in tables.values())
    if not is_table or len(shapes) > 1 or shapes.pop()[0] != gammas:
        raise ValueError("its values of single datasets are no tables of numbers")
    return tuple(
        {name.removesuffix(PER_DATASET): table[i] for name, table in tables.items()}
        for i in range(gammas)
    )


def _curves(
    contents: io.Contents,
) -> tuple[dict[str, dict[str, Float[np.ndarray, " _points"]]], ...]:
    tables = {k: v for k, v in contents.variables.items() if OF_CURVE in k}
    gammas = contents.coordinates["gamma"].size
    found: list[dict[str, dict[str, Any]]] = [{} for _ in range(gammas if tables else 0)]
    shapes: dict[str, tuple[int, ...]] = {}
    for name, table in tables.items():
        curve, _, column = name.partition(OF_CURVE)
        is_table = table.dtype.kind == "f" and table.ndim == 2 and table.shape[0] == gammas
        if not is_table or shapes.setdefault(curve, table.shape) != table.shape:
            raise ValueError(f"{name!r} is no table of numbers over gamma")
        for held, line in zip(found, table, strict=True):
            held.setdefault(curve, {})[column] = line
    return tuple(found)


# Figures of every row of a table, and the kinds of their arrays.
_OF_ROWS = {
    "ranked_by": "f",
    "on_average_kl": "f",
    "on_average_kl_se": "f",
    "advantage": "f",
    "advantage_se": "f",
    "num_datasets": "i",
    "tail_flag": "b",
}


def _row_tables(contents: io.Contents) -> tuple[RowTable, ...]:
    held = {k: v for k, v in contents.variables.items() if k.endswith(PER_ROW)}
    if not held:
        return ()
    gammas, rows = contents.coordinates["gamma"].size, contents.coordinates["row"]
    tables = {name.removesuffix(PER_ROW): table for name, table in held.items()}
    is_table = rows.ndim == 1 and rows.dtype.kind == "i" and tables.keys() == _OF_ROWS.keys()
    if not is_table or any(
        table.shape != (gammas, rows.size) or table.dtype.kind != _OF_ROWS[name]
        for name, table in tables.items()
    ):
        raise ValueError("its figures of single rows are no tables of numbers")
    # In the order of the columns, whatever that of the file.
    return tuple(
        {"row": rows} | {name: tables[name][i] for name in _OF_ROWS} for i in range(gammas)
    )
