"""What is known about a holdout's rows: how a fixed query concentrates, and Bayesian DP.

Two things decide how far adaptively chosen answers can be from the population: the chance that a
query fixed beforehand is far off, and the Bayesian DP that a differentially private mechanism has
on these rows (section 9 of the theory; Zhao 2019, Theorems 1 to 3). For dependent rows the printed
theorems use Hoeffding's bound for the first, which fails; here it is part of the declaration.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from scipy.optimize import brentq

from gibbs_dp.information import checks


@runtime_checkable
class Rows(Protocol):
    """What `thresholdout_promise` needs to know."""

    def deviation(self, n: int, log_probability: float) -> float:
        """Smallest ``tau`` with ``P[|E_S phi - P phi| > tau] <= e^log_probability``, fixed phi."""
        ...

    def bdp_epsilon(self, n: int, dp_epsilon: float) -> float:
        """Bayesian DP, on ``n`` such rows, of a ``dp_epsilon``-DP (replace-one) mechanism."""
        ...


@dataclass(frozen=True)
class IndependentRows:
    """Independent rows: Hoeffding's ``2 exp(-2 n tau^2)``, and Bayesian DP is DP.

    Examples
    --------
    >>> round(IndependentRows().deviation(1000, math.log(0.05)), 6)
    0.042947
    """

    def tail(self, n: int, tau: float) -> float:
        """Bound on ``P[|E_S phi - P phi| > tau]`` for one fixed query into [0, 1]."""
        return min(1.0, 2 * math.exp(-2 * n * tau**2))

    def deviation(self, n: int, log_probability: float) -> float:
        """Invert `tail`."""
        return _hoeffding(float(n), log_probability)

    def bdp_epsilon(self, n: int, dp_epsilon: float) -> float:
        """Return ``dp_epsilon``."""
        checks.count("n", n)
        return dp_epsilon


@dataclass(frozen=True)
class ReversibleChainRows:
    """Rows that form a stationary reversible Markov chain: ``2 exp(-2 n tau^2 (1-l)/(1+l))``.

    ``l = 1 - absolute_gap`` (Fan, Jiang & Sun 2021, Thm 1).

    Parameters
    ----------
    absolute_gap
        ``1 - max(|lambda_2|, |lambda_min|)``, as of `MarkovChain.absolute_gap`.
    bdp
        Function ``(n, dp_epsilon) -> Bayesian DP`` of a ``dp_epsilon``-DP mechanism on them.

    Raises
    ------
    ValueError
        If the gap is not in ``(0, 1]``.

    Examples
    --------
    >>> rows = ReversibleChainRows(0.1, lambda n, epsilon: n * epsilon)  # flips one row in 20
    >>> round(rows.tail(200, 0.1), 3)
    1.0
    """

    absolute_gap: float
    bdp: Callable[[int, float], float]

    def __post_init__(self) -> None:
        if not 0 < self.absolute_gap <= 1:
            raise ValueError(
                f"absolute_gap must lie in (0, 1], got {self.absolute_gap}; a chain without a gap "
                "does not forget, and nothing concentrates."
            )

    @property
    def variance_inflation(self) -> float:
        """``(1 + l)/(1 - l)``: rows per effective row."""
        return (2 - self.absolute_gap) / self.absolute_gap

    def tail(self, n: int, tau: float) -> float:
        """Bound on ``P[|E_S phi - P phi| > tau]`` for one fixed query into [0, 1]."""
        return min(1.0, 2 * math.exp(-2 * n * tau**2 / self.variance_inflation))

    def deviation(self, n: int, log_probability: float) -> float:
        """Invert `tail`."""
        return _hoeffding(n / self.variance_inflation, log_probability)

    def bdp_epsilon(self, n: int, dp_epsilon: float) -> float:
        """Evaluate ``bdp``."""
        return self.bdp(n, dp_epsilon)


@dataclass(frozen=True)
class DeclaredRows:
    """Any rows, with a tail that the user vouches for.

    Parameters
    ----------
    log_tail
        Function ``(n, tau) -> log P[|E_S phi - P phi| > tau]``, a bound for every fixed query into
        [0, 1]; decreasing in ``tau``.
    bdp
        Function ``(n, dp_epsilon) -> Bayesian DP`` of a ``dp_epsilon``-DP mechanism.

    Examples
    --------
    >>> tail = lambda n, tau: math.log(2) - n * tau**2
    >>> pairs = DeclaredRows(tail, lambda n, epsilon: 2 * epsilon)
    >>> round(pairs.deviation(1000, math.log(0.05)), 6)
    0.060736
    """

    log_tail: Callable[[int, float], float]
    bdp: Callable[[int, float], float]

    def deviation(self, n: int, log_probability: float) -> float:
        """Invert ``log_tail``; infinite where even ``tau = 1`` is too likely."""

        def excess(tau: float) -> float:
            return self.log_tail(n, tau) - log_probability

        if not excess(1.0) <= 0:
            return math.inf
        if excess(1e-12) <= 0:
            return 1e-12
        return float(brentq(excess, 1e-12, 1.0, xtol=1e-13))

    def bdp_epsilon(self, n: int, dp_epsilon: float) -> float:
        """Evaluate ``bdp``."""
        return self.bdp(n, dp_epsilon)


def _hoeffding(n: float, log_probability: float) -> float:
    return math.sqrt(max(0.0, math.log(2) - log_probability) / (2 * n))
