"""Log-ratios within ``[-epsilon, epsilon]``: pure DP, as of location families."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import ndtri_exp

from gibbs_dp.privacy.routes import two_point


@dataclass(frozen=True)
class BoundedRatio:
    """Log-ratios of neighbours within ``[-epsilon, epsilon]``; randomized response is the worst.

    Parameters
    ----------
    epsilon
        ``gamma sup |L(theta, Z) - L(theta, Z')|``, in nats.

    Examples
    --------
    >>> BoundedRatio(0.4).pure(2)
    0.8
    """

    name: ClassVar[str] = "location family"
    epsilon: float

    @property
    def assumption(self) -> str:
        """What it rests on."""
        return (
            "exact draws; the normalizer is free of the data (declared location_family) and the "
            f"declared sensitivity holds, gamma sensitivity = {self.epsilon:.6g} "
            "(Dwork et al. 2006)"
        )

    def pure(self, num_draws: int) -> float:
        """``m epsilon``."""
        return num_draws * self.epsilon

    def zcdp(self, num_draws: int) -> float:
        """``m epsilon^2 / 2`` (Bun & Steinke 2016)."""
        return num_draws * self.epsilon**2 / 2

    def renyi(self, alpha: float, num_draws: int) -> float:
        """``m`` times that of randomized response."""
        if self.epsilon == 0 or math.isinf(alpha):
            return num_draws * self.epsilon
        if alpha == 1:
            return self.kl(num_draws)
        return num_draws * two_point.renyi(-self.epsilon, self.epsilon, alpha)

    def gdp(self, num_draws: int) -> float:
        """``2 sqrt(m) Phi^-1(1 / (1 + e^-epsilon))``, through the corner of the trade-off curve."""
        return -2 * math.sqrt(num_draws) * float(ndtri_exp(-np.logaddexp(0.0, self.epsilon)))

    def delta(self, epsilon: float, num_draws: int) -> float:
        """``m`` randomized responses, exactly."""
        if self.epsilon == 0:
            return 0.0
        low, high = np.array([-self.epsilon]), np.array([self.epsilon])
        return float(two_point.hockey_stick(low, high, epsilon, num_draws)[0])

    def kl(self, num_draws: int) -> float:
        """``m epsilon tanh(epsilon / 2)``."""
        return num_draws * self.epsilon * math.tanh(self.epsilon / 2)

    def tv(self, num_draws: int) -> float:
        """``tanh(epsilon / 2)`` for one draw."""
        return self.delta(0.0, num_draws)
