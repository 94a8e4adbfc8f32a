"""Exact figures of attackers: who knows all other examples, and who knows only the law."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from gibbs_dp.exact import laws
from gibbs_dp.exact.types import Neighbours, require_cells
from gibbs_dp.information import checks
from gibbs_dp.information.divergences import batched


class PairLaws(abc.ABC):
    """The laws ``p`` of the output on ``Z`` and ``p'`` on its neighbour, for random pairs.

    The attacker knows the pair, sees one output and says which law it came from, by a threshold on
    ``L = log p/p'``. *Pooled* figures use one threshold for all pairs; *vertical* ones are means
    over pairs of what a threshold of the pair's own achieves. Informations are in nats.
    """

    @abc.abstractmethod
    def kl(self) -> float:
        """``E KL(p || p')`` in nats."""

    @abc.abstractmethod
    def total_variation(self) -> float:
        """``E TV(p, p')``: the best attacker's true minus false positive rate."""

    @abc.abstractmethod
    def auc(self) -> float:
        """Area under the pooled ROC."""

    @abc.abstractmethod
    def auc_per_pair(self) -> float:
        """Mean area under the ROC of a pair."""

    @abc.abstractmethod
    def renyi(self, order: float) -> float:
        """``E D_order(p || p')`` in nats."""

    @abc.abstractmethod
    def pooled_renyi(self, order: float) -> float:
        """``log E exp((order - 1) D_order(p || p')) / (order - 1)`` in nats."""

    @abc.abstractmethod
    def hockey_stick(self, epsilon: float) -> float:
        """``E sup_A [p(A) - e^epsilon p'(A)]``, for any real ``epsilon``."""

    @abc.abstractmethod
    def true_positive_rate(self, false_positive_rate: float) -> float:
        """Pooled ROC: the largest mean true positive rate at a mean false positive rate."""

    @abc.abstractmethod
    def vertical_true_positive_rate(self, false_positive_rate: float) -> float:
        """Vertical ROC: the mean over pairs of the largest rate at this rate in every pair."""


# Random pairs of finite output laws, as a table.


class FinitePairs(PairLaws):
    """Pairs of laws over finitely many outputs, with the probability of each pair."""

    def __init__(
        self,
        log_weight: Float[np.ndarray, " pairs"],
        log_p: Float[np.ndarray, "pairs outputs"],
        log_q: Float[np.ndarray, "pairs outputs"],
    ) -> None:
        seen = ~np.isneginf(log_weight)
        self.log_weight, self.log_p, self.log_q = log_weight[seen], log_p[seen], log_q[seen]
        self.same = max(0.0, 1.0 - float(np.exp(self.log_weight).sum()))

    @classmethod
    def of(cls, neighbours: Iterable[Neighbours]) -> FinitePairs:
        """Stack neighbours, such as those of `TypeTable.replacements`."""
        held = list(neighbours)
        if not held:  # examples have one value: nothing can be replaced
            return cls(np.empty(0), np.empty((0, 1)), np.empty((0, 1)))
        require_cells("pairs x outputs", sum(pair.log_p.size for pair in held))
        log_weight, log_p, log_q = zip(*(pair[2:] for pair in held), strict=True)
        return cls(np.concatenate(log_weight), np.concatenate(log_p), np.concatenate(log_q))

    @cached_property
    def joint(self) -> tuple[Float[np.ndarray, " cells"], Float[np.ndarray, " cells"]]:
        """Log of the joint laws of pair and output, by falling likelihood ratio, ``[cells]``."""
        with np.errstate(divide="ignore"):
            same = np.log(self.same)
        p, q = (
            np.append((self.log_weight[:, None] + law).ravel(), same)
            for law in (self.log_p, self.log_q)
        )
        order = np.argsort(-batched.log_likelihood_ratio(p, q), kind="stable")
        return p[order], q[order]

    @cached_property
    def log_ratio(self) -> Float[np.ndarray, " cells"]:
        """``L`` of every cell of `joint`, falling, ``[cells]``."""
        return batched.log_likelihood_ratio(*self.joint)

    @cached_property
    def corners(self) -> tuple[Float[np.ndarray, " points"], Float[np.ndarray, " points"]]:
        """Corners of the pooled ROC: false and true positive rates, ``[points]``."""
        return batched.roc(*self.joint)

    def _average(self, values: Float[np.ndarray, " pairs"]) -> float:
        return laws.average(self.log_weight, values)

    def kl(self) -> float:
        """``E KL(p || p')`` in nats."""
        return self._average(batched.kl(self.log_p, self.log_q))

    def total_variation(self) -> float:
        """``E TV(p, p')``."""
        return self._average(batched.total_variation(self.log_p, self.log_q))

    def jensen_shannon(self) -> float:
        """``E JS(p, p')`` in nats."""
        return self._average(batched.jensen_shannon(self.log_p, self.log_q))

    def auc(self) -> float:
        """Area under the pooled ROC."""
        return float(batched.auc(*self.joint))

    def auc_per_pair(self) -> float:
        """Mean area under the ROC of a pair."""
        return self._average(batched.auc(self.log_p, self.log_q)) + self.same / 2

    def renyi(self, order: float) -> float:
        """``E D_order(p || p')`` in nats."""
        return self._average(batched.renyi(self.log_p, self.log_q, order))

    def pooled_renyi(self, order: float) -> float:
        """Rényi divergence of the joint laws of pair and output, in nats."""
        return float(batched.renyi(*self.joint, order))

    def hockey_stick(self, epsilon: float) -> float:
        """``E sup_A [p(A) - e^epsilon p'(A)]``."""
        above = int(np.searchsorted(-self.log_ratio, -epsilon))
        mass = np.exp(self.joint[0][:above])
        return float(mass @ -np.expm1(epsilon - self.log_ratio[:above]))

    def true_positive_rate(self, false_positive_rate: float) -> float:
        """Pooled ROC at one false positive rate."""
        fpr, tpr = self.corners
        # Of corners at the same rate the last counts; lines join the others.
        return min(1.0, float(np.interp(false_positive_rate, fpr, tpr)))

    def vertical_true_positive_rate(self, false_positive_rate: float) -> float:
        """Vertical ROC at one false positive rate."""
        rates = batched.true_positive_rate(self.log_p, self.log_q, false_positive_rate)
        return self._average(rates) + self.same * false_positive_rate


# What an attacker who knows all examples but one learns from an output, on average.


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


# Membership from one output, the rest of the dataset unknown: exact figures.


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
