"""Closed forms of means: Gaussian, Bernoulli, and Gaussian with correlated examples."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaln, digamma, log_expit

from gibbs_dp.exact import laws
from gibbs_dp.exact.types import require_cells
from gibbs_dp.information import checks

# The four numbers that a closed form answers with.


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


# Beta-Bernoulli with log loss: tempered Bayes for a coin.


def beta_kl(a: float, b: float, other_a: float, other_b: float) -> float:
    """KL divergence of ``Beta(a, b)`` to ``Beta(a', b')`` in nats.

    Examples
    --------
    >>> round(beta_kl(2.0, 1.0, 1.0, 1.0), 6)  # log 2 - 1/2
    0.193147
    """
    for name, value in (("a", a), ("b", b), ("other_a", other_a), ("other_b", other_b)):
        checks.positive(name, value)
    total = (other_a - a) + (other_b - b)
    return float(
        betaln(other_a, other_b)
        - betaln(a, b)
        + (a - other_a) * digamma(a)
        + (b - other_b) * digamma(b)
        + total * digamma(a + b)
    )


def beta_bernoulli(
    gamma: float, n: int, probability: float, prior_a: float = 1.0, prior_b: float = 1.0
) -> ClosedForm:
    """Coin of the given probability, log loss, ``Beta(a, b)`` prior.

    With ``k`` heads the posterior is ``Beta(a + gamma k, b + gamma (n - k))``. On-average KL and
    ``gen`` are finite sums of digammas; the informations integrate the mixture over ``k`` by the
    trapezoidal rule in ``logit theta``, which converges exponentially.

    Parameters
    ----------
    gamma
        Inverse temperature; 1 is Bayes.
    n
        Number of tosses.
    probability
        Of heads, in ``(0, 1)``.
    prior_a, prior_b
        Of the prior, positive.

    Returns
    -------
    ClosedForm
        Exact up to quadrature.

    Raises
    ------
    ValueError
        If a number is out of range, or the mixture would need too many nodes.

    Examples
    --------
    >>> answer = beta_bernoulli(gamma=1.0, n=10, probability=0.3)
    >>> total = answer.mutual_information + answer.lautum_information
    >>> round(total / (10 * answer.on_average_kl), 9)  # Lemma 9
    1.0
    """
    from scipy.stats import binom  # slow to import

    checks.positive("gamma", gamma)
    checks.count("n", n)
    checks.unit_interval("probability", probability, open_left=True)
    checks.positive("prior_a", prior_a)
    checks.positive("prior_b", prior_b)
    heads = np.arange(n + 1)
    a, b = prior_a + gamma * heads, prior_b + gamma * (n - heads)
    logit_mean = digamma(a) - digamma(b)
    # Swapping one toss among n - 1 others: KL both ways is gamma times the change of E logit.
    others = binom.pmf(np.arange(n), n - 1, probability)
    both_ways = gamma * float(others @ np.diff(logit_mean))
    on_average_kl = probability * (1 - probability) * both_ways
    mass = binom.pmf(heads, n, probability)
    gen = float(mass @ ((heads / n - probability) * logit_mean))
    # Tails in x = logit theta fall like e^{a x} and e^{-b x}; the bulk is 1/sqrt(a + b) wide.
    low, high = -45 / float(a.min()), 45 / float(b.min())
    step = 0.2 / math.sqrt(prior_a + prior_b + gamma * n + 16)
    num_nodes = int((high - low) / step) + 1
    require_cells("posteriors x nodes", num_nodes * (n + 1))
    x = low + step * np.arange(num_nodes)
    log_law = a[:, None] * log_expit(x) + b[:, None] * log_expit(-x)
    log_law += math.log(step) - betaln(a, b)[:, None]
    with np.errstate(divide="ignore"):
        weight = binom.logpmf(heads, n, probability)
    return ClosedForm(
        on_average_kl,
        gen,
        laws.mutual_information(weight, log_law),
        laws.lautum_information(weight, log_law),
    )


# Gaussian mean of correlated examples: a Gaussian process, or any second moments.


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
