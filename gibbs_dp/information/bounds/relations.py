"""Relations between divergences: what a value of one says about another."""

from __future__ import annotations

import math

from gibbs_dp.information import checks


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


def kl_from_max_divergence(max_divergence: float) -> float:
    """``KL <= D_inf``: the mean of a log-ratio is at most its supremum, in nats.

    Examples
    --------
    >>> kl_from_max_divergence(0.5)
    0.5
    """
    return checks.nonnegative("max_divergence", max_divergence, allow_infinite=True)


def hockey_stick_lower_from_total_variation(total_variation: float, g: float) -> float:
    """Lower bound ``E_g >= 1 - g (1 - TV)`` of the hockey stick, ``g >= 1``.

    The event of the total variation is one candidate of the supremum, and
    ``P(A) - g Q(A) = g TV - (g - 1) P(A) >= 1 - g (1 - TV)`` (Rakhlin, lecture 20).

    Parameters
    ----------
    total_variation
        In ``[0, 1]``.
    g
        Factor, at least 1.

    Returns
    -------
    float
        Bound on ``E_g``, at least 0.

    Examples
    --------
    >>> round(hockey_stick_lower_from_total_variation(0.9, g=2.0), 6)
    0.8
    """
    _total_variation(total_variation)
    if not g >= 1:
        raise ValueError(f"g must be at least 1, got {g}; use g = exp(epsilon).")
    return 1 - g * (1 - total_variation)


def epsilon_from_approximate_max_divergence(forward: float, backward: float) -> float:
    """``(epsilon, delta)``-DP of a pair: the larger approximate max divergence of two directions.

    ``E_{e^epsilon}(P || Q) <= delta`` exactly when ``D_inf^delta(P || Q) <= epsilon``; DP asks it
    of both orders, and of ``epsilon >= 0``.

    Examples
    --------
    >>> epsilon_from_approximate_max_divergence(0.3, -0.1)
    0.3
    """
    return max(forward, backward, 0.0)


def total_variation_from_kl_large(kl: float) -> float:
    """``TV <= sqrt(1 - e^{-KL})`` (Bretagnolle & Huber 1979): below 1 at every finite KL.

    Smaller than `total_variation_from_kl` above about 1.6 nats.

    Examples
    --------
    >>> round(total_variation_from_kl_large(3.0), 6)
    0.974789
    """
    return math.sqrt(-math.expm1(-checks.nonnegative("kl", kl, allow_infinite=True)))


def _total_variation(total_variation: float) -> float:
    if not 0 <= total_variation <= 1:
        raise ValueError(f"total_variation must lie in [0, 1], got {total_variation}; check it.")
    return total_variation


def auc_lower_from_total_variation(total_variation: float) -> float:
    """``AUC >= 1/2 + TV/2``: the ROC lies above the triangle through the best test.

    Examples
    --------
    >>> auc_lower_from_total_variation(0.5)
    0.75
    """
    return 0.5 + _total_variation(total_variation) / 2


def auc_from_total_variation(total_variation: float) -> float:
    """``AUC <= 1/2 + TV - TV^2/2``: the ROC lies below ``min(a + TV, 1)``.

    Examples
    --------
    >>> auc_from_total_variation(0.5)
    0.875
    """
    return 0.5 + _total_variation(total_variation) * (1 - total_variation / 2)


def jensen_shannon_from_kl(kl: float, reverse_kl: float) -> float:
    """``JS(P, Q) <= (KL(P || Q) + KL(Q || P)) / 8``, in nats, and at most ``log 2``.

    On average over replace-one pairs both divergences are ``eps_KL``: ``E JS <= eps_KL / 4``.

    Examples
    --------
    >>> jensen_shannon_from_kl(0.4, 0.4)
    0.1
    """
    checks.nonnegative("kl", kl, allow_infinite=True)
    checks.nonnegative("reverse_kl", reverse_kl, allow_infinite=True)
    return min(math.log(2), (kl + reverse_kl) / 8)
