"""Cases that attain bounds of on-average KL, information and generalization."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from gibbs_dp.exact.finite_channel import FiniteChannel
from gibbs_dp.exact.finite_problem import FiniteProblem
from gibbs_dp.exact.supersample import SupersampleInformation
from gibbs_dp.information import bounds
from gibbs_dp.information import dependence as dep
from gibbs_dp.information import divergences as dv
from gibbs_dp.information.divergences import batched
from gibbs_dp.papers import bounds as paper_bounds
from gibbs_dp.papers.verify.cases import (
    AGREE,
    CENTERED,
    COIN,
    RARE,
    Case,
    equal,
    fit_sign,
    hidden,
    report,
    report_information,
    response,
    revealing,
    single,
    weak_gap,
    weak_sign,
)

BIT = FiniteChannel([[0.7, 0.3], [0.2, 0.8]], [0.4, 0.6], 1)
# A bit told a little more often right than wrong.
WEAK = FiniteChannel(2 * weak_sign(), [0.5, 0.5], 1)
# One of many values is told, and the loss is 0 on it alone: all risk is of what was not seen.
TOLD = revealing(30, 1.0)
ONLY_IT = np.vstack([1 - np.eye(30), np.zeros(30)])
TELLS_APART = (
    "needs a loss that differs on two independent examples, which of a fair bit happens half of "
    "the time, without an output that names the example, which costs log 2"
)
HOEFFDING = "Hoeffding's bound is not attained by a mean of two fair bits"


@lru_cache(maxsize=1)
def told() -> tuple[float, SupersampleInformation]:
    """Generalization error of naming one of many values, and what the name tells."""
    return TOLD.generalization_error(ONLY_IT), TOLD.supersample_information(ONLY_IT)


def two_bits() -> tuple[float, float]:
    """Say nothing: the mean of two fair bits is off by 1/2 half of the time."""
    bound = bounds.generalization_tail_from_alpha_information(
        0.5, 0.0, 2, alpha=math.inf, sigma=0.5
    )
    return 0.5, bound


def logs(p: ArrayLike, q: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Take logarithms of two laws."""
    with np.errstate(divide="ignore"):
        return np.log(p), np.log(q)


def triangle() -> tuple[float, float]:
    """Take two outcomes, where the ROC is a triangle."""
    p, q = logs([0.5, 0.5], [0.25, 0.75])
    tv = float(batched.total_variation(p, q))
    return 0.5 + tv / 2, float(batched.auc(p, q))


def shifted() -> tuple[float, float]:
    """Take two laws that agree but for outcomes that give them away."""
    p, q = hidden(0.3)
    tv = dv.total_variation(p, q)
    return float(batched.auc(*logs(p, q))), 0.5 + tv - tv**2 / 2


def nearly_disjoint() -> tuple[float, float]:
    """Take a sure outcome against a rare one."""
    p, q = [1.0, 0.0], [1e-4, 1 - 1e-4]
    return dv.total_variation(p, q), math.sqrt(-math.expm1(-dv.kl_divergence(p, q)))


def nearly_alike() -> tuple[float, float]:
    """Take two laws that hardly differ."""
    p, q = [0.501, 0.499], [0.5, 0.5]
    bound = (dv.kl_divergence(p, q) + dv.kl_divergence(q, p)) / 8
    return float(batched.jensen_shannon(*logs(p, q))), bound


SKEWED = FiniteProblem([[0.0, 1.0], [0.4, 0.3]], [0.3, 0.7], [0.6, 0.4])
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
    "generalization_tail_from_alpha_information": single(two_bits, 0.679, loose=HOEFFDING),
    "generalization_from_cmi": single(
        lambda: (
            told()[0],
            bounds.generalization_from_cmi(told()[1].conditional_mutual_information, 1),
        ),
        0.834,
        loose=TELLS_APART,
    ),
    "gen <= mean range sqrt(2 I(W; U_i | Zt))": single(
        lambda: (told()[0], math.sqrt(2 * told()[1].individual)), 0.834, loose=TELLS_APART
    ),
    "gen <= range sqrt(2 E JS)": single(
        lambda: (told()[0], math.sqrt(2 * told()[1].given_others)), 0.834, loose=TELLS_APART
    ),
    "gen <= range sqrt(eps_KL / 2)": single(
        lambda: (WEAK.generalization_error(AGREE), math.sqrt(WEAK.on_average_kl() / 2)),
        0.707,
        loose=TELLS_APART,
    ),
    "risk <= CMI / (n log 2) of an interpolating rule": single(
        lambda: (told()[0], told()[1].conditional_mutual_information / math.log(2))
    ),
    "generalization_from_t_information": single(
        lambda: (
            BIT.generalization_error(AGREE),
            bounds.generalization_from_t_information([BIT.membership(0).advantage]),
        )
    ),
    "1/2 + TV/2 <= AUC": single(triangle, 1.001),
    "AUC <= 1/2 + TV - TV^2/2": single(shifted),
    "TV <= sqrt(1 - e^-KL)": single(nearly_disjoint),
    "JS <= (KL + reverse KL) / 8": single(nearly_alike),
}
