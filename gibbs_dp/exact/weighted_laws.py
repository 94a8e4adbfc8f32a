"""What an algorithm's output tells about its whole dataset: one method per measure."""

from __future__ import annotations

import abc
import math

import numpy as np
from jaxtyping import Float

from gibbs_dp.exact import laws
from gibbs_dp.information import checks
from gibbs_dp.information.divergences import approximate_max_divergence_of_logs, batched
from gibbs_dp.information.leakage import alpha_information_of_laws


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
        return laws.mutual_information(self.log_weight, self.log_laws)

    def lautum_information(self) -> float:
        """Lautum information in nats; ``inf`` when some output is impossible on some dataset."""
        return laws.lautum_information(self.log_weight, self.log_laws)

    def t_information(self) -> float:
        """T-information, in ``[0, 1]``."""
        mixed = laws.repeated_mixture(self.log_weight, self.log_laws)
        return laws.average(self.log_weight, batched.total_variation(self.log_laws, mixed))

    def max_information_bits(self) -> float:
        """Max-information in bits."""
        return laws.max_information_bits(self.log_weight, self.log_laws)

    def approx_max_information_bits(self, beta: float) -> float:
        """Approximate max-information in bits, ``0 <= beta < 1``; may be negative."""
        checks.unit_interval("beta", beta)
        weight = self.log_weight[:, None]
        joint = (weight + self.log_laws).ravel()
        product = (weight + laws.mixture(self.log_weight, self.log_laws)).ravel()
        return approximate_max_divergence_of_logs(joint, product, beta) / math.log(2)

    def alpha_mutual_information(self, alpha: float) -> float:
        """Sibson's alpha-mutual information in nats; see `information.leakage`."""
        if alpha == 1:
            return self.mutual_information()
        return alpha_information_of_laws(self.log_weight, self.log_laws, alpha)

    def maximal_leakage(self) -> float:
        """Maximal leakage ``log sum_w max_s P(w | s)`` in nats, over datasets that can occur."""
        return alpha_information_of_laws(self.log_weight, self.log_laws, math.inf)
