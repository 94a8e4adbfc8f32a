"""Random pairs of finite output laws, as a table."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np
from jaxtyping import Float

from gibbs_dp.exact import laws
from gibbs_dp.exact.pair_laws import PairLaws
from gibbs_dp.exact.types import Neighbours, require_cells
from gibbs_dp.information.divergences import batched, testing


class FinitePairs(PairLaws):
    """Pairs of laws over finitely many outputs, with the probability of each pair.

    The pair is public, so pooled figures are those of the joint laws of pair and output.

    Parameters
    ----------
    log_weight
        Log-probabilities of the pairs, ``[pairs]``. What they lack of 1 is the probability that the
        two laws are the same, as where a ghost has the value that it replaces.
    log_p, log_q
        Log-probabilities of the outputs, ``[pairs, outputs]``.

    Examples
    --------
    >>> pairs = FinitePairs(np.log([0.5]), np.log([[0.75, 0.25]]), np.log([[0.25, 0.75]]))
    >>> pairs.total_variation(), pairs.auc_per_pair()
    (0.25, 0.625)
    """

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
        order = np.argsort(-testing.log_likelihood_ratio(p, q), kind="stable")
        return p[order], q[order]

    @cached_property
    def log_ratio(self) -> Float[np.ndarray, " cells"]:
        """``L`` of every cell of `joint`, falling, ``[cells]``."""
        return testing.log_likelihood_ratio(*self.joint)

    @cached_property
    def corners(self) -> tuple[Float[np.ndarray, " points"], Float[np.ndarray, " points"]]:
        """Corners of the pooled ROC: false and true positive rates, ``[points]``."""
        return testing.roc(*self.joint)

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
        return float(testing.auc(*self.joint))

    def auc_per_pair(self) -> float:
        """Mean area under the ROC of a pair."""
        return self._average(testing.auc(self.log_p, self.log_q)) + self.same / 2

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
        rates = testing.true_positive_rate(self.log_p, self.log_q, false_positive_rate)
        return self._average(rates) + self.same * false_positive_rate
