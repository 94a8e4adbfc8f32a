"""What swapping one example does to the normalizer of a posterior that is a sum over points."""

from __future__ import annotations

import jax
import numpy as np
from jaxtyping import Array, Float

from gibbs_dp._jaxlib.compile import on_default_backend
from gibbs_dp.model.posterior import GibbsPosterior

# A product of sums that is smaller has lost terms to underflow.
_LEAST = 1e-250
# Pairs summed term by term at once.
_PAIRS = 4096


class SwapSums:
    """``log C(Z_k with its first example replaced by z_m) - log C(Z_k)``, over points in parts.

    The sum over points of ``exp(a_k(t) + b_m(t))``, ``a_k`` the log posterior without the first
    example and ``b_m`` the new one's log likelihood, is a matrix product of exponentials. Where
    all terms underflow, as they do where the two peak far apart, a pair's are summed by themselves.

    Parameters
    ----------
    others, datasets
        Examples to put in, and datasets to put them into.
    """

    def __init__(self, others: int, datasets: int) -> None:
        self._swapped = np.full((others, datasets), -np.inf)
        self._own = np.full(datasets, -np.inf)

    def add(
        self,
        log_weight: Float[np.ndarray, "points datasets"],
        first: Float[np.ndarray, "points datasets"],
        other: Float[np.ndarray, "points others"],
    ) -> None:
        """Add points.

        Parameters
        ----------
        log_weight
            Unnormalized log posterior of every dataset.
        first, other
            Gamma times the loss of the datasets' first examples, and of those to put in.
        """
        self._own = np.logaddexp(self._own, np.logaddexp.reduce(log_weight, axis=0))
        self._swapped = np.logaddexp(self._swapped, _log_product(log_weight + first, -other))

    def result(self) -> Float[np.ndarray, "others datasets"]:
        """Log ratios of the normalizers."""
        return self._swapped - self._own


def _log_product(
    a: Float[np.ndarray, "points datasets"], b: Float[np.ndarray, "points others"]
) -> Float[np.ndarray, "others datasets"]:
    """``log sum_t exp(a_tk + b_tm)``."""
    top_a, top_b = a.max(axis=0), b.max(axis=0)
    sums = np.exp(b - top_b).T @ np.exp(a - top_a)
    lost = np.argwhere(sums < _LEAST)
    with np.errstate(divide="ignore"):
        found = np.log(sums) + top_b[:, None] + top_a
    for start in range(0, len(lost), _PAIRS):
        m, k = lost[start : start + _PAIRS].T
        found[m, k] = np.logaddexp.reduce(a[:, k] + b[:, m], axis=0)
    return np.asarray(found)


def _log_priors(
    posterior: GibbsPosterior, points: Float[Array, "points dim"]
) -> Float[Array, " points"]:
    """Log prior density of theta at points in flat coordinates."""
    return jax.vmap(lambda u: posterior.prior.log_prob(posterior.constrain(u)))(points)


log_priors = on_default_backend(_log_priors, "posterior")
