"""Max-information, its consequences and composition: bounds against the hardest cases known here.

As in `test_bounds_attained`: the truth is at most the bound, and above a factor times it.
"""

import math

import numpy as np
import pytest
from scipy.stats import binom

from gibbs_dp.exact.composition import composed_privacy_curve
from gibbs_dp.exact.finite_channel import FiniteChannel
from gibbs_dp.information import bounds
from gibbs_dp.information import dependence as dep
from gibbs_dp.information import divergences as dv


def response(eps):
    """Binary randomized response: the two output laws."""
    p = np.array([math.exp(eps), 1.0]) / (1 + math.exp(eps))
    return np.array([p, p[::-1]])


def agreement(n, eps):
    """Joint against product law of randomized response of n fair bits, by agreements."""
    k = np.arange(n + 1)
    p = math.exp(eps) / (1 + math.exp(eps))
    return binom.pmf(k, n, p), binom.pmf(k, n, 0.5)


def response_bits(n, eps, beta):
    return dv.approximate_max_divergence(*agreement(n, eps), beta) / math.log(2)


def matched_guess(n, eps, wins):
    """Probability that randomized response agrees with so many of n fair bits, or disagrees."""
    p = math.exp(eps) / (1 + math.exp(eps))
    k = np.arange(n + 1)
    law = binom.pmf(k, n, p)
    return float(law[wins(k)].sum())


SQ, LOW = (3, 0.5), (1000, math.sqrt(10 * 1000))
ROOT_EPS = math.sqrt(0.25 - math.log(2) / 14)
EVENT_EPS = math.sqrt(math.log(2) / 2)

CASES = {
    "max-information of pure DP": lambda: (
        3 * FiniteChannel(response(1.0), [1 - 1e-6, 1e-6], 1).max_information_bits(),
        bounds.pure_dp_max_information_bits(3, 1.0),
        0.999,
    ),
    "approximate max-information, published": lambda: (
        response_bits(2000, 0.3, 1e-6),
        bounds.dp_approx_max_information_bits_published(2000, 0.3, beta=1e-6),
        0.4,
    ),
    "approximate max-information": lambda: (
        response_bits(2000, 0.3, 1e-6),
        bounds.dp_approx_max_information_bits(2000, 0.3, beta=1e-6),
        0.88,
    ),
    "approximate max-information, kappa": lambda: (
        response_bits(500, 1.0, 1e-6),
        bounds.dp_approx_max_information_bits_kappa(500, 1.0, beta=1e-6),
        0.8,
    ),
    "approximate max-information of approximate DP": lambda: (
        response_bits(2000, 0.3, 1e-6),
        bounds.approximate_dp_max_information_bits(2000, 0.3, 1e-12, beta=1e-6),
        0.3,
    ),
    "mutual by max-information": lambda: (
        math.log(2),
        bounds.mutual_information_from_max_information(dep.max_information_bits(np.eye(2) / 2)),
        0.999,
    ),
    "event probability": lambda: (
        0.8,  # a bit equals its randomized response at odds 4, against 1/2 for a fresh bit
        bounds.event_probability(
            0.5, bits=dep.approx_max_information_bits([[0.4, 0.1], [0.1, 0.4]], 0.1), beta=0.1
        ),
        0.999,
    ),
    "statistical query": lambda: (
        matched_guess(SQ[0], 0.25, lambda k: np.abs(k / 3 - 0.5) >= 0.5),
        bounds.statistical_query_tail(*SQ, eps=0.25),
        0.27,
    ),
    "statistical query, root": lambda: (
        matched_guess(7, ROOT_EPS, lambda k: np.abs(k / 7 - 0.5) >= 0.5),
        bounds.statistical_query_tail_root(7, 0.5, eps=ROOT_EPS * (1 - 1e-12)),
        0.04,
    ),
    "low sensitivity": lambda: (
        matched_guess(1000, 0.1, lambda k: np.abs(k - 500) >= LOW[1]),
        bounds.low_sensitivity_tail(*LOW, sensitivity=1.0, eps=0.1 * (1 - 1e-12)),
        5e-4,
    ),
    "general event": lambda: (
        matched_guess(4, EVENT_EPS, lambda k: k == 4),
        bounds.general_event_tail(4, fixed_tail=2.0**-4, eps=EVENT_EPS * (1 - 1e-12)),
        0.22,
    ),
    "adaptive event": lambda: (
        matched_guess(4, EVENT_EPS, lambda k: k == 4),
        bounds.adaptive_event_tail(4, fixed_tail=2.0**-4, eps=EVENT_EPS),
        0.3,
    ),
    "basic composition": lambda: (
        dv.max_divergence(*(np.kron(law, law) for law in response(0.4))),
        bounds.basic_composition([0.4, 0.4], [0.0, 0.0]).eps,
        0.999,
    ),
    "approximate draw": lambda: (
        dv.hockey_stick(
            response(0.5)[0] + np.array([0.01, -0.01]),
            response(0.5)[1] - np.array([0.01, -0.01]),
            math.exp(0.5),
        ),
        bounds.approximate_draw(0.5, 0.0, total_variation=0.01).delta,
        0.999,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_bound_holds_and_a_smaller_constant_fails(name):
    truth, bound, factor = CASES[name]()
    assert truth <= bound * (1 + 1e-9)
    assert truth > factor * bound


@pytest.mark.parametrize(("k", "eps", "factor"), [(200, 0.1, 0.7), (1000, 0.02, 0.8)])
def test_advanced_composition_constant(k, eps, factor):
    slack = 1e-9
    total = bounds.advanced_composition(k, eps, delta_slack=slack).eps
    deltas = composed_privacy_curve(*response(eps), k, [total, factor * total])
    assert deltas[0] <= slack < deltas[1]
