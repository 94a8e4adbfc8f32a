"""How a table with a column per dataset is laid out for the programs that sum it up."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from gibbs_dp.estimators.halves import fold_of

# A maximum over a row is taken of so many numbers at once.
LANES = 16


class Layout(NamedTuple):
    """Columns of a table: datasets of the first half, then those of the second.

    A half is as wide whichever datasets failed, so that nothing is compiled for their number.

    Attributes
    ----------
    datasets
        Dataset of each column; any one where there is none.
    is_used
        Whether there is one.
    position
        Column of each dataset that did not fail, in their order.
    """

    datasets: Int[np.ndarray, " columns"]
    is_used: Bool[np.ndarray, " columns"]
    position: Int[np.ndarray, " good"]

    @property
    def sizes(self) -> Int[np.ndarray, " 2"]:
        """Datasets of each half."""
        used: Int[np.ndarray, " 2"] = self.is_used.reshape(2, -1).sum(axis=1)
        return used


def layout_of(good: Bool[np.ndarray, " datasets"]) -> Layout:
    """Lay out the datasets that did not fail, in the halves of :func:`fold_of`.

    Examples
    --------
    >>> found = layout_of(np.array([True, True, False, True]))
    >>> found.datasets[found.is_used]
    array([0, 3, 1])
    """
    width = math.ceil(good.shape[0] / 2 / LANES) * LANES
    wanted = np.flatnonzero(good)
    fold = fold_of(wanted.size)
    datasets, is_used = np.zeros((2, width), int), np.zeros((2, width), bool)
    position = np.empty(wanted.size, int)
    for half in (0, 1):
        mine = wanted[fold == half]
        datasets[half, : mine.size], is_used[half, : mine.size] = mine, True
        position[fold == half] = half * width + np.arange(mine.size)
    return Layout(datasets.ravel(), is_used.ravel(), position)
