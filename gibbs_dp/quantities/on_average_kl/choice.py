"""Which estimate of on-average KL is reported: chosen by what pilot datasets show of each."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gibbs_dp.quantities.on_average_kl.one_sided import OneSidedValues

# The jackknife's correction as a share of the KL (beyond that of independent draws, root mean
# square over pairs), up to which it leaves 0.5% of bias with 64 draws a dataset. More draws reach
# the same share at a larger KL only, where it leaves more: the limit shrinks with them. Measured
# against closed forms of linear regressions with 1 to 30 coefficients.
ONE_SIDED_LIMIT, LIMIT_DRAWS = 0.05, 64
# Nats below which ratios stay near one: at 0.02 lognormal examples of shape 1 leave 0.8% already.
SMALL_KL = 0.01
# Nats above which one posterior's draws do not say what the replaced one's normalizer is.
LARGE_KL = 2.0
# Share of the KL that one side's draws are expected to miss, in rare pairs of many nats.
LOST_LIMIT = 0.005
# Relative variance between datasets of gamma times the generalization error, below which it beats
# the two-sided estimate, whose own is a tenth or less and which costs three to nine times as much.
GHOST_LIMIT = 0.5
# And that of what one side misses: beyond it few datasets hold what counts, most of them among
# their ghosts, which the generalization error does not see.
RARE_LIMIT = 10.0


def jackknife_shift(values: OneSidedValues, num_draws: int) -> float:
    """Jackknife's correction of the one-sided KL as a share of it, root mean square over pairs.

    Less ``1 / draws``, what independent draws need at any KL and the jackknife removes. 0 where
    the KL is below ``SMALL_KL`` nats: ``exp(-delta)`` then stays near one and has no heavy tails.
    """
    value, tail = float(np.mean(values.value)), float(np.mean(values.tail))
    if not (np.isfinite(value) and np.isfinite(tail)):
        return math.inf
    if not value > SMALL_KL:
        return 0.0
    return max(0.0, math.sqrt(tail / value) - 1.0 / num_draws)


def lost_share(values: OneSidedValues) -> float:
    """Share of the KL that one side's draws are expected to miss, over all pairs.

    One pair of hundreds of nats among thousands is enough to make a mean wrong, and hardly moves
    the jackknife's.
    """
    value, lost = float(np.mean(values.value)), float(np.mean(values.lost))
    if not (np.isfinite(value) and np.isfinite(lost)):
        return math.inf
    return lost / (max(value, 0.0) + lost) if lost > 0 else 0.0


def num_holding(values: OneSidedValues) -> float:
    """About how many datasets hold what one side's draws miss (Kish's effective number)."""
    lost = np.asarray(values.lost, np.float64)
    lost = lost[np.isfinite(lost)]
    square = float(np.sum(lost**2))
    return float(np.sum(lost)) ** 2 / square if square > 0 else 0.0


def is_within_reach(values: OneSidedValues, num_draws: int) -> bool:
    """Whether draws of one posterior tell the KL: of pairs on the whole, and of the worst."""
    return (
        is_small(values)
        and jackknife_shift(values, num_draws) <= shift_limit(num_draws)
        and lost_share(values) <= LOST_LIMIT
    )


def shift_limit(num_draws: int) -> float:
    """Largest :func:`jackknife_shift` with which a one-sided estimate is taken."""
    return ONE_SIDED_LIMIT * (LIMIT_DRAWS / num_draws) ** 0.25


def is_small(values: OneSidedValues) -> bool:
    """Whether one posterior's draws may say what the replaced one's normalizer is.

    Of a KL of many nats the jackknife sees nothing: all its weight is on one draw either way.
    """
    return not float(np.mean(values.value)) > LARGE_KL


def choose_estimator(values: Any, num_draws: int) -> str:
    """One side while its draws can tell the KL; else ghosts where steady, or both sides.

    ``values`` are those of :class:`~gibbs_dp.quantities.on_average_kl.OnAverageKL`.
    """
    if not values.one_sided.value.shape[0]:
        return "one-sided"
    if is_within_reach(values.one_sided, num_draws):
        return "one-sided"
    ghost = np.asarray(values.ghost.value, np.float64)
    is_steady = ghost.mean() > 0 and ghost.var() < GHOST_LIMIT * ghost.mean() ** 2
    lost, holding = lost_share(values.one_sided), num_holding(values.one_sided)
    is_rare = lost > LOST_LIMIT and holding * (1.0 + RARE_LIMIT) < ghost.size
    return "ghost" if is_steady and not is_rare else "two-sided"
