"""Cases of on-average KL, information and generalization."""

from __future__ import annotations

import math

import numpy as np

from gibbs_dp.exact.finite_channel import FiniteChannel
from gibbs_dp.exact.finite_problem import FiniteProblem
from gibbs_dp.information import bounds
from gibbs_dp.information import dependence as dep
from gibbs_dp.information import divergences as dv
from gibbs_dp.papers import bounds as paper_bounds
from gibbs_dp.papers.verify.attained.cases import (
    AGREE,
    CENTERED,
    COIN,
    RARE,
    Case,
    equal,
    fit_sign,
    report,
    report_information,
    response,
    revealing,
    single,
    weak_gap,
    weak_sign,
)

SKEWED = FiniteProblem([[0.0, 1.0], [0.4, 0.3]], [0.3, 0.7], [0.6, 0.4])
BIT = FiniteChannel([[0.7, 0.3], [0.2, 0.8]], [0.4, 0.6], 1)
MANY = 10**300
# A loss that is X with probability c e^{-X/b}, else 0, c = e^{sigma^2/(2 b^2)} - 1: its logarithmic
# moments reach s^2 sigma^2 / 2 at s = 1/b, and no further s has them that small.
X, B, SIGMA = 100.0, 1.0, 1.0
RARE_LOSS = math.expm1(SIGMA**2 / (2 * B**2)) * math.exp(-X / B)


def subexponential() -> tuple[float, float]:
    """Output, half of the time, the one hypothesis that fits the example."""
    fit, chance = 0.5, RARE_LOSS
    information = dv.kl_divergence([fit, 1 - fit], [chance, 1 - chance])
    bound = bounds.generalization_subexponential(information, 1, sigma=SIGMA, b=B)
    return X * (fit - chance), bound


def removal() -> tuple[float, float]:
    """Examples of mean zero, where dropping one is averaging over it."""
    erasure = CENTERED.table(1e-3, 3).erasure_mutual_information()
    kl = CENTERED.average_removal_kl(1e-3, 3)
    return erasure, 3 * kl


def leak() -> tuple[float, float]:
    """One of many values, leaked with probability 0.1."""
    channel = revealing(50, 0.1)
    # Silence, the last output, loses nothing.
    gap = channel.generalization_error(np.vstack([1 - np.eye(50), np.zeros(50)]))
    return gap, paper_bounds.generalization_from_dp(0.0, float(channel.privacy_curve([0.0])[0]))


TWO_EDGES = (
    "joins two bounds whose equality cases differ: to second order gen = 2 I / (n gamma), and "
    "the square root bound of gen is twice that"
)

CASES: dict[str, list[Case]] = {
    "k ghosts cost k eps_KL": equal(
        lambda: (
            float(SKEWED.group_privacy(2.0, 4).on_average_kl[2]),
            3 * SKEWED.on_average_kl(2.0, 4),
        )
    ),
    "I <= n eps_KL": single(
        lambda: (RARE.table(1.0, 1).mutual_information(), RARE.on_average_kl(1.0, 1)), 0.95
    ),
    "generalization_lower_from_mutual_information": single(
        lambda: (
            bounds.generalization_lower_from_mutual_information(
                RARE.table(1.0, 1).mutual_information(), 1, 1.0
            ),
            RARE.generalization_error(1.0, 1),
        ),
        1.06,
    ),
    "gibbs_mutual_information": single(
        lambda: (
            COIN.table(1e-3, 1).mutual_information(),
            bounds.gibbs_mutual_information(1, 1e-3, sigma=0.5),
        ),
        0.249,
        loose=TWO_EDGES,
    ),
    "gibbs_generalization_subgaussian": single(
        lambda: (
            COIN.generalization_error(1e-3, 1),
            bounds.gibbs_generalization_subgaussian(1e-3, sigma=0.5),
        ),
        0.499,
        loose=TWO_EDGES,
    ),
    # The least sigma of a fair bit: sqrt(2 log E e^{s (z - 1/2)}) / s at s -> 0.
    "subgaussian_parameter": single(
        lambda: (
            math.sqrt(2 * math.log(math.cosh(0.5 * 1e-2))) / 1e-2,
            bounds.subgaussian_parameter(0.0, 1.0),
        )
    ),
    "generalization_from_mutual_information": single(
        lambda: (
            weak_gap(),
            bounds.generalization_from_mutual_information(
                dep.mutual_information(weak_sign()), 1, sigma=0.5
            ),
        )
    ),
    "generalization_from_individual_information": single(
        lambda: (
            weak_gap(),
            bounds.generalization_from_individual_information(
                [dep.mutual_information(weak_sign())], sigma=0.5
            ),
        )
    ),
    "generalization_subexponential": [
        Case(
            lambda: (
                weak_gap(),
                bounds.generalization_subexponential(
                    dep.mutual_information(weak_sign()), 1, sigma=0.5, b=0.01
                ),
            ),
            0.999,
        ),
        Case(subexponential, 0.99),
    ],
    "gen <= range T^- / n": single(
        lambda: (BIT.generalization_error(AGREE), BIT.erasure_t_information())
    ),
    "generalization_from_dp": [
        Case(
            lambda: (
                FiniteChannel(response(0.01), [0.5, 0.5], 1).generalization_error(AGREE),
                paper_bounds.generalization_from_dp(0.01),
            ),
            0.248,
            loose="the likelihood of one example has range eps and mean 1, so its T-information "
            "is at most tanh(eps / 4); the printed e^eps - 1 is four times it for small eps",
        ),
        Case(leak, 0.97),
    ],
    "I^- <= n sup KL": single(
        lambda: (
            dv.kl_divergence(*report_information(MANY, 0.5)),
            dv.kl_divergence(*report(MANY, 0.5)),
        ),
        0.99,
    ),
    "I^- <= n E KL(P_s || P_{s^-i})": single(removal),
    "I^- <= n eps_KL": single(
        lambda: (RARE.table(1.0, 1).erasure_mutual_information(), RARE.on_average_kl(1.0, 1)), 0.95
    ),
    "T^- <= n sup TV": single(
        lambda: (
            dv.total_variation(*report_information(10**4, 0.5)),
            dv.total_variation(*report(10**4, 0.5)),
        )
    ),
    "selection bias <= sqrt(2 sigma^2 I)": single(
        lambda: (
            fit_sign(0.01)[0],
            bounds.generalization_from_mutual_information(fit_sign(0.01)[1], 1, sigma=1.0),
        )
    ),
}
