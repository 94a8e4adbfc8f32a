"""What Thresholdout promises: how far its adaptive answers may be from the population.

The inequalities of section 9 (after Dwork et al. 2015, Thm 25), solved numerically. An
answer is off by more than ``tau`` only if the holdout is off for that query, or a noise is large:

- answers from the training set are within ``T + Lap(2 sigma) + Lap(4 sigma)`` of the holdout's
  mean, answers from the holdout within ``Lap(sigma)``; union bounds over ``B`` thresholds, ``m``
  queries and ``B`` answers;
- the transcript is ``2B/(sigma n)``-DP for the holdout, hence of bounded max-information, and the
  event that some query's holdout mean is off has at most ``2^k m tail + beta'``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from scipy.optimize import minimize_scalar

from gibbs_dp.holdout.rows import IndependentRows, Rows
from gibbs_dp.information import checks
from gibbs_dp.information.bounds import dp_approx_max_information_bits_kappa
from gibbs_dp.information.bounds.max_information import BITS_PER_NAT

INDEPENDENT = IndependentRows()


class Promise(NamedTuple):
    """Accuracy of all answers that Thresholdout gives, proven for the declared rows.

    Parameters
    ----------
    tau
        With probability ``1 - beta`` no answer is further from the population; above 1, it says
        nothing.
    beta
        Failure probability.
    deviation
        Part of ``tau`` that is the holdout's own error.
    slack
        Part that is the threshold and its noise.
    epsilon
        Bayesian DP of the whole transcript on these rows (DP where they are independent), nats.
    """

    tau: float
    beta: float
    deviation: float
    slack: float
    epsilon: float


def thresholdout_promise(
    n: int,
    num_queries: int,
    *,
    threshold: float,
    sigma: float,
    budget: int,
    beta: float = 0.05,
    rows: Rows = INDEPENDENT,
) -> Promise:
    """Solve for the accuracy that Thresholdout keeps over adaptive queries.

    Holds for any queries into [0, 1], chosen in any way from the training set and the answers, and
    for every answer that is given before the budget ends.

    Parameters
    ----------
    n
        Rows of the holdout.
    num_queries
        ``m``, at most this many are asked.
    threshold, sigma, budget
        ``T``, the noise rate and ``B``.
    beta
        Failure probability, in ``(0, 1)``.
    rows
        What is known about the holdout's rows.

    Returns
    -------
    Promise
        The accuracy and its parts.

    Examples
    --------
    >>> promise = thresholdout_promise(
    ...     100_000, 1000, threshold=0.05, sigma=1e-3, budget=2)
    >>> round(promise.tau, 4), round(promise.epsilon, 4)
    (0.1139, 0.04)
    """
    checks.count("n", n)
    m = checks.count("num_queries", num_queries)
    checks.nonnegative("threshold", threshold)
    checks.positive("sigma", sigma)
    checks.count("budget", budget)
    checks.unit_interval("beta", beta, open_left=True)
    eps = rows.bdp_epsilon(n, 2 * budget / (sigma * n))

    def parts(share: float) -> tuple[float, float]:
        slack = threshold + noise_slack(m, sigma=sigma, budget=budget, beta=share * beta)
        return adaptive_deviation(n, m, epsilon=eps, beta=(1 - share) * beta, rows=rows), slack

    found = minimize_scalar(lambda s: sum(parts(s)), bounds=(1e-3, 1 - 1e-3), method="bounded")
    deviation, slack = parts(float(found.x))
    return Promise(deviation + slack, beta, deviation, slack, eps)


def adaptive_deviation(
    n: int, num_queries: int, *, epsilon: float, beta: float, rows: Rows = INDEPENDENT
) -> float:
    """``tau`` with ``P[some |E_S phi_j - P phi_j| > tau] <= beta``, queries chosen ``epsilon``-DP.

    ``2^k m tail(tau) + beta/2 <= beta`` at ``k`` bits of ``beta/2``-approximate max-information.

    Parameters
    ----------
    n, num_queries
        Rows, and queries ``m``.
    epsilon
        Bayesian DP of everything the analyst saw of the rows.
    beta
        Failure probability.
    rows
        What is known about the rows.

    Returns
    -------
    float
        ``inf`` where no ``tau`` keeps the promise.

    Examples
    --------
    >>> round(adaptive_deviation(10_000, 1000, epsilon=0.01, beta=0.05), 6)
    0.025271
    """
    if not math.isfinite(epsilon):
        return math.inf
    nats = dp_approx_max_information_bits_kappa(n, epsilon, beta=beta / 2) / BITS_PER_NAT
    return rows.deviation(n, math.log(beta / 2) - math.log(num_queries) - nats)


def noise_slack(num_queries: int, *, sigma: float, budget: int, beta: float) -> float:
    """``t`` with ``P[some Lap(2 sigma) of B, plus some Lap(4 sigma) of m, is above t] <= beta``.

    Also covers the ``B`` answers' own ``|Lap(sigma)|``. The split between the two is optimal.

    Examples
    --------
    >>> round(noise_slack(1000, sigma=0.001, budget=2, beta=0.05), 6)
    0.046658
    """
    # B/2 e^{-t1/2s} + m/2 e^{-t2/4s}: at the optimum the terms are as 1 to 2.
    # An answer's noise is above t with B e^{-t/s} < beta/1000 for such t; it takes that part.
    main = beta * (1 - 1e-3)
    thresholds = 2 * sigma * math.log(max(3 * budget / (2 * main), 1.0))
    queries = 4 * sigma * math.log(max(3 * num_queries / (4 * main), 1.0))
    return max(thresholds + queries, sigma * math.log(1e3 * budget / beta))
