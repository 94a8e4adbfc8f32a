"""Exact restricted divergences of noise in several dimensions.

Normal noise is the same in every direction, and averaging a critic over the directions orthogonal
to the shift preserves its class and ``E_P[g]`` and lowers its norm: one dimension remains. Laplace
noise is not; there the norm of a linear critic is a one-dimensional Fourier integral.

The restricted **KL** adds over independent coordinates, whatever the total degree. Its dual is the
smallest ``KL(P' || Q)`` among laws with the moments of P up to that degree; the product of the
one-dimensional minimizers has these moments, mixed ones included, and its log-density relative to Q
is a polynomial of the class. Normal noise loses nothing even to linear critics.

The restricted **Rényi** divergence does not add: critics ``g`` with mixed terms help, and ``|g|^q``
is not smooth along the curves where ``g = 0``, so that no rule is exact to rounding. Exact are
order 2 by moments in any dimension (`product_renyi2`), linear critics of any order
(`laplace_renyi_of_linear`), normal noise, and coordinates that do not move, which may be left out.
For the rest there are lower bounds by trained critics (`trained_divergence`) and upper ones by
`laplace_unrestricted_renyi`.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from scipy.special import gamma, roots_jacobi

from gibbs_dp.information import checks
from gibbs_dp.papers.capacity.closed_forms import above_one, inverse_scale, shift_vector
from gibbs_dp.papers.capacity.polynomial import (
    gaussian_line,
    laplace_line,
    polynomial_kl,
    polynomial_renyi,
)

_NUM_NODES = 32
# Panels of the Fourier variable: equal ones along the oscillation, then doubling ones.
_EDGES = np.concatenate([np.arange(1.0, 1025.0, 16.0), 2.0 ** np.arange(10, 21) + 1])
# From this many scales of the noise to the critic's zero, its norm is a moment series.
_FAR = 25.0
_NUM_MOMENTS = 12


def gaussian_renyi_of_polynomials(
    sigma: float, alpha: float, degree: int = 1, shift: ArrayLike | float = 1.0
) -> float:
    """Exact restricted Rényi divergence of polynomials of normal noise, any dimension."""
    length = float(np.linalg.norm(shift_vector(shift)))
    if length == 0:
        return 0.0
    if checks.nonnegative("sigma", sigma) == 0:
        return math.inf
    noise = sigma / length
    laws = gaussian_line(1.0, noise), gaussian_line(0.0, noise)
    return polynomial_renyi(*laws, alpha, degree).renyi


def laplace_renyi_of_polynomials(eps: float, alpha: float, degree: int = 1) -> float:
    """Exact restricted Rényi divergence of polynomial adversaries of Laplace(1/eps), sensitivity 1.

    Without noise (``eps = inf``) it is infinite.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> round(laplace_renyi_of_polynomials(0.2, 3.0), 4)
    0.0281
    """
    if math.isinf(inverse_scale(eps)):
        return math.inf
    laws = laplace_line(1.0, 1 / eps), laplace_line(0.0, 1 / eps)
    return polynomial_renyi(*laws, alpha, degree).renyi


def laplace_renyi_of_linear(
    eps: float,
    alpha: float,
    shift: ArrayLike | float = 1.0,
    visible: Float[np.ndarray, "views d"] | None = None,
) -> float:
    """Exact restricted Rényi divergence of linear adversaries of Laplace noise, any dimension.

    For ``q < 2``, ``E|Y|^q = c_q int_0^inf (1 - Re E e^{itY}) t^{-q-1} dt``, and the characteristic
    function of ``Y = b + a . X`` is a product. The integral is convex in ``a``.
    """
    moved = shift_vector(shift)
    if not 2 <= alpha <= 1000:
        raise ValueError(
            f"alpha must lie in [2, 1000] for Laplace noise in several dimensions, got {alpha}; "
            "below 2 use trained_divergence for a lower bound."
        )
    ways = np.eye(moved.size) if visible is None else _row_space(visible, moved.size)
    seen = ways @ moved
    if not eps > 0:
        raise ValueError(f"eps must be positive, got {eps}; pass a value above 0.")
    if np.abs(seen).max(initial=0.0) <= 1e-12 * np.abs(moved).max():
        return 0.0
    if math.isinf(eps):
        return math.inf
    move = eps * seen
    half = 1 + float(move @ move) / 2
    if alpha == 2:
        return math.log(half)
    q = alpha / above_one(alpha)
    norm = _FourierNorm(ways, q)

    def objective(c: Float[np.ndarray, " views"]) -> tuple[float, Float[np.ndarray, " views"]]:
        value, by_offset, by_slope = norm(1 - float(c @ move), c)
        return value, by_slope - by_offset * move

    found = minimize(objective, move / 2 / half, jac=True, method="BFGS", options={"gtol": 1e-11})
    return max(0.0, -math.log(float(found.fun)))


def _row_space(visible: Float[np.ndarray, "views d"], size: int) -> Float[np.ndarray, "rank d"]:
    """Orthonormal rows that span the visible linear functions."""
    if visible.shape[1] != size:
        raise ValueError(
            f"visible has {visible.shape[1]} columns for a shift of {size} coordinates; give one "
            "column per coordinate."
        )
    _, sizes, rows = np.linalg.svd(visible, full_matrices=False)
    return np.asarray(rows[sizes > 1e-10 * sizes.max(initial=1e-300)])


class _FourierNorm:
    """``E |b + (c ways) . X|^q`` and its derivatives, X Laplace of scale 1 in each coordinate."""

    def __init__(self, ways: Float[np.ndarray, "rank d"], q: float) -> None:
        self.ways, self.q = ways, q
        self.constant = 2 * gamma(q + 1) * math.sin(math.pi * q / 2) / math.pi
        # On the first panel 1 - Re(...) is t^2 times a smooth function.
        u, w = roots_jacobi(_NUM_NODES, 0.0, 1 - q)
        first, first_mass = (1 + u) / 2, w / 2 ** (2 - q)
        v, z = np.polynomial.legendre.leggauss(_NUM_NODES)
        half = np.diff(_EDGES)[:, None] / 2
        rest = _EDGES[:-1, None] + half * (1 + v)
        self.t = np.concatenate([first, rest.ravel()])
        tail = (half * z * rest ** (-q - 1)).ravel()
        self.mass = np.concatenate([first_mass / first**2, tail])
        self.end = _EDGES[-1] ** -q / q

    def __call__(
        self, offset: float, c: Float[np.ndarray, " rank"]
    ) -> tuple[float, float, Float[np.ndarray, " rank"]]:
        # In units of the critic's own width, so that the nodes fit it.
        slope = c @ self.ways
        if abs(offset) > _FAR * np.abs(slope).max():
            return self._series(offset, slope)
        width = math.hypot(offset, float(np.linalg.norm(slope)))
        b, a, t = offset / width, slope / width, self.t
        squares = np.square(a[:, None] * t)
        damping = np.exp(-np.log1p(squares).sum(axis=0))
        missing = 2 * np.sin(t * b / 2) ** 2 * damping - np.expm1(-np.log1p(squares).sum(axis=0))
        scale = self.constant * width**self.q
        value = scale * (float(self.mass @ missing) + self.end)
        by_b = float(self.mass @ (t * np.sin(t * b) * damping))
        by_a = (2 * a[:, None] * t**2 / (1 + squares)) @ (self.mass * np.cos(t * b) * damping)
        return value, scale / width * by_b, scale / width * (self.ways @ by_a)

    def _series(
        self, offset: float, slope: Float[np.ndarray, " d"]
    ) -> tuple[float, float, Float[np.ndarray, " rank"]]:
        """Binomial series ``sum_j C(q, 2j) b^{q-2j} E Y^{2j}``, far from the critic's zero.

        ``E Y^{2j} = (2j)! h_j(a_1^2, .., a_d^2)`` with the complete symmetric polynomials ``h_j``,
        and ``C(q, 2j) (2j)!`` is the falling factorial of ``q``.
        """
        squares = (slope / offset) ** 2
        powers = squares[:, None] ** np.arange(_NUM_MOMENTS)
        symmetric = np.ones(1)
        by_square = np.zeros((slope.size, 1))
        falling = np.ones(1)
        for j in range(1, _NUM_MOMENTS + 1):
            by_square = np.column_stack([by_square, powers[:, :j] @ symmetric[::-1]])
            sums = (powers[:, :j] * squares[:, None]).sum(axis=0)
            symmetric = np.append(symmetric, sums @ symmetric[::-1] / j)
            steps = (self.q - 2 * j + 2) * (self.q - 2 * j + 1)
            falling = np.append(falling, falling[-1] * steps)
        orders = 2 * np.arange(_NUM_MOMENTS + 1)
        scale = abs(offset) ** self.q
        by_offset = scale / offset * float(falling @ ((self.q - orders) * symmetric))
        by_slope = scale * 2 * slope / offset**2 * (by_square @ falling)
        return scale * float(falling @ symmetric), by_offset, self.ways @ by_slope


def laplace_kl_of_polynomials(eps: float, degree: int = 1, shift: ArrayLike | float = 1.0) -> float:
    """Exact restricted KL of polynomial adversaries of Laplace(1/eps) noise, any dimension.

    The sum over coordinates of the one-dimensional values, for every total degree.

    Parameters
    ----------
    eps
        Inverse scale of every coordinate's noise; ``inf``, no noise, gives ``inf``.
    degree
        Total degree; odd degrees above 1 see what one degree less does.
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
    >>> round(laplace_kl_of_polynomials(1.0, 1, [1.0, 1.0]), 6)  # twice 0.225987
    0.451974
    """
    moved = np.abs(shift_vector(shift))
    checks.count("degree", degree)
    if math.isinf(inverse_scale(eps)):
        return math.inf if moved.any() else 0.0
    still = laplace_line(0.0, 1.0)
    lines = [laplace_line(eps * float(v), 1.0) for v in moved if v > 0]
    return math.fsum(polynomial_kl(line, still, degree) for line in lines)
