"""Membership from one output, the rest of the dataset unknown: exact figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from gibbs_dp.exact import laws
from gibbs_dp.exact.attacker import at_rates
from gibbs_dp.exact.finite_pairs import FinitePairs


@dataclass(frozen=True)
class Membership:
    """Exact figures of the attacker who is shown one output and one example, and knows the law.

    The example is ``z_i`` or fresh, each with probability 1/2; the other examples are averaged out.
    The best test is a threshold on ``Lambda = log p(w | z_i = z) / p(w)``.

    Parameters
    ----------
    advantage
        True minus false positive rate: ``T(W; Z_i)``, a total variation. It is at least
        ``gen / B`` for a loss in ``[0, B]``, which is the advantage of a guess by the loss (Yeom et
        al. 2018, Thm 2), and at most ``sqrt(I(W; Z_i) / 2)``.
    attack_auc
        Area under the ROC.
    attack_tpr_1pct, attack_tpr_01pct
        True positive rate at a false positive rate of 1% and of 0.1%.
    individual_information
        ``I(W; Z_i)``, the mean of ``Lambda`` over members, in nats.
    lautum_information
        Minus the mean of ``Lambda`` over non-members, in nats.
    rate
        From a false to the largest true positive rate.

    Examples
    --------
    >>> from gibbs_dp.exact import FiniteChannel
    >>> channel = FiniteChannel([[0.75, 0.25], [0.25, 0.75]], [0.5, 0.5], n=1)
    >>> channel.membership(0).advantage
    0.25
    """

    advantage: float
    attack_auc: float
    attack_tpr_1pct: float
    attack_tpr_01pct: float
    individual_information: float
    lautum_information: float
    rate: Callable[[float], float] = field(repr=False)

    def roc(self, fpr: ArrayLike | float) -> Float[np.ndarray, "*fpr"]:
        """Largest true positive rate at false positive rates ``fpr`` in ``[0, 1]``, any shape.

        Raises
        ------
        ValueError
            If a rate lies outside ``[0, 1]``.
        """
        return at_rates(self.rate, fpr)


def membership_of_table(
    log_weight: Float[np.ndarray, " values"], log_laws: Float[np.ndarray, "values outputs"]
) -> Membership:
    """Take the figures of laws of the output given one example.

    Parameters
    ----------
    log_weight
        Log-probabilities of the example's values, ``[values]``.
    log_laws
        Log-probabilities of the output given the example, ``[values, outputs]``.

    Returns
    -------
    Membership
        Exact.

    Examples
    --------
    >>> table = np.log([[0.75, 0.25], [0.25, 0.75]])
    >>> round(membership_of_table(np.log([0.5, 0.5]), table).attack_auc, 6)
    0.625
    """
    pairs = FinitePairs(log_weight, log_laws, laws.repeated_mixture(log_weight, log_laws))
    return Membership(
        advantage=pairs.total_variation(),
        attack_auc=pairs.auc(),
        attack_tpr_1pct=pairs.true_positive_rate(0.01),
        attack_tpr_01pct=pairs.true_positive_rate(0.001),
        individual_information=pairs.kl(),
        lautum_information=laws.lautum_information(log_weight, log_laws),
        rate=pairs.true_positive_rate,
    )
