"""Gaussian differential privacy: strongly convex posteriors, bounded sets, and conversions.

``mu``-GDP means no easier to tell apart than ``N(0, 1)`` and ``N(mu, 1)`` (Dong, Roth & Su 2022).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, ndtr

from gibbs_dp.information import checks


def strongly_convex_gdp(gamma: float, *, lipschitz: float, strong_convexity: float) -> float:
    """``mu = gamma G / sqrt(m)`` for one exact draw (Gopi, Lee & Liu 2022, Thm 4).

    Parameters
    ----------
    gamma
        Inverse temperature.
    lipschitz
        ``G``: ``loss(., z) - loss(., z')`` is ``G``-Lipschitz; at most twice the Lipschitz constant
        of the loss, replace-one.
    strong_convexity
        ``m`` of both potentials ``gamma L - log pi``, on a convex set.

    Returns
    -------
    float
        The parameter ``mu`` of Gaussian DP.

    Examples
    --------
    >>> strongly_convex_gdp(1.0, lipschitz=2.0, strong_convexity=16.0)
    0.5
    """
    checks.positive("gamma", gamma)
    checks.nonnegative("lipschitz", lipschitz)
    return gamma * lipschitz / math.sqrt(checks.positive("strong_convexity", strong_convexity))


def bounded_convex_gdp(
    gamma: float, *, lipschitz: float, diameter: float, strong_convexity: float = 0.0
) -> float:
    """``mu = sqrt(2 gamma G D - m D^2)`` for one exact draw on a convex set of diameter ``D``.

    Where ``gamma G < m D``, the set is too wide to matter and `strongly_convex_gdp` holds instead.
    It is the limit, for small steps and many of them, of the last iterate of projected Langevin
    steps (shifted interpolation: Bok, Su & Altschuler 2024), minimized over how long ago both
    chains are taken to have been anywhere in the set: ``min over a in [0, 1) of (a D + (1 - a)
    gamma G / m) sqrt(m / (1 - a^2))``, at ``a = 1 - m D / (gamma G)``.

    Parameters
    ----------
    gamma
        Inverse temperature.
    lipschitz
        ``G``, as in `strongly_convex_gdp`.
    diameter
        ``D`` of the convex set, the prior's support.
    strong_convexity
        ``m`` of both potentials; 0 where they are only convex.

    Returns
    -------
    float
        The parameter ``mu`` of Gaussian DP.

    Examples
    --------
    >>> bounded_convex_gdp(2.0, lipschitz=1.0, diameter=4.0)
    4.0
    >>> bounded_convex_gdp(1.0, lipschitz=2.0, diameter=4.0, strong_convexity=16.0)
    0.5
    """
    checks.positive("gamma", gamma)
    pull = gamma * checks.nonnegative("lipschitz", lipschitz)
    diameter = checks.positive("diameter", diameter)
    m = checks.nonnegative("strong_convexity", strong_convexity)
    if pull < m * diameter:
        return pull / math.sqrt(m)
    return math.sqrt(diameter * (2 * pull - m * diameter))


def gdp_composition(mus: ArrayLike) -> float:
    """Composition of Gaussian DP: ``sqrt(sum mu_i^2)`` (Dong, Roth & Su 2022, Cor. 3.3).

    Examples
    --------
    >>> gdp_composition([3.0, 4.0])
    5.0
    """
    values = np.asarray(mus, dtype=np.float64)
    if values.ndim != 1 or not np.all(values >= 0):
        raise ValueError("mus must be a vector of numbers >= 0; pass one mu per release.")
    return float(np.sqrt(np.sum(values**2)))


def zcdp_from_gdp(mu: float) -> float:
    """``mu``-GDP implies ``mu^2 / 2`` zero-concentrated DP.

    Examples
    --------
    >>> zcdp_from_gdp(1.0)
    0.5
    """
    return checks.nonnegative("mu", mu) ** 2 / 2


def delta_from_gdp(mu: float, epsilon: float) -> float:
    """``Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)`` (Balle & Wang 2018).

    Examples
    --------
    >>> round(delta_from_gdp(1.0, epsilon=1.0), 6)
    0.126937
    """
    checks.nonnegative("epsilon", epsilon)
    if checks.nonnegative("mu", mu) == 0:
        return 0.0
    first = float(ndtr(mu / 2 - epsilon / mu))
    return max(0.0, first - math.exp(epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))))


def delta_from_zcdp(rho: float, epsilon: float) -> float:
    """``exp(-(epsilon - rho)^2 / (4 rho))``, from ``rho``-zCDP, for ``epsilon >= rho``; else 1.

    Bun & Steinke 2016, Prop. 1.3.

    Examples
    --------
    >>> round(delta_from_zcdp(0.125, epsilon=2.0), 6)
    0.000884
    """
    checks.nonnegative("epsilon", epsilon)
    if checks.nonnegative("rho", rho) == 0:
        return 0.0
    return 1.0 if epsilon < rho else math.exp(-((epsilon - rho) ** 2) / (4 * rho))
