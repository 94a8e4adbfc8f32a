"""How many pairs of a dataset the two-sided estimate samples: pilots say what they are worth."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gibbs_dp.engine.sizes import LEAST_PAIRS, MOST_PAIRS
from gibbs_dp.quantities.control import LARGEST_SHARE, LEAST_DATASETS
from gibbs_dp.quantities.on_average_kl.two_sided import TwoSidedValues


def choose_pairs(most: int, pilots: Callable[[int], Any]) -> int:
    """Fewest pairs whose choice adds no more variance than datasets have anyway.

    Every pair is a posterior to be sampled; more of them than this lower a standard error by less
    than a factor of ``sqrt(2)``, however many they are.

    Parameters
    ----------
    most
        Pairs that a dataset has.
    pilots
        From a number of pairs to pilots' values with so many.

    Returns
    -------
    int
        At least ``LEAST_PAIRS`` where a dataset has them.
    """
    most = min(MOST_PAIRS, most)
    if most <= LEAST_PAIRS:
        return most
    return min(most, max(LEAST_PAIRS, pairs_worth(pilots(most).two_sided, most)))


def pairs_worth(pilots: TwoSidedValues, num_pairs: int) -> int:
    """Variance between the pairs of one dataset over that between datasets, rounded up.

    Both without what the control variate explains; ``num_pairs`` where pilots cannot tell them
    apart.
    """
    value, control = (np.asarray(a, np.float64) for a in (pilots.mean, pilots.control))
    spread = np.asarray(pilots.spread, np.float64)
    good = np.isfinite(value) & np.isfinite(control) & np.isfinite(spread).all(axis=1)
    if good.sum() < LEAST_DATASETS:
        return num_pairs
    value, control, (pairs, both, proxies) = value[good], control[good], spread[good].mean(axis=0)
    share = np.clip(both / proxies, 0.0, LARGEST_SHARE) if proxies > 0 else 0.0
    within = pairs - 2 * share * both + share**2 * proxies
    between = np.var(value - share * control, ddof=1) - within / num_pairs
    if not between > within / num_pairs:
        return num_pairs
    return math.ceil(within / between)
