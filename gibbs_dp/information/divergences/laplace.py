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


def laplace_max_divergence(
    location_p: float, location_q: float, scale: float, scale_q: float | None = None
) -> float:
    """Max divergence of two Laplace laws, in nats: ``D`` for equal scales.

    ``log(b'/b) + |gap|/b'`` when Q is wider (attained at P's location), ``inf`` when narrower.

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
