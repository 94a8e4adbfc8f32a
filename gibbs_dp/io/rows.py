"""Rows of results as JSON and CSV can hold them."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from gibbs_dp.io.atomic import atomic_write


def json_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what is None or not a number; write infinite numbers as ``"inf"``.

    Examples
    --------
    >>> json_row({"gamma": 1.0, "dp_epsilon": math.inf, "rhat": math.nan, "note": None})
    {'gamma': 1.0, 'dp_epsilon': 'inf'}
    """
    plain: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, float) and math.isinf(value):
            plain[name] = "inf" if value > 0 else "-inf"
        elif value is not None and not (isinstance(value, float) and math.isnan(value)):
            plain[name] = value
    return plain


def save_rows(path: str | os.PathLike[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Write a CSV file, whole or not at all; infinite values as ``inf``, absent ones empty.

    Raises
    ------
    OSError
        If the folder cannot be written.
    """
    import pandas as pd  # slow to import

    with atomic_write(path) as temporary:
        pd.DataFrame(rows).to_csv(temporary, index=False)
