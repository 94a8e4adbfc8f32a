"""Polynomial adversaries on the line: restricted Rényi and alpha-divergences, exactly.

A class that is closed under scaling turns the alpha-divergence of Chaudhuri, Imola &
Machanavajjhala (2019) into a norm: with ``q = alpha / (alpha - 1)``,

    1 + alpha (alpha - 1) D_alpha^H(P, Q) = N^alpha,   N = sup_{g in H} E_P[g] / |g|_{L^q(Q)},

so that the restricted Rényi divergence is ``q log N``. Its dual is the smallest ``L^alpha(Q)``
norm of a signed density that has the moments of P.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from gibbs_dp.information import checks
from gibbs_dp.papers.capacity.basis import Basis, orthonormal_basis
from gibbs_dp.papers.capacity.line import Line

_MAX_NEWTON = 200
# Newton's predicted decrease, relative to the value; one more step squares the rest.
_SETTLED = 1e-14
# Orders are reached in steps of this factor, each starting from the previous critic.
_STRIDE = 1.6


class PolynomialCritic(NamedTuple):
    """The best polynomial critic of one order, and its value.

    Attributes
    ----------
    renyi
        Restricted Rényi divergence, nats.
    alpha_divergence
        Restricted alpha-divergence, ``(e^{(alpha-1) renyi} - 1) / (alpha (alpha - 1))``.
    coefficients
        Coefficients of the critic ``g``, ``E_P[g] = 1``, in the orthonormal polynomials of Q.
    basis
        Those polynomials.
    residual
        Largest distance of a moment of the dual density from that of P: 0 certifies optimality.
    """

    renyi: float
    alpha_divergence: float
    coefficients: Float[np.ndarray, " terms"]
    basis: Basis
    residual: float


def alpha_from_renyi(renyi: float, alpha: float) -> float:
    """Alpha-divergence with the same information as a Rényi divergence of that order.

    Examples
    --------
    >>> round(alpha_from_renyi(math.log(1.5), 2.0), 9)
    0.25
    """
    exponent = (alpha - 1) * renyi
    return math.inf if exponent > 700 else math.expm1(exponent) / (alpha * (alpha - 1))


def renyi_from_alpha(divergence: float, alpha: float) -> float:
    """Rényi divergence ``log(1 + alpha (alpha - 1) D) / (alpha - 1)`` of an alpha-divergence.

    Examples
    --------
    >>> round(renyi_from_alpha(0.25, 2.0), 9)
    0.405465108
    """
    return math.log1p(alpha * (alpha - 1) * divergence) / (alpha - 1)


def order(alpha: float) -> float:
    """Return ``alpha`` if it is an order above 1 that quadrature can resolve, else raise.

    Raises
    ------
    ValueError
        Outside ``[1.05, 1000]``: below, critics are powers above 20; above, steps.
    """
    if not 1.05 <= alpha <= 1000:
        raise ValueError(
            f"alpha must lie in [1.05, 1000], got {alpha}; for alpha = 1 use the KL functions."
        )
    return float(alpha)


def polynomial_renyi(p: Line, q: Line, alpha: float, degree: int) -> PolynomialCritic:
    """Restricted Rényi and alpha-divergence for polynomials of at most ``degree``.

    Minimizes ``E_Q |g|^q`` over polynomials with ``E_P[g] = 1`` by Newton's method. The integrals
    follow the zeros of ``g``, so nothing degrades for large orders, where ``q`` nears 1 and the
    problem on fixed nodes is no longer smooth.

    Parameters
    ----------
    p, q
        The two laws.
    alpha
        Order, in ``[1.05, 1000]``.
    degree
        At least 1; 1 is the linear adversary.

    Returns
    -------
    PolynomialCritic
        Both divergences, the best critic, and a certificate.

    Raises
    ------
    ValueError
        If an argument is out of range, or a law lacks the moments.

    Examples
    --------
    >>> from gibbs_dp.papers.capacity.line import laplace_line
    >>> found = polynomial_renyi(laplace_line(1.0, 1.0), laplace_line(0.0, 1.0), 2.0, 1)
    >>> round(found.renyi, 9)  # log(1 + 1/2)
    0.405465108
    """
    order(alpha)
    checks.count("degree", degree)
    basis = orthonormal_basis(q, degree)
    moments = p.expectations(basis.values)
    # E_P[g] = 1 leaves g = g0 + (directions that P does not see).
    free = np.linalg.svd(moments[None, :])[2][1:]
    origin = moments / float(moments @ moments)
    y = np.zeros(degree)
    steps = max(0, math.ceil(abs(math.log(alpha - 1)) / math.log(_STRIDE)))
    for fraction in np.linspace(0, 1, steps + 1)[1:] if steps else ():
        conjugate = 1 + 1 / (alpha - 1) ** fraction
        y = _newton(q, basis, origin, free, conjugate, y)
    coefficients = origin + y @ free
    conjugate = alpha / (alpha - 1)
    x, mass = q.rule(list(basis.zeros(coefficients)), conjugate - 2)
    terms = basis.values(x)
    g = coefficients @ terms
    norm = float(mass @ np.abs(g) ** conjugate)
    density = np.sign(g) * np.abs(g) ** (conjugate - 1) / norm
    residual = float(np.abs(terms @ (mass * density) - moments).max())
    renyi = max(0.0, -math.log(norm))  # q log N, N = norm^(-1/q)
    return PolynomialCritic(renyi, alpha_from_renyi(renyi, alpha), coefficients, basis, residual)


def _newton(
    law: Line,
    basis: Basis,
    origin: Float[np.ndarray, " terms"],
    free: Float[np.ndarray, "degree terms"],
    conjugate: float,
    start: Float[np.ndarray, " degree"],
) -> Float[np.ndarray, " degree"]:
    """Minimize ``E_Q |g|^q / q``, convex in the free coefficients."""

    def evaluate(y: Float[np.ndarray, " degree"]) -> tuple[float, np.ndarray, np.ndarray]:
        coefficients = origin + y @ free
        x, mass = law.rule(list(basis.zeros(coefficients)), conjugate - 2)
        terms = basis.values(x)
        g, directions = coefficients @ terms, free @ terms
        size = np.abs(g) + np.finfo(np.float64).tiny
        slope = mass * np.sign(g) * size ** (conjugate - 1)
        bend = (conjugate - 1) * mass * size ** (conjugate - 2)
        value = float(mass @ size**conjugate) / conjugate
        return value, directions @ slope, (directions * bend) @ directions.T

    y = start
    value, gradient, hessian = evaluate(y)
    for _ in range(_MAX_NEWTON):
        step = -np.linalg.solve(hessian, gradient)
        decrease = -float(gradient @ step)
        if decrease <= _SETTLED * value:
            return y + step
        size = 1.0
        while size > 1e-10:
            trial = evaluate(y + size * step)
            if trial[0] <= value - 1e-4 * size * decrease:
                break
            size /= 2
        else:
            break  # rounding: no step improves the value
        y = y + size * step
        value, gradient, hessian = trial
    return y
