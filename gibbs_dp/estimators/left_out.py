"""Standard errors of what all datasets make together, by leaving groups of them out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from gibbs_dp.estimators.average import Average

# Enough that a standard error is known to 9%.
MAX_GROUPS = 64


@dataclass(frozen=True)
class Groups:
    """Datasets in groups; a group lies in one half of :func:`~gibbs_dp.estimators.fold_of`.

    Attributes
    ----------
    of
        Group of each dataset.
    count
        Number of groups, even.
    """

    of: Int[np.ndarray, " datasets"]
    count: int

    @property
    def sizes(self) -> Int[np.ndarray, " groups"]:
        """Datasets of each group."""
        return np.bincount(self.of, minlength=self.count)

    @property
    def keep(self) -> Float[np.ndarray, "groups columns"]:
        """Whether a group is there: in the first column all are, in each further one but one."""
        kept = np.ones((self.count, self.count + 1))
        kept[np.arange(self.count), np.arange(self.count) + 1] = 0.0
        return kept

    def fold(self, half: int) -> Float[np.ndarray, "groups columns"]:
        """Return the same with the groups of the other half never there."""
        return self.keep * (np.arange(self.count) % 2 == half)[:, None]


def groups_of(num_datasets: int) -> Groups:
    """Deal datasets out to groups, in turn.

    Parameters
    ----------
    num_datasets
        At least 4.

    Returns
    -------
    Groups
        At most ``MAX_GROUPS``, of equal sizes up to one.

    Examples
    --------
    >>> groups_of(5).of
    array([0, 1, 2, 3, 0])
    """
    count = min(MAX_GROUPS, num_datasets // 2 * 2)
    return Groups(np.arange(num_datasets) % count, count)


def left_out(values: Float[np.ndarray, " columns"], num_datasets: int) -> Average:
    """Delete-a-group jackknife (Shao & Tu 1995, section 2.3), for the error alone.

    The value is not corrected: what is a bound stays one.

    Parameters
    ----------
    values
        Of all datasets, then without each group, as in :attr:`Groups.keep`.
    num_datasets
        Datasets in all.

    Returns
    -------
    Average
        The first value, with its standard error.

    Examples
    --------
    >>> left_out(np.array([2.0, 2.5, 2.0, 1.5]), 3)
    Average(value=2.0, se=0.5773502691896257, num_datasets=3)
    """
    without = values[1:]
    count = without.size
    square = float(np.sum((without - without.mean()) ** 2)) * (count - 1) / count
    return Average(float(values[0]), float(np.sqrt(square)), num_datasets)
