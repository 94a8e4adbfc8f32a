"""Random pairs of output laws: on a dataset, and on it with one example replaced."""

from __future__ import annotations

import abc


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
