"""Cases of conditional information, and of the relations that attackers need."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from gibbs_dp.exact.finite_channel import FiniteChannel
from gibbs_dp.exact.supersample import SupersampleInformation
from gibbs_dp.information import bounds
from gibbs_dp.information import divergences as dv
from gibbs_dp.information.divergences import batched
from gibbs_dp.papers.verify.attained.cases import AGREE, Case, hidden, revealing, single, weak_sign

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
    """Generalization error of naming one of many values, and what the name tells.

    Two examples differ with probability ``1 - 1/m``, and then the name says which was chosen.
    """
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


CASES: dict[str, list[Case]] = {
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
