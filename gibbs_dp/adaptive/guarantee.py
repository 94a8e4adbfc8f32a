"""What a mechanism promises: proven figures, with the adjacency that they hold for."""

from __future__ import annotations

from dataclasses import dataclass

from gibbs_dp.information import checks
from gibbs_dp.information.checks import Adjacency
from gibbs_dp.privacy.figures import check_figures


@dataclass(frozen=True)
class MechanismGuarantee:
    """A proven differential-privacy guarantee of one run of a mechanism; numbers in nats.

    Parameters
    ----------
    adjacency
        Neighbours that the declared sensitivity is for.
    epsilon, delta
        ``(epsilon, delta)``-DP; pure DP where ``delta`` is 0.
    zcdp, gdp
        The same run as ``rho`` of zero-concentrated DP and ``mu`` of Gaussian DP; None where it
        has none.
    assumption
        What it rests on.

    Examples
    --------
    >>> print(MechanismGuarantee("replace-one", 0.5, assumption="sensitivity 1 (declared)"))
    0.5-DP, replace-one neighbours; sensitivity 1 (declared)
    """

    adjacency: Adjacency
    epsilon: float
    delta: float = 0.0
    zcdp: float | None = None
    gdp: float | None = None
    assumption: str = ""

    def __post_init__(self) -> None:
        checks.adjacency(self.adjacency)
        check_figures(self.epsilon, self.delta, zcdp=self.zcdp, gdp=self.gdp)

    def __str__(self) -> str:
        pair = f"({self.epsilon:.6g}, {self.delta:.6g})" if self.delta else f"{self.epsilon:.6g}"
        tail = f"; {self.assumption}" if self.assumption else ""
        return f"{pair}-DP, {self.adjacency} neighbours{tail}"


def declared(sensitivity: float) -> str:
    """Word the assumption that every mechanism here makes.

    >>> declared(1.0)
    'sensitivity 1 (declared)'
    """
    return f"sensitivity {sensitivity:g} (declared)"


@dataclass(frozen=True)
class PureMechanism:
    """What mechanisms with a pure-DP target are told; their docstrings describe the fields."""

    sensitivity: float
    epsilon: float
    adjacency: Adjacency

    def __post_init__(self) -> None:
        checks.positive("sensitivity", self.sensitivity)
        checks.positive("epsilon", self.epsilon)
        checks.adjacency(self.adjacency)

    def _promise(self, *, zcdp: float, more: str = "") -> MechanismGuarantee:
        assumption = declared(self.sensitivity) + more
        return MechanismGuarantee(self.adjacency, self.epsilon, zcdp=zcdp, assumption=assumption)
