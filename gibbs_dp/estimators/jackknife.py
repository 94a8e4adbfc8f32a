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
    """Datasets in groups; a group lies in one half of :func:`~gibbs_dp.estimators.fold_of`."""

    of: Int[np.ndarray, " datasets"]  # group of each dataset
    count: int  # number of groups, even

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
    """Deal datasets out to groups, in turn."""
    count = min(MAX_GROUPS, num_datasets // 2 * 2)
    return Groups(np.arange(num_datasets) % count, count)


def left_out(values: Float[np.ndarray, " columns"], num_datasets: int) -> Average:
    """Delete-a-group jackknife (Shao & Tu 1995, section 2.3), for the error alone."""
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
    """

    # Of each selection, 1 for draws in it and else 0; chains first, flat.
    kept: Float[Array, "selections draws"]
    parts: Float[Array, " selections"]  # coefficient of each selection
    whole: float  # that of all draws

    @classmethod
    def of(cls, num_chains: int, num_draws: int) -> LeavingOut:
        """Make the selections; none where there is one chain, whose draws are an exact sum."""
        groups, coefficients, whole = _layout(num_chains, num_draws)
        return cls(jnp.asarray(groups), jnp.asarray(coefficients), whole)


def groups(
    num_chains: int, num_draws: int, most: int
) -> list[tuple[Int[np.ndarray, " draws"], int]]:
    """Group draws by chains, by steps, and diagonally; only by chains where there is one step."""
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


# Sums of powers of posterior densities over groups of datasets, at every draw.


Rows = Float[np.ndarray, " rows"]
Columns = Float[np.ndarray, " columns"]
Out = Float[np.ndarray, "rows columns"]


class _Part(NamedTuple):
    """What one block of draws leaves behind."""

    owner: Int[np.ndarray, " rows"]
    top: Float[np.ndarray, "rows 2"]
    powers: dict[float, Float[np.ndarray, "rows groups"]]
    hits: Float[np.ndarray, "rows groups"]
    hit_density: Float[np.ndarray, "rows groups"]


class GroupSums:
    """Accumulates an M x M table, a block of draws at a time: memory is a number per group.

    A row is a draw ``theta`` of dataset ``m``; its entries are ``log p(theta|Z_k)/p(theta|Z_m)``,
    and sums are over the other datasets ``k != m``, as if the draw's own density were one.
    """

    def __init__(self, num_datasets: int, powers: tuple[float, ...] = (1.0,)) -> None:
        self.groups: Groups = groups_of(num_datasets)
        self._powers = tuple(dict.fromkeys((1.0, *powers)))
        self._parts: list[_Part] = []

    def add(
        self, log_density: Float[np.ndarray, "rows datasets"], owner: Int[np.ndarray, " rows"]
    ) -> None:
        """Add draws."""
        rows = np.arange(owner.size)
        x = np.asarray(log_density, np.float64)
        x = x - x[rows, owner][:, None]
        x[rows, owner] = -np.inf
        folds = np.arange(x.shape[1]) % 2
        top = np.stack([x[:, folds == half].max(axis=1) for half in (0, 1)], axis=1)
        relative = x - top[:, folds]
        powers = {a: self._summed(relative, a) for a in self._powers}
        mean = self._log_mean_elsewhere(top, powers[1.0], owner)
        hit = ((x > mean[:, None]) & (folds == (owner % 2)[:, None])).astype(np.float64)
        density = self._by_group(np.exp(relative) * hit)
        self._parts.append(_Part(owner, top, powers, self._by_group(hit), density))

    def _summed(
        self, relative: Float[np.ndarray, "rows datasets"], power: float
    ) -> Float[np.ndarray, "rows groups"]:
        if np.isinf(power):
            groups = range(self.groups.count)
            return np.stack([relative[:, self.groups.of == g].max(axis=1) for g in groups], axis=1)
        return self._by_group(np.exp(power * relative))

    def _by_group(
        self, table: Float[np.ndarray, "rows datasets"]
    ) -> Float[np.ndarray, "rows groups"]:
        count = self.groups.count
        whole = np.zeros((table.shape[0], -(-table.shape[1] // count) * count))
        whole[:, : table.shape[1]] = table
        return np.asarray(whole.reshape(table.shape[0], -1, count).sum(axis=1))

    def _log_mean_elsewhere(
        self,
        top: Float[np.ndarray, "rows 2"],
        sums: Float[np.ndarray, "rows groups"],
        owner: Int[np.ndarray, " rows"],
    ) -> Rows:
        """Log of the mean density of the half that a draw's dataset is not in."""
        half = 1 - owner % 2
        of_half = np.stack([sums[:, h::2].sum(axis=1) for h in (0, 1)], axis=1)
        sizes = np.array([self.groups.sizes[h::2].sum() for h in (0, 1)])
        rows = np.arange(owner.size)
        return np.asarray(top[rows, half] + np.log(of_half[rows, half] / sizes[half]))

    def result(self) -> Grouped:
        """Return all rows."""
        parts = self._parts
        return Grouped(
            self.groups,
            np.concatenate([p.owner for p in parts]),
            np.concatenate([p.top for p in parts]),
            {a: np.concatenate([p.powers[a] for p in parts]) for a in self._powers},
            np.concatenate([p.hits for p in parts]),
            np.concatenate([p.hit_density for p in parts]),
        )


class Grouped(NamedTuple):
    """Rows of :class:`GroupSums`; methods have a column for each choice of :attr:`Groups.keep`."""

    groups: Groups  # of the datasets
    owner: Int[np.ndarray, " rows"]  # dataset of each draw
    top: Float[np.ndarray, "rows 2"]  # largest log density of either half
    # By power, sums of that power of densities relative to ``top``; logarithms of the largest
    # for ``inf``.
    powers: dict[float, Float[np.ndarray, "rows groups"]]
    # Datasets of the draw's own half under which it is denser than under the other half's
    # mean.
    hits: Float[np.ndarray, "rows groups"]
    # The draw's densities under these, summed, relative to ``top``.
    hit_density: Float[np.ndarray, "rows groups"]

    @property
    def num_datasets(self) -> int:
        """``M``."""
        return self.groups.of.size

    @property
    def own_fold(self) -> Int[np.ndarray, " rows"]:
        """Half of each draw's dataset."""
        return self.owner % 2

    @property
    def weight(self) -> Out:
        """Whether a draw's dataset is there."""
        return self.groups.keep[self.groups.of[self.owner]]

    def size(self, half: int | None = None) -> Float[np.ndarray, " columns"]:
        """Datasets that are there, of one half or of both."""
        keep = self.groups.keep if half is None else self.groups.fold(half)
        return np.asarray(self.groups.sizes @ keep)

    def log_sum(self, power: float, half: int | None = None) -> Out:
        """Log of the sum of a power over the others of one half or of both (the largest: inf)."""
        if half is None:
            both = [self.log_sum(power, h) for h in (0, 1)]
            return np.maximum(*both) if np.isinf(power) else np.logaddexp(*both)
        if np.isinf(power):
            return self.top[:, half, None] + self._largest(self.groups.fold(half))
        with np.errstate(divide="ignore"):
            found = np.log(self.powers[power] @ self.groups.fold(half))
        return np.asarray(power * self.top[:, half, None] + found)

    def _largest(self, fold: Float[np.ndarray, "groups columns"]) -> Out:
        found = self.powers[np.inf]
        columns = [found[:, kept > 0].max(axis=1) for kept in fold.T]
        return np.stack(columns, axis=1)

    def mean(self, values: Out, is_used: Rows | None = None) -> Columns:
        """Mean over the draws that are there, of those that are used; one a column."""
        weight = self.weight if is_used is None else self.weight * is_used[:, None]
        there = weight * np.where(weight > 0, values, 0.0)
        return np.asarray(np.sum(there, axis=0) / np.sum(weight, axis=0))
