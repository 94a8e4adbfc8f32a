"""Rényi divergence within an exponential family, from its log-partition function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from gibbs_dp.information import checks

# Natural parameters, the last axis one for each statistic, to log-partitions.
LogPartition = Callable[[Float[np.ndarray, "*pairs k"]], Any]


def exponential_family_renyi(
    log_partition: LogPartition, eta: ArrayLike, other: ArrayLike, alpha: float
) -> Float[np.ndarray, "*pairs"]:
    """``[A(alpha eta + (1-alpha) eta') - alpha A(eta) - (1-alpha) A(eta')] / (alpha - 1)``, nats.

    Exact for densities ``h(x) exp(eta . T(x) - A(eta))``; infinite where the mixed parameter has no
    law (Geumlek, Song & Chaudhuri 2017).

    Parameters
    ----------
    log_partition
        ``A``, from parameters ``[..., k]`` to numbers ``[...]``; infinite off its domain.
    eta, other
        Natural parameters of the first and the second law, ``[..., k]``.
    alpha
        Order, positive and not 1.

    Returns
    -------
    Array
        A number a pair.

    Raises
    ------
    ValueError
        If the shapes differ, the order is out of range, or a law itself has no log-partition.

    Examples
    --------
    >>> from scipy.special import betaln
    >>> def beta(eta):
    ...     a, b = np.moveaxis(eta, -1, 0)
    ...     return np.where((a > 0) & (b > 0), betaln(np.abs(a), np.abs(b)), np.inf)
    >>> float(exponential_family_renyi(beta, [3.0, 4.0], [4.0, 3.0], 2.0).round(9))     # log 2
    0.693147181
    """
    checks.positive("alpha", alpha)
    if alpha == 1:
        raise ValueError(
            "alpha: order 1 is KL, which is no difference of log-partitions; use 1.01."
        )
    first, second = (np.asarray(value, dtype=np.float64) for value in (eta, other))
    if first.shape != second.shape or first.ndim == 0:
        raise ValueError(
            f"eta and other must have one shape [..., k], got {list(first.shape)} and "
            f"{list(second.shape)}; give a parameter for each statistic."
        )
    own = [np.asarray(log_partition(value), dtype=np.float64) for value in (first, second)]
    if not all(np.isfinite(value).all() for value in own):
        raise ValueError("eta: a law outside the family's domain has no log-partition; move it in.")
    mixed = np.asarray(log_partition(alpha * first + (1 - alpha) * second), dtype=np.float64)
    found = (mixed - alpha * own[0] - (1 - alpha) * own[1]) / (alpha - 1)
    return np.asarray(np.maximum(found, 0.0))  # below by rounding only
