"""Rényi bounds for linear adversaries that hold for every order above 1.

For a centred noise ``X``, a linear critic ``g`` has ``E_P[g] = E_Q[g] + a . shift`` and
``|g|_q >= |a . X|_q`` (symmetry and convexity), so that its norm is at most
``1 + max_a |a . shift| / |a . X|_q`` and the restricted Rényi divergence at most ``q log`` of it.
"""

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
