"""Mutual information between dataset and draw, from the densities of draws under all posteriors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import logsumexp

from gibbs_dp.estimators.average import Average, control_share

Table = Float[np.ndarray, "points datasets"]


class Contrast(NamedTuple):
    """What M posteriors say about each other's draws; all in nats.

    Attributes
    ----------
    lower
        Contrastive lower bound of the mutual information, at most ``log M``.
    upper
        Leave-one-out upper bound.
    symmetrized
        ``I + lautum``: unbiased.
    individual
        ``I(theta; Z_1)``, where asked for.
    """

    lower: Average
    upper: Average
    symmetrized: Average
    individual: Average | None


class ContrastSums:
    """Accumulates the M x M comparison, a block of draws at a time: memory is one block.

    ``log_density[p, k] = log p(theta_p | Z_k)`` up to a term of ``theta_p`` alone (the prior's
    density cancels), with every dataset's draws equally many. With ``m`` the dataset that draw
    ``p`` came from, per draw

    - contrastive: ``log p_pm - log q_p`` with ``q_p = mean_k p_pk``: a lower bound of the
      information in the mean (van den Oord et al. 2018; Poole et al. 2019, section 2.3);
    - leave-one-out: the same with the mean over ``k != m``: an upper bound (Poole et al. 2019);
    - symmetrized: ``log p_pm - mean_{k != m} log p_pk`` (Lemma 9 of Wang, Lei & Fienberg 2016).

    ``q`` is a normalized density either way, so ``q(theta) / p(theta | Z_m) - 1`` has mean zero
    under ``p(. | Z_m)`` and serves as a control variate: where the information ``I`` is small it
    takes the standard deviation per draw from ``sqrt(2 I)`` to ``sqrt(2) I``. Where it has heavy
    tails it is left out.

    Each number is an average over datasets in two roles, the draw's own and the comparison's, so
    its standard error comes from the influence of every dataset in both: the row's value plus what
    the dataset's column adds to all rows (the infinitesimal jackknife).

    Parameters
    ----------
    num_datasets
        ``M``, at least 2.
    draws_per_dataset
        Draws compared for each dataset.
    """

    def __init__(self, num_datasets: int, draws_per_dataset: int) -> None:
        self._count, self._draws = num_datasets, draws_per_dataset
        self._terms: dict[str, _Term] = {}
        self._log_ratios: dict[str, list[Float[np.ndarray, " points"]]] = {}

    def add(
        self, log_density: Table, owner: Int[np.ndarray, " points"], log_swap: Table | None = None
    ) -> None:
        """Add a block of draws.

        Parameters
        ----------
        log_density
            One row a draw, one column for each of the M datasets.
        owner
            Column of the dataset that each draw came from.
        log_swap
            ``log p(theta_p | Z_k with its first example replaced by that of Z_m) - log p_pk``:
            adds the information about one example.
        """
        rows = np.arange(log_density.shape[0])
        own = log_density[rows, owner]
        others = log_density.copy()
        others[rows, owner] = -np.inf
        self._against(own, log_density, owner, "lower", self._count)
        self._against(own, others, owner, "upper", self._count - 1)
        columns = log_density.copy()
        columns[rows, owner] = 0.0
        columns /= self._count - 1
        self._put("symmetrized", owner, own - columns.sum(axis=1), -columns.sum(axis=0))
        if log_swap is not None:
            self._individual(others, log_swap, owner)

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
        own: Float[np.ndarray, " points"],
        table: Table,
        owner: Int[np.ndarray, " points"],
        name: str,
        size: int,
    ) -> None:
        """Compare a draw's own density with the mean of a table's ``size`` others."""
        normal = logsumexp(table, axis=1)
        weights = np.exp(table - normal[:, None])
        log_ratio = normal - np.log(size) - own
        ratio = self._ratio(name, log_ratio)
        self._put(name, owner, own - normal + np.log(size), -weights.sum(axis=0))
        self._put(f"{name} control", owner, ratio - 1.0, ratio @ weights)

    def _individual(self, table: Table, log_swap: Table, owner: Int[np.ndarray, " points"]) -> None:
        """``log p(theta | z_1) / p(theta)``, both as means over the same other datasets.

        The logarithms are biased by the inverse of how many datasets matter to a draw, which where
        the information is large are few: twice the value minus that of half the datasets is not.
        """
        whole = np.ones(table.shape[1], bool)
        even = np.arange(table.shape[1]) % 2 == 0
        self._swapped(table, log_swap, owner, whole, 2.0)
        for half in (even, ~even):
            self._swapped(table, log_swap, owner, half, -0.5)

    def _swapped(
        self,
        table: Table,
        log_swap: Table,
        owner: Int[np.ndarray, " points"],
        chosen: Bool[np.ndarray, " datasets"],
        factor: float,
    ) -> None:
        table = table[:, chosen]
        swapped = table + log_swap[:, chosen]
        plain, fresh = logsumexp(table, axis=1), logsumexp(swapped, axis=1)
        before, after = np.exp(table - plain[:, None]), np.exp(swapped - fresh[:, None])
        log_ratio = plain - fresh
        ratio = np.exp(np.minimum(log_ratio, _LARGEST_LOG_RATIO))
        columns, control = np.zeros(self._count), np.zeros(self._count)
        columns[chosen] = factor * (after - before).sum(axis=0)
        control[chosen] = factor * (ratio @ (before - after))
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
        return Contrast(
            self._average("lower"),
            self._average("upper"),
            self._average("symmetrized"),
            self._average("individual") if "individual" in self._terms else None,
        )

    def _average(self, name: str) -> Average:
        term = self._terms[name]
        total, influence = term.total, term.influence
        control = self._terms.get(f"{name} control")
        if control is not None:
            log_ratio = np.concatenate(self._log_ratios[name])
            share = control_share(influence, control.influence, log_ratio)
            total, influence = total + share * control.total, influence + share * control.influence
        spread = float(np.std(influence, ddof=1))
        return Average(total / self._count, spread / float(np.sqrt(self._count)), self._count)


# Where a control variate is this large it is left out anyway; it must stay finite.
_LARGEST_LOG_RATIO = 50.0


class _Term(NamedTuple):
    total: float  # of the rows
    influence: Float[np.ndarray, " datasets"]  # of every dataset, as owner and as comparison
