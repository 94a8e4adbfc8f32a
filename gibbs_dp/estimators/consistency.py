"""Normalizers made consistent with each other's draws."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float


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
    num_datasets
        ``M``.
    """

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
