"""Divergences of laws given by log-probabilities, along the last axis, for whole tables at once.

``-inf`` is a probability of zero. Sums are arranged so that a divergence of 1e-12 keeps its
digits: ``KL = sum p (q/p - 1 - log q/p)`` has nonnegative terms, where ``sum p log p/q`` cancels.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float

LogLaw = Float[np.ndarray, "*batch outcomes"]
Batch = Float[np.ndarray, "*batch"]
# A divergence along the last axis, such as `kl`.
Divergence = Callable[
    [Float[np.ndarray, "*batch outcomes"], Float[np.ndarray, "*batch outcomes"]],
    Float[np.ndarray, "*batch"],
]


def log_likelihood_ratio(
    log_p: Float[np.ndarray, ...], log_q: Float[np.ndarray, ...]
) -> Float[np.ndarray, ...]:
    """``L = log p/q`` of every outcome, in nats; 0 where both vanish."""
    both_zero = np.isneginf(log_p) & np.isneginf(log_q)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(both_zero, 0.0, log_p - log_q))


def _bregman(d: Float[np.ndarray, ...]) -> Float[np.ndarray, ...]:
    """``e^d - 1 - d`` for ``|d| <= 1/2``, by its series: no cancellation near 0."""
    total = np.zeros_like(d)
    for power in range(16, 1, -1):
        total = (total + 1.0) * d / power
    return np.asarray(total * d)  # Horner: d^2/2! + d^3/3! + ...


def _log_sum(a: Float[np.ndarray, ...]) -> Float[np.ndarray, ...]:
    """``log sum exp`` along the last axis, as SciPy's but without its overhead on small arrays."""
    high = a.max(axis=-1, keepdims=True)
    largest = a == high
    with np.errstate(divide="ignore", invalid="ignore"):
        rest = np.where(largest, 0.0, np.exp(a - high)).sum(axis=-1)
        count = largest.sum(axis=-1)
        return np.asarray(np.log1p(rest / count) + np.log(count) + high[..., 0])


def kl(log_p: LogLaw, log_q: LogLaw) -> Batch:
    """Kullback-Leibler divergence ``E_P log dP/dQ`` in nats; ``inf`` where Q misses P."""
    d = -log_likelihood_ratio(log_p, log_q)
    p, q = np.exp(log_p), np.exp(log_q)
    small = np.abs(d) <= 0.5
    near = p * _bregman(np.where(small, d, 0.0))
    with np.errstate(invalid="ignore"):
        far = q - p - np.where(p > 0, p * d, 0.0)
    terms: Float[np.ndarray, ...] = np.where(small, near, far)
    return np.asarray(terms.sum(axis=-1))


def total_variation(log_p: LogLaw, log_q: LogLaw) -> Batch:
    """Total variation ``sup_A |P(A) - Q(A)|``."""
    high = np.maximum(log_p, log_q)
    gap = -np.expm1(-np.abs(log_likelihood_ratio(log_p, log_q)))
    return np.asarray(0.5 * (np.exp(high) * gap).sum(axis=-1))


def renyi(log_p: LogLaw, log_q: LogLaw, alpha: float) -> Batch:
    """Rényi divergence ``log E_Q[(dP/dQ)^alpha] / (alpha - 1)`` in nats."""
    if alpha == 1:
        return kl(log_p, log_q)
    if np.isinf(alpha):
        return max_divergence(log_p, log_q)
    in_p: Bool[np.ndarray, ...] = ~np.isneginf(log_p)
    ratio = log_likelihood_ratio(log_p, log_q)
    with np.errstate(invalid="ignore"):
        # 0^alpha = 0, and for alpha = 0 the outcomes outside P do not count either.
        exponent = np.where(in_p, np.where(np.isposinf(ratio), 0.0, log_q + alpha * ratio), -np.inf)
    escaped = np.isposinf(ratio)  # P > 0 = Q
    exponent = np.where(escaped, np.inf if alpha > 1 else -np.inf, exponent)
    value = _log_sum(exponent) / (alpha - 1)
    return np.asarray(np.where(escaped.any(axis=-1) & (alpha > 1), np.inf, value))


def max_divergence(log_p: LogLaw, log_q: LogLaw) -> Batch:
    """Max divergence ``sup log dP/dQ`` over outcomes of positive P, in nats."""
    ratio = np.where(np.isneginf(log_p), -np.inf, log_likelihood_ratio(log_p, log_q))
    return np.asarray(ratio.max(axis=-1))


def hockey_stick(log_p: LogLaw, log_q: LogLaw, g: float) -> Batch:
    """Hockey-stick divergence ``E_g = sup_A P(A) - g Q(A)`` for ``g > 0``."""
    gap = log_likelihood_ratio(log_p, log_q) - np.log(g)
    excess = np.exp(log_p) * -np.expm1(-np.maximum(gap, 0.0))
    return np.asarray(excess.sum(axis=-1))


def jensen_shannon(log_p: LogLaw, log_q: LogLaw) -> Batch:
    """Jensen-Shannon divergence, the mean KL of P and of Q to ``(P + Q)/2``, in nats.

    It is the information that one draw gives on which of two equally likely laws it came from, at
    most ``log 2`` (Lin 1991).
    """
    middle = np.logaddexp(log_p, log_q) - np.log(2)
    return np.asarray(0.5 * (kl(log_p, middle) + kl(log_q, middle)))


# Telling two finite laws apart: the ROC of the likelihood-ratio test, for whole tables at once.
#
# Laws are log-probabilities along the last axis, ``-inf`` is a probability of zero.
# Of all tests the likelihood ratio has the largest true positive rate at every false positive rate
# (Neyman & Pearson 1933); between two thresholds it guesses at random, which joins the points.


def roc(
    log_p: LogLaw, log_q: LogLaw
) -> tuple[Float[np.ndarray, "*batch points"], Float[np.ndarray, "*batch points"]]:
    """Corners of the ROC of the best tests of P, a positive, against Q."""
    order = np.argsort(-log_likelihood_ratio(log_p, log_q), axis=-1, kind="stable")
    rates = []
    for log_law in (log_q, log_p):
        mass = np.take_along_axis(np.exp(log_law), order, axis=-1)
        total = np.cumsum(mass, axis=-1)
        rates.append(np.concatenate([np.zeros_like(mass[..., :1]), total], axis=-1))
    return rates[0], rates[1]


def auc(log_p: LogLaw, log_q: LogLaw) -> Batch:
    """Area under the ROC, ``P(L_p > L_q) + P(L_p = L_q) / 2`` for one draw of each law."""
    fpr, tpr = roc(log_p, log_q)
    return np.asarray((np.diff(fpr, axis=-1) * (tpr[..., 1:] + tpr[..., :-1]) / 2).sum(axis=-1))


def true_positive_rate(log_p: LogLaw, log_q: LogLaw, false_positive_rate: float) -> Batch:
    """Largest true positive rate at a false positive rate, of each pair of laws."""
    fpr, tpr = roc(log_p, log_q)
    last = fpr.shape[-1] - 1
    before = (fpr <= false_positive_rate).sum(axis=-1, keepdims=True) - 1
    after = np.minimum(before + 1, last)

    def at(rates: Float[np.ndarray, ...], index: np.ndarray) -> Float[np.ndarray, ...]:
        return np.asarray(np.take_along_axis(rates, index, axis=-1)[..., 0])

    rise, run = at(tpr, after) - at(tpr, before), at(fpr, after) - at(fpr, before)
    share = (false_positive_rate - at(fpr, before)) / np.where(run > 0, run, 1.0)
    return np.asarray(np.minimum(at(tpr, before) + rise * np.where(run > 0, share, 0.0), 1.0))
