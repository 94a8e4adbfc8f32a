"""Reports as plain lists and numbers, for a store, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from gibbs_dp.auditing.report import Report


def parts_of(report: Report) -> dict[str, Any]:
    """Return what a store keeps of a report: all but figures of single rows."""
    curves = [{name: _lists(curve) for name, curve in of_row.items()} for of_row in report.curves]
    names = ("rows", "settings", "warnings", "notes")
    plain = {name: getattr(report, name) for name in names}
    return plain | {"per_dataset": [_lists(v) for v in report.per_dataset], "curves": curves}


def restored(held: dict[str, Any]) -> Report:
    """Make the report again."""
    rows, warnings, notes = (tuple(held[name]) for name in ("rows", "warnings", "notes"))
    curves = tuple(
        {name: _arrays(curve) for name, curve in of_row.items()} for of_row in held["curves"]
    )
    values = tuple(_arrays(of_row) for of_row in held["per_dataset"])
    return Report(rows, held["settings"], warnings, notes, values, curves)


def _lists(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    return {name: array.tolist() for name, array in arrays.items()}


def _arrays(lists: dict[str, Any]) -> dict[str, np.ndarray]:
    return {name: np.array(values, np.float64) for name, values in lists.items()}
