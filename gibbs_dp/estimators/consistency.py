"""Normalizers made consistent with each other's draws."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from gibbs_dp.estimators.table_layout import Layout
from gibbs_dp.estimators.table_sums import Table, consistency_sums

# Of means of ratios that are smaller, what they lack of one says too little.
_SMALL = 0.5


class ConsistencySums:
    """How far each of M posterior densities is from integrating to one, judged by all draws.

    Draws from all M posteriors, equally many of each, are draws of their mixture ``q``, and
    ``E_q[p_k / q] = 1`` for every normalized ``p_k``. Where the mean over draws is not 1, the
    log normalizer of ``Z_k`` is off by its logarithm: one step of the self-consistent equations of
    Shirts & Chodera (2008, equation 11). Where the information is small every draw informs every
    normalizer, with far less noise than bridging each on its own; noise of standard
    deviation ``s`` would bias a small mutual information by up to ``s^2 / 2``.

    Parameters
    ----------
    layout
        Columns of the tables.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout, self._draws = layout, 0
        self._sums = np.zeros((4, layout.position.size))

    def add(self, table: Table) -> None:
        """Add a block of draws: their log density (over any one of the draw) per dataset."""
        self._draws += int(np.sum(table.is_draw))
        found = np.asarray(consistency_sums(table)).astype(np.float64).sum(axis=0)
        self._sums += found[:, self._layout.position]

    def correction(self, se: Float[np.ndarray, " datasets"]) -> Float[np.ndarray, " datasets"]:
        """Return what to add to log normalizers that are each known to a standard error ``se``.

        The two estimates are averaged with weights inverse to their variances.
        """
        off, off_square, mean, square = self._sums / self._draws
        tiny = np.finfo(float).tiny
        mean = np.maximum(mean, tiny)
        is_small = mean < _SMALL
        log_mean = np.where(is_small, np.log(mean), np.log1p(np.maximum(off, -_SMALL)))
        spread = np.where(is_small, square - mean**2, off_square - off**2)
        variance = np.maximum(spread / np.exp(2 * log_mean), 0.0) / self._draws
        share = se**2 / np.maximum(se**2 + variance, tiny)
        return np.asarray(share * log_mean)
