"""Lower bounds on epsilon from runs of a release on two neighbours: the attacker's arithmetic.

`gibbs_dp.privacy.epsilon_shown` of runs that show several numbers: scores are fitted to one quarter
of the runs, the event is chosen among all of them on the next, and bounded on the other half.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gibbs_dp.privacy.attacks import best_events, log_ratio, normal_distance

# One row a run: numbers that the release shows, NaN where there is none.
Runs = np.ndarray
# From runs to one number each; what it is large for is taken for the first neighbour's.
Score = Callable[[Runs], np.ndarray]
# From a part of both neighbours' runs to the scores whose thresholds are tried.
Scores = Callable[[Runs, Runs], Sequence[Score]]

# Each of the two probabilities: both hold together with 95%.
LEVEL = 0.025


def lower_bound(
    first: Runs,
    second: Runs,
    delta: float,
    level: float = LEVEL,
    scores: Scores | None = None,
    in_mu: bool = False,
) -> float:
    """Lower bound on epsilon, or on mu, above the truth with a probability of at most 2 levels.

    Parameters
    ----------
    first, second
        Runs ``[runs, numbers]`` on two neighbours, independent of each other.
    delta
        At which epsilon is asked for.
    level
        Of each of the two bounds on probabilities.
    scores
        What events are thresholds of; by default each number and Fisher's direction.
    in_mu
        Whether to bound mu of Gaussian DP instead; delta is of no account then.

    Returns
    -------
    float
        At least 0.
    """
    half = len(first) // 2
    # What scores are fitted to flatters them: thresholds are compared on other runs.
    fit = half // 2

    def bound(least: np.ndarray, most: np.ndarray) -> np.ndarray:
        return normal_distance(least, most) if in_mu else log_ratio(least, most, delta)

    found = [
        (best_events(score(first[fit:half]), score(second[fit:half]), level, [bound])[0], score)
        for score in (scores or straight)(first[:fit], second[:fit])
    ]
    event, score = max(found, key=lambda one: one[0].value)
    limits = event.limits(score(first[half:]), score(second[half:]), level)
    return max(0.0, float(bound(*limits)[0]))


# -- scores ----------------------------------------------------------------------------------------


def straight(first: Runs, second: Runs) -> list[Score]:
    """Each number by itself, and Fisher's discriminant of all; NaN counts as a number of its own.

    Parameters
    ----------
    first, second
        Runs that the discriminant is fitted to.

    Returns
    -------
    list of Score
        Numbers first.
    """
    found: list[Score] = [lambda runs, k=k: widened(runs)[:, k] for k in range(first.shape[1])]  # type: ignore[misc]
    a, b = widened(first), widened(second)
    if a.shape[1] > 1:
        spread = np.cov(a.T) + np.cov(b.T)
        spread += 1e-9 * np.trace(spread) * np.eye(len(spread)) + 1e-12 * np.eye(len(spread))
        way = np.linalg.solve(spread, a.mean(axis=0) - b.mean(axis=0))
        found.append(lambda runs: widened(runs) @ way)
    return found


def widened(runs: Runs) -> np.ndarray:
    """Add a column of 0 and 1 for every column, which says where there is no number."""
    gone = np.isnan(runs)
    return np.concatenate([np.where(gone, 0.0, runs), gone], axis=1)


def counted(first: Runs, second: Runs) -> list[Score]:
    """Log ratio of how often each outcome came, for outcomes that are few.

    Parameters
    ----------
    first, second
        Runs that are counted.

    Returns
    -------
    list of Score
        One; outcomes that did not come have 0.
    """
    kinds, where = np.unique(
        np.nan_to_num(np.concatenate([first, second]), nan=-9.0), axis=0, return_inverse=True
    )
    where = where.ravel()
    counts = [
        np.bincount(part, minlength=len(kinds)) + 0.5
        for part in (where[: len(first)], where[len(first) :])
    ]
    ratio = dict(zip(map(tuple, kinds), np.log(counts[0] / counts[1]), strict=True))
    return [
        lambda runs: np.array([ratio.get(tuple(r), 0.0) for r in np.nan_to_num(runs, nan=-9.0)])
    ]


def all_of(*kinds: Scores) -> Scores:
    """Try the scores of several kinds."""
    return lambda first, second: [score for kind in kinds for score in kind(first, second)]


def known(score: Score) -> Scores:
    """Take a score from the theory of a mechanism, fitted to nothing."""
    return lambda first, second: [score]
