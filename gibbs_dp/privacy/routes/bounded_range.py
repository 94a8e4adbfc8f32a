"""Log-ratios of bounded range: what a loss that is bounded on the domain gives."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri_exp

from gibbs_dp.information.bounds import kl_from_range, renyi_from_range, zcdp_from_range
from gibbs_dp.privacy.routes import two_point

# The maximum over the unknown end is certified to this relative error, from above.
TOLERANCE = 1e-6
MAX_CELLS = 10_000


@dataclass(frozen=True)
class BoundedRange:
    """The log-ratio of neighbours has range at most ``eta``: it lies in ``[t - eta, t]``.

    The position ``t`` is not known, so every figure is a maximum over ``0 <= t <= eta``.

    Parameters
    ----------
    eta
        ``gamma R``, in nats.

    Examples
    --------
    >>> route = BoundedRange(1.0)
    >>> round(route.kl(1), 9), round(route.tv(1), 9)
    (0.123301561, 0.244918662)
    """

    name: ClassVar[str] = "bounded range"
    eta: float

    @property
    def assumption(self) -> str:
        """What it rests on."""
        return (
            f"exact draws; the loss has bounded range on the domain, gamma R = {self.eta:.6g} "
            "(Durfee & Rogers 2019; Dong, Durfee & Rogers 2020)"
        )

    def pure(self, num_draws: int) -> float:
        """``m eta`` (McSherry & Talwar 2007)."""
        return num_draws * self.eta

    def zcdp(self, num_draws: int) -> float:
        """``m eta^2 / 8`` (Cesar & Rogers 2021)."""
        return num_draws * zcdp_from_range(self.eta)

    def renyi(self, alpha: float, num_draws: int) -> float:
        """Sum of the largest divergences of one draw."""
        return num_draws * renyi_from_range(self.eta, alpha)

    def gdp(self, num_draws: int) -> float:
        """``mu = 2 sqrt(m) Phi^-1( 1 / (1 + e^{-eta/2}) )``.

        The trade-off curve of a two-point pair has one corner and lies above the curve of Gaussian
        DP through that corner. The corner at ``t = eta / 2``, about which all is symmetric, needs
        the largest ``mu``: searched numerically for ``eta`` from 0.001 to 200, not proven.
        """
        return -2 * math.sqrt(num_draws) * float(ndtri_exp(-np.logaddexp(0.0, self.eta / 2)))

    def delta(self, epsilon: float, num_draws: int) -> float:
        """Best possible ``delta`` for ``m`` draws of one posterior (not adaptive).

        For ``m = 1``, ``(1 - e^{(epsilon - eta)/2})^2 / (1 - e^-eta)``; otherwise the maximum over
        ``t`` of a binomial sum, from above to a relative 1e-6.
        """
        if epsilon >= num_draws * self.eta:
            return 0.0
        if num_draws == 1:
            return math.expm1((epsilon - self.eta) / 2) ** 2 / -math.expm1(-self.eta)
        return _worst_delta(self.eta, epsilon, num_draws)

    def kl(self, num_draws: int) -> float:
        """``m kappa(eta)``."""
        return num_draws * kl_from_range(self.eta)

    def tv(self, num_draws: int) -> float:
        """``delta`` at ``epsilon = 0``: ``tanh(eta / 4)`` for one draw."""
        return self.delta(0.0, num_draws)


def _worst_delta(eta: float, epsilon: float, num_draws: int) -> float:
    """Upper bound on the maximum over ``t``, by branch and bound.

    All pairs with ``t`` in a cell ``[a, b]`` have log-ratios within ``[a - eta, b]``, so the pair
    on those ends bounds the whole cell.
    """
    edges = np.linspace(0.0, eta, 65)
    low, high = edges[:-1], edges[1:]
    done = 0.0
    while True:
        upper = _bound(low, high, eta, epsilon, num_draws)
        best = float(two_point.hockey_stick(high - eta, high, epsilon, num_draws).max())
        live = upper > best * (1 + TOLERANCE)
        if not live.any() or 2 * int(live.sum()) > MAX_CELLS:
            return min(1.0, max(done, float(upper.max())))
        done = max(done, best)
        middle = 0.5 * (low[live] + high[live])
        done = max(done, float(upper[~live].max(initial=0.0)))
        low, high = np.concatenate([low[live], middle]), np.concatenate([middle, high[live]])


def _bound(
    low: Float[np.ndarray, " cells"],
    high: Float[np.ndarray, " cells"],
    eta: float,
    epsilon: float,
    num_draws: int,
) -> Float[np.ndarray, " cells"]:
    return two_point.hockey_stick(np.minimum(low - eta, 0.0), high, epsilon, num_draws)
