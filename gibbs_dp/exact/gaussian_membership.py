"""Membership from one draw of the Gaussian mean, the rest of the dataset unknown."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq

from gibbs_dp.exact.membership import Membership
from gibbs_dp.information import checks
from gibbs_dp.information.divergences.quadratic_form import quadratic_tail


def gaussian_mean_membership(
    gamma: float,
    n: int,
    dim: int,
    data_variance: float,
    prior_variance: float = math.inf,
) -> Membership:
    """Membership figures of the Gaussian mean of `closed_form.gaussian_mean`.

    Draw and example are Gaussians of squared correlation ``rho^2 = (gamma^2 v / P^2) / V`` in every
    coordinate, ``V = n gamma^2 v / P^2 + 1 / P`` the variance of the draw and
    ``P = n gamma + 1/t^2``. So ``I(W; Z_i) = -(d/2) log(1 - rho^2)``, and ``Lambda`` is a
    difference of two chi-squares: ``rho/2 (A - B)`` for members and
    ``rho/2 (A / (1 + rho) - B / (1 - rho))`` for others, plus ``I(W; Z_i)``.

    Parameters
    ----------
    gamma, n, dim, data_variance, prior_variance
        As in `gaussian_mean_attacker`; examples are Gaussian.

    Returns
    -------
    Membership
        Informations in closed form, the rest by contour integrals to about 1e-9.

    Raises
    ------
    ValueError
        If a variance or gamma is not positive, or a count is not a positive integer.

    Examples
    --------
    >>> answer = gaussian_mean_membership(gamma=1.0, n=30, dim=1, data_variance=1.0)
    >>> round(answer.individual_information, 6), round(answer.advantage, 6)
    (0.008404, 0.041586)
    """
    checks.positive("gamma", gamma)
    checks.positive("data_variance", data_variance)
    if math.isnan(prior_variance) or prior_variance <= 0:
        raise ValueError(f"prior_variance must be positive or inf, got {prior_variance}.")
    precision = checks.count("n", n) * gamma + 1 / prior_variance
    one = gamma**2 * data_variance / precision**2
    square = one / (n * one + 1 / precision)
    rho, size = math.sqrt(square), checks.count("dim", dim)
    information = -0.5 * size * math.log1p(-square)
    ones = np.ones(size)
    member = np.concatenate([ones, -ones]) * rho / 2
    other = np.concatenate([ones / (1 + rho), -ones / (1 - rho)]) * rho / 2

    def alarms(coefficients: Float[np.ndarray, " d"], level: float) -> float:
        return quadratic_tail(coefficients, np.zeros(coefficients.size), information, level)

    def rate(fpr: float) -> float:
        if fpr in (0.0, 1.0):
            return fpr
        reach = rho * size
        while alarms(other, reach) > fpr or alarms(other, -reach) < fpr:
            reach *= 2
        level = brentq(lambda x: alarms(other, x) - fpr, -reach, reach, xtol=1e-12 * reach)
        return alarms(member, float(level))

    difference = np.concatenate([member, -other])
    return Membership(
        advantage=alarms(member, 0.0) - alarms(other, 0.0),
        attack_auc=quadratic_tail(difference, np.zeros(difference.size), 0.0, 0.0),
        attack_tpr_1pct=rate(0.01),
        attack_tpr_01pct=rate(0.001),
        individual_information=information,
        lautum_information=size * square / (1 - square) - information,
        rate=rate,
    )
