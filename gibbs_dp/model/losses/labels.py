"""Checks of labels that several losses share."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Shaped

from gibbs_dp.model.spread import distinct_values


def check_two_classes(labels: Any, loss: str) -> None:
    """Raise a ValueError unless the labels are 0 and 1, both present."""
    found = distinct_values(labels, limit=6)
    if not np.isin(found, (0, 1)).all():
        raise ValueError(
            f"data: the {loss} loss needs labels 0 and 1, got {shown(found)}; recode them."
        )
    if found.size < 2:
        raise ValueError(f"data: every label is {found[0]:g}; the {loss} loss needs both classes.")


def shown(values: Shaped[np.ndarray, " k"]) -> str:
    """Write out the first few of some numbers.

    >>> shown(np.array([1.0, 2.0, 3.0, 4.0, 5.0]))
    '1, 2, 3, 4, ...'
    """
    return ", ".join(f"{v:g}" for v in values[:4]) + (", ..." if values.size > 4 else "")
