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
    if not 0 <= total_variation <= 1:
        raise ValueError(f"total_variation must lie in [0, 1], got {total_variation}; check it.")
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
