"""Bounds on the generalization error from information, and on what a Gibbs posterior tells.

Examples are independent, adjacency is replace-one, and information is in nats.

PAC-Bayes bounds (Catoni 2007; Maurer 2004) are on the risk of one Gibbs posterior, from its
normalizer or its KL to the prior. Losses lie in a declared range, and the prior, gamma and the
range do not depend on the data. Each holds with probability ``1 - delta`` over the data. The linear
form of the first (Alquier 2024) and the square root of the second (McAllester 2003) are never below
them.
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

    ``n = 1`` is the bias of a selected statistic (Russo & Zou 2016).

    Parameters
    ----------
    mutual_information
        ``I(W; S)``, or any upper bound on it, such as ``I^-``, ``n eps_KL``, or Sibson's
        information of an order from 1, in nats.
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


def generalization_from_t_information(
    t_information: ArrayLike, *, loss_range: float = 1.0
) -> float:
    """``|gen| <= (range/n) sum_i T(W; Z_i)`` for a bounded loss.

    ``T(W; Z_i)`` is the advantage of membership inference from one output, so no loss betrays
    more than the best attacker sees (Yeom et al. 2018, Thm 2).

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


def gibbs_mutual_information(
    n: int, gamma: float, *, sigma: float, b: float | None = None
) -> float:
    """Both sides of Corollary 10 together: ``I <= 2 n gamma^2 sigma^2``.

    For subexponential losses this holds up to ``gamma = 1 / (2 b)``. Beyond, ``I / (n gamma) <= gen
    <= b I / n + sigma^2 / (2 b)`` gives ``n gamma sigma^2 / (2 b (1 - gamma b))``, and nothing from
    ``gamma = 1 / b`` on.

    Parameters
    ----------
    n, gamma
        Dataset size and inverse temperature.
    sigma
        ``loss(theta, z)`` is ``sigma^2``-subgaussian in ``z`` for every ``theta``.
    b
        The loss is only subexponential: ``log E exp(s (loss - R)) <= s^2 sigma^2 / 2`` for ``|s| <
        1/b``. None: for every ``s``.

    Returns
    -------
    float
        Bound on the mutual information, nats.

    Examples
    --------
    >>> gibbs_mutual_information(10, gamma=0.5, sigma=0.5)
    1.25
    >>> [gibbs_mutual_information(10, gamma=0.5, sigma=0.5, b=b) for b in (1.0, 1.5, 2.0)]
    [1.25, 1.6666666666666667, inf]
    """
    checks.count("n", n)
    root = checks.positive("gamma", gamma) * checks.positive("sigma", sigma)
    if b is None or 2 * gamma * checks.positive("b", b) <= 1:
        return 2 * n * root**2
    if gamma * b >= 1:
        return math.inf
    return n * root * sigma / (2 * b * (1 - gamma * b))


def gibbs_generalization_subgaussian(gamma: float, *, sigma: float) -> float:
    """Both sides of Corollary 10 together: ``gen <= 2 gamma sigma^2``.

    Parameters are those of `gibbs_mutual_information`.

    Examples
    --------
    >>> gibbs_generalization_subgaussian(0.5, sigma=0.5)
    0.25
    """
    return 2 * checks.positive("gamma", gamma) * checks.positive("sigma", sigma) ** 2


def generalization_lower_from_mutual_information(
    mutual_information: float, n: int, gamma: float
) -> float:
    """Corollary 10, left side: ``gen >= I / (n gamma)`` for a Gibbs posterior with a sum loss.

    ``gen = (I + lautum) / (n gamma)`` exactly (also Aminian et al. 2021).

    Examples
    --------
    >>> generalization_lower_from_mutual_information(0.5, n=10, gamma=1.0)
    0.05
    """
    checks.nonnegative("mutual_information", mutual_information)
    return mutual_information / (checks.count("n", n) * checks.positive("gamma", gamma))


def subgaussian_parameter(lower: float, upper: float) -> float:
    """Hoeffding's lemma: a loss in ``[lower, upper]`` is subgaussian, ``sigma`` half the length.

    Examples
    --------
    >>> subgaussian_parameter(0.0, 1.0)
    0.5
    """
    if not (math.isfinite(lower) and math.isfinite(upper) and lower <= upper):
        raise ValueError(f"lower must be at most upper, got {lower} and {upper}; swap them.")
    return (upper - lower) / 2


def total_variation_from_kl(kl: float) -> float:
    """Pinsker: ``TV <= sqrt(KL / 2)``, capped at 1.

    Parameters
    ----------
    kl
        KL divergence in nats, at least 0 and possibly ``inf``.

    Returns
    -------
    float
        Bound on the total variation.

    Raises
    ------
    ValueError
        If ``kl`` is negative.

    Examples
    --------
    >>> total_variation_from_kl(0.02)
    0.1
    """
    return min(1.0, math.sqrt(checks.nonnegative("kl", kl, allow_infinite=True) / 2))


UNIT = (0.0, 1.0)
# Halvings of an interval of length one: its ends are then neighbouring doubles.
HALVINGS = 60


def catoni_bound(
    log_normalizer: float,
    n: int,
    *,
    gamma: float,
    delta: float,
    loss_range: tuple[float, float] = UNIT,
) -> float:
    """``E R <= (1 - (C delta)^(1/n)) / (1 - e^-gamma)`` (Catoni 2007, Thm 1.2.6).

    ``log_normalizer`` is ``log C`` in nats, ``C`` the prior mean of ``exp(-gamma L)`` with ``L``
    the total loss. For an estimate of ``C`` that is nonnegative and unbiased given the data the
    bound holds as it stands, with probability ``1 - delta`` over data and estimate: its proof takes
    the mean of ``C`` times a function of the data, and then Markov's inequality. The parameter of
    the theorem is ``lambda = n gamma``; losses of another range are mapped to ``[0, 1]`` first.
    """
    a, width = _range(loss_range)
    gamma, n = checks.positive("gamma", gamma), checks.count("n", n)
    confidence = _confidence(delta)
    unit = gamma * width
    exponent = _unit_log_normalizer(log_normalizer, n, gamma, a) - confidence
    return a + width * min(1.0, max(0.0, math.expm1(exponent / n) / math.expm1(-unit)))


def maurer_bound(
    empirical_risk: float,
    kl: float,
    n: int,
    *,
    delta: float,
    loss_range: tuple[float, float] = UNIT,
) -> float:
    """``kl(E Rhat || E R) <= (KL + log(2 sqrt n) + log(1/delta)) / n`` (Maurer 2004, Thm 5).

    Holds for all posteriors at once, so gamma may be chosen after the data. The theorem is for
    ``n >= 8``; below, the moment that it bounds is at most ``2 sqrt n`` as well, by enumeration.
    """
    a, width, unit_risk = _unit_risk(empirical_risk, loss_range)
    return a + width * largest_with_binary_kl(unit_risk, _budget(kl, n, delta))


def largest_with_binary_kl(q: float, budget: float) -> float:
    """Largest ``p >= q`` with ``kl(q || p) <= budget`` nats, of Bernoulli laws; rounded upwards."""
    checks.nonnegative("budget", budget, allow_infinite=True)
    if not 0 <= checks.real("q", q) <= 1:
        raise ValueError(f"q must lie in [0, 1], got {q}; pass a probability.")
    low, high = q, 1.0
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        low, high = (middle, high) if _binary_kl(q, middle) <= budget else (low, middle)
    return high


def _binary_kl(q: float, p: float) -> float:
    """KL of Bernoulli laws, ``0 < p < 1``."""
    first = q * math.log(q / p) if q > 0 else 0.0
    return first + ((1 - q) * math.log((1 - q) / (1 - p)) if q < 1 else 0.0)


def _budget(kl: float, n: int, delta: float) -> float:
    """``(KL + log(2 sqrt n) + log(1/delta)) / n``."""
    checks.nonnegative("kl", kl, allow_infinite=True)
    size = checks.count("n", n)
    return (kl + math.log(2 * math.sqrt(size)) + _confidence(delta)) / size


def _unit_log_normalizer(log_normalizer: float, n: int, gamma: float, a: float) -> float:
    """Log normalizer for losses less ``a``."""
    found = checks.real("log_normalizer", log_normalizer)
    if math.isnan(found) or found == math.inf:
        raise ValueError(f"log_normalizer must be a number below infinity, got {found}; pass nats.")
    return found + gamma * n * a


def _unit_risk(
    empirical_risk: float, loss_range: tuple[float, float]
) -> tuple[float, float, float]:
    a, width = _range(loss_range)
    risk = checks.real("empirical_risk", empirical_risk)
    if not a <= risk <= a + width:
        raise ValueError(
            f"empirical_risk must lie in the loss range [{a:g}, {a + width:g}], got {risk:g}; "
            "declare a range that holds every loss."
        )
    return a, width, min(1.0, (risk - a) / width)


def _range(loss_range: tuple[float, float]) -> tuple[float, float]:
    """Smallest loss, and the range's length."""
    a, b = (checks.real("loss_range", end) for end in loss_range)
    if not (math.isfinite(a) and math.isfinite(b) and a < b):
        raise ValueError(
            f"loss_range must be finite (low, high), got {loss_range}; bound the loss."
        )
    return a, b - a


def _confidence(delta: float) -> float:
    """``log(1/delta)``."""
    return -math.log(checks.unit_interval("delta", delta, open_left=True))
