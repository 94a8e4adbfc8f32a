"""Conjugate linear regression on many datasets: every replaced posterior at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from gibbs_dp.information import checks

Datasets = Float[np.ndarray, " datasets"]


class ReplacedRegression(NamedTuple):
    """Exact answers per dataset ``[datasets]``, averaged over its examples and ghosts.

    KL is in nats; risks are those of one posterior draw under ``(y - x·theta)^2``.
    """

    on_average_kl: Datasets
    empirical_risk: Datasets
    population_risk: Datasets


def linear_regression_replaced(
    x: ArrayLike,
    y: ArrayLike,
    ghost_x: ArrayLike,
    ghost_y: ArrayLike,
    gamma: float,
    prior_precision: float,
) -> ReplacedRegression:
    """KL between each dataset's posterior and that with one example replaced, over all pairs.

    With ``P`` the posterior precision, replacing ``(a, y_a)`` by ``(g, y_g)`` changes it by
    ``2 gamma (g g' - a a')``: trace, determinant and the quadratic form of the means reduce to
    the 2 x 2 matrix of ``P^-1`` in the span of ``g`` and ``a``. ``d`` may exceed ``n``.

    Parameters
    ----------
    x, y
        Datasets ``[datasets, n, d]`` and ``[datasets, n]``.
    ghost_x, ghost_y
        Fresh examples ``[datasets, ghosts, d]`` and ``[datasets, ghosts]``.
    gamma
        Inverse temperature of the total loss ``sum_i (y_i - x_i·theta)^2``.
    prior_precision
        ``tau > 0`` of the prior ``N(0, I / tau)``.

    Returns
    -------
    ReplacedRegression
        Exact answers for each dataset.

    Raises
    ------
    ValueError
        If shapes disagree or a number is not positive.

    Examples
    --------
    >>> x, y = np.array([[[1.0], [1.0]]]), np.array([[0.0, 2.0]])
    >>> found = linear_regression_replaced(x, y, [[[1.0]]], [[1.0]], 0.5, 1.0)
    >>> round(float(found.on_average_kl[0]), 9)           # means move by 1/3, the precision is 3
    0.166666667
    """
    checks.positive("gamma", gamma)
    checks.positive("prior_precision", prior_precision)
    a, g = np.asarray(x, np.float64), np.asarray(ghost_x, np.float64)
    y_a, y_g = np.asarray(y, np.float64), np.asarray(ghost_y, np.float64)
    if a.ndim != 3 or g.ndim != 3 or (y_a.shape, y_g.shape) != (a.shape[:2], g.shape[:2]):
        raise ValueError(
            "x: give datasets [m, n, d] with y [m, n], and ghosts [m, g, d] with [m, g]; got "
            f"{a.shape}, {y_a.shape}, {g.shape}, {y_g.shape}."
        )
    step, d = 2 * gamma, a.shape[2]
    precision = step * np.swapaxes(a, 1, 2) @ a + prior_precision * np.eye(d)
    covariance = np.linalg.inv(precision)
    mean = step * np.einsum("mij,mnj,mn->mi", covariance, a, y_a, optimize=True)
    left_a, left_g = a @ covariance, g @ covariance
    spread_a, spread_g = np.sum(left_a * a, axis=2), np.sum(left_g * g, axis=2)
    error_a = y_a - np.einsum("mnj,mj->mn", a, mean)
    error_g = y_g - np.einsum("mnj,mj->mn", g, mean)

    # Of every pair [datasets, ghosts, n]: M is P^-1 in the span, C = diag(step, -step).
    gg, aa = spread_g[:, :, None], spread_a[:, None, :]
    ga = left_g @ np.swapaxes(a, 1, 2)
    top_left, top_right = 1 + step * gg, -step * ga  # of I + M C
    bottom_left, bottom_right = step * ga, 1 - step * aa
    determinant = top_left * bottom_right - top_right * bottom_left
    s_g, s_a = step * error_g[:, :, None], -step * error_a[:, None, :]
    m_g, m_a = gg * s_g + ga * s_a, ga * s_g + aa * s_a  # M s
    shift = (  # s' (I + M C)^-1 M s, the quadratic form of the means' difference
        s_g * (bottom_right * m_g - top_right * m_a) + s_a * (top_left * m_a - bottom_left * m_g)
    ) / determinant
    kl = 0.5 * (step * (gg - aa) - np.log(determinant) + shift)
    return ReplacedRegression(
        on_average_kl=kl.mean(axis=(1, 2)),
        empirical_risk=np.mean(error_a**2 + spread_a, axis=1),
        population_risk=np.mean(error_g**2 + spread_g, axis=1),
    )
