"""Closed forms of the four numbers: the Gaussian mean, and the private mean's on-average KL."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import erf, ndtr

from gibbs_dp.information import checks


class ClosedForm(NamedTuple):
    """On-average KL (replace-one), generalization error, mutual and lautum information.

    Informations are in nats; the generalization error is per example, ``R - Rhat``, unless the
    function says otherwise.
    """

    on_average_kl: float
    generalization_error: float
    mutual_information: float
    lautum_information: float


def gaussian_mean(
    gamma: float, n: int, dim: int, data_variance: float, prior_variance: float = math.inf
) -> ClosedForm:
    """Solve the Gaussian mean, ``loss = |theta - z|^2 / 2`` in ``R^d``.

    Coordinates of ``z`` are independent with variance ``v``; the prior is ``N(0, t^2 I)`` or flat.
    With ``P = n gamma + 1/t^2`` the posterior is ``N(n gamma zbar / P, I / P)``,
    ``eps_KL = d gamma^2 v / P`` and ``gen = d gamma v / P`` for any law of ``z``; if it is
    Gaussian, ``I = (d/2) log(1 + n gamma^2 v / P)`` and ``lautum = n eps_KL - I`` (Lemma 9).

    Parameters
    ----------
    gamma
        Inverse temperature, positive, of the total loss.
    n, dim
        Dataset size and dimension ``d``.
    data_variance
        ``v``, of every coordinate.
    prior_variance
        ``t^2``; ``inf``, the default, is the flat prior.

    Returns
    -------
    ClosedForm
        Nats; informations are for Gaussian ``z``.

    Examples
    --------
    >>> gaussian_mean(gamma=0.5, n=10, dim=2, data_variance=1.0).on_average_kl
    0.1
    """
    checks.positive("gamma", gamma)
    checks.count("n", n)
    checks.count("dim", dim)
    checks.positive("data_variance", data_variance)
    if math.isnan(prior_variance) or prior_variance <= 0:
        raise ValueError(f"prior_variance must be positive or inf, got {prior_variance}.")
    precision = n * gamma + 1 / prior_variance
    on_average_kl = dim * gamma**2 * data_variance / precision
    signal = n * gamma**2 * data_variance / precision
    mutual = 0.5 * dim * math.log1p(signal)
    return ClosedForm(on_average_kl, on_average_kl / gamma, mutual, dim * signal - mutual)


def private_mean_on_average_kl(gamma: float, n: int, bound: float = 2.0) -> float:
    """On-average KL of the private mean, Figure 2a of Wang, Lei & Fienberg (2016), in nats.

    ``z_i ~ N(0, 1)`` truncated to ``[-bound, bound]``: ``E[D + e^-D - 1]`` with
    ``D = gamma |z - z'| / n``, over the density ``sqrt(2) phi(u/sqrt 2) erf(bound - u/2) / Z^2`` of
    ``u = |z - z'|``.

    Parameters
    ----------
    gamma
        Inverse temperature of ``|zbar - theta|``.
    n
        Dataset size.
    bound
        Where examples are truncated.

    Returns
    -------
    float
        Nats.

    Examples
    --------
    >>> round(private_mean_on_average_kl(10.0, 100), 8)
    0.00727199
    """
    checks.positive("gamma", gamma)
    checks.positive("bound", bound)
    rate = gamma / checks.count("n", n)
    nodes, weights = np.polynomial.legendre.leggauss(64)
    # Panels shorter than 1 / rate near 0, where e^{-rate u} lives.
    edges = np.unique(
        np.concatenate(
            [np.linspace(0, 2 * bound, 9), np.minimum(np.arange(1, 9) / rate, 2 * bound)]
        )
    )
    half = np.diff(edges)[:, None] / 2
    u = edges[:-1, None] + half * (1 + nodes)
    mass = float(ndtr(bound) - ndtr(-bound))
    density = np.exp(-(u**2) / 4) / math.sqrt(math.pi) * erf(bound - u / 2) / mass**2
    d = rate * u
    # Below 1e-2 the series keeps the digits that expm1 would lose.
    series = d**2 * (1 / 2 - d * (1 / 6 - d * (1 / 24 - d * (1 / 120 - d / 720))))
    kl = np.where(d < 1e-2, series, d + np.expm1(-d))
    return float((kl * density * weights * half).sum())
