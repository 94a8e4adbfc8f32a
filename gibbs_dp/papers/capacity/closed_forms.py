"""Closed forms for shifts of Laplace and Gaussian noise, and order 2 from moments alone.

A query of sensitivity ``shift`` (a number, or one per coordinate) is released with independent
noise, and two adjacent datasets differ by that shift: add/remove or replace-one, as the sensitivity
is for. Chaudhuri, Imola & Machanavajjhala (2019), table of Section 5, for linear and unrestricted
adversaries. Polynomials of any degree in any dimension take one linear solve at order 2.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike
from scipy.special import gammaln

from gibbs_dp.information import checks
from gibbs_dp.information.divergences import laplace_kl, laplace_renyi


def shift_vector(shift: ArrayLike | float) -> Float[np.ndarray, " d"]:
    """Return a shift as a vector of finite numbers.

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
    """Return the inverse scale of noise; infinity is no noise."""
    if np.ndim(eps) or not eps > 0:
        got = "several" if np.ndim(eps) else eps
        raise ValueError(f"eps must be positive, and one number, got {got}; pass a value above 0.")
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
    """KL of normal noise and its shift, ``|shift|^2 / (2 sigma^2)``, nats."""
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
    """Lower bound ``eps |shift|_1 - d log 2 / (alpha - 1)`` of unrestricted Rényi divergence."""
    moved = np.abs(shift_vector(shift))
    return float(inverse_scale(eps) * moved.sum()) - moved.size * math.log(2) / (above_one(alpha))


def above_one(alpha: float) -> float:
    """Return ``alpha - 1`` of an order above 1.

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

    >>> gaussian_unrestricted_renyi(1.0, 3.0)
    1.5
    """
    return (above_one(alpha) + 1) * gaussian_kl_of_shift(sigma, shift)


_MAX_TERMS = 2000


def monomials(dim: int, degree: int) -> Int[np.ndarray, "terms dim"]:
    """Exponents of all monomials of total degree at most ``degree``, the constant first."""
    checks.count("dim", dim)
    checks.count("degree", degree)
    count = math.comb(dim + degree, degree)
    if count > _MAX_TERMS:
        raise ValueError(
            f"degree: polynomials of degree {degree} in {dim} dimensions have {count} terms; "
            f"lower it to at most {_MAX_TERMS} terms."
        )
    rows = [
        np.bincount(np.array(chosen, dtype=np.int64), minlength=dim)
        for total in range(degree + 1)
        for chosen in itertools.combinations_with_replacement(range(dim), total)
    ]
    return np.stack(rows)


def laplace_moments(count: int) -> Float[np.ndarray, " moments"]:
    """Moments ``E x^j`` of a Laplace law of scale 1, ``j < count``: ``j!`` for even ``j``."""
    return np.array([0.0 if j % 2 else float(math.factorial(j)) for j in range(count)])


def renyi2_from_moments(
    moments_p: Float[np.ndarray, " terms"], gram_q: Float[np.ndarray, "rows columns"]
) -> float:
    """Restricted Rényi divergence of order 2 for the span of some functions, in nats.

    ``log m' G^-1 m`` with ``m_i = E_P[f_i]`` and ``G_ij = E_Q[f_i f_j]``: the largest
    ``E_P[g]^2 / E_Q[g^2]``.
    """
    size = moments_p.size
    if gram_q.shape != (size, size):
        raise ValueError(f"gram_q must be [{size}, {size}] like moments_p, got {gram_q.shape}.")
    # Powers differ in size: solve for correlations.
    root = np.sqrt(np.maximum(np.diag(gram_q), 0.0))
    scale = np.where(root > 0, root, 1.0)
    values, vectors = np.linalg.eigh(gram_q / scale[:, None] / scale)
    if values[0] < -1e-9 * values[-1]:
        raise ValueError("gram_q must be positive semidefinite; pass E_Q[f_i f_j].")
    along = vectors.T @ (moments_p / scale)
    seen = values > size * np.finfo(np.float64).eps * values[-1]
    if np.abs(along[~seen]).max(initial=0.0) > 1e-7 * np.abs(along).max():
        return math.inf
    return max(0.0, math.log(float(np.sum(along[seen] ** 2 / values[seen]))))


def product_renyi2(
    noise_moments: Float[np.ndarray, " moments"], degree: int, shift: ArrayLike | float
) -> float:
    """Restricted Rényi divergence of order 2 for polynomials of at most ``degree``, iid noise."""
    moved = shift_vector(shift)
    if noise_moments.size < 2 * degree + 1:
        raise ValueError(
            f"noise_moments must hold orders 0 to {2 * degree}, got {noise_moments.size} numbers."
        )
    powers = monomials(moved.size, degree)
    gram = np.prod(noise_moments[powers[:, None, :] + powers[None, :, :]], axis=-1)
    orders = np.arange(degree + 1)
    shifted = np.array(
        [
            [
                sum(math.comb(j, i) * v ** (j - i) * noise_moments[i] for i in range(j + 1))
                for j in orders
            ]
            for v in moved
        ]
    )
    mean = np.prod(shifted[np.arange(moved.size), powers], axis=-1)
    return renyi2_from_moments(mean, gram)


# Rényi bounds of linear adversaries: as printed, and as they hold.


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

    >>> printed_matrix_mechanism(1, 0.5, 2.0) == printed_laplace(0.5, 2.0)
    True
    """
    above_one(alpha)
    checks.positive("eps", eps)
    size = checks.count("num_rows", num_rows)
    return _renyi_from_log(size * (alpha - 1) * math.log(2) + alpha * math.log(eps), alpha)


def laplace_norm(q: float) -> float:
    """``(E |X|^q)^{1/q} = Gamma(q + 1)^{1/q}`` of a Laplace law of scale 1.

    >>> round(laplace_norm(2.0) ** 2, 9)
    2.0
    """
    return math.exp(float(gammaln(q + 1)) / q)


def gaussian_norm(q: float) -> float:
    """``(E |X|^q)^{1/q}`` of a standard normal law.

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
    """
    moved = shift_vector(shift)
    q = alpha / above_one(alpha)
    checks.positive("sigma", sigma)
    bound = q * math.log1p(float(np.linalg.norm(moved)) / (sigma * gaussian_norm(q)))
    return min(bound, gaussian_unrestricted_renyi(sigma, alpha, moved))
