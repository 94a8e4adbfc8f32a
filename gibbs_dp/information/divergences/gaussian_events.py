"""Total variation, hockey stick and approximate max divergence of two Gaussians.

The log-ratio is quadratic: its events are half-spaces when the covariances agree, intervals in
one dimension, and otherwise their probabilities come from `quadratic_tail`.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr

from gibbs_dp.information import checks
from gibbs_dp.information.divergences.gaussian import (
    Values,
    canonical_coordinates,
    gaussian_max_divergence,
)
from gibbs_dp.information.divergences.quadratic_form import quadratic_tail


def gaussian_hockey_stick(
    mean_p: Values,
    covariance_p: Values,
    mean_q: Values,
    covariance_q: Values,
    g: float,
) -> float:
    """Hockey-stick divergence ``E_g = P(A) - g Q(A)``, ``A = {log p/q > log g}``.

    Equal covariances: ``Phi(mu/2 - log(g)/mu) - g Phi(-mu/2 - log(g)/mu)`` with ``mu`` the
    Mahalanobis distance. One dimension: the event is an interval or its complement. Otherwise
    the two probabilities come from `quadratic_tail`, to about 1e-9.

    Parameters as in `gaussian_kl`; ``g > 0``.

    Examples
    --------
    >>> round(gaussian_hockey_stick(1.0, 1.0, 0.0, 1.0, g=1.0), 6)
    0.382925
    """
    checks.positive("g", g)
    shift, variance = canonical_coordinates(mean_p, covariance_p, mean_q, covariance_q)
    level = math.log(g)
    if np.allclose(variance, 1.0, rtol=0, atol=1e-12):
        mu = float(np.linalg.norm(shift))
        if mu == 0:
            return max(0.0, 1.0 - g)
        value = ndtr(mu / 2 - level / mu) - g * ndtr(-mu / 2 - level / mu)
        return float(max(value, 0.0, 1.0 - g))
    # log p/q = sum_i [ x_i^2/2 - (x_i - s_i)^2/(2 v_i) - log(v_i)/2 ], x ~ N(0, I) under Q.
    square = 0.5 - 0.5 / variance
    linear = shift / variance
    constant = -0.5 * float(np.sum(shift**2 / variance + np.log(variance)))
    if shift.size == 1:
        under_q = _interval_tail(square[0], linear[0], constant - level, 0.0, 1.0)
        under_p = _interval_tail(
            square[0], linear[0], constant - level, float(shift[0]), math.sqrt(variance[0])
        )
    else:
        under_q = quadratic_tail(square, linear, constant, level)
        # Under P, x = s + sqrt(v) u: complete the same polynomial in u.
        under_p = quadratic_tail(
            square * variance,
            (linear + 2 * square * shift) * np.sqrt(variance),
            constant + float(np.sum(square * shift**2 + linear * shift)),
            level,
        )
    return float(max(under_p - g * under_q, 0.0, 1.0 - g))


def _interval_tail(a: float, b: float, c: float, mean: float, deviation: float) -> float:
    """``P(a x^2 + b x + c > 0)`` for ``x ~ N(mean, deviation^2)``, ``a != 0``."""
    discriminant = b * b - 4 * a * c
    if discriminant <= 0:
        return 1.0 if a > 0 else 0.0
    root = math.sqrt(discriminant)
    low, high = sorted(((-b - root) / (2 * a), (-b + root) / (2 * a)))
    z_low, z_high = (low - mean) / deviation, (high - mean) / deviation
    if a > 0:
        return float(ndtr(z_low) + ndtr(-z_high))
    # The difference of upper or lower tails, whichever is small, keeps its digits.
    return float(ndtr(z_high) - ndtr(z_low) if z_high < 0 else ndtr(-z_low) - ndtr(-z_high))


def gaussian_total_variation(
    mean_p: Values, covariance_p: Values, mean_q: Values, covariance_q: Values
) -> float:
    """Total variation of two Gaussians, the hockey stick at ``g = 1``.

    Parameters as in `gaussian_kl`.

    Examples
    --------
    >>> round(gaussian_total_variation(2.0, 1.0, 0.0, 1.0), 6)
    0.682689
    """
    return gaussian_hockey_stick(mean_p, covariance_p, mean_q, covariance_q, g=1.0)


def gaussian_approximate_max_divergence(
    mean_p: Values,
    covariance_p: Values,
    mean_q: Values,
    covariance_q: Values,
    delta: float,
) -> float:
    """Approximate max divergence: the ``log g`` at which the hockey stick equals ``delta``.

    Parameters as in `gaussian_kl`; ``0 <= delta < 1``, 0 being the max divergence.

    Examples
    --------
    >>> value = gaussian_approximate_max_divergence(1.0, 1.0, 0.0, 1.0, delta=0.05)
    >>> round(gaussian_hockey_stick(1.0, 1.0, 0.0, 1.0, g=math.exp(value)), 9)
    0.05
    """
    checks.unit_interval("delta", delta)
    if delta == 0:
        return gaussian_max_divergence(mean_p, covariance_p, mean_q, covariance_q)

    def excess(level: float) -> float:
        g = math.exp(level)
        return gaussian_hockey_stick(mean_p, covariance_p, mean_q, covariance_q, g) - delta

    # E_g >= 1 - g, so the crossing is never below log(1 - delta).
    low = math.log1p(-delta)
    if excess(low) <= 0:
        return low
    high = low + 1.0
    while excess(high) > 0:
        high = low + 2 * (high - low)
    from scipy.optimize import brentq  # slow to import

    return float(brentq(excess, low, high, xtol=1e-12))
