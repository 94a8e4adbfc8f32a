"""Log-ratios within ``[-eps, eps]``: pure DP, as of location families, and its consequences."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri_exp

from gibbs_dp.privacy.routes import two_point


@dataclass(frozen=True)
class BoundedRatio:
    """The log-ratio of neighbours lies in ``[-eps, eps]``; randomized response is the worst pair.

    Parameters
    ----------
    eps
        ``gamma sup |L(theta, Z) - L(theta, Z')|``, in nats.

    Examples
    --------
    >>> BoundedRatio(0.4).pure(2)
    0.8
    """

    eps: float

    @property
    def name(self) -> str:
        """Short name."""
        return "location family"

    @property
    def assumption(self) -> str:
        """What it rests on."""
        return (
            "exact draws; the normalizer is free of the data (declared location_family) and the "
            f"declared sensitivity holds, gamma sensitivity = {self.eps:.6g} (Dwork et al. 2006)"
        )

    def pure(self, num_draws: int) -> float:
        """``m eps``."""
        return num_draws * self.eps

    def zcdp(self, num_draws: int) -> float:
        """``m eps^2 / 2`` (Bun & Steinke 2016)."""
        return num_draws * self.eps**2 / 2

    def renyi(self, alpha: float, num_draws: int) -> float:
        """``m`` times that of randomized response."""
        if self.eps == 0 or math.isinf(alpha):
            return num_draws * self.eps
        if alpha == 1:
            return self.kl(num_draws)
        return num_draws * two_point.renyi(-self.eps, self.eps, alpha)

    def gdp(self, num_draws: int) -> float:
        """``2 sqrt(m) Phi^-1( 1 / (1 + e^-eps) )``, through the corner of the trade-off curve."""
        return -2 * math.sqrt(num_draws) * float(ndtri_exp(-np.logaddexp(0.0, self.eps)))

    def delta(self, eps: float, num_draws: int) -> float:
        """``m`` randomized responses, exactly."""
        if self.eps == 0:
            return 0.0
        low, high = np.array([-self.eps]), np.array([self.eps])
        return float(two_point.hockey_stick(low, high, eps, num_draws)[0])

    def kl(self, num_draws: int) -> float:
        """``m eps tanh(eps / 2)``."""
        return num_draws * self.eps * math.tanh(self.eps / 2)

    def tv(self, num_draws: int) -> float:
        """``tanh(eps / 2)`` for one draw."""
        return self.delta(0.0, num_draws)
