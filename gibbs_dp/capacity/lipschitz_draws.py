"""Wasserstein-1 distances from draws, between two estimates whose biases have opposite signs."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.stats import wasserstein_distance

from gibbs_dp.capacity.bound import CapacityBound
from gibbs_dp.capacity.lipschitz import Lipschitz
from gibbs_dp.estimators import average


class WassersteinEstimate(NamedTuple):
    """Mean Wasserstein-1 distance of pairs of laws, between two estimates.

    Attributes
    ----------
    upper, upper_se
        Distance of the draws: in expectation at least that of the laws, most of all where they are
        close. An estimate, no guarantee.
    lower, lower_se
        What a critic fitted to one half of the draws attains on the other, averaged over both ways:
        in expectation at most the distance of the laws.
    num_pairs
        Independent pairs, the units of the errors.
    """

    upper: CapacityBound
    upper_se: float
    lower: CapacityBound
    lower_se: float
    num_pairs: int


def wasserstein_of_draws(
    draws_p: Float[np.ndarray, "pairs draws"], draws_q: Float[np.ndarray, "pairs others"]
) -> WassersteinEstimate:
    """Mean Wasserstein-1 distance of pairs of laws on the line, with errors over pairs.

    A pair is two posteriors of a number, say: of a dataset, and of the same with one example
    replaced. For a linear function of several parameters pass its values.

    Parameters
    ----------
    draws_p, draws_q
        Draws of each law, one row a pair of datasets; at least 2 independent pairs and 4 draws.
        Draws of Markov chains must be ordered by chain, so that halves are independent.

    Returns
    -------
    WassersteinEstimate
        In the unit of the draws.

    Raises
    ------
    ValueError
        If there are too few pairs or draws, or one is not finite.

    References
    ----------
    Ramdas, Garcia Trillos & Cuturi (2017) for the distance on the line.

    Examples
    --------
    >>> p, q = np.random.default_rng(0).normal(size=(2, 20, 400))
    >>> found = wasserstein_of_draws(p + 1.0, q)
    >>> found.lower.value < found.upper.value, bool(abs(found.lower.value - 1.0) < 0.05)
    (True, True)
    """
    if draws_p.shape[0] != draws_q.shape[0] or draws_p.shape[0] < 2:
        raise ValueError(
            "draws_p and draws_q must have one row per pair, equally many and at least 2, got "
            f"{draws_p.shape[0]} and {draws_q.shape[0]}."
        )
    if min(draws_p.shape[1], draws_q.shape[1]) < 4:
        raise ValueError(
            "draws_p and draws_q must have at least 4 draws a row, got "
            f"{draws_p.shape[1]} and {draws_q.shape[1]}; give some hundreds."
        )
    for name, draws in (("draws_p", draws_p), ("draws_q", draws_q)):
        if not np.isfinite(draws).all():
            raise ValueError(f"{name} must be finite; drop pairs with NaN and infinite draws.")
    p, q = draws_p.astype(np.float64), draws_q.astype(np.float64)
    plugged = np.array([wasserstein_distance(a, b) for a, b in zip(p, q, strict=True)])
    judged = np.array([_judged(a, b) for a, b in zip(p, q, strict=True)])
    kept = np.ones(len(p), bool)
    upper, lower = average(plugged, kept), average(judged, kept)
    critics = Lipschitz(1.0, math.inf)
    bounds = [
        CapacityBound(found.value, "ipm", critics, status="estimate", source=source)
        for found, source in ((upper, "distance of draws"), (lower, "fitted critic, fresh draws"))
    ]
    return WassersteinEstimate(bounds[0], upper.se, bounds[1], lower.se, len(p))


def _judged(p: Float[np.ndarray, " draws"], q: Float[np.ndarray, " others"]) -> float:
    halves = [(x[: x.size // 2], x[x.size // 2 :]) for x in (p, q)]
    (p_first, p_second), (q_first, q_second) = halves
    there = _attained(p_first, q_first, p_second, q_second)
    return (there + _attained(p_second, q_second, p_first, q_first)) / 2


def _attained(
    p: Float[np.ndarray, " draws"],
    q: Float[np.ndarray, " others"],
    fresh_p: Float[np.ndarray, " fresh"],
    fresh_q: Float[np.ndarray, " rest"],
) -> float:
    """Fit the best critic to some draws, slope ``sign(F_q - F_p)``, and judge it on others."""
    knots = np.sort(np.concatenate([p, q]))
    below = [np.searchsorted(np.sort(x), knots[:-1], side="right") / x.size for x in (p, q)]
    slopes = np.sign(below[1] - below[0])
    values = np.concatenate([[0.0], np.cumsum(slopes * np.diff(knots))])
    # Flat beyond the draws it was fitted to: still of Lipschitz constant 1.
    mean_p, mean_q = (float(np.mean(np.interp(x, knots, values))) for x in (fresh_p, fresh_q))
    return mean_p - mean_q
