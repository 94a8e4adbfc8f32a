"""Standard errors of what all datasets make together, by leaving groups of them out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

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


# Leaving out chains, steps, and both at once: what of an estimate's bias each of them causes.

# Groups of one kind at most.
MOST_GROUPS = 4


class LeavingOut(NamedTuple):
    """Selections of draws, and coefficients that make estimates from them a correction.

    Draws of a chain depend on each other, and chains may share the noise of their steps. In such a
    two-way layout the variance of a mean is that of chains' means, plus that of steps' means, less
    that of independent draws; a bias of order one over draws is made of the same three. Groups of
    whole chains show the first, groups of whole steps the second, and groups that run diagonally,
    with an equal part of every chain and of every step, the third.

    The corrected estimate is ``f(all) + whole f(all) + sum_k parts_k f(kept_k)``.

    Attributes
    ----------
    kept
        Of each selection, 1 for draws in it and else 0; chains first, flat.
    parts
        Coefficient of each selection.
    whole
        That of all draws.
    """

    kept: Float[Array, "selections draws"]
    parts: Float[Array, " selections"]
    whole: float

    @classmethod
    def of(cls, num_chains: int, num_draws: int) -> LeavingOut:
        """Make the selections; none where there is one chain, whose draws are an exact sum."""
        groups, coefficients, whole = _layout(num_chains, num_draws)
        return cls(jnp.asarray(groups), jnp.asarray(coefficients), whole)


def groups(
    num_chains: int, num_draws: int, most: int
) -> list[tuple[Int[np.ndarray, " draws"], int]]:
    """Group draws by chains, by steps, and diagonally; only by chains where there is one step.

    Parameters
    ----------
    num_chains, num_draws
        Chains, and draws of each.
    most
        Groups of one kind at most.

    Returns
    -------
    list
        Of each kind, the group of every draw, chains first, and how many groups there are.

    Examples
    --------
    >>> [(group.tolist(), count) for group, count in groups(2, 2, 8)]
    [([0, 0, 1, 1], 2), ([0, 1, 0, 1], 2), ([0, 1, 1, 0], 2)]
    """
    chain, step = np.divmod(np.arange(num_chains * num_draws), num_draws)
    rows, columns = min(num_chains, most), min(num_draws, most)
    row, column, few = chain * rows // num_chains, step * columns // num_draws, min(rows, columns)
    if columns == 1:
        return [(row, rows)]
    return [(row, rows), (column, columns), ((row + column) % few, few)]


@cache
def _layout(num_chains: int, num_draws: int) -> tuple[np.ndarray, np.ndarray, float]:
    if num_chains == 1:
        return np.zeros((0, num_draws), np.float32), np.zeros(0, np.float32), 0.0
    kept, parts, whole = [], [], 0.0
    signs = (1.0, 1.0, -1.0)
    for (group, count), sign in zip(
        groups(num_chains, num_draws, MOST_GROUPS), signs, strict=False
    ):
        kept += [group != g for g in range(count)]
        parts += [-sign * (count - 1) / count] * count
        whole += sign * (count - 1)
    return np.stack(kept).astype(np.float32), np.array(parts, np.float32), whole
