"""Reports as plain lists and numbers, for a store, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from gibbs_dp.auditing.report import Report


def parts_of(report: Report) -> dict[str, Any]:
    """Return what a store keeps of a report: all but the values of single datasets."""
    curves = [
        {name: {k: v.tolist() for k, v in curve.items()} for name, curve in of_row.items()}
        for of_row in report.curves
    ]
    names = ("rows", "settings", "warnings", "notes")
    return {name: getattr(report, name) for name in names} | {"curves": curves}


def restored(held: dict[str, Any]) -> Report:
    """Make the report again."""
    rows, warnings, notes = (tuple(held[name]) for name in ("rows", "warnings", "notes"))
    curves = tuple(
        {name: {k: np.array(v) for k, v in curve.items()} for name, curve in of_row.items()}
        for of_row in held["curves"]
    )
    return Report(rows, held["settings"], warnings, notes, curves=curves)
