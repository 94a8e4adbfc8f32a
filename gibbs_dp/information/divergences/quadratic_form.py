"""Tail probabilities of a quadratic polynomial of independent normals."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.integrate import quad


def quadratic_tail(
    square: Float[np.ndarray, " d"],
    linear: Float[np.ndarray, " d"],
    constant: float,
    level: float,
) -> float:
    """``P( sum_i (a_i x_i^2 + b_i x_i) + c > level )`` for independent standard normal ``x``.

    Inverts the moment generating function ``M`` of the sum minus the level,
    ``(1 / 2 pi i) int M(s) / s ds``, along a contour bent at 60 degrees towards the side where
    ``M`` decays: its only singularities lie on the real axis, so the integral does not change
    and no longer oscillates (Imhof 1961 integrates along the imaginary axis).

    Parameters
    ----------
    square, linear
        Coefficients ``a [d]`` and ``b [d]``, ``d >= 2`` of them not both 0.
    constant, level
        The numbers ``c`` and ``level``.

    Returns
    -------
    float
        A probability, accurate to about 1e-9.

    Raises
    ------
    ValueError
        If every coefficient is 0.

    Examples
    --------
    >>> round(quadratic_tail(np.array([1.0, 1.0]), np.zeros(2), 0.0, 2.0), 6)  # exp(-1)
    0.367879
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
