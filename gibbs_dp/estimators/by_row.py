"""Averages over the datasets that hold a row of a table, for every row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from gibbs_dp.information.checks import whole_arrays

# Examples that are sorted at a time.
_CHUNK = 2**22


class RowAverages(NamedTuple):
    """A mean for every row, its standard error, and the number of datasets that hold the row."""

    value: Float[np.ndarray, " rows"]
    se: Float[np.ndarray, " rows"]
    num_datasets: Int[np.ndarray, " rows"]


@whole_arrays
def average_by_row(
    values: Float[np.ndarray, "datasets places"],
    rows: Int[np.ndarray, "datasets places"],
    num_rows: int,
) -> RowAverages:
    """Mean and standard error of what examples are worth, by the row that they are.

    A dataset may hold a row several times. All of its examples count, so that the rows' means,
    weighted by how often rows are drawn, are the mean over examples; but they are one unit. The
    mean is a ratio of two sums over datasets (Cochran 1977, *Sampling Techniques*, section 2.11:
    linearized variance), with the number of datasets less one below.

    Parameters
    ----------
    values
        A number for every example of every dataset.
    rows
        The row that it is.
    num_rows
        Rows are 0 to ``num_rows - 1``.

    Returns
    -------
    RowAverages
        NaN mean for rows that no dataset holds, NaN error for those that fewer than two hold.

    Examples
    --------
    >>> found = average_by_row(np.array([[1.0, 5.0], [3.0, 5.0]]), np.array([[0, 1], [0, 1]]), 3)
    >>> found.value, found.se, found.num_datasets
    (array([ 2.,  5., nan]), array([ 1.,  0., nan]), array([2, 2, 0]))
    """
    height = max(1, _CHUNK // max(1, values.shape[1]))
    sums = np.zeros((5, num_rows))  # of the count and the total of a row in a dataset: N, S
    held = np.zeros(num_rows, np.int64)
    for first in range(0, values.shape[0], height):
        some, where = values[first : first + height], rows[first : first + height]
        keys = where + np.arange(some.shape[0], dtype=np.int64)[:, None] * num_rows
        found, place = np.unique(keys, return_inverse=True)
        place = place.reshape(-1)
        count = np.bincount(place).astype(np.float64)
        total = np.bincount(place, some.astype(np.float64).reshape(-1))
        row = found % num_rows
        held += np.bincount(row, minlength=num_rows)
        for line, term in zip(sums, (count, total, total**2, total * count, count**2), strict=True):
            line += np.bincount(row, term, num_rows)
    of_count, of_total, of_square, of_product, of_count_square = sums
    with np.errstate(divide="ignore", invalid="ignore"):
        value = of_total / of_count
        square = of_square - 2.0 * value * of_product + value**2 * of_count_square
        error = np.sqrt(np.maximum(square, 0.0) * held / (held - 1.0)) / of_count
    return RowAverages(value, np.where(held > 1, error, np.nan), held)
