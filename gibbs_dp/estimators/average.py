"""Averages over datasets, the only independent units there are, with standard errors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float


class Average(NamedTuple):
    """A mean over datasets, its standard error, and how many datasets stand behind it."""

    value: float
    se: float
    num_datasets: int


def average(
    values: Float[np.ndarray, " datasets"], keep: Bool[np.ndarray, " datasets"] | None = None
) -> Average:
    """Mean and standard error over the kept datasets, accumulated in float64.

    Parameters
    ----------
    values
        One number per dataset.
    keep
        Which datasets count; all by default. The result is conditional on the rest failing, so
        whoever drops datasets must say how many.

    Returns
    -------
    Average
        NaN error for fewer than two datasets; NaN value for none.

    Examples
    --------
    >>> average(np.array([1.0, 2.0, 3.0]))
    Average(value=2.0, se=0.5773502691896258, num_datasets=3)
    """
    kept = np.asarray(values, dtype=np.float64)
    if keep is not None:
        kept = kept[keep]
    count = kept.shape[0]
    value = float(kept.mean()) if count else float("nan")
    se = float(kept.std(ddof=1) / np.sqrt(count)) if count > 1 else float("nan")
    return Average(value, se, count)
