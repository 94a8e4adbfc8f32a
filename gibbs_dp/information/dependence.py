"""Measures of dependence of a finite joint law against the product of its marginals.

Rakhlin, lecture 20 (*Information-theoretic stability*); lautum information: Palomar & Verdú 2008;
max-information: Dwork et al. 2015. A joint law is an array of probabilities; the first axis is the
output ``W``. Logarithms are natural (nats), except max-information, which is in bits as usual.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from gibbs_dp.information import checks
from gibbs_dp.information.divergences import batched
from gibbs_dp.information.divergences.finite import approximate_max_divergence_of_logs

Joint = Float[np.ndarray, "outputs datasets"]
FlatPair = tuple[Float[np.ndarray, " cells"], Float[np.ndarray, " cells"]]


def _joint_and_product(joint: ArrayLike) -> FlatPair:
    """Log of the joint law and of the product of its marginals, both flattened."""
    table = checks.joint_law("joint", joint)
    if table.ndim != 2:
        raise ValueError(f"joint must have axes [W, S], got shape {table.shape}; reshape it.")
    with np.errstate(divide="ignore"):
        log_w = np.log(table.sum(axis=1))
        log_s = np.log(table.sum(axis=0))
        return np.log(table).ravel(), (log_w[:, None] + log_s[None, :]).ravel()


def mutual_information(joint: ArrayLike) -> float:
    """Mutual information ``I(W; S) = KL(P_WS || P_W x P_S)``.

    Parameters
    ----------
    joint
        Joint law ``[W, S]``.

    Returns
    -------
    float
        Nats.

    Raises
    ------
    ValueError
        If ``joint`` is not a law with two axes.

    Examples
    --------
    >>> round(mutual_information([[0.5, 0.0], [0.0, 0.5]]), 6)
    0.693147
    """
    return float(batched.kl(*_joint_and_product(joint)))


def lautum_information(joint: ArrayLike) -> float:
    """Lautum information ``KL(P_W x P_S || P_WS)`` in nats; ``inf`` if some pair is impossible.

    Parameters are those of `mutual_information`.

    Examples
    --------
    >>> round(lautum_information([[0.4, 0.1], [0.1, 0.4]]), 6)
    0.223144
    >>> lautum_information([[0.5, 0.0], [0.0, 0.5]])
    inf
    """
    log_joint, log_product = _joint_and_product(joint)
    return float(batched.kl(log_product, log_joint))


def t_information(joint: ArrayLike) -> float:
    """T-information, the total variation between ``P_WS`` and ``P_W x P_S``, in ``[0, 1]``.

    Parameters are those of `mutual_information`.

    Examples
    --------
    >>> round(t_information([[0.4, 0.1], [0.1, 0.4]]), 6)
    0.3
    """
    return float(batched.total_variation(*_joint_and_product(joint)))


def max_information_bits(joint: ArrayLike) -> float:
    """Max-information ``I_inf(W; S)``, the max divergence, in bits.

    Parameters are those of `mutual_information`.

    Examples
    --------
    >>> round(max_information_bits([[0.4, 0.1], [0.1, 0.4]]), 6)
    0.678072
    """
    return float(batched.max_divergence(*_joint_and_product(joint))) / math.log(2)


def approx_max_information_bits(joint: ArrayLike, beta: float) -> float:
    """Approximate max-information ``I_inf^beta(W; S)`` in bits.

    ``sup_{O: P(O) > beta} log2 (P_WS(O) - beta) / (P_W x P_S)(O)`` over every event ``O`` of the
    pair; may be negative.

    Parameters
    ----------
    joint
        Joint law ``[W, S]``.
    beta
        Mass given away, ``0 <= beta < 1``.

    Returns
    -------
    float
        Bits.

    Examples
    --------
    >>> round(approx_max_information_bits([[0.4, 0.1], [0.1, 0.4]], beta=0.1), 6)
    0.485427
    """
    checks.unit_interval("beta", beta)
    return approximate_max_divergence_of_logs(*_joint_and_product(joint), beta) / math.log(2)


def _conditional(measure: Callable[[Joint], float], joint: ArrayLike) -> float:
    table = checks.joint_law("joint", joint)
    if table.ndim != 3:
        raise ValueError(
            f"joint must have axes [W, S, condition], got shape {table.shape}; reshape it."
        )
    weight = table.sum(axis=(0, 1))
    return float(
        sum(weight[c] * measure(table[:, :, c] / weight[c]) for c in np.flatnonzero(weight))
    )


def conditional_mutual_information(joint: ArrayLike) -> float:
    """Conditional mutual information ``I(W; S | C)``, averaged over ``C``, in nats.

    Parameters
    ----------
    joint
        Joint law ``[W, S, C]``.

    Returns
    -------
    float
        Nats.

    Examples
    --------
    >>> xor = np.zeros((2, 2, 2))
    >>> for s in range(2):
    ...     for c in range(2):
    ...         xor[s ^ c, s, c] = 0.25
    >>> round(conditional_mutual_information(xor), 6)
    0.693147
    """
    return _conditional(mutual_information, joint)


def conditional_t_information(joint: ArrayLike) -> float:
    """Conditional T-information ``T(W; S | C)``, averaged over ``C``.

    Parameters are those of `conditional_mutual_information`.

    Examples
    --------
    >>> round(conditional_t_information(np.full((2, 2, 2), 0.125)), 6)
    0.0
    """
    return _conditional(t_information, joint)


def _example_slices(joint: ArrayLike) -> tuple[Float[np.ndarray, ...], int]:
    table = checks.joint_law("joint", joint)
    if table.ndim < 2:
        raise ValueError(
            f"joint must have axes [W, z_1, ..., z_n], got shape {table.shape}; add the examples."
        )
    return table, table.ndim - 1


def _given_the_rest(measure: Callable[[ArrayLike], float], joint: ArrayLike) -> float:
    table, n = _example_slices(joint)
    total = 0.0
    for i in range(1, n + 1):
        rest = np.moveaxis(table, i, 1).reshape(table.shape[0], table.shape[i], -1)
        total += measure(rest)
    return total


def erasure_mutual_information(joint: ArrayLike) -> float:
    """Erasure mutual information ``I^-(W; S) = sum_i I(W; Z_i | S^{-i})`` in nats.

    Parameters
    ----------
    joint
        Joint law ``[W, z_1, ..., z_n]``, one axis per example.

    Returns
    -------
    float
        Nats.

    Examples
    --------
    >>> parity = np.zeros((2, 2, 2))
    >>> for a in range(2):
    ...     for b in range(2):
    ...         parity[a ^ b, a, b] = 0.25
    >>> round(erasure_mutual_information(parity), 6)  # 2 log 2, while I(W; S) = log 2
    1.386294
    """
    return _given_the_rest(conditional_mutual_information, joint)


def erasure_t_information(joint: ArrayLike) -> float:
    """Erasure T-information ``T^-(W; S) = sum_i T(W; Z_i | S^{-i})``.

    Parameters are those of `erasure_mutual_information`.

    Examples
    --------
    >>> round(erasure_t_information(np.full((2, 2, 2), 0.125)), 6)
    0.0
    """
    return _given_the_rest(conditional_t_information, joint)


def individual_information(joint: ArrayLike) -> Float[np.ndarray, " n"]:
    """Individual-sample information ``I(W; Z_i)`` of every example, in nats (Bu et al. 2020).

    Parameters are those of `erasure_mutual_information`.

    Examples
    --------
    >>> individual_information(np.full((2, 2, 2), 0.125)).round(6)
    array([0., 0.])
    """
    table, n = _example_slices(joint)
    values = []
    for i in range(1, n + 1):
        others = tuple(j for j in range(1, n + 1) if j != i)
        values.append(mutual_information(table.sum(axis=others)))
    return np.array(values)


# Sibson's alpha-mutual information: ``I_alpha = min_Q D_alpha(P_WS || Q x P_S)`` (Sibson 1969;
# Verdú 2015). Order 1 is mutual information, order ``inf`` is maximal leakage; in nats.


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
        return mutual_information(table)
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
