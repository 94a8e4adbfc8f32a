"""Sums of powers of posterior densities over groups of datasets, at every draw."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from gibbs_dp.estimators.left_out import Groups, groups_of

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

    Parameters
    ----------
    num_datasets
        ``M``, at least 4.
    powers
        Of densities that are summed; ``inf`` is for the largest one.
    """

    def __init__(self, num_datasets: int, powers: tuple[float, ...] = (1.0,)) -> None:
        self.groups: Groups = groups_of(num_datasets)
        self._powers = tuple(dict.fromkeys((1.0, *powers)))
        self._parts: list[_Part] = []

    def add(
        self,
        log_density: Float[np.ndarray, "rows datasets"],
        owner: Int[np.ndarray, " rows"],
    ) -> None:
        """Add draws.

        Parameters
        ----------
        log_density
            Of every dataset's posterior at every draw, up to a constant of the draw.
        owner
            Dataset that each draw came from.
        """
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
    """Rows of :class:`GroupSums`; methods have a column for each choice of :attr:`Groups.keep`.

    Attributes
    ----------
    groups
        Of the datasets.
    owner
        Dataset of each draw.
    top
        Largest log density of either half.
    powers
        By power, sums of that power of densities relative to ``top``; logarithms of the largest
        for ``inf``.
    hits
        Datasets of the draw's own half under which it is denser than under the other half's mean.
    hit_density
        The draw's densities under these, summed, relative to ``top``.
    """

    groups: Groups
    owner: Int[np.ndarray, " rows"]
    top: Float[np.ndarray, "rows 2"]
    powers: dict[float, Float[np.ndarray, "rows groups"]]
    hits: Float[np.ndarray, "rows groups"]
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
