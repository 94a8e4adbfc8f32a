"""Gaussian mean of correlated examples: a Gaussian process, or any second moments."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from gibbs_dp.exact.closed_form.answer import ClosedForm
from gibbs_dp.information import checks


def correlated_mean(
    gamma: float, covariance: ArrayLike, dim: int = 1, prior_variance: float = math.inf
) -> ClosedForm:
    """Solve the Gaussian mean when examples are correlated and the **whole** dataset is replaced.

    ``loss = |theta - z|^2 / 2`` in ``R^d``; coordinates are independent and each has covariance
    ``K`` over the examples, any means. The posterior is ``N(n gamma zbar / P, I / P)`` with
    ``P = n gamma + 1/t^2``, whatever the law, so with ``V = Var(zbar) = sum_ij K_ij / n^2``

    ``E KL(A(Z) || A(Z~)) = d (n gamma)^2 V / P`` and, for Gaussian processes,
    ``I = (d/2) log(1 + (n gamma)^2 V / P)``, ``lautum`` the rest (Lemma 9).

    Parameters
    ----------
    gamma
        Inverse temperature, positive, of the total loss.
    covariance
        ``K``, ``[n, n]``, of the examples of one dataset.
    dim
        ``d``.
    prior_variance
        ``t^2`` of the prior ``N(0, t^2 I)``; ``inf``, the default, is the flat prior.

    Returns
    -------
    ClosedForm
        ``on_average_kl`` with all ``n`` examples replaced (Remark 1), and
        ``generalization_error = E [L(theta, Z~) - L(theta, Z)] / n``, per example; nats.

    Raises
    ------
    ValueError
        If a number is out of range, or the covariance is not symmetric and positive on the mean.

    Examples
    --------
    >>> correlated_mean(0.5, np.eye(10)).on_average_kl  # independent: n eps_KL = n gamma v / n
    0.5
    >>> correlated_mean(0.5, np.ones((10, 10))).on_average_kl  # ten copies of one example
    5.0
    """
    checks.positive("gamma", gamma)
    checks.count("dim", dim)
    table = np.asarray(covariance, dtype=np.float64)
    if table.ndim != 2 or table.size == 0 or not np.allclose(table, table.T, atol=0.0):
        raise ValueError(
            f"covariance must be a symmetric matrix [n, n], got shape {list(table.shape)}."
        )
    if math.isnan(prior_variance) or prior_variance <= 0:
        raise ValueError(f"prior_variance must be positive or inf, got {prior_variance}.")
    n = table.shape[0]
    variance = checks.nonnegative("variance of the mean", float(table.sum()) / n**2)
    signal = (n * gamma) ** 2 * variance / (n * gamma + 1 / prior_variance)
    mutual = 0.5 * dim * math.log1p(signal)
    return ClosedForm(dim * signal, dim * signal / (n * gamma), mutual, dim * signal - mutual)
