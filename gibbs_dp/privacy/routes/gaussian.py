"""Gaussian DP: what strong convexity gives."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from gibbs_dp.information.bounds import delta_from_gdp

STRONGLY_CONVEX = "gamma G / sqrt(m) = {} (Gopi, Lee & Liu 2022, Thm 4)"
BOUNDED_CONVEX = "sqrt(2 gamma G D - m D^2) = {} (Bok, Su & Altschuler 2024, in the limit)"


@dataclass(frozen=True)
class GaussianDP:
    """Neighbours are no easier to tell apart than ``N(0, 1)`` and ``N(mu, 1)``.

    Parameters
    ----------
    mu
        Of one draw.
    source
        The theorem that gives it.

    Examples
    --------
    >>> GaussianDP(0.5).zcdp(10)
    1.25
    """

    name: ClassVar[str] = "convex"
    mu: float
    source: str = STRONGLY_CONVEX

    @property
    def assumption(self) -> str:
        """What it rests on."""
        return (
            "exact draws; the potential is convex and neighbours' losses differ by a Lipschitz "
            f"function, mu = {self.source.format(f'{self.mu:.6g}')}"
        )

    def pure(self, num_draws: int) -> float:
        """Nothing: Gaussian tails."""
        del num_draws
        return 0.0 if self.mu == 0 else math.inf

    def zcdp(self, num_draws: int) -> float:
        """``m mu^2 / 2``."""
        return num_draws * self.mu**2 / 2

    def renyi(self, alpha: float, num_draws: int) -> float:
        """``m alpha mu^2 / 2``."""
        return 0.0 if self.mu == 0 else alpha * self.zcdp(num_draws)

    def gdp(self, num_draws: int) -> float:
        """``sqrt(m) mu``."""
        return math.sqrt(num_draws) * self.mu

    def delta(self, epsilon: float, num_draws: int) -> float:
        """Balle & Wang 2018, exactly."""
        return delta_from_gdp(self.gdp(num_draws), epsilon)

    def kl(self, num_draws: int) -> float:
        """``m mu^2 / 2``."""
        return self.zcdp(num_draws)

    def tv(self, num_draws: int) -> float:
        """``2 Phi(sqrt(m) mu / 2) - 1``."""
        return math.erf(self.gdp(num_draws) / math.sqrt(8))
