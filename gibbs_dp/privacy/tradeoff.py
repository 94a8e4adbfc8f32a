"""What a guarantee allows an attacker: the trade-off between true and false positives."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from gibbs_dp.privacy.figures import least_epsilon
from gibbs_dp.privacy.guarantee import Guarantee

# Orders at which the Rényi curve of zero-concentrated DP is used; any of them give a bound.
ORDERS = 1.0 + np.geomspace(1e-3, 1e4, 81)
BISECTIONS = 60
# Exponentials overflow far above it, and it allows everything but 1e-260.
LARGEST_EPSILON = 600.0

Rates = Float[np.ndarray, " rates"]


def largest_tpr(guarantee: Guarantee, fpr: ArrayLike | float | Sequence[float]) -> Rates:
    """Bound the true positive rate of every attacker, at given false positive rates.

    The attacker tells two neighbouring datasets apart from everything that the guarantee covers;
    the smallest of the bounds of its currencies:

    - ``(epsilon, delta)`` and pure DP: ``min(e^eps a + delta, 1 - e^-eps (1 - delta - a))`` at the
      rate ``a`` (Kairouz, Oh & Viswanath 2015);
    - Gaussian DP: ``Phi(Phi^-1(a) + mu)`` (Dong, Roth & Su 2022);
    - draws near exact ones: that of the exact ones at ``a + T``, plus ``T``, the distance;
    - Rényi and zero-concentrated DP: the largest rate whose Rényi divergences from ``a``, as of
      two coins and both ways, keep within the curve (data processing).

    Parameters
    ----------
    guarantee
        Of a release.
    fpr
        False positive rates in ``[0, 1]``.

    Returns
    -------
    array
        One rate each.

    Raises
    ------
    ValueError
        If a rate is outside ``[0, 1]``.

    Examples
    --------
    >>> g = Guarantee("replace-one", "exact draw", 1, 1.0, epsilon=1.0, delta=0.0, pure_epsilon=1.0)
    >>> largest_tpr(g, [0.01, 0.5]).round(4).tolist()
    [0.0272, 0.8161]
    """
    rates = np.atleast_1d(np.asarray(fpr, np.float64))
    if rates.ndim != 1 or not ((rates >= 0) & (rates <= 1)).all():
        raise ValueError("fpr: rates must be a vector of numbers in [0, 1].")
    found = [np.ones_like(rates)]
    for epsilon, delta in _pairs(guarantee):
        above = 1.0 - math.exp(-epsilon) * (1.0 - delta - rates)
        found += [math.exp(epsilon) * rates + delta, above]
    if guarantee.gdp is not None:
        found.append(ndtr(ndtri(rates) + guarantee.gdp))
    for order, value in _curve(guarantee):
        low, high = rates, np.ones_like(rates)
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            both = [_renyi_of_coins(middle, rates, order), _renyi_of_coins(rates, middle, order)]
            is_allowed = np.maximum(*both) <= value
            low, high = np.where(is_allowed, middle, low), np.where(is_allowed, high, middle)
        found.append(high)
    if guarantee.exact is not None:  # both laws are within the distance of those of exact draws
        far = guarantee.distance
        found.append(largest_tpr(guarantee.exact, np.minimum(rates + far, 1.0)) + far)
    return np.maximum(np.min(found, axis=0), rates)


def largest_advantage(guarantee: Guarantee) -> float:
    """Bound the advantage of every attacker: true minus false positive rate.

    ``(e^eps - 1 + 2 delta) / (e^eps + 1)``, ``2 Phi(mu/2) - 1``, and of a Rényi curve the largest
    ``t`` for which coins of ``(1 + t) / 2`` and ``(1 - t) / 2`` keep within it: bounds that hold
    both ways are symmetric, and largest there. The sources are those of `largest_tpr`.

    Parameters
    ----------
    guarantee
        Of a release.

    Returns
    -------
    float
        In ``[0, 1]``; 1 where nothing is promised.

    Examples
    --------
    >>> g = Guarantee("replace-one", "exact draw", 1, 1.0, epsilon=1.0, delta=0.0, pure_epsilon=1.0)
    >>> round(largest_advantage(g), 4)                                      # tanh(1/2)
    0.4621
    """
    found = [1.0]
    for epsilon, delta in _pairs(guarantee):
        half = math.tanh(epsilon / 2)
        found.append(half + delta * (1.0 - half))
    if guarantee.gdp is not None:
        found.append(2.0 * float(ndtr(guarantee.gdp / 2)) - 1.0)
    for order, value in _curve(guarantee):
        low, high = 0.0, 1.0
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            coins = np.array([0.5 + 0.5 * middle]), np.array([0.5 - 0.5 * middle])
            is_allowed = float(_renyi_of_coins(*coins, order)[0]) <= value
            low, high = (middle, high) if is_allowed else (low, middle)
        found.append(high)
    if guarantee.exact is not None:
        found.append(largest_advantage(guarantee.exact) + 2.0 * guarantee.distance)
    return min(found)


def as_replace_one(guarantee: Guarantee) -> Guarantee:
    """Turn a guarantee for added or removed examples into one for replaced ones.

    Replacing is removing and adding: twice the pure epsilon and mu, four times rho, and
    ``(2 epsilon, (1 + e^epsilon) delta)`` (group privacy; Dwork & Roth 2014, Bun & Steinke 2016,
    Dong, Roth & Su 2022), or what the others imply at that delta where it is less. A Rényi curve
    and Bayesian DP are lost.
    """
    g = guarantee
    if g.adjacency == "replace-one":
        return g
    delta = min(1.0, (1.0 + math.exp(min(g.epsilon, LARGEST_EPSILON))) * g.delta)
    is_void = not delta < 1.0  # a guarantee with delta = 1 cannot be written
    delta = 0.0 if is_void else delta
    pure = None if g.pure_epsilon is None else 2 * g.pure_epsilon
    zcdp = None if g.zcdp is None else 4 * g.zcdp
    gdp = None if g.gdp is None else 2 * g.gdp
    epsilon = math.inf if is_void else 2 * g.epsilon
    return replace(
        g,
        adjacency="replace-one",
        epsilon=least_epsilon(epsilon, delta, pure_epsilon=pure, zcdp=zcdp, gdp=gdp),
        delta=delta,
        pure_epsilon=pure,
        zcdp=zcdp,
        gdp=gdp,
        renyi=(),
        bayesian_epsilon=None,
        exact=None if g.exact is None or is_void else as_replace_one(g.exact),
    )


def _pairs(guarantee: Guarantee) -> Iterator[tuple[float, float]]:
    if guarantee.epsilon < LARGEST_EPSILON:
        yield guarantee.epsilon, guarantee.delta
    if guarantee.pure_epsilon is not None and guarantee.pure_epsilon < LARGEST_EPSILON:
        yield guarantee.pure_epsilon, 0.0


def _curve(guarantee: Guarantee) -> Iterator[tuple[float, float]]:
    """Orders above 1 and bounds of the divergence, nats."""
    yield from ((a, v) for a, v in guarantee.renyi if 1 < a < math.inf and v < math.inf)
    if guarantee.zcdp is not None:
        yield from ((float(a), float(a) * guarantee.zcdp) for a in ORDERS)


def _renyi_of_coins(p: Rates, q: Rates, order: float) -> Rates:
    """Rényi divergence between coins, nats; infinite where one side is impossible."""
    with np.errstate(divide="ignore", invalid="ignore"):
        sides = [
            np.where(a > 0, order * np.log(a) + (1.0 - order) * np.log(b), -np.inf)
            for a, b in ((p, q), (1.0 - p, 1.0 - q))
        ]
    total: Rates = np.logaddexp(*sides) / (order - 1.0)
    return total
