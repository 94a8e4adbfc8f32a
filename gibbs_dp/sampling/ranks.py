"""Exact test and band of uniform ranks: largest departure of their distribution, at any rank."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from scipy import stats

# Below it, a p-value is what rounding leaves.
LEAST = 1e-12
# Of tails that differ by rounding alone.
NEAR = 1e-9


def steps(ranks: Int[np.ndarray, " datasets"], num_ranked: int) -> Int[np.ndarray, " ranked"]:
    """How many ranks are at most 0, 1, ..., one below the largest."""
    return np.cumsum(np.bincount(ranks, minlength=num_ranked + 1))[:-1]


def _tails(num_datasets: int, num_ranked: int) -> Float[np.ndarray, "ranked counts"]:
    """Two-sided tail of every count (of ranks that are at most so large), under uniform ranks."""
    share = np.arange(1, num_ranked + 1)[:, None] / (num_ranked + 1)
    count = np.arange(num_datasets + 1)
    below = stats.binom.cdf(count, num_datasets, share)
    above = stats.binom.sf(count - 1, num_datasets, share)
    return np.minimum(1.0, 2.0 * np.minimum(below, above))


def _inside(tails: Float[np.ndarray, "ranked counts"], least: float) -> float:
    """Probability that all counts have tails above a number.

    Counts of a Poisson process have independent increments; given their total they are those of
    uniform ranks (Moscovich & Nadler 2017).
    """
    num_ranked, num_datasets = tails.shape[0], tails.shape[1] - 1
    count = np.arange(num_datasets + 1)
    increment = stats.poisson.pmf(count, num_datasets / (num_ranked + 1))
    law = np.zeros(num_datasets + 1)
    law[0] = 1.0
    for row in tails:
        law = np.convolve(law, increment)[: num_datasets + 1] * (row > least * (1.0 + NEAR))
    last = float(law @ increment[::-1])
    return last / float(stats.poisson.pmf(num_datasets, num_datasets))


def p_value(ranks: Int[np.ndarray, " datasets"], num_ranked: int) -> float:
    """P-value of ranks that are uniform on 0 to ``num_ranked`` and independent.

    The statistic is the smallest two-sided binomial tail of the number of ranks that are at most
    r, over all r; its law is computed, not simulated (Säilynoja, Bürkner & Vehtari 2022).
    """
    tails = _tails(len(ranks), num_ranked)
    found = tails[np.arange(num_ranked), steps(ranks, num_ranked)].min()
    return min(1.0, max(LEAST, 1.0 - _inside(tails, found)))


def band(
    num_datasets: int, num_ranked: int, level: float
) -> tuple[Int[np.ndarray, " ranked"], Int[np.ndarray, " ranked"]]:
    """Bound the counts of :func:`steps` of uniform ranks, with probability 1 - level.

    Ranks leave it if and only if their :func:`p_value` is at most ``level``.
    """
    tails = _tails(num_datasets, num_ranked)
    known = np.unique(tails)
    # Bisection over the tails that there are: known[at] leaves little enough outside.
    at, above = -1, int(np.searchsorted(known, level)) + 1
    while above - at > 1:
        middle = (at + above) // 2
        is_enough = middle < known.size and 1.0 - _inside(tails, float(known[middle])) <= level
        at, above = (middle, above) if is_enough else (at, middle)
    inside = tails > (known[at] if at >= 0 else -1.0) * (1.0 + NEAR)
    return inside.argmax(axis=1), num_datasets - inside[:, ::-1].argmax(axis=1)


def way_off(ranks: Int[np.ndarray, " datasets"], num_ranks: int) -> str:
    """Say which way draws are off, by mean and spread of the truth's ranks among them."""
    place = (ranks + 0.5) / num_ranks - 0.5
    shift = place.mean() * np.sqrt(12.0 * len(ranks))
    spread = ((place**2).mean() - 1.0 / 12.0) * np.sqrt(180.0 * len(ranks))
    if abs(shift) > abs(spread):
        return "too small" if shift > 0 else "too large"
    return "too narrow" if spread > 0 else "too wide"
