"""Confidence intervals of the mean of bounded numbers that hold for every sample size."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq

# Largest share of the stake that a bet may lose.
MOST_LOST = 0.75


def empirical_bernstein(
    values: Float[np.ndarray, " datasets"], low: float, high: float, error: float
) -> tuple[float, float]:
    """Interval of the mean of independent numbers in ``[low, high]`` (Maurer & Pontil 2009).

    Their mean is farther than ``sqrt(2 V L / n) + 7 (high - low) L / (3 (n - 1))`` from the
    sample's with a probability of at most ``error``, ``V`` being the sample variance and ``L =
    log(4/error)`` for both sides. The number of values must not depend on them.

    >>> found = empirical_bernstein(np.array([0.0, 1.0] * 500), 0.0, 1.0, 0.05)
    >>> [round(end, 3) for end in found]
    [0.443, 0.557]
    """
    count = values.size
    mean, variance = float(values.mean()), float(values.var(ddof=1))
    log_term = math.log(4 / error)
    reach = math.sqrt(2 * variance * log_term / count)
    reach += 7 * (high - low) * log_term / (3 * (count - 1))
    return max(low, mean - reach), min(high, mean + reach)


def betting_interval(
    values: Float[np.ndarray, " datasets"], low: float, high: float, error: float, planned: int
) -> tuple[float, float]:
    """Interval of the mean of numbers in ``[low, high]``, by bets (Waudby-Smith & Ramdas 2024).

    Whoever bets that the mean is above ``m``, a share of the stake that is known before each
    number, has a stake that is a nonnegative martingale if ``m`` is the mean, and multiplies
    it by ``2/error`` at any time with a probability of at most ``error/2`` (Ville's inequality).
    Means that would have made either bettor so rich are left out, whenever that was: the interval
    holds for any number of values, also where they decided when to stop. Values need only have
    this mean given those before them. Bets are made for the number that was planned, with a
    variance estimated from the values before.

    >>> found = betting_interval(np.array([0.0, 1.0] * 500), 0.0, 1.0, 0.05, 1000)
    >>> [round(end, 2) for end in found]
    [0.46, 0.54]
    """
    x = (values - low) / (high - low)
    count = np.arange(1, x.size + 1)
    mean = (0.5 + np.cumsum(x)) / (count + 1)
    variance = (0.25 + np.cumsum((x - mean) ** 2)) / (count + 1)
    before = np.concatenate([[0.25], variance[:-1]])  # known before each number
    bets = np.sqrt(2 * math.log(2 / error) / (before * planned))
    goal = math.log(2 / error)

    def excess(stake: Float[np.ndarray, " datasets"], m: float) -> float:
        """Most that a stake on means above ``m`` came to, over what leaves ``m`` out."""
        share = np.minimum(bets, MOST_LOST / max(m, 1e-300))
        return float(np.max(np.cumsum(np.log1p(share * (stake - m))))) - goal

    def least(stake: Float[np.ndarray, " datasets"]) -> float:
        """Smallest mean that is not left out: stakes fall with ``m``."""
        if excess(stake, 0.0) <= 0:
            return 0.0
        return float(brentq(lambda m: excess(stake, m), 0.0, 1.0, xtol=1e-12)) - 1e-12

    width = high - low
    return low + width * max(0.0, least(x)), high - width * max(0.0, least(1 - x))
