"""Log normalizers along a grid of gammas by thermodynamic integration."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from gibbs_dp.information.checks import whole_arrays


class Integral(NamedTuple):
    """Increments of the log normalizer from one gamma to the next, one row per dataset.

    Attributes
    ----------
    value
        ``log C(gamma_j+1) - log C(gamma_j)``.
    quadrature_error
        Difference to a coarser rule: the possible error from the spacing of the grid.
    """

    value: Float[np.ndarray, "datasets intervals"]
    quadrature_error: Float[np.ndarray, "datasets intervals"]


@whole_arrays
def integrate_mean_loss(
    gammas: Float[np.ndarray, " gammas"],
    mean_loss: Float[np.ndarray, "datasets gammas"],
    loss_variance: Float[np.ndarray, "datasets gammas"],
) -> Integral:
    """Integrate ``d log C / d gamma = -E_gamma[L]`` between neighbouring gammas.

    With ``s = log gamma`` the integrand ``gamma E_gamma[L]`` is matched in value and slope
    (``dE/dgamma = -Var_gamma(L)``) at both ends by a combination of ``1, gamma, s, s gamma``: exact
    for a Gaussian posterior under a flat prior, where it is ``a gamma + d / 2``. The coarser rule
    matches the values alone, by ``1`` and ``gamma``. An interval that begins at gamma = 0 uses
    powers of gamma instead.

    Parameters
    ----------
    gammas
        Increasing, at least two.
    mean_loss, loss_variance
        Posterior mean and variance of the total loss, per dataset and gamma.

    Returns
    -------
    Integral
        Increments between neighbouring gammas.

    Examples
    --------
    >>> gammas = np.array([0.1, 1.0, 10.0])
    >>> loss = 3.0 + 0.5 / gammas  # one Gaussian coordinate: log C = -3 gamma - log(gamma) / 2
    >>> found = integrate_mean_loss(gammas, loss[None], 0.5 / gammas[None] ** 2)
    >>> bool(np.allclose(found.value, -3.0 * np.diff(gammas) - 0.5 * np.log(10.0)))
    True
    """
    fine, coarse = [], []
    for j, (low, high) in enumerate(pairwise(gammas)):
        ends = slice(j, j + 2)
        rule = _from_zero if low == 0 else _from_positive
        both = rule(float(low), float(high), mean_loss[:, ends], loss_variance[:, ends])
        fine.append(both[0])
        coarse.append(both[1])
    value = -np.stack(fine, axis=1)
    return Integral(value, np.abs(value + np.stack(coarse, axis=1)))


Pair = Float[np.ndarray, "datasets 2"]
Column = Float[np.ndarray, " datasets"]


def _from_positive(low: float, high: float, mean: Pair, variance: Pair) -> tuple[Column, Column]:
    gamma, ratio = np.array([low, high]), high / low
    integrand = gamma * mean
    slope = integrand - gamma**2 * variance
    # Basis 1, e^t, t, t e^t with t = log(gamma / low) in [0, log ratio].
    t, e = np.array([0.0, np.log(ratio)]), np.array([1.0, ratio])
    values = np.stack([np.ones(2), e, t, t * e], axis=1)
    slopes = np.stack([np.zeros(2), e, np.ones(2), (1 + t) * e], axis=1)
    wanted = np.concatenate([integrand, slope], axis=1)
    coefficients = np.linalg.solve(np.concatenate([values, slopes]), wanted.T)
    length = t[1]
    weights = np.array([length, ratio - 1.0, length**2 / 2, (length - 1.0) * ratio + 1.0])
    two = np.linalg.solve(values[:, :2], integrand.T)
    return weights @ coefficients, weights[:2] @ two


def _from_zero(low: float, high: float, mean: Pair, variance: Pair) -> tuple[Column, Column]:
    width = high - low
    trapezoid = width * mean.mean(axis=1)
    return trapezoid + width**2 / 12.0 * (variance[:, 1] - variance[:, 0]), trapezoid
