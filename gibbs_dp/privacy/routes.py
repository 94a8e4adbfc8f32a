"""Routes from a posterior's constants to guarantees: one assumption, all its consequences."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float
from scipy.special import gammaln, ndtri_exp

from gibbs_dp.information import checks
from gibbs_dp.information.bounds import (
    delta_from_gdp,
    kl_from_range,
    renyi_from_range,
    zcdp_from_range,
)


@runtime_checkable
class Route(Protocol):
    """One assumption on the laws of neighbours, and what follows for ``m`` independent draws."""

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


# Pairs of laws on two outcomes: the worst pairs whose log-ratio is confined to an interval.
#
# If ``log P/Q`` lies in ``[low, high]`` almost surely, every convex function of the likelihood
# ratio has an expectation at most that of the law on the two ends with mean one: the two-point pair
# dominates (P, Q) for every divergence, and so do its products (Blackwell).


Row = Float[np.ndarray, " pairs"]


def log_laws(low: Row, high: Row) -> tuple[Row, Row, Row, Row]:
    """``log P(high), log P(low), log Q(high), log Q(low)`` of the pairs, ``low <= 0 <= high``.

    >>> p, _, q, _ = log_laws(np.array([-1.0]), np.array([1.0]))
    >>> float(p[0] - q[0])
    1.0
    """
    width = -np.expm1(low - high)
    with np.errstate(divide="ignore"):
        q_high = np.log(-np.expm1(low)) - high - np.log(width)
        q_low = np.log(-np.expm1(-high)) - np.log(width)
    return q_high + high, q_low + low, q_high, q_low


def two_point_delta(low: Row, high: Row, epsilon: float, num_draws: int) -> Row:
    """``delta(epsilon)`` of ``num_draws`` independent draws of each pair, exactly: a binomial sum.

    >>> round(float(two_point_delta(np.array([-1.0]), np.array([1.0]), 0.0, 1)[0]), 12)  # tanh(1/2)
    0.46211715726
    """
    p_high, p_low, q_high, q_low = (a[:, None] for a in log_laws(low, high))
    k = np.arange(num_draws + 1.0)
    choose = gammaln(num_draws + 1) - gammaln(k + 1) - gammaln(num_draws - k + 1)
    # A log of -inf times a count of 0 is 0: a huge finite number does as well.
    p_high, p_low, q_high, q_low = (np.maximum(a, -1e300) for a in (p_high, p_low, q_high, q_low))
    log_p = choose + k * p_high + (num_draws - k) * p_low
    log_q = choose + k * q_high + (num_draws - k) * q_low
    gap = np.minimum(epsilon + log_q - log_p, 0.0)
    return np.asarray(np.sum(np.exp(log_p) * -np.expm1(gap), axis=1))


def two_point_renyi(low: float, high: float, alpha: float) -> float:
    """Rényi divergence of order ``alpha > 1`` of one pair, in nats."""
    _, _, q_high, q_low = (float(a[0]) for a in log_laws(np.array([low]), np.array([high])))
    terms = np.logaddexp(q_high + alpha * high, q_low + alpha * low)
    return float(terms) / (alpha - 1)


# Log-ratios of bounded range: what a loss that is bounded on the domain gives.


# The maximum over the unknown end is certified to this relative error, from above.
TOLERANCE = 1e-6
MAX_CELLS = 10_000


@dataclass(frozen=True)
class BoundedRange:
    """The log-ratio of neighbours has range at most ``eta``: it lies in ``[t - eta, t]``."""

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
        best = float(two_point_delta(high - eta, high, epsilon, num_draws).max())
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
    return two_point_delta(np.minimum(low - eta, 0.0), high, epsilon, num_draws)


# Log-ratios within ``[-epsilon, epsilon]``: pure DP, as of location families.


@dataclass(frozen=True)
class BoundedRatio:
    """Log-ratios of neighbours within ``[-epsilon, epsilon]``; randomized response is the worst."""

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
        return num_draws * two_point_renyi(-self.epsilon, self.epsilon, alpha)

    def gdp(self, num_draws: int) -> float:
        """``2 sqrt(m) Phi^-1(1 / (1 + e^-epsilon))``, through the corner of the trade-off curve."""
        return -2 * math.sqrt(num_draws) * float(ndtri_exp(-np.logaddexp(0.0, self.epsilon)))

    def delta(self, epsilon: float, num_draws: int) -> float:
        """``m`` randomized responses, exactly."""
        if self.epsilon == 0:
            return 0.0
        low, high = np.array([-self.epsilon]), np.array([self.epsilon])
        return float(two_point_delta(low, high, epsilon, num_draws)[0])

    def kl(self, num_draws: int) -> float:
        """``m epsilon tanh(epsilon / 2)``."""
        return num_draws * self.epsilon * math.tanh(self.epsilon / 2)

    def tv(self, num_draws: int) -> float:
        """``tanh(epsilon / 2)`` for one draw."""
        return self.delta(0.0, num_draws)


# Gaussian DP: what strong convexity gives.


STRONGLY_CONVEX = "gamma G / sqrt(m) = {} (Gopi, Lee & Liu 2022, Thm 4)"
BOUNDED_CONVEX = "sqrt(2 gamma G D - m D^2) = {} (Bok, Su & Altschuler 2024, in the limit)"


@dataclass(frozen=True)
class GaussianDP:
    """Neighbours are no easier to tell apart than ``N(0, 1)`` and ``N(mu, 1)``."""

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


# From ``delta(epsilon)`` to ``epsilon(delta)``, always from above, and to Gaussian DP.


# Relative amount by which a root is raised, so that delta(epsilon) <= delta survives rounding.
NUDGE = 1e-12
# Beyond this, an epsilon says nothing and exponentials overflow.
LARGEST = 600.0


def meaningful_epsilon(epsilon: float) -> float:
    """Return ``epsilon``, refused unless it is positive and promises something.

    >>> meaningful_epsilon(1.0)
    1.0
    """
    if checks.positive("epsilon", epsilon) > LARGEST:
        raise ValueError(f"epsilon: one above {LARGEST:g} promises nothing; lower it.")
    return epsilon


# Nothing is computed at smaller ones.
SMALLEST_DELTA = 1e-280


def check_delta(delta: float) -> None:
    """Raise a ValueError unless it is in ``(0, 1)``, and not too small to be computed with."""
    checks.unit_interval("delta", delta, open_left=True)
    if delta < SMALLEST_DELTA:
        raise ValueError(
            f"delta: below {SMALLEST_DELTA:g} it cannot be computed, got {delta:g}; use pure DP."
        )


def epsilon_at(route: Route, delta: float, num_draws: int) -> float:
    """Smallest ``epsilon`` with ``delta(epsilon) <= delta``; the pure one at ``delta = 0``."""
    checks.unit_interval("delta", delta)
    pure = route.pure(num_draws)
    if delta < SMALLEST_DELTA or pure == 0:
        return pure
    if route.delta(0.0, num_draws) <= delta:
        return 0.0
    high = min(pure, 1.0)
    while route.delta(high, num_draws) > delta:
        if high >= min(pure, LARGEST):
            return pure
        high = min(2 * high, pure, LARGEST)

    def excess(epsilon: float) -> float:
        # In logarithms the curve is nearly straight.
        return math.log(max(route.delta(epsilon, num_draws), 1e-300)) - math.log(delta)

    from scipy.optimize import brentq  # slow to import

    root = float(brentq(excess, 0.0, high, xtol=1e-12, rtol=1e-13))
    step = NUDGE
    while route.delta(root, num_draws) > delta:
        root, step = min(root * (1 + step) + step, high), 4 * step
    return root


@lru_cache(maxsize=256)
def gdp_at(epsilon: float, delta: float) -> float:
    """``mu`` of the Gaussian DP that is worth ``(epsilon, delta)``-DP."""

    def excess(log_mu: float) -> float:
        reached = delta_from_gdp(math.exp(log_mu), epsilon)
        return math.log(max(reached, 1e-300)) - math.log(delta)

    low, high = math.log(1e-9), math.log(1e3)
    if not excess(low) <= 0 <= excess(high):
        raise ValueError(
            f"epsilon: no useful noise gives ({epsilon:g}, {delta:g})-DP; choose a moderate target."
        )
    from scipy.optimize import brentq  # slow to import

    return math.exp(float(brentq(excess, low, high, xtol=1e-13)))
