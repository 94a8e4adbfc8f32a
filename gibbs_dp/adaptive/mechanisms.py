"""Mechanisms that add noise to numbers: Laplace and Gaussian, with their guarantees attached."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from gibbs_dp.adaptive.state import MechanismGuarantee, PureMechanism, declared
from gibbs_dp.information import checks
from gibbs_dp.information.bounds import delta_from_gdp, zcdp_from_gdp
from gibbs_dp.information.checks import Adjacency
from gibbs_dp.privacy.inverse import epsilon_at, gdp_at
from gibbs_dp.privacy.noise import gaussian_release, laplace_release
from gibbs_dp.privacy.routes import GaussianDP


@dataclass(frozen=True)
class LaplaceMechanism(PureMechanism):
    """Add ``Lap(sensitivity / epsilon)`` to every number of a vector (Dwork et al. 2006).

    Parameters
    ----------
    sensitivity
        Largest L1 move of the vector between neighbours.
    epsilon
        Pure DP, nats.
    adjacency
        Neighbours that the sensitivity is for; there is no default.

    Examples
    --------
    >>> mechanism = LaplaceMechanism(1.0, 0.5, adjacency="replace-one")
    >>> mechanism.scale, mechanism.guarantee.epsilon
    (2.0, 0.5)
    """

    @property
    def scale(self) -> float:
        """Scale of the noise, in the unit of the numbers."""
        return self.sensitivity / self.epsilon

    @property
    def guarantee(self) -> MechanismGuarantee:
        """``epsilon``-DP, and ``epsilon^2/2``-zCDP from it."""
        return self._promise(zcdp=self.epsilon**2 / 2)

    def simulate(self, key: PRNGKeyArray, values: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Add noise of JAX's generator: the law of a release, for vmapped simulation only."""
        return values + self.scale * jax.random.laplace(key, values.shape, values.dtype)

    def release(self, values: Float[np.ndarray, " values"]) -> Float[np.ndarray, " values"]:
        """Add secret noise, drawn exactly (`gibbs_dp.privacy.noise`)."""
        return laplace_release(values, self.scale)


@dataclass(frozen=True)
class GaussianMechanism:
    """Add ``N(0, sigma^2)`` to every number of a vector: ``mu = sensitivity/sigma`` Gaussian DP.

    Parameters
    ----------
    sensitivity
        Largest L2 move of the vector between neighbours.
    sigma
        Standard deviation of the noise.
    adjacency
        Neighbours that the sensitivity is for; there is no default.

    Examples
    --------
    >>> mechanism = GaussianMechanism(1.0, 2.0, adjacency="replace-one")
    >>> mechanism.mu, round(mechanism.delta(1.0), 6)  # Balle & Wang 2018, exact
    (0.5, 0.00683)
    """

    sensitivity: float
    sigma: float
    adjacency: Adjacency

    def __post_init__(self) -> None:
        checks.positive("sensitivity", self.sensitivity)
        checks.positive("sigma", self.sigma)
        checks.adjacency(self.adjacency)

    @property
    def mu(self) -> float:
        """Gaussian DP (Dong, Roth & Su 2022)."""
        return self.sensitivity / self.sigma

    def delta(self, epsilon: float) -> float:
        """Exact ``delta`` of ``(epsilon, delta)``-DP."""
        return delta_from_gdp(self.mu, epsilon)

    def guarantee(self, delta: float) -> MechanismGuarantee:
        """Exact ``(epsilon, delta)``-DP at a ``delta`` in ``(0, 1)``, with ``mu`` and zCDP.

        Raises
        ------
        ValueError
            If ``delta`` is not in ``(0, 1)``: noise of this kind has no pure DP.
        """
        checks.unit_interval("delta", delta, open_left=True)
        return MechanismGuarantee(
            self.adjacency,
            epsilon_at(GaussianDP(self.mu), delta, 1),
            delta,
            zcdp=zcdp_from_gdp(self.mu),
            gdp=self.mu,
            assumption=declared(self.sensitivity),
        )

    def simulate(self, key: PRNGKeyArray, values: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Add noise of JAX's generator: the law of a release, for vmapped simulation only."""
        return values + self.sigma * jax.random.normal(key, values.shape, values.dtype)

    def release(self, values: Float[np.ndarray, " values"]) -> Float[np.ndarray, " values"]:
        """Add secret noise, drawn exactly (`gibbs_dp.privacy.noise`)."""
        return gaussian_release(values, self.sigma)


def gaussian_for(
    epsilon: float, delta: float, *, sensitivity: float, adjacency: Adjacency
) -> GaussianMechanism:
    """Find the least noise that is ``(epsilon, delta)``-DP.

    Examples
    --------
    >>> found = gaussian_for(1.0, 1e-5, sensitivity=1.0, adjacency="replace-one")
    >>> round(found.sigma, 4)
    3.7306
    """
    checks.positive("epsilon", epsilon)
    checks.unit_interval("delta", delta, open_left=True)
    mu = gdp_at(epsilon, delta) * (1 - 1e-10)
    return GaussianMechanism(sensitivity, sensitivity / mu, adjacency)
