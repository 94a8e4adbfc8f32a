"""Telling two finite laws apart: the ROC of the likelihood-ratio test, for whole tables at once.

Laws are log-probabilities along the last axis, as in `batched`; ``-inf`` is a probability of zero.
Of all tests the likelihood ratio has the largest true positive rate at every false positive rate
(Neyman & Pearson 1933); between two thresholds it guesses at random, which joins the points.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from gibbs_dp.information.divergences import batched


def log_likelihood_ratio(log_p: batched.LogLaw, log_q: batched.LogLaw) -> batched.LogLaw:
    """``L = log p/q`` of every outcome, in nats; 0 where both vanish.

    Examples
    --------
    >>> log_likelihood_ratio(np.log([0.5, 0.5]), np.log([0.25, 0.75])).round(6)
    array([ 0.693147, -0.405465])
    """
    both_zero = np.isneginf(log_p) & np.isneginf(log_q)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(both_zero, 0.0, log_p - log_q))


def roc(
    log_p: batched.LogLaw, log_q: batched.LogLaw
) -> tuple[Float[np.ndarray, "*batch points"], Float[np.ndarray, "*batch points"]]:
    """Corners of the ROC of the best tests of P, a positive, against Q.

    Parameters
    ----------
    log_p, log_q
        Log-probabilities ``[..., outcomes]``.

    Returns
    -------
    false_positive_rate, true_positive_rate
        Both ``[..., outcomes + 1]``, from 0 to 1; straight lines join the corners.

    Examples
    --------
    >>> fpr, tpr = roc(np.log([0.5, 0.5]), np.log([0.25, 0.75]))
    >>> fpr, tpr
    (array([0.  , 0.25, 1.  ]), array([0. , 0.5, 1. ]))
    """
    order = np.argsort(-log_likelihood_ratio(log_p, log_q), axis=-1, kind="stable")
    rates = []
    for log_law in (log_q, log_p):
        mass = np.take_along_axis(np.exp(log_law), order, axis=-1)
        total = np.cumsum(mass, axis=-1)
        rates.append(np.concatenate([np.zeros_like(mass[..., :1]), total], axis=-1))
    return rates[0], rates[1]


def auc(log_p: batched.LogLaw, log_q: batched.LogLaw) -> batched.Batch:
    """Area under the ROC, ``P(L_p > L_q) + P(L_p = L_q) / 2`` for one draw of each law.

    Parameters
    ----------
    log_p, log_q
        Log-probabilities ``[..., outcomes]``.

    Returns
    -------
    array
        One area for each leading index, ``[...]``, from 1/2 to 1.

    Examples
    --------
    >>> float(auc(np.log([0.5, 0.5]), np.log([0.25, 0.75])))
    0.625
    """
    fpr, tpr = roc(log_p, log_q)
    return np.asarray((np.diff(fpr, axis=-1) * (tpr[..., 1:] + tpr[..., :-1]) / 2).sum(axis=-1))


def true_positive_rate(
    log_p: batched.LogLaw, log_q: batched.LogLaw, false_positive_rate: float
) -> batched.Batch:
    """Largest true positive rate at a false positive rate, of each pair of laws.

    Parameters
    ----------
    log_p, log_q
        Log-probabilities ``[..., outcomes]``.
    false_positive_rate
        In ``[0, 1]``.

    Returns
    -------
    array
        One rate for each leading index, ``[...]``.

    Examples
    --------
    >>> float(true_positive_rate(np.log([0.5, 0.5]), np.log([0.25, 0.75]), 0.1))
    0.2
    """
    fpr, tpr = roc(log_p, log_q)
    last = fpr.shape[-1] - 1
    before = (fpr <= false_positive_rate).sum(axis=-1, keepdims=True) - 1
    after = np.minimum(before + 1, last)

    def at(rates: Float[np.ndarray, ...], index: np.ndarray) -> Float[np.ndarray, ...]:
        return np.asarray(np.take_along_axis(rates, index, axis=-1)[..., 0])

    rise, run = at(tpr, after) - at(tpr, before), at(fpr, after) - at(fpr, before)
    share = (false_positive_rate - at(fpr, before)) / np.where(run > 0, run, 1.0)
    return np.asarray(np.minimum(at(tpr, before) + rise * np.where(run > 0, share, 0.0), 1.0))
