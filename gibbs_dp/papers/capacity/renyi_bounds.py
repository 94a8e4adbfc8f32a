"""Rényi bounds of linear adversaries: as printed, and as they hold."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from gibbs_dp.information import checks
from gibbs_dp.papers.capacity.closed_forms import (
    above_one,
    gaussian_unrestricted_renyi,
    laplace_unrestricted_renyi,
    shift_vector,
)


def _renyi_from_log(log_term: float, alpha: float) -> float:
    """``log(1 + e^t) / (alpha - 1)``."""
    return float(np.logaddexp(0.0, log_term)) / (alpha - 1)


def printed_laplace(eps: float, alpha: float, shift: ArrayLike | float = 1.0) -> float:
    """As printed, no guarantee: ``log(1 + 2^{d(alpha-1)} (eps |shift|_alpha)^alpha)/(alpha-1)``.

    Parameters
    ----------
    eps
        Inverse scale of the noise.
    alpha
        Order above 1.
    shift
        Sensitivity of each of ``d`` coordinates.

    Returns
    -------
    float
        In nats.

    Examples
    --------
    >>> round(printed_laplace(0.2, 3.0), 4)  # below the exact 0.0281
    0.0157
    """
    moved = np.abs(shift_vector(shift))
    above_one(alpha)
    checks.positive("eps", eps)
    powers = float(np.sum((eps * moved) ** alpha))
    if powers == 0:
        return 0.0
    return _renyi_from_log(moved.size * (alpha - 1) * math.log(2) + math.log(powers), alpha)


def printed_gaussian(sigma: float, alpha: float) -> float:
    """As printed, no guarantee: ``log(1 + sqrt(2 pi)^{alpha-1} / sigma^alpha) / (alpha-1)``.

    Examples
    --------
    >>> round(printed_gaussian(1.0, 2.0), 6)
    1.254655
    """
    above_one(alpha)
    checks.positive("sigma", sigma)
    log_term = (alpha - 1) * 0.5 * math.log(2 * math.pi) - alpha * math.log(sigma)
    return _renyi_from_log(log_term, alpha)


def printed_gaussian_several(sigma: float, alpha: float, shift: ArrayLike | float) -> float:
    """As printed for ``d`` dimensions, no guarantee.

    ``log(1 + 2^{d(alpha-1)} sqrt(pi/2)^{alpha-1} |shift|_alpha^alpha / sigma^alpha)/(alpha-1)``.

    Examples
    --------
    >>> printed_gaussian_several(1.0, 2.0, [1.0]) == printed_gaussian(1.0, 2.0)
    True
    """
    moved = np.abs(shift_vector(shift))
    above_one(alpha)
    checks.positive("sigma", sigma)
    powers = float(np.sum((moved / sigma) ** alpha))
    if powers == 0:
        return 0.0
    constant = (alpha - 1) * (moved.size * math.log(2) + 0.5 * math.log(math.pi / 2))
    return _renyi_from_log(constant + math.log(powers), alpha)


def printed_matrix_mechanism(num_rows: int, eps: float, alpha: float) -> float:
    """As printed (Theorem 5), no guarantee: ``log(1 + 2^{s(alpha-1)} eps^alpha) / (alpha-1)``.

    Parameters
    ----------
    num_rows
        Rows ``s`` of the strategy.
    eps, alpha
        Inverse scale of the noise relative to the strategy's sensitivity; order above 1.

    Returns
    -------
    float
        In nats.

    Examples
    --------
    >>> printed_matrix_mechanism(1, 0.5, 2.0) == printed_laplace(0.5, 2.0)
    True
    """
    above_one(alpha)
    checks.positive("eps", eps)
    size = checks.count("num_rows", num_rows)
    return _renyi_from_log(size * (alpha - 1) * math.log(2) + alpha * math.log(eps), alpha)


def laplace_norm(q: float) -> float:
    """``(E |X|^q)^{1/q} = Gamma(q + 1)^{1/q}`` of a Laplace law of scale 1.

    Examples
    --------
    >>> round(laplace_norm(2.0) ** 2, 9)
    2.0
    """
    return math.exp(float(gammaln(q + 1)) / q)


def gaussian_norm(q: float) -> float:
    """``(E |X|^q)^{1/q}`` of a standard normal law.

    Examples
    --------
    >>> round(gaussian_norm(4.0) ** 4, 9)
    3.0
    """
    return math.exp((q / 2 * math.log(2) + float(gammaln((q + 1) / 2) - gammaln(0.5))) / q)


def valid_laplace(eps: float, alpha: float, shift: ArrayLike | float = 1.0) -> float:
    """Bound on the restricted Rényi divergence of a linear adversary of Laplace(1/eps) noise.

    ``q log(1 + eps |shift|_2 / c)`` or the unrestricted value, if smaller. In one dimension
    ``c = Gamma(q+1)^{1/q}``. Laplace noise is normal noise of random variance, so by Jensen that
    ``c`` is valid in any dimension for ``q <= 2``, and ``sqrt(2)`` times the norm of a standard
    normal law for ``q > 2``.

    Parameters
    ----------
    eps
        Inverse scale of the noise.
    alpha
        Order above 1; ``q = alpha / (alpha - 1)``.
    shift
        Sensitivity of each coordinate.

    Returns
    -------
    float
        In nats.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> round(valid_laplace(0.2, 3.0), 6)  # the unrestricted value
    0.054257
    """
    moved = shift_vector(shift)
    q = alpha / above_one(alpha)
    checks.positive("eps", eps)
    constant = laplace_norm(q)
    if q > 2 and moved.size > 1:
        constant = math.sqrt(2) * gaussian_norm(q)
    bound = q * math.log1p(eps * float(np.linalg.norm(moved)) / constant)
    return min(bound, laplace_unrestricted_renyi(eps, alpha, moved))


def valid_gaussian(sigma: float, alpha: float, shift: ArrayLike | float = 1.0) -> float:
    """Bound on the restricted Rényi divergence of a linear adversary, normal noise, any dimension.

    ``q log(1 + |shift|_2 / (sigma |X|_q))`` or ``alpha |shift|^2 / (2 sigma^2)``.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> round(valid_gaussian(1.0, 2.0), 6), round(valid_gaussian(3.0, 2.0), 6)
    (1.0, 0.111111)
    """
    moved = shift_vector(shift)
    q = alpha / above_one(alpha)
    checks.positive("sigma", sigma)
    bound = q * math.log1p(float(np.linalg.norm(moved)) / (sigma * gaussian_norm(q)))
    return min(bound, gaussian_unrestricted_renyi(sigma, alpha, moved))
