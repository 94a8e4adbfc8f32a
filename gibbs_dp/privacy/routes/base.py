"""What every route offers."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class Route(Protocol):
    """One assumption on the laws of neighbours, and what follows for ``m`` independent draws.

    Everything is in nats (``delta`` and total variation are probabilities); ``inf`` (1 for
    probabilities) where the assumption gives nothing.
    """

    @property
    def name(self) -> str:
        """Short name."""

    @property
    def assumption(self) -> str:
        """What it rests on, with the source."""

    def pure(self, num_draws: int) -> float:
        """Pure DP ``epsilon``."""

    def zcdp(self, num_draws: int) -> float:
        """``rho`` of zero-concentrated DP."""

    def renyi(self, alpha: float, num_draws: int) -> float:
        """Rényi DP of order ``alpha >= 1``."""

    def gdp(self, num_draws: int) -> float:
        """``mu`` of Gaussian DP."""

    def delta(self, epsilon: float, num_draws: int) -> float:
        """``delta`` of ``(epsilon, delta)``-DP."""

    def kl(self, num_draws: int) -> float:
        """KL between neighbours."""

    def tv(self, num_draws: int) -> float:
        """Total variation between neighbours."""
