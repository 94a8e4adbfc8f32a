"""Bounds on the on-average generalization error, from information measures and from stability.

Russo & Zou 2016; Xu & Raginsky 2017; Bu, Zou & Veeravalli 2020; Raginsky et al. 2016 and Rakhlin,
lecture 20. Examples are independent, adjacency is replace-one, and information is in nats.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from gibbs_dp.information import checks


def generalization_from_mutual_information(
    mutual_information: float, n: int, *, sigma: float
) -> float:
    """``|gen| <= sqrt(2 sigma^2 I(W; S) / n)`` (Russo & Zou 2016; Xu & Raginsky 2017, Thm 1).

    Parameters
    ----------
    mutual_information
        ``I(W; S)``, or any upper bound on it, such as ``I^-``, in nats.
    n
        Number of independent examples.
    sigma
        ``loss(theta, z)`` is ``sigma^2``-subgaussian in ``z`` for every ``theta``.

    Returns
    -------
    float
        Bound on ``|gen|``.

    Examples
    --------
    >>> round(generalization_from_mutual_information(0.5, 100, sigma=0.5), 6)
    0.05
    """
    checks.nonnegative("mutual_information", mutual_information, allow_infinite=True)
    return checks.positive("sigma", sigma) * math.sqrt(
        2 * mutual_information / checks.count("n", n)
    )


def generalization_from_individual_information(information: ArrayLike, *, sigma: float) -> float:
    """``|gen| <= (1/n) sum_i sqrt(2 sigma^2 I(W; Z_i))`` (Bu, Zou & Veeravalli 2020).

    Never larger than `generalization_from_mutual_information`, by concavity and
    ``sum_i I(W; Z_i) <= I(W; S)``.

    Parameters
    ----------
    information
        ``I(W; Z_i)`` of every example, ``[n]``, in nats.
    sigma
        Subgaussian parameter of the loss, for every ``theta``.

    Returns
    -------
    float
        Bound on ``|gen|``.

    Examples
    --------
    >>> generalization_from_individual_information([0.5, 0.5], sigma=0.5)
    0.5
    """
    values = np.asarray(information, dtype=np.float64)
    if values.ndim != 1 or values.size == 0 or np.any(np.isnan(values)) or np.any(values < 0):
        raise ValueError("information must be a vector [n] of numbers >= 0; pass I(W; Z_i).")
    return checks.positive("sigma", sigma) * float(np.sqrt(2 * values).mean())


def generalization_subexponential(
    mutual_information: float, n: int, *, sigma: float, b: float
) -> float:
    """Subexponential losses: ``gen <= b I / n + sigma^2 / (2 b)`` (Russo & Zou 2016, Prop. 3).

    When ``2 I / (n sigma^2) <= 1 / b^2`` the subgaussian form still holds and is returned: it is
    the smaller one, the minimum of ``I/(n s) + sigma^2 s/2`` over ``0 < s <= 1/b``.

    Parameters
    ----------
    mutual_information, n
        ``I(W; S)`` in nats, and the number of independent examples.
    sigma, b
        ``log E exp(s (loss - R)) <= s^2 sigma^2 / 2`` for ``|s| < 1/b`` and every ``theta``.

    Returns
    -------
    float
        Bound on ``gen``.

    Examples
    --------
    >>> generalization_subexponential(8.0, 1, sigma=1.0, b=1.0)
    8.5
    """
    checks.nonnegative("mutual_information", mutual_information)
    checks.positive("sigma", sigma)
    checks.positive("b", b)
    rate = mutual_information / checks.count("n", n)
    if 2 * rate / sigma**2 <= 1 / b**2:
        return sigma * math.sqrt(2 * rate)
    return b * rate + sigma**2 / (2 * b)


def generalization_from_erasure_t_information(
    erasure_t_information: float, n: int, *, loss_range: float = 1.0
) -> float:
    """``|gen| <= range * T^-(W; S) / n`` for a bounded loss (Rakhlin, lecture 20).

    Parameters
    ----------
    erasure_t_information
        ``T^-(W; S) = sum_i T(W; Z_i | S^{-i})``.
    n
        Number of independent examples.
    loss_range
        Length of an interval that holds the loss.

    Returns
    -------
    float
        Bound on ``|gen|``.

    Examples
    --------
    >>> generalization_from_erasure_t_information(0.5, n=10)
    0.05
    """
    checks.nonnegative("erasure_t_information", erasure_t_information)
    return checks.positive("loss_range", loss_range) * erasure_t_information / checks.count("n", n)


def generalization_from_dp(epsilon: float, delta: float = 0.0, *, loss_range: float = 1.0) -> float:
    """``(epsilon, delta)``-DP, replace-one: ``|gen| <= range * (e^epsilon - 1 + delta)``.

    Parameters
    ----------
    epsilon, delta
        Privacy of the algorithm, replace-one.
    loss_range
        Length of an interval that holds the loss.

    Returns
    -------
    float
        Bound on ``|gen|``.

    Examples
    --------
    >>> round(generalization_from_dp(0.1), 6)
    0.105171
    """
    checks.nonnegative("epsilon", epsilon)
    checks.unit_interval("delta", delta)
    return checks.positive("loss_range", loss_range) * (checks.expm1(epsilon) + delta)


def erasure_information_from_uniform_kl_stability(n: int, kl: float) -> float:
    """``KL(P_s || P_s') <= kl`` over replace-one neighbours gives ``I^- <= n kl``, in nats.

    Examples
    --------
    >>> erasure_information_from_uniform_kl_stability(10, 0.5)
    5.0
    """
    checks.nonnegative("kl", kl, allow_infinite=True)
    return checks.count("n", n) * kl


def erasure_information_from_average_kl_stability(n: int, kl: float) -> float:
    """``E (1/n) sum_i KL(P_s || P_{s^-i}) <= kl`` gives ``I^- <= n kl``, in nats.

    ``P_{s^-i}`` is the algorithm run on the ``n - 1`` other examples. Any law that does not see
    ``z_i`` would do: the average over ``z_i`` is the best of them.

    Examples
    --------
    >>> erasure_information_from_average_kl_stability(10, 0.5)
    5.0
    """
    checks.nonnegative("kl", kl, allow_infinite=True)
    return checks.count("n", n) * kl


def erasure_information_from_on_average_kl(n: int, on_average_kl: float) -> float:
    """``I^- <= n eps_KL`` for any algorithm on independent examples, in nats.

    Examples
    --------
    >>> erasure_information_from_on_average_kl(10, 0.5)
    5.0
    """
    checks.nonnegative("on_average_kl", on_average_kl, allow_infinite=True)
    return checks.count("n", n) * on_average_kl


def erasure_t_information_from_tv_stability(n: int, total_variation: float) -> float:
    """``TV(P_s, P_s') <= tv`` over replace-one neighbours gives ``T^- <= n tv``.

    Examples
    --------
    >>> erasure_t_information_from_tv_stability(10, 0.25)
    2.5
    """
    return checks.count("n", n) * checks.nonnegative("total_variation", total_variation)


def selection_bias(mutual_information: float, *, sigma: float) -> float:
    """Bias of a selected statistic: ``|E phi_W(S) - E mu_W| <= sqrt(2 sigma^2 I(W; Phi))``.

    Russo & Zou 2016; ``I(W; Phi) <= I(W; S)``.

    Parameters
    ----------
    mutual_information
        ``I(W; Phi)`` between the selection and the statistics, or ``I(W; S)``, in nats.
    sigma
        Every ``phi_j(S)`` is ``sigma^2``-subgaussian.

    Returns
    -------
    float
        Bound on the bias.

    Examples
    --------
    >>> selection_bias(0.5, sigma=1.0)
    1.0
    """
    checks.nonnegative("mutual_information", mutual_information, allow_infinite=True)
    return checks.positive("sigma", sigma) * math.sqrt(2 * mutual_information)
