"""Bounds on the generalization error from alpha-mutual, conditional and T-information.

Sibson's information: Esposito, Gastpar & Issa 2021. Supersamples: Steinke & Zakynthinou 2020;
Haghifam et al. 2020 and 2021. Examples are independent, information is in nats.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from gibbs_dp.information import checks
from gibbs_dp.information.bounds.generalization import (
    generalization_from_individual_information,
    generalization_from_mutual_information,
)


def generalization_from_alpha_information(
    alpha_information: float, n: int, *, sigma: float
) -> float:
    """``|gen| <= sqrt(2 sigma^2 I_a(S; W) / n)`` for every order ``a >= 1``.

    Sibson's information grows with its order, so the bound of mutual information, the case
    ``a = 1``, holds with any of them; ``a = inf`` is maximal leakage.

    Parameters
    ----------
    alpha_information
        ``I_a`` of an order of at least 1, in nats.
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
    >>> round(generalization_from_alpha_information(0.5, 100, sigma=0.5), 6)
    0.05
    """
    checks.nonnegative("alpha_information", alpha_information, allow_infinite=True)
    return generalization_from_mutual_information(alpha_information, n, sigma=sigma)


def generalization_tail_from_alpha_information(
    t: float, alpha_information: float, n: int, *, alpha: float, sigma: float
) -> float:
    """Bound the probability of a large gap: ``P(|R(W) - Rhat(W, S)| >= t)``.

    ``2^{(a-1)/a} exp(-((a-1)/a) (n t^2 / (2 sigma^2) - I_a(S; W)))`` (Esposito, Gastpar & Issa
    2021); ``2 exp(leakage - n t^2 / (2 sigma^2))`` at ``a = inf``.

    Parameters
    ----------
    t
        Size of the gap, positive.
    alpha_information
        Sibson's ``I_a``, in nats.
    n
        Number of independent examples.
    alpha
        Its order ``a``, above 1, possibly ``inf``.
    sigma
        ``loss(theta, z)`` is ``sigma^2``-subgaussian in ``z`` for every ``theta``.

    Returns
    -------
    float
        A probability, at most 1.

    Raises
    ------
    ValueError
        If the order is not above 1, or another number is out of range.

    Examples
    --------
    >>> bound = generalization_tail_from_alpha_information(
    ...     0.2, 1.0, 100, alpha=float("inf"), sigma=0.5)
    >>> round(bound, 6)
    0.001824
    """
    checks.positive("t", t)
    checks.nonnegative("alpha_information", alpha_information, allow_infinite=True)
    if not alpha > 1:
        raise ValueError(f"alpha must be above 1, got {alpha}; pass a larger order or inf.")
    exponent = checks.count("n", n) * t**2 / (2 * checks.positive("sigma", sigma) ** 2)
    if math.isinf(alpha_information):
        return 1.0
    share = 1 - 1 / alpha
    return math.exp(min(0.0, share * (math.log(2) - exponent + alpha_information)))


def generalization_from_cmi(
    conditional_mutual_information: float, n: int, *, loss_range: float = 1.0
) -> float:
    """``|gen| <= range sqrt(2 I(W; U | Zt) / n)`` for a bounded loss.

    Steinke & Zakynthinou 2020. The evaluated information, of losses instead of ``W``, serves too.

    Parameters
    ----------
    conditional_mutual_information
        ``CMI``, or evaluated ``CMI``, in nats; at most ``n log 2``.
    n
        Number of examples, half of the supersample.
    loss_range
        The loss lies in an interval of this length; default 1.

    Returns
    -------
    float
        Bound on ``|gen|``.

    Examples
    --------
    >>> generalization_from_cmi(0.5, 100)
    0.1
    """
    checks.nonnegative("conditional_mutual_information", conditional_mutual_information)
    rate = conditional_mutual_information / checks.count("n", n)
    return checks.positive("loss_range", loss_range) * math.sqrt(2 * rate)


def generalization_from_individual_cmi(information: ArrayLike, *, loss_range: float = 1.0) -> float:
    """``|gen| <= (range/n) sum_i sqrt(2 I(W; U_i | Zt))`` for a bounded loss.

    Never larger than `generalization_from_cmi`, as
    ``sum_i I(W; U_i | Zt) <= CMI`` (Haghifam et al. 2020; Rodriguez-Galvez et al. 2021).

    Parameters
    ----------
    information
        ``I(W; U_i | Zt)`` of every example, ``[n]``, in nats.
    loss_range
        The loss lies in an interval of this length; default 1.

    Returns
    -------
    float
        Bound on ``|gen|``.

    Examples
    --------
    >>> generalization_from_individual_cmi([0.5, 0.5])
    1.0
    """
    # The loss of one pair's test example minus that of the other is subgaussian with sigma = range.
    return generalization_from_individual_information(
        information, sigma=checks.positive("loss_range", loss_range)
    )


def generalization_from_jensen_shannon(
    average_jensen_shannon: float, *, loss_range: float = 1.0
) -> float:
    """``|gen| <= range sqrt(2 E JS(p, p'))`` over replace-one pairs, for a bounded loss.

    ``E JS`` is ``I(W; U_i | U_-i, Zt)``, at least ``I(W; U_i | Zt)`` and ``CMI / n``.

    Parameters
    ----------
    average_jensen_shannon
        Mean over ``(Z, z')``, in nats; at most ``log 2``.
    loss_range
        The loss lies in an interval of this length; default 1.

    Returns
    -------
    float
        Bound on ``|gen|``.

    Examples
    --------
    >>> generalization_from_jensen_shannon(0.02)
    0.2
    """
    checks.nonnegative("average_jensen_shannon", average_jensen_shannon)
    return checks.positive("loss_range", loss_range) * math.sqrt(2 * average_jensen_shannon)


def generalization_from_on_average_kl_bounded(
    on_average_kl: float, *, loss_range: float = 1.0
) -> float:
    """``|gen| <= range sqrt(eps_KL / 2)`` of any algorithm, for a bounded loss.

    From `generalization_from_jensen_shannon` and ``E JS <= eps_KL / 4``. Of a Gibbs posterior
    ``gen`` is ``eps_KL / gamma``, which needs no bound.

    Parameters
    ----------
    on_average_kl
        ``eps_KL`` in nats; may be ``inf``.
    loss_range
        The loss lies in an interval of this length; default 1.

    Returns
    -------
    float
        Bound on ``|gen|``.

    Examples
    --------
    >>> generalization_from_on_average_kl_bounded(0.02)
    0.1
    """
    checks.nonnegative("on_average_kl", on_average_kl, allow_infinite=True)
    return checks.positive("loss_range", loss_range) * math.sqrt(on_average_kl / 2)


def interpolating_risk_from_cmi(conditional_mutual_information: float, n: int) -> float:
    """``R <= CMI / (n log 2)`` for a loss in [0, 1] whose training loss is always 0.

    Haghifam et al. 2021.

    Parameters
    ----------
    conditional_mutual_information
        ``I(W; U | Zt)`` in nats.
    n
        Number of examples.

    Returns
    -------
    float
        Bound on the expected risk.

    Examples
    --------
    >>> round(interpolating_risk_from_cmi(0.5, 10), 6)
    0.072135
    """
    checks.nonnegative("conditional_mutual_information", conditional_mutual_information)
    return conditional_mutual_information / (checks.count("n", n) * math.log(2))


def generalization_from_t_information(
    t_information: ArrayLike, *, loss_range: float = 1.0
) -> float:
    """``|gen| <= (range/n) sum_i T(W; Z_i)`` for a bounded loss.

    ``T(W; Z_i)`` is the advantage of membership inference from one output, so no loss betrays
    more than the best attacker sees (Yeom et al. 2018, Thm 2). Never larger than
    `generalization_from_erasure_t_information`.

    Parameters
    ----------
    t_information
        ``T(W; Z_i)`` of every example, ``[n]``, each in ``[0, 1]``.
    loss_range
        The loss lies in an interval of this length; default 1.

    Returns
    -------
    float
        Bound on ``|gen|``.

    Raises
    ------
    ValueError
        If it is no vector of numbers in ``[0, 1]``.

    Examples
    --------
    >>> generalization_from_t_information([0.25, 0.75])
    0.5
    """
    values = np.asarray(t_information, dtype=np.float64)
    if values.ndim != 1 or values.size == 0 or not np.all((values >= 0) & (values <= 1)):
        raise ValueError("t_information must be a vector [n] in [0, 1]; pass T(W; Z_i).")
    return checks.positive("loss_range", loss_range) * float(values.mean())
