"""The approximate sparse vector measured: the printed noise, the accountant's, and what leaks.

An attacker may ask the same block of queries in every round of AboveThreshold, so that ``c`` rounds
are ``c`` independent draws from one law, whose composition is exact. What is found so is a loss
that occurs, a lower bound of the mechanism's epsilon at delta; `Sparse.guarantee` is the upper one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq

from gibbs_dp.exact.composition import composed_privacy_curve
from gibbs_dp.holdout import Sparse, sparse_approximate, sparse_printed
from gibbs_dp.information import checks
from gibbs_dp.papers.reusable_holdout import laplace_noise, sparse_probability
from gibbs_dp.papers.reusable_holdout.sparse_variants import verdict
from gibbs_dp.papers.tables import Row

NUM_ABOVE, DELTA = 100, 1e-6
EPSILONS = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
BLOCK = 10
# Values of the first queries of a block and of its last, in units of sigma.
LEVELS = ((-3.5, 0.3), (-3.5, 0.6), (-3.6, 1.0), (-3.8, 1.6), (-2.0, 0.5), (0.0, 0.0), (2.0, -1.0))


def round_laws(
    mechanism: Sparse, first: float, last: float, *, block: int = BLOCK
) -> Float[np.ndarray, "neighbours outcomes"]:
    """Laws of one round of AboveThreshold on a block of queries, for two neighbours.

    All queries of the block but the last have one value, and move up; the last moves down. The
    outcomes are: above before the last, above at the last, nothing above (after which the attacker
    asks a query that is above for sure, which tells nothing).

    Parameters
    ----------
    mechanism
        Its settings.
    first, last
        Values minus threshold, in the unit of the queries.
    block
        Queries of a block.

    Returns
    -------
    array
        Probabilities of the three outcomes.

    Examples
    --------
    >>> round_laws(Sparse(1.0, 1, 2.0, "replace-one"), 0.0, 0.0, block=2).sum(axis=1).round(12)
    array([1., 1.])
    """
    checks.count("block", block, minimum=2)
    noises: dict[str, Any] = {
        "threshold_noise": laplace_noise(mechanism.sigma),
        "query_noise": laplace_noise(2 * mechanism.sigma),
    }
    laws = []
    for move in (0.0, mechanism.sensitivity):
        values = (*(first + move,) * (block - 1), last - move)
        quiet = (0,) * (block - 1)
        none_yet = sparse_probability(values, quiet, **noises)
        at_last = sparse_probability(values, (*quiet, 1), **noises)
        laws.append([1 - none_yet, at_last, none_yet - at_last])
    return np.array(laws)


def measured_epsilon(mechanism: Sparse, delta: float) -> float:
    """Epsilon at ``delta`` that an attacker of `LEVELS` gets from all rounds: a lower bound, nats.

    Parameters
    ----------
    mechanism
        Its settings.
    delta
        In ``(0, 1)``.

    Returns
    -------
    float
        Exact for this attacker.

    Examples
    --------
    >>> mechanism = Sparse(1.0, 100, 83.29, adjacency="replace-one")  # (1, 1e-6)-DP
    >>> round(measured_epsilon(mechanism, 1e-6), 2)
    0.21
    """
    checks.unit_interval("delta", delta, open_left=True)
    laws = [
        round_laws(mechanism, first * mechanism.sigma, last * mechanism.sigma)
        for first, last in LEVELS
    ]
    # The attacker whose rounds tell most on average, in either direction.
    pairs = [pair for p, q in laws for pair in ((p, q), (q, p))]
    p, q = max(pairs, key=lambda pair: float(pair[0] @ np.log(pair[0] / pair[1])))
    return _epsilon_of(p, q, mechanism.num_above, delta)


def _epsilon_of(
    p: Float[np.ndarray, " outcomes"], q: Float[np.ndarray, " outcomes"], c: int, delta: float
) -> float:
    def excess(epsilon: float) -> float:
        curve = composed_privacy_curve(p, q, c, [epsilon])
        return math.log(max(float(curve[0]), 1e-300)) - math.log(delta)

    if excess(0.0) <= 0:
        return 0.0
    most = c * float(np.abs(np.log(p / q)).max())
    return float(brentq(excess, 0.0, most, xtol=1e-6))


def approximate_rows(
    epsilons: Sequence[float] = EPSILONS, *, delta: float = DELTA, num_above: int = NUM_ABOVE
) -> list[Row]:
    """Noise of both calibrations, what is proven of it and what was measured.

    Parameters
    ----------
    epsilons, delta
        What is claimed.
    num_above
        Positives ``c``.

    Returns
    -------
    list of dict
        One per claim and calibration. ``proven_epsilon`` (at ``delta``) is that of ``c``-fold
        composition of pure-DP rounds, which no bound that looks at their epsilon alone can
        improve; ``measured_epsilon`` a lower bound.

    Examples
    --------
    >>> printed, accountant = approximate_rows([20.0])
    >>> printed["verdict"], accountant["verdict"]
    ('open', 'private')
    """
    rows: list[Row] = []
    setting: dict[str, Any] = {"sensitivity": 1.0, "adjacency": "replace-one"}
    for epsilon in epsilons:
        for name, calibrate in (("printed", sparse_printed), ("accountant", sparse_approximate)):
            mechanism = calibrate(epsilon, delta, num_above, **setting)
            proven = mechanism.guarantee(delta).epsilon
            measured = measured_epsilon(mechanism, delta)
            rows.append(
                {
                    "sigma_from": name,
                    "positives": num_above,
                    "delta": delta,
                    "claimed_epsilon": epsilon,
                    "sigma": mechanism.sigma,
                    "measured_epsilon": measured,
                    "proven_epsilon": proven,
                    "verdict": verdict(measured, proven, epsilon),
                }
            )
    return rows
