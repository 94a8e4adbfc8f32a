"""Gaussian mean: squared loss, Gaussian or flat prior."""

from __future__ import annotations

import math

from gibbs_dp.exact.closed_form.answer import ClosedForm
from gibbs_dp.information import checks


def gaussian_mean(
    gamma: float,
    n: int,
    dim: int,
    data_variance: float,
    prior_variance: float = math.inf,
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
