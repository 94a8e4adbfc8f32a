"""Divergences of two Laplace laws, in closed form.

With equal scales ``b`` everything is a function of ``D = |a - a'| / b``. All logarithms are
natural.
"""

from __future__ import annotations

import math

from gibbs_dp.information import checks


def _distance(location_p: float, location_q: float, scale: float) -> float:
    checks.positive("scale", scale)
    return abs(location_p - location_q) / scale


def laplace_kl(
    location_p: float, location_q: float, scale: float, scale_q: float | None = None
) -> float:
    """KL divergence of two Laplace laws, in nats.

    ``D + e^-D - 1`` for equal scales; ``log(b'/b) + (b e^{-|gap|/b} + |gap|)/b' - 1`` in general.

    Parameters
    ----------
    location_p, location_q
        Locations.
    scale
        Scale ``b`` of P.
    scale_q
        Scale ``b'`` of Q; default the same.

    Returns
    -------
    float
        Nats.

    Raises
    ------
    ValueError
        If a scale is not positive.

    Examples
    --------
    >>> round(laplace_kl(0.0, 1.0, scale=1.0), 6)
    0.367879
    """
    d = _distance(location_p, location_q, scale)
    if scale_q is None or scale_q == scale:
        # expm1 keeps the digits of d^2/2 only down to d ~ 1e-8; the series does below 1e-2.
        if d < 1e-2:
            return d * d * (1 / 2 - d * (1 / 6 - d * (1 / 24 - d * (1 / 120 - d / 720))))
        return d + math.expm1(-d)
    checks.positive("scale_q", scale_q)
    ratio = scale / scale_q
    return -math.log(ratio) + ratio * (math.exp(-d) + d) - 1


def laplace_renyi(location_p: float, location_q: float, scale: float, alpha: float) -> float:
    """Rényi divergence of order ``alpha`` of two Laplace laws of one scale (Mironov 2017).

    ``log( alpha/(2 alpha - 1) e^{(alpha-1) D} + (alpha-1)/(2 alpha - 1) e^{-alpha D} )/(alpha-1)``
    in nats; the value at ``alpha = 1/2`` is its limit.

    Parameters
    ----------
    location_p, location_q, scale
        Locations and common scale.
    alpha
        Order, ``0 < alpha <= inf``.

    Returns
    -------
    float
        Nats.

    Examples
    --------
    >>> round(laplace_renyi(0.0, 1.0, scale=1.0, alpha=2.0), 6)
    0.619124
    """
    d = _distance(location_p, location_q, scale)
    if math.isinf(alpha):
        return d
    checks.positive("alpha", alpha)
    if alpha == 1:
        return laplace_kl(location_p, location_q, scale)
    if abs(alpha - 0.5) < 1e-7:  # removable singularity, error below 1e-13 there
        return d - 2 * math.log1p(d / 2)
    first = (alpha - 1) * d
    weight = alpha / (2 * alpha - 1)
    # Factor the larger exponential out: first >= -alpha d exactly when alpha >= 1/2.
    inner = weight + (1 - weight) * math.exp(-(2 * alpha - 1) * d)
    return (first + math.log(inner)) / (alpha - 1)


def laplace_alpha_divergence(
    location_p: float, location_q: float, scale: float, alpha: float
) -> float:
    """Alpha-divergence of two Laplace laws of one scale, scaled as in `finite.alpha_divergence`.

    Examples
    --------
    >>> round(laplace_alpha_divergence(0.0, 1.0, scale=1.0, alpha=2.0), 6)
    0.42865
    """
    checks.positive("alpha", alpha)
    value = laplace_renyi(location_p, location_q, scale, alpha)
    if alpha == 1:
        return value
    log_moment = (alpha - 1) * value
    return math.inf if log_moment > 700 else math.expm1(log_moment) / (alpha * (alpha - 1))


def laplace_chi_square(location_p: float, location_q: float, scale: float) -> float:
    """Chi-square divergence of two Laplace laws of one scale.

    Examples
    --------
    >>> round(laplace_chi_square(0.0, 1.0, scale=1.0), 6)
    0.8573
    """
    return 2 * laplace_alpha_divergence(location_p, location_q, scale, 2.0)


def laplace_squared_hellinger(location_p: float, location_q: float, scale: float) -> float:
    """Squared Hellinger distance ``1 - (1 + D/2) e^{-D/2}`` of two Laplace laws of one scale.

    Examples
    --------
    >>> round(laplace_squared_hellinger(0.0, 1.0, scale=1.0), 6)
    0.090204
    """
    d = _distance(location_p, location_q, scale)
    return 1 - (1 + d / 2) * math.exp(-d / 2)


def laplace_max_divergence(
    location_p: float, location_q: float, scale: float, scale_q: float | None = None
) -> float:
    """Max divergence of two Laplace laws, in nats: ``D`` for equal scales.

    ``log(b'/b) + |gap|/b'`` when Q is wider (attained at P's location), ``inf`` when narrower.

    Examples
    --------
    >>> laplace_max_divergence(0.0, 1.0, scale=0.5)
    2.0
    """
    d = _distance(location_p, location_q, scale)
    if scale_q is None or scale_q == scale:
        return d
    checks.positive("scale_q", scale_q)
    if scale_q < scale:
        return math.inf
    return math.log(scale_q / scale) + abs(location_p - location_q) / scale_q


def laplace_hockey_stick(location_p: float, location_q: float, scale: float, g: float) -> float:
    """Hockey-stick divergence of two Laplace laws of one scale.

    ``1 - exp((log g - D)/2)`` for ``|log g| <= D``; 0 above and ``1 - g`` below.

    Examples
    --------
    >>> round(laplace_hockey_stick(0.0, 1.0, scale=1.0, g=1.0), 6)
    0.393469
    """
    checks.positive("g", g)
    d = _distance(location_p, location_q, scale)
    level = math.log(g)
    if level < -d:
        return 1 - g
    return max(0.0, -math.expm1((level - d) / 2))


def laplace_total_variation(location_p: float, location_q: float, scale: float) -> float:
    """Total variation ``1 - e^{-D/2}`` of two Laplace laws of one scale.

    Examples
    --------
    >>> round(laplace_total_variation(0.0, 1.0, scale=1.0), 6)
    0.393469
    """
    return laplace_hockey_stick(location_p, location_q, scale, g=1.0)


def laplace_approximate_max_divergence(
    location_p: float, location_q: float, scale: float, delta: float
) -> float:
    """Approximate max divergence ``max(D + 2 log(1 - delta), log(1 - delta))``, in nats.

    Examples
    --------
    >>> round(laplace_approximate_max_divergence(0.0, 1.0, scale=1.0, delta=0.1), 6)
    0.789279
    """
    checks.unit_interval("delta", delta)
    d = _distance(location_p, location_q, scale)
    return max(d + 2 * math.log1p(-delta), math.log1p(-delta))
