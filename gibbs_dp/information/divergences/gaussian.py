"""Divergences of two Gaussians: closed forms, in one dimension and in many.

A scalar mean and variance are read as one dimension; otherwise ``mean [d]`` and
``covariance [d, d]``. Total variation and the hockey stick are in `gaussian_events`. All logarithms
are natural.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.linalg import eigh

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

    Examples
    --------
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
    mean_p: Values,
    covariance_p: Values,
    mean_q: Values,
    covariance_q: Values,
    alpha: float,
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


def gaussian_squared_hellinger(
    mean_p: Values, covariance_p: Values, mean_q: Values, covariance_q: Values
) -> float:
    """Squared Hellinger distance ``1 - integral sqrt(p q)`` of two Gaussians.

    Parameters as in `gaussian_kl`.

    Examples
    --------
    >>> round(gaussian_squared_hellinger(1.0, 1.0, 0.0, 1.0), 6)
    0.117503
    """
    half = gaussian_renyi(mean_p, covariance_p, mean_q, covariance_q, alpha=0.5)
    return -math.expm1(-half / 2)


def gaussian_alpha_divergence(
    mean_p: Values,
    covariance_p: Values,
    mean_q: Values,
    covariance_q: Values,
    alpha: float,
) -> float:
    """Alpha-divergence of two Gaussians, scaled as in `finite.alpha_divergence`.

    Parameters as in `gaussian_kl`; ``alpha > 0`` and finite.

    Examples
    --------
    >>> round(gaussian_alpha_divergence(1.0, 1.0, 0.0, 1.0, alpha=2.0), 6)
    0.859141
    """
    checks.positive("alpha", alpha)
    value = gaussian_renyi(mean_p, covariance_p, mean_q, covariance_q, alpha)
    if alpha == 1:
        return value
    log_moment = (alpha - 1) * value
    return math.inf if log_moment > 700 else math.expm1(log_moment) / (alpha * (alpha - 1))


def gaussian_chi_square(
    mean_p: Values, covariance_p: Values, mean_q: Values, covariance_q: Values
) -> float:
    """Chi-square divergence ``E_Q (dP/dQ - 1)^2`` of two Gaussians; may be ``inf``.

    Parameters as in `gaussian_kl`.

    Examples
    --------
    >>> round(gaussian_chi_square(1.0, 1.0, 0.0, 1.0), 6)
    1.718282
    """
    return 2 * gaussian_alpha_divergence(mean_p, covariance_p, mean_q, covariance_q, 2.0)


def gaussian_max_divergence(
    mean_p: Values, covariance_p: Values, mean_q: Values, covariance_q: Values
) -> float:
    """Max divergence ``sup log p/q`` of two Gaussians, in nats.

    Finite exactly when ``Q`` is wider wherever they differ: in coordinates where Q is standard,
    each variance of P is below 1, or is 1 with no shift. Parameters as in `gaussian_kl`.

    Examples
    --------
    >>> gaussian_max_divergence(1.0, 1.0, 0.0, 1.0)
    inf
    >>> round(gaussian_max_divergence(0.0, 0.25, 0.0, 1.0), 6)
    0.693147
    """
    shift, variance = canonical_coordinates(mean_p, covariance_p, mean_q, covariance_q)
    total = 0.0
    for s, v in zip(shift, variance, strict=True):
        if v < 1:
            total += -0.5 * math.log(v) + 0.5 * float(s * s) / (1 - float(v))
        elif v > 1 or s != 0:
            return math.inf
    return total
