"""What an attacker who knows all examples but one learns from an output, on average."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from gibbs_dp.exact.pair_laws import PairLaws
from gibbs_dp.information import checks


@dataclass(frozen=True)
class Attacker:
    """Exact figures of the attacker who knows every other example, on average over pairs.

    The dataset is ``Z`` or ``Z`` with one example replaced by a ghost, each with probability 1/2;
    the attacker knows both and sees one output. The likelihood ratio ``L = log p/p'`` is the best
    test (Neyman & Pearson 1933; Hajek & Kang 2022). Adjacency is replace-one.

    Parameters
    ----------
    on_average_kl
        ``E KL(p || p')``, in nats.
    on_average_tv
        ``E TV(p, p')``, the attacker's advantage: true minus false positive rate.
    attack_auc
        Area under the pooled ROC: one threshold for all pairs.
    attack_auc_per_pair
        Mean area under the ROC of a pair.
    attack_tpr_1pct, attack_tpr_01pct
        True positive rate of the pooled ROC at a false positive rate of 1% and of 0.1%.
    on_average_renyi_2, on_average_renyi_8
        ``E D_a(p || p')`` of orders 2 and 8, in nats.
    pairs
        The laws that the figures, and the curves below, are of.

    Examples
    --------
    >>> from gibbs_dp.exact import FiniteChannel
    >>> attacker = FiniteChannel([[0.75, 0.25], [0.25, 0.75]], [0.5, 0.5], n=1).attacker()
    >>> attacker.on_average_tv, attacker.privacy_profile([0.0, 1.0]).round(6)
    (0.25, array([0.25    , 0.035215]))
    """

    on_average_kl: float
    on_average_tv: float
    attack_auc: float
    attack_auc_per_pair: float
    attack_tpr_1pct: float
    attack_tpr_01pct: float
    on_average_renyi_2: float
    on_average_renyi_8: float
    pairs: PairLaws = field(repr=False)

    @classmethod
    def of(cls, pairs: PairLaws) -> Attacker:
        """Take every figure of random pairs of laws."""
        return cls(
            on_average_kl=pairs.kl(),
            on_average_tv=pairs.total_variation(),
            attack_auc=pairs.auc(),
            attack_auc_per_pair=pairs.auc_per_pair(),
            attack_tpr_1pct=pairs.true_positive_rate(0.01),
            attack_tpr_01pct=pairs.true_positive_rate(0.001),
            on_average_renyi_2=pairs.renyi(2.0),
            on_average_renyi_8=pairs.renyi(8.0),
            pairs=pairs,
        )

    def privacy_profile(self, epsilon: ArrayLike | float) -> Float[np.ndarray, "*epsilon"]:
        """On-average hockey-stick divergence ``E sup_A [p(A) - e^epsilon p'(A)]``.

        Parameters
        ----------
        epsilon
            Real numbers in nats, of any shape; 0 gives `on_average_tv`.

        Returns
        -------
        array
            The profile, of the shape of ``epsilon``: at most ``delta`` of ``(epsilon, delta)``-DP.

        Raises
        ------
        ValueError
            If an ``epsilon`` is not finite.
        """
        values = np.asarray(epsilon, dtype=np.float64)
        if not np.all(np.isfinite(values)):
            raise ValueError("epsilon must be finite; drop the other entries.")
        return _each(self.pairs.hockey_stick, values)

    def roc(self, fpr: ArrayLike | float) -> Float[np.ndarray, "*fpr"]:
        """Pooled ROC: largest true positive rate at false positive rates on average over pairs.

        Dual to the profile: ``roc(a) = min_eps [e^eps a + privacy_profile(eps)]``.

        Parameters
        ----------
        fpr
            False positive rates in ``[0, 1]``, of any shape.

        Returns
        -------
        array
            True positive rates, of the shape of ``fpr``.

        Raises
        ------
        ValueError
            If a rate lies outside ``[0, 1]``.
        """
        return at_rates(self.pairs.true_positive_rate, fpr)

    def vertical_roc(self, fpr: ArrayLike | float) -> Float[np.ndarray, "*fpr"]:
        """Mean over pairs of the true positive rate, where every pair keeps the same ``fpr``.

        Never above `roc`, whose attacker may raise more alarms on some pairs than on others. The
        area under it is `attack_auc_per_pair`. Parameters are those of `roc`.
        """
        return at_rates(self.pairs.vertical_true_positive_rate, fpr)

    def pooled_renyi(self, order: float) -> float:
        """``log E exp((a - 1) D_a(p || p')) / (a - 1)`` in nats: never below ``E D_a`` for a > 1.

        It is the Rényi divergence of the joint laws of pair and output; may be ``inf``.

        Parameters
        ----------
        order
            ``a``, positive; at 1 the limit, `on_average_kl`.

        Returns
        -------
        float
            Nats.

        Raises
        ------
        ValueError
            If the order is not positive and finite.
        """
        return self.pairs.pooled_renyi(checks.positive("order", order))


def at_rates(rate: Callable[[float], float], fpr: ArrayLike | float) -> Float[np.ndarray, "*fpr"]:
    """Take a true positive rate at every false positive rate, which must lie in ``[0, 1]``.

    Examples
    --------
    >>> at_rates(lambda fpr: fpr, [0.0, 0.5])
    array([0. , 0.5])
    """
    rates = np.asarray(fpr, dtype=np.float64)
    if not np.all((rates >= 0) & (rates <= 1)):
        raise ValueError("fpr must lie in [0, 1]; pass false positive rates.")
    return _each(rate, rates)


def _each(
    function: Callable[[float], float], values: Float[np.ndarray, "*shape"]
) -> Float[np.ndarray, "*shape"]:
    return np.array([function(float(x)) for x in values.ravel()]).reshape(values.shape)
