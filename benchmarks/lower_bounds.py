"""Lower bounds on epsilon from runs of a release on two neighbours: the attacker's arithmetic.

An event is chosen on one half of the runs: scores are fitted to one quarter, and a threshold of
one of them is taken that does best on the next. On the other half its probabilities on the two
neighbours are bounded by Clopper & Pearson (1934), and what is left of their ratio is a lower bound
on epsilon at the claimed delta, or on mu of Gaussian DP.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.stats import beta, norm

# One row a run: numbers that the release shows, NaN where there is none.
Runs = np.ndarray
# From runs to one number each; what it is large for is taken for the first neighbour's.
Score = Callable[[Runs], np.ndarray]
# From a part of both neighbours' runs to the scores whose thresholds are tried.
Scores = Callable[[Runs, Runs], Sequence[Score]]

# Each of the two probabilities: both hold together with 95%.
LEVEL = 0.025
NUM_CUTS = 400


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
    found = (scores or straight)(first[:fit], second[:fit])
    best: tuple[float, Callable[[Runs, Runs], float]] = (-np.inf, lambda p, q: -np.inf)
    for p, q, is_swapped in ((first, second, False), (second, first, True)):
        for score in found:
            a, b = score(p[fit:half]), score(q[fit:half])
            cuts = np.unique(
                np.quantile(np.concatenate([a, b]), np.linspace(0.0005, 0.9995, NUM_CUTS))
            )
            for sign in (1, -1):
                bounds = _bounds(sign * a, sign * b, sign * cuts, delta, level, in_mu)
                top = int(np.argmax(bounds))
                if bounds[top] > best[0]:
                    event = (score, sign, sign * cuts[top], is_swapped)
                    best = (bounds[top], _held_out(*event, delta, level, in_mu))
    return max(0.0, best[1](first[half:], second[half:]))


def _held_out(
    score: Score,
    sign: int,
    cut: float,
    is_swapped: bool,
    delta: float,
    level: float,
    in_mu: bool,
) -> Callable[[Runs, Runs], float]:
    def value(first: Runs, second: Runs) -> float:
        p, q = (second, first) if is_swapped else (first, second)
        cuts = np.array([cut])
        return float(_bounds(sign * score(p), sign * score(q), cuts, delta, level, in_mu)[0])

    return value


def _bounds(
    a: np.ndarray, b: np.ndarray, cuts: np.ndarray, delta: float, level: float, in_mu: bool
) -> np.ndarray:
    """Bound of every event ``score >= cut``."""
    a, b = np.sort(a), np.sort(b)
    hits, false = (len(v) - np.searchsorted(v, cuts) for v in (a, b))
    least = np.where(hits > 0, beta.ppf(level, np.maximum(hits, 1), len(a) - hits + 1), 0.0)
    most = np.where(
        false < len(b), beta.ppf(1 - level, false + 1, np.maximum(len(b) - false, 1)), 1.0
    )
    if in_mu:
        return np.asarray(norm.ppf(least) - norm.ppf(most))
    over = np.maximum(least - delta, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(over) - np.log(most))


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
