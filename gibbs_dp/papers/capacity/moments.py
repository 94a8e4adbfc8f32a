"""Order 2 from moments alone: any total degree, any dimension, by one linear solve."""

from __future__ import annotations

import itertools
import math

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from gibbs_dp.information import checks
from gibbs_dp.papers.capacity.closed_forms import shift_vector

_MAX_TERMS = 2000


def monomials(dim: int, degree: int) -> Int[np.ndarray, "terms dim"]:
    """Exponents of all monomials of total degree at most ``degree``, the constant first.

    Raises
    ------
    ValueError
        If there would be more than 2000.

    Examples
    --------
    >>> monomials(2, 1).tolist()
    [[0, 0], [1, 0], [0, 1]]
    """
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
    """Moments ``E x^j`` of a Laplace law of scale 1, ``j < count``: ``j!`` for even ``j``.

    Examples
    --------
    >>> laplace_moments(5).tolist()
    [1.0, 0.0, 2.0, 0.0, 24.0]
    """
    return np.array([0.0 if j % 2 else float(math.factorial(j)) for j in range(count)])


def gaussian_moments(count: int) -> Float[np.ndarray, " moments"]:
    """Moments of a standard normal law: ``(j - 1)!!`` for even ``j``.

    Examples
    --------
    >>> gaussian_moments(5).tolist()
    [1.0, 0.0, 1.0, 0.0, 3.0]
    """
    return np.array([0.0 if j % 2 else float(math.prod(range(1, j, 2))) for j in range(count)])


def renyi2_from_moments(
    moments_p: Float[np.ndarray, " terms"], gram_q: Float[np.ndarray, "rows columns"]
) -> float:
    """Restricted Rényi divergence of order 2 for the span of some functions, in nats.

    ``log m' G^-1 m`` with ``m_i = E_P[f_i]`` and ``G_ij = E_Q[f_i f_j]``: the largest
    ``E_P[g]^2 / E_Q[g^2]``.

    Parameters
    ----------
    moments_p
        Means of the functions under P.
    gram_q
        Second moments of the functions under Q.

    Returns
    -------
    float
        ``inf`` where a combination that vanishes under Q has a mean under P, as without noise.

    Raises
    ------
    ValueError
        If the shapes do not fit or the matrix is not positive semidefinite.

    Examples
    --------
    >>> round(renyi2_from_moments(np.array([1.0, 1.0]), np.diag([1.0, 2.0])), 9)
    0.405465108
    >>> renyi2_from_moments(np.array([1.0, 1.0]), np.diag([1.0, 0.0]))
    inf
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
    """Restricted Rényi divergence of order 2 for polynomials of at most ``degree``, iid noise.

    Parameters
    ----------
    noise_moments
        ``E x^j`` of one coordinate's noise for ``j = 0 .. 2 degree``.
    degree
        Largest total degree.
    shift
        Sensitivity of each coordinate, in the noise's unit.

    Returns
    -------
    float
        In nats.

    Raises
    ------
    ValueError
        If moments are missing.

    Examples
    --------
    >>> round(product_renyi2(laplace_moments(3), 1, [1.0, 1.0]), 9)  # log 2
    0.693147181
    """
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
