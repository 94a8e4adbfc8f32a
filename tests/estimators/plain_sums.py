"""Sums of a comparison over whole tables in double precision: what the programs must match."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from gibbs_dp.estimators import Contrast
from gibbs_dp.estimators.average import average_of_products
from gibbs_dp.estimators.cross_fitting import crossed, fold_of, halves

Table = Float[np.ndarray, "points datasets"]


class PlainContrast:
    """What :class:`gibbs_dp.estimators.ContrastSums` finds."""

    def __init__(self, num_datasets: int, draws_per_dataset: int) -> None:
        self._count, self._draws = num_datasets, draws_per_dataset
        self._terms: dict[str, _Term] = {}
        self._log_ratios: dict[str, list[Float[np.ndarray, " points"]]] = {}
        self._owners: list[Int[np.ndarray, " points"]] = []

    def add(
        self, log_density: Table, owner: Int[np.ndarray, " points"], log_swap: Table | None = None
    ) -> None:
        """Add a block of draws.

        Parameters
        ----------
        log_density
            One row per draw, one column per dataset.
        owner
            Column of the dataset that each draw came from.
        log_swap
            ``log p(theta_p | Z_k with its first example replaced by that of Z_m) - log p_pk``:
            adds the information about one example.
        """
        rows = np.arange(log_density.shape[0])
        self._owners.append(owner)
        own = log_density[rows, owner]
        columns = log_density.sum(axis=0)
        np.subtract.at(columns, owner, own)
        size = self._count - 1
        mean = (log_density.sum(axis=1) - own) / size
        self._put("symmetrized", owner, own - mean, -columns / size)
        others = log_density.copy()
        others[rows, owner] = -np.inf
        among = _Shares(*_normalized(others), np.zeros_like(own))
        self._against("upper", own, owner, among, size)
        # Including the draw's own dataset, the others' shares shrink by what it takes.
        normal = np.logaddexp(among.normal, own)
        left, mine = np.exp(among.normal - normal), np.exp(own - normal)
        self._against("lower", own, owner, _Shares(normal, among.others, mine, left), self._count)
        if log_swap is not None:
            self._individual(others, log_swap, owner, among)

    def _put(
        self,
        name: str,
        owner: Int[np.ndarray, " points"],
        rows: Float[np.ndarray, " points"],
        columns: Float[np.ndarray, " datasets"],
    ) -> None:
        term = self._terms.setdefault(name, _Term(0.0, np.zeros(self._count)))
        scaled = rows / self._draws
        np.add.at(term.influence, owner, scaled)
        self._terms[name] = _Term(
            term.total + float(scaled.sum()), term.influence + columns / self._draws
        )

    def _against(
        self,
        name: str,
        own: Float[np.ndarray, " points"],
        owner: Int[np.ndarray, " points"],
        shares: _Shares,
        size: int,
    ) -> None:
        """Compare a draw's own density with the mean of ``size`` of the table."""
        log_ratio = shares.normal - np.log(size) - own
        ratio = self._ratio(name, log_ratio)
        self._put(name, owner, -log_ratio, -shares.weighted(np.ones_like(own), owner))
        self._put(f"{name} control", owner, ratio - 1.0, shares.weighted(ratio, owner))

    def _individual(
        self, table: Table, log_swap: Table, owner: Int[np.ndarray, " points"], among: _Shares
    ) -> None:
        """``log p(theta | z_1) / p(theta)``, both as means over the same other datasets.

        The logarithms have a bias of one over the number of datasets that matter to a draw, few
        where the information is large; twice the value minus that of half the datasets removes it.
        """
        swapped = table + log_swap
        before, after = (among.normal, among.others), _normalized(swapped)
        self._swapped(owner, slice(None), before, after, 2.0)
        for half in (slice(0, None, 2), slice(1, None, 2)):
            self._swapped(
                owner, half, _of_part(table, before, half), _of_part(swapped, after, half), -0.5
            )

    def _swapped(
        self,
        owner: Int[np.ndarray, " points"],
        chosen: slice,
        before: _Part,
        after: _Part,
        factor: float,
    ) -> None:
        log_ratio = before[0] - after[0]
        most = self._count**0.5  # beyond which the ratio is cut
        ratio = np.minimum(np.exp(np.minimum(log_ratio, _LARGEST_LOG_RATIO)), most)
        slope = np.where(ratio < most, ratio, 0.0)
        columns, control = np.zeros(self._count), np.zeros(self._count)
        columns[chosen] = factor * (after[1].sum(axis=0) - before[1].sum(axis=0))
        control[chosen] = factor * (slope @ before[1] - slope @ after[1])
        self._put("individual", owner, -factor * log_ratio, columns)
        self._put("individual control", owner, factor * (ratio - 1.0), control)
        if factor > 0:
            self._log_ratios.setdefault("individual", []).append(log_ratio)

    def _ratio(
        self, name: str, log_ratio: Float[np.ndarray, " points"]
    ) -> Float[np.ndarray, " points"]:
        self._log_ratios.setdefault(name, []).append(log_ratio)
        return np.exp(np.minimum(log_ratio, _LARGEST_LOG_RATIO))

    def result(self) -> Contrast:
        """Averages over datasets with their standard errors."""
        fold = fold_of(self._count)
        return Contrast(
            halves(self._values("lower"), fold).average,
            halves(self._values("upper"), fold),
            halves(self._values("symmetrized"), fold).average,
            average_of_products(self._values("individual"))
            if "individual" in self._terms
            else None,
        )

    def _values(self, name: str) -> Float[np.ndarray, " datasets"]:
        """One number per dataset: the average plus the dataset's influence on it."""
        fold, values = fold_of(self._count), self._of_datasets(name)
        if f"{name} control" not in self._terms:
            return values
        control = self._of_datasets(f"{name} control")
        log_ratio = np.concatenate(self._log_ratios[name])
        return crossed(values, control, fold, log_ratio, fold[np.concatenate(self._owners)])

    def _of_datasets(self, name: str) -> Float[np.ndarray, " datasets"]:
        term = self._terms[name]
        return term.total / self._count + term.influence - term.influence.mean()


# A control variate this large is left out anyway; it only has to stay finite.
_LARGEST_LOG_RATIO = 50.0


# Log of a sum of exponentials per row, and each entry's share of it.
_Normalized = tuple[Float[np.ndarray, " points"], Table]
_Part = tuple[Float[np.ndarray, " points"], Float[np.ndarray, "points part"]]
# Smallest share of the whole mass that a part may have to be divided by it.
_LEAST_MASS = 1e-280


def _normalized(table: Table) -> _Normalized:
    top = table.max(axis=1)
    share = np.exp(table - top[:, None])
    total = share.sum(axis=1)
    share /= total[:, None]
    return top + np.log(total), share


def _of_part(table: Table, whole: _Normalized, part: slice) -> _Part:
    """Normalize a part of the columns, without exponentials where the shares suffice."""
    normal, share = whole
    mass = share[:, part].sum(axis=1)
    if mass.min() < _LEAST_MASS:
        return _normalized(table[:, part])
    return normal + np.log(mass), share[:, part] / mass[:, None]


class _Shares(NamedTuple):
    """Shares of the datasets in a draw's sum of densities; its own dataset is kept apart."""

    normal: Float[np.ndarray, " points"]
    others: Table
    own: Float[np.ndarray, " points"]
    left: Float[np.ndarray, " points"] | float = 1.0  # factor of ``others``

    def weighted(
        self, rows: Float[np.ndarray, " points"], owner: Int[np.ndarray, " points"]
    ) -> Float[np.ndarray, " datasets"]:
        """Sum of the shares over draws, weighted."""
        columns = (rows * self.left) @ self.others
        np.add.at(columns, owner, rows * self.own)
        return columns


class _Term(NamedTuple):
    total: float  # of the rows
    influence: Float[np.ndarray, " datasets"]  # of every dataset, as owner and as comparison


class PlainConsistency:
    """What :class:`gibbs_dp.estimators.ConsistencySums` finds."""

    def __init__(self, num_datasets: int) -> None:
        self._draws = 0
        self._mean = np.zeros(num_datasets)
        self._square = np.zeros(num_datasets)

    def add(self, log_density: Float[np.ndarray, "points datasets"]) -> None:
        """Add a block of draws: their log density (over any one of the draw) per dataset."""
        count = log_density.shape[1]
        ratio = np.exp(log_density - log_density.max(axis=1, keepdims=True))
        ratio *= (count / ratio.sum(axis=1))[:, None]
        self._draws += log_density.shape[0]
        self._mean += ratio.sum(axis=0)
        self._square += np.einsum("pk,pk->k", ratio, ratio)

    def correction(self, se: Float[np.ndarray, " datasets"]) -> Float[np.ndarray, " datasets"]:
        """Return what to add to log normalizers that are each known to a standard error ``se``.

        The two estimates are averaged with weights inverse to their variances.
        """
        mean, square = self._mean / self._draws, self._square / self._draws
        tiny = np.finfo(float).tiny
        mean = np.maximum(mean, tiny)
        variance = np.maximum(square / mean**2 - 1.0, 0.0) / self._draws
        share = se**2 / np.maximum(se**2 + variance, tiny)
        return share * np.log(mean)
