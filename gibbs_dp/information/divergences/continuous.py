"""Divergences of continuous laws in closed form: Gaussians, Laplace laws, exponential families.

A scalar mean and variance are read as one dimension; otherwise ``mean [d]`` and
``covariance [d, d]``. All logarithms are natural.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.integrate import quad
from scipy.linalg import eigh
from scipy.special import ndtr

from gibbs_dp.information import checks

# beartype reads ArrayLike without plain numbers.
Values = float | int | ArrayLike
Moments = tuple[Float[np.ndarray, " d"], Float[np.ndarray, "d d"]]


def _moments(label: str, mean: Values, covariance: Values) -> Moments:
    m = np.atleast_1d(np.asarray(mean, dtype=np.float64))
    c = np.atleast_2d(np.asarray(covariance, dtype=np.float64))
    if m.ndim != 1 or c.shape != (m.size, m.size):
        raise ValueError(
            f"mean_{label} and covariance_{label} must have shapes [d] and [d, d], got {m.shape} "
            f"and {c.shape}; pass matching ones."
        )
    return m, c


def _cholesky(label: str, covariance: Float[np.ndarray, "d d"]) -> Float[np.ndarray, "d d"]:
    if not np.allclose(covariance, covariance.T, rtol=1e-10, atol=0):
        raise ValueError(f"covariance_{label} must be symmetric; pass (C + C.T) / 2.")
    try:
        return np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError as error:
        raise ValueError(
            f"covariance_{label} must be positive definite; drop its null directions."
        ) from error


def _pair(
    mean_p: Values, covariance_p: Values, mean_q: Values, covariance_q: Values
) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, "d d"], Float[np.ndarray, "d d"]]:
    m_p, c_p = _moments("p", mean_p, covariance_p)
    m_q, c_q = _moments("q", mean_q, covariance_q)
    if m_p.size != m_q.size:
        raise ValueError(
            f"mean_p and mean_q must have the same dimension, got {m_p.size} and {m_q.size}; "
            "compare laws on one space."
        )
    _cholesky("p", c_p)
    _cholesky("q", c_q)
    return m_p - m_q, c_p, c_q


def canonical_coordinates(
    mean_p: Values, covariance_p: Values, mean_q: Values, covariance_q: Values
) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
    """Coordinates where Q is standard normal and P is ``N(shift, diag(variance))``.

    >>> shift, variance = canonical_coordinates(2.0, 1.0, 0.0, 4.0)
    >>> round(float(abs(shift[0])), 9), round(float(variance[0]), 9)
    (1.0, 0.25)
    """
    gap, c_p, c_q = _pair(mean_p, covariance_p, mean_q, covariance_q)
    variance, axes = eigh(c_p, c_q)
    return np.asarray(axes.T @ gap), np.asarray(variance)


def gaussian_kl(
    mean_p: Values, covariance_p: Values, mean_q: Values, covariance_q: Values
) -> float:
    """KL divergence of two Gaussians, in nats.

    ``(1/2) [ tr(Cq^-1 Cp) - d - log det(Cq^-1 Cp) + gap' Cq^-1 gap ]``.

    Parameters
    ----------
    mean_p, mean_q
        Means ``[d]``, or scalars.
    covariance_p, covariance_q
        Covariances ``[d, d]``, or variances.

    Returns
    -------
    float
        Nats.

    Raises
    ------
    ValueError
        If shapes disagree or a covariance is not symmetric positive definite.

    Examples
    --------
    >>> gaussian_kl(1.0, 1.0, 0.0, 1.0)
    0.5
    """
    shift, variance = canonical_coordinates(mean_p, covariance_p, mean_q, covariance_q)
    excess = variance - 1.0
    return float(0.5 * (np.sum(excess - np.log1p(excess)) + shift @ shift))


def gaussian_renyi(
    mean_p: Values, covariance_p: Values, mean_q: Values, covariance_q: Values, alpha: float
) -> float:
    """Rényi divergence of order ``alpha`` of two Gaussians, in nats (Gil, Alajaji & Linder 2013).

    ``inf`` when ``alpha Cq + (1 - alpha) Cp`` is not positive definite. Parameters as in
    `gaussian_kl`; ``alpha >= 0``.

    Examples
    --------
    >>> gaussian_renyi(1.0, 1.0, 0.0, 1.0, alpha=4.0)
    2.0
    """
    checks.nonnegative("alpha", alpha, allow_infinite=True)
    if alpha == 1:
        return gaussian_kl(mean_p, covariance_p, mean_q, covariance_q)
    if math.isinf(alpha):
        return gaussian_max_divergence(mean_p, covariance_p, mean_q, covariance_q)
    shift, variance = canonical_coordinates(mean_p, covariance_p, mean_q, covariance_q)
    mixed = alpha + (1 - alpha) * variance
    if np.any(mixed <= 0):
        return math.inf
    quadratic = 0.5 * alpha * np.sum(shift**2 / mixed)
    logarithms = np.log(mixed) - (1 - alpha) * np.log(variance)
    return float(quadratic - 0.5 / (alpha - 1) * np.sum(logarithms))


def gaussian_max_divergence(
    mean_p: Values, covariance_p: Values, mean_q: Values, covariance_q: Values
) -> float:
    """Max divergence ``sup log p/q`` of two Gaussians, in nats.

    Finite exactly when ``Q`` is wider wherever they differ: in coordinates where Q is standard,
    each variance of P is below 1, or is 1 with no shift. Parameters as in `gaussian_kl`.
    """
    shift, variance = canonical_coordinates(mean_p, covariance_p, mean_q, covariance_q)
    total = 0.0
    for s, v in zip(shift, variance, strict=True):
        if v < 1:
            total += -0.5 * math.log(v) + 0.5 * float(s * s) / (1 - float(v))
        elif v > 1 or s != 0:
            return math.inf
    return total


# Tail probabilities of a quadratic polynomial of independent normals.


def quadratic_tail(
    square: Float[np.ndarray, " d"], linear: Float[np.ndarray, " d"], constant: float, level: float
) -> float:
    """``P( sum_i (a_i x_i^2 + b_i x_i) + c > level )`` for independent standard normal ``x``.

    Inverts the moment generating function ``M`` of the sum minus the level,
    ``(1 / 2 pi i) int M(s) / s ds``, along a contour bent at 60 degrees towards the side where
    ``M`` decays: its only singularities lie on the real axis, so the integral does not change
    and no longer oscillates (Imhof 1961 integrates along the imaginary axis).
    """
    scale = float(np.sqrt(np.sum(2 * square**2 + linear**2)))
    if scale == 0:
        raise ValueError("square and linear must not all be 0; the sum would be a constant.")
    a, b = square / scale, linear / scale
    offset = (constant - level) / scale
    # M(s) ~ |s|^(-d/2) e^(drift s) far out, up to Gaussian factors where a_i = 0.
    curved = np.abs(a) > 1e-14
    drift = offset - float(np.sum(b[curved] ** 2 / (4 * a[curved])))
    direction = np.exp(1j * np.pi * (1 / 3 if drift < 0 else 2 / 3))
    start = 1.0 if a.max() <= 0 else min(1.0, 0.25 / float(a.max()))

    def integrand(t: float) -> float:
        s = start + t * direction
        z = 1 - 2 * a * s
        exponent = np.sum(-0.5 * np.log(z) + 0.5 * b**2 * s**2 / z) + s * offset
        return float(np.imag(np.exp(exponent) * direction / s))

    pieces = [(0.0, 1.0), (1.0, 8.0), (8.0, np.inf)]
    total = sum(
        quad(integrand, low, high, limit=500, epsabs=1e-11, epsrel=1e-10)[0] for low, high in pieces
    )
    return float(np.clip(total / np.pi, 0.0, 1.0))


# Total variation and hockey stick of two Gaussians.
#
# The log-ratio is quadratic: its events are half-spaces when the covariances agree, intervals in
# one dimension, and otherwise their probabilities come from `quadratic_tail`.


def gaussian_hockey_stick(
    mean_p: Values, covariance_p: Values, mean_q: Values, covariance_q: Values, g: float
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


# Rényi divergence within an exponential family, from its log-partition function.


# Natural parameters, the last axis one for each statistic, to log-partitions.
LogPartition = Callable[[Float[np.ndarray, "*pairs k"]], Any]


def exponential_family_renyi(
    log_partition: LogPartition, eta: ArrayLike, other: ArrayLike, alpha: float
) -> Float[np.ndarray, "*pairs"]:
    """``[A(alpha eta + (1-alpha) eta') - alpha A(eta) - (1-alpha) A(eta')] / (alpha - 1)``, nats.

    Exact for densities ``h(x) exp(eta . T(x) - A(eta))``; infinite where the mixed parameter has no
    law (Geumlek, Song & Chaudhuri 2017).

    Parameters
    ----------
    log_partition
        ``A``, from parameters ``[..., k]`` to numbers ``[...]``; infinite off its domain.
    eta, other
        Natural parameters of the first and the second law, ``[..., k]``.
    alpha
        Order, positive and not 1.

    Returns
    -------
    Array
        A number a pair.

    Raises
    ------
    ValueError
        If the shapes differ, the order is out of range, or a law itself has no log-partition.

    Examples
    --------
    >>> from scipy.special import betaln
    >>> def beta(eta):
    ...     a, b = np.moveaxis(eta, -1, 0)
    ...     return np.where((a > 0) & (b > 0), betaln(np.abs(a), np.abs(b)), np.inf)
    >>> float(exponential_family_renyi(beta, [3.0, 4.0], [4.0, 3.0], 2.0).round(9))     # log 2
    0.693147181
    """
    checks.positive("alpha", alpha)
    if alpha == 1:
        raise ValueError(
            "alpha: order 1 is KL, which is no difference of log-partitions; use 1.01."
        )
    first, second = (np.asarray(value, dtype=np.float64) for value in (eta, other))
    if first.shape != second.shape or first.ndim == 0:
        raise ValueError(
            f"eta and other must have one shape [..., k], got {list(first.shape)} and "
            f"{list(second.shape)}; give a parameter for each statistic."
        )
    own = [np.asarray(log_partition(value), dtype=np.float64) for value in (first, second)]
    if not all(np.isfinite(value).all() for value in own):
        raise ValueError("eta: a law outside the family's domain has no log-partition; move it in.")
    mixed = np.asarray(log_partition(alpha * first + (1 - alpha) * second), dtype=np.float64)
    found = (mixed - alpha * own[0] - (1 - alpha) * own[1]) / (alpha - 1)
    return np.asarray(np.maximum(found, 0.0))  # below by rounding only


# Laplace laws: with equal scales ``b`` everything is a function of ``D = |a - a'| / b``.


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
