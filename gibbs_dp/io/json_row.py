"""One row of results as JSON can hold it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


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
