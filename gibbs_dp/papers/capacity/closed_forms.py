"""Closed forms for shifts of Laplace and Gaussian noise, for linear and unrestricted adversaries.

A query of sensitivity ``shift`` (a number, or one per coordinate) is released with independent
noise, and two adjacent datasets differ by that shift: add/remove or replace-one, as the
sensitivity is for. Chaudhuri, Imola & Machanavajjhala (2019), table of Section 5.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from gibbs_dp.information import checks
from gibbs_dp.information.divergences import laplace_kl, laplace_renyi


def shift_vector(shift: ArrayLike | float) -> Float[np.ndarray, " d"]:
    """Return a shift as a vector of finite numbers.

    Raises
    ------
    ValueError
        If it is not a number or a vector, or not finite.

    Examples
    --------
    >>> shift_vector(2.0)
    array([2.])
    """
    values = np.atleast_1d(np.asarray(shift, dtype=np.float64))
    if values.ndim != 1 or values.size == 0 or not np.isfinite(values).all():
        raise ValueError(
            "shift must be a finite number or a vector [d] of them; pass the sensitivity of each "
            "coordinate."
        )
    return values


def inverse_scale(eps: float) -> float:
    """Return the inverse scale of noise; infinity is no noise.

    Raises
    ------
    ValueError
        If it is not positive.
    """
    if not eps > 0:
        raise ValueError(f"eps must be positive, got {eps}; pass a value above 0.")
    return float(eps)


def laplace_linear_kl(eps: float, shift: ArrayLike | float = 1.0) -> float:
    """Restricted KL of a linear adversary of Laplace(1/eps) noise, in nats.

    ``sqrt(1+e^2) - 1 + log(1 - (sqrt(1+e^2) - 1)^2 / e^2)``, ``e = eps |shift_i|``, summed over
    coordinates. Without noise (``eps = inf``) it is infinite.

    Raises
    ------
    ValueError
        If ``eps`` is not positive.

    Examples
    --------
    >>> round(laplace_linear_kl(1.0), 9)
    0.225987156
    >>> laplace_linear_kl(math.inf)
    inf
    """
    moved = shift_vector(shift)
    if math.isinf(inverse_scale(eps)):
        return math.inf if moved.any() else 0.0
    e = eps * np.abs(moved)
    # With s = sqrt(1 + e^2), (s - 1)^2 / e^2 = (s - 1) / (s + 1): no cancellation at either end.
    excess = e**2 / (1 + np.sqrt(1 + e**2))
    return float(np.sum(excess - np.log1p(excess / 2)))


def laplace_unrestricted_kl(eps: float, shift: ArrayLike | float = 1.0) -> float:
    """KL of Laplace(1/eps) noise and its shift, ``e - 1 + e^-e`` summed over coordinates, nats.

    Examples
    --------
    >>> round(laplace_unrestricted_kl(1.0), 9)
    0.367879441
    """
    moved = shift_vector(shift)
    if math.isinf(inverse_scale(eps)):
        return math.inf if moved.any() else 0.0
    return float(sum(laplace_kl(0.0, v, 1 / eps) for v in moved))


def gaussian_kl_of_shift(sigma: float, shift: ArrayLike | float = 1.0) -> float:
    """KL of normal noise and its shift, ``|shift|^2 / (2 sigma^2)``, nats.

    A linear adversary attains it: the log-ratio is linear. Without noise it is infinite.

    Raises
    ------
    ValueError
        If ``sigma`` is negative.

    Examples
    --------
    >>> gaussian_kl_of_shift(2.0, [1.0, 1.0])
    0.25
    >>> gaussian_kl_of_shift(0.0)
    inf
    """
    moved = shift_vector(shift)
    if checks.nonnegative("sigma", sigma) == 0:
        return math.inf if moved.any() else 0.0
    return float(moved @ moved) / (2 * sigma**2)


def laplace_unrestricted_renyi(eps: float, alpha: float, shift: ArrayLike | float = 1.0) -> float:
    """Rényi divergence of Laplace(1/eps) noise and its shift, summed over coordinates, nats.

    Examples
    --------
    >>> round(laplace_unrestricted_renyi(1.0, 2.0), 6)
    0.619124
    """
    moved = shift_vector(shift)
    if math.isinf(inverse_scale(eps)):
        return math.inf if moved.any() else 0.0
    return float(sum(laplace_renyi(0.0, v, 1 / eps, alpha) for v in moved))


def laplace_unrestricted_renyi_lower(
    eps: float, alpha: float, shift: ArrayLike | float = 1.0
) -> float:
    """Lower bound ``eps |shift|_1 - d log 2 / (alpha - 1)`` of the unrestricted Rényi divergence.

    Printed with the paper's table; it holds, and is vacuous for small ``eps (alpha - 1)``.

    Raises
    ------
    ValueError
        If ``alpha`` is not above 1.

    Examples
    --------
    >>> round(laplace_unrestricted_renyi_lower(1.0, 2.0), 6)
    0.306853
    """
    moved = np.abs(shift_vector(shift))
    return float(inverse_scale(eps) * moved.sum()) - moved.size * math.log(2) / (above_one(alpha))


def above_one(alpha: float) -> float:
    """Return ``alpha - 1`` of an order above 1.

    Raises
    ------
    ValueError
        If it is not above 1 and finite.

    Examples
    --------
    >>> above_one(3.0)
    2.0
    """
    if not (alpha > 1 and math.isfinite(alpha)):
        raise ValueError(f"alpha must be above 1 and finite, got {alpha}; pass an order like 2.")
    return alpha - 1


def gaussian_unrestricted_renyi(
    sigma: float, alpha: float, shift: ArrayLike | float = 1.0
) -> float:
    """Rényi divergence ``alpha |shift|^2 / (2 sigma^2)`` of normal noise and its shift, nats.

    Examples
    --------
    >>> gaussian_unrestricted_renyi(1.0, 3.0)
    1.5
    """
    return (above_one(alpha) + 1) * gaussian_kl_of_shift(sigma, shift)
