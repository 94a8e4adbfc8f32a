"""Sibson's alpha-mutual information and maximal leakage of a finite joint law.

Both say how far one law of the output serves all datasets: ``I_alpha = min_Q D_alpha(P_WS || Q x
P_S)`` (Sibson 1969; Verdú 2015). Order 1 is mutual information, order ``inf`` maximal leakage, and
it grows with the order. Natural logarithms.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from gibbs_dp.information import checks, dependence
from gibbs_dp.information.divergences import batched


def alpha_mutual_information(joint: ArrayLike, alpha: float) -> float:
    """Sibson's ``I_a(S; W) = a/(a - 1) log sum_w (sum_s P(s) P(w|s)^a)^{1/a}``.

    Parameters
    ----------
    joint
        Joint law ``[W, S]``. Values of ``S`` of probability zero do not count.
    alpha
        Order, positive; 1 is mutual information, ``inf`` is `maximal_leakage`.

    Returns
    -------
    float
        Nats.

    Raises
    ------
    ValueError
        If ``joint`` is not a law with two axes, or the order is not positive.

    Examples
    --------
    >>> round(alpha_mutual_information([[0.4, 0.1], [0.1, 0.4]], 2.0), 6)
    0.307485
    """
    table = checks.joint_law("joint", joint)
    if table.ndim != 2:
        raise ValueError(f"joint must have axes [W, S], got shape {table.shape}; reshape it.")
    if alpha == 1:
        return dependence.mutual_information(table)
    weight = table.sum(axis=0)
    seen = weight > 0
    with np.errstate(divide="ignore"):
        laws = np.log((table[:, seen] / weight[seen]).T)
    return alpha_information_of_laws(np.log(weight[seen]), laws, alpha)


def maximal_leakage(joint: ArrayLike) -> float:
    """Maximal leakage ``log sum_w max_s P(w | s)`` (Issa, Wagner & Kamath 2020, Thm 1).

    The largest factor, over every function of ``S`` that someone may want to guess, by which seeing
    ``W`` raises the probability of a right guess.

    Parameters
    ----------
    joint
        Joint law ``[W, S]``; the law of ``S`` matters only by its support.

    Returns
    -------
    float
        Nats.

    Examples
    --------
    >>> round(maximal_leakage([[0.4, 0.1], [0.1, 0.4]]), 6)
    0.470004
    """
    return alpha_mutual_information(joint, math.inf)


def alpha_information_of_laws(
    log_weight: Float[np.ndarray, " datasets"],
    log_laws: Float[np.ndarray, "datasets outputs"],
    alpha: float,
) -> float:
    """`alpha_mutual_information` of output laws given datasets, ``alpha`` other than 1.

    Parameters
    ----------
    log_weight
        Log-probabilities of datasets, ``[datasets]``.
    log_laws
        Log-laws of the output on each, ``[datasets, outputs]``.
    alpha
        Order, positive, other than 1; may be ``inf``.

    Returns
    -------
    float
        Nats.

    Raises
    ------
    ValueError
        If the order is not positive, or is 1.

    Examples
    --------
    >>> laws = np.log([[0.8, 0.2], [0.2, 0.8]])
    >>> round(alpha_information_of_laws(np.log([0.5, 0.5]), laws, 2.0), 6)
    0.307485
    """
    if not alpha > 0 or alpha == 1:
        raise ValueError(f"alpha must be positive and not 1, got {alpha}; pass another order.")
    seen = ~np.isneginf(log_weight)
    weight, laws = log_weight[seen], log_laws[seen]
    if math.isinf(alpha):
        return max(0.0, float(logsumexp(laws.max(axis=0))))
    # Q(w) ∝ (sum_s P(s) P(w|s)^a)^{1/a}, and the integral is that of D_a against the best Q.
    with np.errstate(divide="ignore"):
        tilted = logsumexp(weight[:, None] + alpha * laws, axis=0) / alpha
    best = tilted - logsumexp(tilted)
    # As a divergence from the best law: small values keep their digits.
    joint = (weight[:, None] + laws).ravel()
    product = (weight[:, None] + best).ravel()
    return float(batched.renyi(joint, product, alpha))
