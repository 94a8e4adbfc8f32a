"""Beta-Bernoulli with log loss: tempered Bayes for a coin."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import betaln, digamma, log_expit

from gibbs_dp.exact import laws
from gibbs_dp.exact.closed_form.answer import ClosedForm
from gibbs_dp.exact.types import require_cells
from gibbs_dp.information import checks


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
