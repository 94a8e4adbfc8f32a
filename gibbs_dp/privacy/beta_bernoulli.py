"""Rényi DP of the conjugate posterior of bits: exact, by enumeration over all counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float
from scipy.special import betaln, digamma

from gibbs_dp._extras import require
from gibbs_dp.information import checks
from gibbs_dp.information.divergences import exponential_family_renyi
from gibbs_dp.privacy.guarantee import Guarantee

# Shares of the way from order 1 to the largest finite one, or of 256 where that is nearer.
SHARES = np.concatenate([np.geomspace(1e-3, 0.5, 28), 1 - np.geomspace(0.45, 1e-3, 20)])
LARGEST_ORDER = 256.0


@dataclass(frozen=True)
class BetaBernoulli:
    """Draws from ``Beta(a + gamma k, b + gamma (n - k))``, ``k`` ones among ``n`` private bits.

    The Gibbs posterior of the chance of a one, with ``-log likelihood`` as loss and a Beta prior.
    The loss has no bound, so there is no pure DP; the Rényi divergence of neighbours, replace-one,
    is exact and finite for orders below ``1 + min(a, b) / gamma`` (Geumlek, Song & Chaudhuri 2017).

    Parameters
    ----------
    a, b
        Of the prior, positive: what is added to the counts of ones and of zeros.
    gamma
        Inverse temperature; 1 is Bayesian inference.
    n
        Number of bits, public.

    Raises
    ------
    ValueError
        For numbers out of range.

    Examples
    --------
    >>> bits = BetaBernoulli(5.0, 5.0, gamma=1.0, n=10)
    >>> round(bits.renyi(2.0), 6), round(bits.renyi(4.0), 6), bits.largest_order
    (0.292136, 0.682313, 6.0)
    >>> BetaBernoulli(2.0, 2.0, gamma=1.0, n=10).renyi(4.0)
    inf
    >>> bits.guarantee(1e-2).epsilon < 4
    True
    """

    a: float
    b: float
    gamma: float = 1.0
    n: int = 1

    def __post_init__(self) -> None:
        checks.positive("a", self.a)
        checks.positive("b", self.b)
        checks.positive("gamma", self.gamma)
        checks.count("n", self.n)

    @property
    def largest_order(self) -> float:
        """``1 + min(a, b) / gamma``: orders below it are finite, and no other."""
        return 1 + min(self.a, self.b) / self.gamma

    @cached_property
    def _laws(self) -> Float[np.ndarray, "counts 2"]:
        """Parameters of the posterior of every count of ones."""
        k = np.arange(self.n + 1.0)
        return np.stack([self.a + self.gamma * k, self.b + self.gamma * (self.n - k)], axis=1)

    def renyi(self, alpha: float) -> float:
        """Rényi DP of order ``alpha >= 1`` of one draw: the largest over all neighbours, exactly.

        All pairs of counts ``k, k + 1`` in both orders.

        Parameters
        ----------
        alpha
            Order; 1 is KL.

        Returns
        -------
        float
            Nats; infinite from `largest_order` on.

        Raises
        ------
        ValueError
            If the order is below 1.
        """
        if not alpha >= 1:
            raise ValueError(f"alpha must be at least 1, got {alpha}; use an order above 1.")
        if not alpha < self.largest_order:
            return math.inf
        low, high = self._laws[:-1], self._laws[1:]
        divergence = _kl if alpha == 1 else _renyi
        return max(float(divergence(p, q, alpha).max()) for p, q in ((low, high), (high, low)))

    def guarantee(self, delta: float, *, num_draws: int = 1) -> Guarantee:
        """Guarantee of independent draws of one posterior, by dp-accounting's conversion.

        Parameters
        ----------
        delta
            In ``(0, 1)``.
        num_draws
            Draws released together.

        Returns
        -------
        Guarantee
            ``(epsilon, delta)``-DP and the Rényi curve, which composes.

        Raises
        ------
        ValueError
            For numbers out of range, and where dp-accounting is missing.
        """
        checks.unit_interval("delta", delta, open_left=True)
        checks.count("num_draws", num_draws)
        rdp = require("dp_accounting.rdp")
        orders = 1 + SHARES * (min(self.largest_order, LARGEST_ORDER) - 1)
        curve = tuple((float(a), num_draws * self.renyi(float(a))) for a in orders)
        usable = [(a, value) for a, value in curve if math.isfinite(value)]
        epsilon, _ = rdp.compute_epsilon(*map(list, zip(*usable, strict=True)), delta)
        return Guarantee(
            adjacency="replace-one",
            mechanism="exact draw",
            num_draws=num_draws,
            gamma=self.gamma,
            epsilon=float(epsilon),
            delta=delta,
            renyi=tuple(usable),
            assumptions=(
                f"exact draws; Beta({self.a:g}, {self.b:g}) prior and {self.n} bits, whose number "
                f"is public: the largest Renyi divergence over all counts, finite below order "
                f"{self.largest_order:.6g} (Geumlek, Song & Chaudhuri 2017)",
            ),
        )


def _log_beta(eta: Float[np.ndarray, "*pairs 2"]) -> Float[np.ndarray, "*pairs"]:
    a, b = np.moveaxis(eta, -1, 0)
    inside = (a > 0) & (b > 0)
    return np.where(inside, betaln(np.where(inside, a, 1.0), np.where(inside, b, 1.0)), np.inf)


def _renyi(
    p: Float[np.ndarray, "pairs 2"], q: Float[np.ndarray, "pairs 2"], alpha: float
) -> Float[np.ndarray, " pairs"]:
    return exponential_family_renyi(_log_beta, p, q, alpha)


def _kl(
    p: Float[np.ndarray, "pairs 2"], q: Float[np.ndarray, "pairs 2"], alpha: float
) -> Float[np.ndarray, " pairs"]:
    """Order 1: ``A(eta') - A(eta) - (eta' - eta) . grad A(eta)``."""
    del alpha
    slope = digamma(p) - digamma(p.sum(axis=1, keepdims=True))
    return np.asarray(_log_beta(q) - _log_beta(p) - np.sum((q - p) * slope, axis=1))
