"""Mechanisms that add exact noise to numbers or choose among them, and their guarantees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from gibbs_dp.information import checks
from gibbs_dp.information.bounds import delta_from_gdp, zcdp_from_gdp
from gibbs_dp.information.checks import Adjacency
from gibbs_dp.privacy.guarantee import Guarantee
from gibbs_dp.privacy.noise import (
    argmax_release,
    exponential_release,
    gaussian_release,
    laplace_release,
)
from gibbs_dp.privacy.routes import GaussianDP, check_delta, epsilon_at, gdp_at

# What a run of a mechanism promises: proven figures, for the adjacency that they hold for.

EXACT_NOISE = "for noise that is drawn exactly, from secret random bits"


def run_guarantee(
    mechanism: str,
    adjacency: Adjacency,
    epsilon: float,
    delta: float = 0.0,
    *,
    assumption: str,
    zcdp: float | None = None,
    gdp: float | None = None,
) -> Guarantee:
    """Make the guarantee of one run of a mechanism."""
    return Guarantee(
        adjacency,
        mechanism,
        1,
        None,
        epsilon,
        delta,
        pure_epsilon=None if delta else epsilon,
        zcdp=zcdp,
        gdp=gdp,
        assumptions=(assumption,),
        caveats=(),
        holds=EXACT_NOISE,
    )


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

    def _promise(self, mechanism: str, *, zcdp: float, more: str = "") -> Guarantee:
        assumption = declared(self.sensitivity) + more
        return run_guarantee(
            mechanism, self.adjacency, self.epsilon, zcdp=zcdp, assumption=assumption
        )


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
    def guarantee(self) -> Guarantee:
        """``epsilon``-DP, and ``epsilon^2/2``-zCDP from it."""
        return self._promise("Laplace mechanism", zcdp=self.epsilon**2 / 2)

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

    def guarantee(self, delta: float) -> Guarantee:
        """Exact ``(epsilon, delta)``-DP at a ``delta`` in ``(0, 1)``, with ``mu`` and zCDP.

        Raises
        ------
        ValueError
            If ``delta`` is not in ``(0, 1)``: noise of this kind has no pure DP.
        """
        check_delta(delta)
        return run_guarantee(
            "Gaussian mechanism",
            self.adjacency,
            epsilon_at(GaussianDP(self.mu), delta, 1),
            delta,
            zcdp=zcdp_from_gdp(self.mu),
            gdp=self.mu,
            assumption=declared(self.sensitivity),
        )

    def release(self, values: Float[np.ndarray, " values"]) -> Float[np.ndarray, " values"]:
        """Add secret noise, drawn exactly (`gibbs_dp.privacy.noise`)."""
        return gaussian_release(values, self.sigma)


def gaussian_for(
    epsilon: float, delta: float, *, sensitivity: float, adjacency: Adjacency
) -> GaussianMechanism:
    """Find the least noise that is ``(epsilon, delta)``-DP."""
    checks.positive("epsilon", epsilon)
    check_delta(delta)
    mu = gdp_at(epsilon, delta) * (1 - 1e-10)
    return GaussianMechanism(sensitivity, sensitivity / mu, adjacency)


@dataclass(frozen=True)
class ExponentialMechanism(PureMechanism):
    """Draw an index ``∝ exp(epsilon u / (2 sensitivity))`` (McSherry & Talwar 2007).

    A Gibbs posterior is its continuous form.

    Parameters
    ----------
    sensitivity
        Largest move of any one utility between neighbours.
    epsilon
        Pure DP, nats; the log ratio has range ``epsilon``, so ``epsilon^2/8``-zCDP too.
    adjacency
        Neighbours that the sensitivity is for; there is no default.

    Examples
    --------
    >>> mechanism = ExponentialMechanism(1.0, 2.0, adjacency="replace-one")
    >>> mechanism.probabilities(np.array([0.0, 1.0])).round(6)
    array([0.268941, 0.731059])
    """

    @property
    def temperature(self) -> float:
        """``2 sensitivity / epsilon``, in the unit of the utilities."""
        return 2 * self.sensitivity / self.epsilon

    @property
    def guarantee(self) -> Guarantee:
        """``epsilon``-DP, and ``epsilon^2/8``-zCDP (Cesar & Rogers 2021)."""
        return self._promise("exponential mechanism", zcdp=self.epsilon**2 / 8)

    def probabilities(
        self, utilities: Float[np.ndarray, " choices"]
    ) -> Float[np.ndarray, " choices"]:
        """Law of the index.

        Raises
        ------
        ValueError
            If there are no utilities, or one is NaN or infinite.
        """
        _check_utilities(utilities)
        weights = np.exp((utilities - utilities.max()) / self.temperature)
        return np.asarray(weights / weights.sum())

    def release(self, utilities: Float[np.ndarray, " choices"]) -> int:
        """Draw an index with secret random bits, from this law exactly."""
        _check_utilities(utilities)
        return exponential_release(utilities, self.temperature)


def _check_utilities(utilities: Float[np.ndarray, ...]) -> None:
    if np.ndim(utilities) != 1 or not np.size(utilities):
        raise ValueError(
            f"utilities: shape {np.shape(utilities)}; give one number for each choice."
        )
    if not np.isfinite(utilities).all():
        raise ValueError("utilities: one is NaN or infinite; give finite numbers.")


@dataclass(frozen=True)
class ReportNoisyMax(PureMechanism):
    """Index of the largest value after Laplace noise; the values stay secret (Dwork & Roth 2014).

    Noise of scale ``sensitivity/epsilon`` where a neighbour moves all values in one direction, as
    adding a row moves counts; twice that in general, and so for counts under replace-one.
    """

    is_monotone: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.is_monotone and self.adjacency == "replace-one":
            raise ValueError(
                "is_monotone: exchanging a row moves values both ways, so the smaller noise of "
                "monotone values is not private under replace-one; use 'add-remove' or leave it "
                "out."
            )

    @property
    def scale(self) -> float:
        """Scale of the noise, in the unit of the values."""
        return (1 if self.is_monotone else 2) * self.sensitivity / self.epsilon

    @property
    def guarantee(self) -> Guarantee:
        """``epsilon``-DP of the index alone."""
        kind = ", monotone (declared)" if self.is_monotone else ""
        return self._promise("report noisy max", zcdp=self.epsilon**2 / 2, more=kind)

    def release(self, values: Float[np.ndarray, " choices"]) -> int:
        """Draw an index with secret noise, drawn exactly (`gibbs_dp.privacy.noise`)."""
        return argmax_release(values, self.scale)
