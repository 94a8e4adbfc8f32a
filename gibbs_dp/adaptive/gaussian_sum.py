"""A weighted sum of Gaussian rows with the Laplace noise that its Bayesian DP needs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import jax
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from numpy.typing import ArrayLike

from gibbs_dp.adaptive.gaussian_field import GaussianField, WorstResponse
from gibbs_dp.information import checks
from gibbs_dp.privacy.noise import exact_product, laplace_release


@dataclass(frozen=True, eq=False)
class GaussianFieldMechanism:
    """Laplace noise for a weighted sum of Gaussian rows: scale ``difference max |c| / epsilon``.

    ``epsilon``-Bayesian DP against every adversary ``(i, K)``, for values of a row at most
    ``difference`` apart, under the declared law (Yang, Sato & Nakagawa 2015). Releases do not
    compose in it.

    Parameters
    ----------
    field
        Law of the rows.
    epsilon
        Nats.
    difference
        Largest ``|x_i - x_i'|`` that is to be hidden; declared.
    weights
        Of the sum; all 1 by default.

    Raises
    ------
    ValueError
        If a number is not positive, or as in `GaussianField.worst_response`.

    Examples
    --------
    >>> field = GaussianField.from_covariance([[1.0, 0.5], [0.5, 1.0]])
    >>> mechanism = GaussianFieldMechanism(field, 0.5, 2.0)
    >>> round(mechanism.scale, 6), mechanism.worst.is_exact  # independent rows: 4
    (6.0, True)
    """

    field: GaussianField
    epsilon: float
    difference: float
    weights: ArrayLike | None = None

    def __post_init__(self) -> None:
        checks.positive("epsilon", self.epsilon)
        checks.positive("difference", self.difference)
        if not self.worst.value > 0:
            raise ValueError("weights: some must differ from 0; give a sum to release.")

    @cached_property
    def coefficients(self) -> Float[np.ndarray, " rows"]:
        """Weights of the sum."""
        found = np.ones(self.field.length) if self.weights is None else self.weights
        return np.asarray(found, dtype=np.float64)

    @cached_property
    def worst(self) -> WorstResponse:
        """Whom the noise is for."""
        return self.field.worst_response(self.coefficients)

    @property
    def scale(self) -> float:
        """Scale of the noise, in the unit of the sum."""
        return self.difference * self.worst.value / self.epsilon

    def simulate(self, key: PRNGKeyArray, sums: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Add noise of JAX's generator: the law of a release, for vmapped simulation only."""
        return sums + self.scale * jax.random.laplace(key, sums.shape, sums.dtype)

    def release(self, rows: Float[np.ndarray, " rows"]) -> float:
        """Sum the rows without rounding and add secret noise, drawn exactly."""
        checks.refuse_masked("rows", rows, is_private=True)
        if rows.shape != (self.field.length,):
            raise ValueError(
                f"rows must be {self.field.length} numbers, got shape {list(rows.shape)}."
            )
        return float(laplace_release(exact_product(self.coefficients[None], rows), self.scale)[0])
