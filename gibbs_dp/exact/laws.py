"""A family of output laws with the probability of each: how much the output tells.

The family is ``log_laws [datasets, outputs]`` and the weights ``log_weight [datasets]``; datasets
may be ordered ones or multinomial types. ``-inf`` is a probability of zero. Nats, unless a name
says bits.
"""

from __future__ import annotations

import abc
import math

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from gibbs_dp.information import checks
from gibbs_dp.information.dependence import alpha_information_of_laws
from gibbs_dp.information.divergences import batched
from gibbs_dp.information.divergences.finite import approximate_max_divergence_of_logs

LogWeight = Float[np.ndarray, " datasets"]
LogLaws = Float[np.ndarray, "datasets outputs"]


def mixture(log_weight: LogWeight, log_laws: LogLaws) -> Float[np.ndarray, " outputs"]:
    """Log of the marginal law of the output."""
    with np.errstate(divide="ignore"):
        return np.asarray(logsumexp(log_weight[:, None] + log_laws, axis=0))


def average(log_weight: LogWeight, values: LogWeight) -> float:
    """Mean of ``values [datasets]``; a weight of zero silences even an infinite value."""
    seen = ~np.isneginf(log_weight)
    return float(np.exp(log_weight[seen]) @ values[seen])


def mutual_information(log_weight: LogWeight, log_laws: LogLaws) -> float:
    """``I(W; S)``, the average KL of the laws to their mixture."""
    return average(log_weight, batched.kl(log_laws, repeated_mixture(log_weight, log_laws)))


def lautum_information(log_weight: LogWeight, log_laws: LogLaws) -> float:
    """Lautum information, the average KL of the mixture to the laws; may be ``inf``."""
    return average(log_weight, batched.kl(repeated_mixture(log_weight, log_laws), log_laws))


def max_information_bits(log_weight: LogWeight, log_laws: LogLaws) -> float:
    """Max-information over datasets of positive probability, in bits."""
    seen = ~np.isneginf(log_weight)
    ratio = batched.max_divergence(log_laws, repeated_mixture(log_weight, log_laws))
    return float(ratio[seen].max()) / math.log(2)


def repeated_mixture(log_weight: LogWeight, log_laws: LogLaws) -> LogLaws:
    """Repeat the `mixture` once per dataset."""
    return np.broadcast_to(mixture(log_weight, log_laws), log_laws.shape)


class WeightedLaws(abc.ABC):
    """A family of output laws with the probability of each: base of the exact tables.

    Subclasses have ``log_laws [datasets, outputs]`` and ``log_weight [datasets]``, where datasets
    are ordered ones or types, and their examples need not be independent.

    Examples
    --------
    >>> from gibbs_dp.exact.types import TypeTable
    >>> table = TypeTable(1, np.array([0.5, 0.5]), np.log([[0.25, 0.75], [0.75, 0.25]]))
    >>> table.t_information(), round(table.mutual_information(), 6)
    (0.25, 0.130812)
    """

    log_laws: Float[np.ndarray, "datasets outputs"]

    @property
    @abc.abstractmethod
    def log_weight(self) -> Float[np.ndarray, " datasets"]:
        """Log-probability of every dataset, ``[datasets]``."""

    def mutual_information(self) -> float:
        """``I(W; S)`` in nats."""
        return mutual_information(self.log_weight, self.log_laws)

    def lautum_information(self) -> float:
        """Lautum information in nats; ``inf`` when some output is impossible on some dataset."""
        return lautum_information(self.log_weight, self.log_laws)

    def t_information(self) -> float:
        """T-information, in ``[0, 1]``."""
        mixed = repeated_mixture(self.log_weight, self.log_laws)
        return average(self.log_weight, batched.total_variation(self.log_laws, mixed))

    def max_information_bits(self) -> float:
        """Max-information in bits."""
        return max_information_bits(self.log_weight, self.log_laws)

    def approx_max_information_bits(self, beta: float) -> float:
        """Approximate max-information in bits, ``0 <= beta < 1``; may be negative."""
        checks.unit_interval("beta", beta)
        weight = self.log_weight[:, None]
        joint = (weight + self.log_laws).ravel()
        product = (weight + mixture(self.log_weight, self.log_laws)).ravel()
        return approximate_max_divergence_of_logs(joint, product, beta) / math.log(2)

    def alpha_mutual_information(self, alpha: float) -> float:
        """Sibson's alpha-mutual information in nats; see `information.dependence`."""
        if alpha == 1:
            return self.mutual_information()
        return alpha_information_of_laws(self.log_weight, self.log_laws, alpha)

    def maximal_leakage(self) -> float:
        """Maximal leakage ``log sum_w max_s P(w | s)`` in nats, over datasets that can occur."""
        return alpha_information_of_laws(self.log_weight, self.log_laws, math.inf)
