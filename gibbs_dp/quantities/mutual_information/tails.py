"""Tails of a loss, and the upper bounds of the generalization error that follow from them."""

from __future__ import annotations

import math
from typing import NamedTuple

from gibbs_dp.estimators import Average
from gibbs_dp.information import bounds

SEEN = "largest standard deviation seen (no guarantee)"


class Tails(NamedTuple):
    """``log E exp(s (loss(theta, z) - R(theta))) <= s^2 sigma^2 / 2`` for every theta.

    Attributes
    ----------
    sigma
        Subgaussian or, with ``b``, subexponential parameter, in units of the loss.
    origin
        Where it comes from.
    b
        It holds for ``|s| < 1/b`` only, in units of the loss; None: for every ``s``.
    """

    sigma: float
    origin: str
    b: float | None = None

    def information_upper(self, n: int, gamma: float) -> float:
        """Corollary 10, both sides: what the information of a Gibbs posterior cannot exceed."""
        if self.origin == SEEN or not (gamma > 0 and self.sigma > 0):
            return math.inf
        return bounds.gibbs_mutual_information(n, gamma, sigma=self.sigma, b=self.b)

    def generalization_upper(self, information: Average, n: int) -> tuple[float, float]:
        """Bound of the gap from ``n`` examples' information, with its error (delta method).

        The root of the information, and for a subexponential loss a line from where the line
        touches it (Russo & Zou 2016, Proposition 3).
        """
        nats = max(information.value, 0.0)
        root = bounds.generalization_from_mutual_information(nats, n, sigma=self.sigma)
        share = information.se / (2.0 * max(information.value, information.se, 1e-300))
        if self.b is None:
            return root, root * share
        value = bounds.generalization_subexponential(nats, n, sigma=self.sigma, b=self.b)
        return value, root * share if value == root else self.b * information.se / n
