"""Gaussian negative log-likelihood with a linear mean."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Array, Float, Shaped

from gibbs_dp.model.domain import Domain, LossConstants
from gibbs_dp.model.losses.base import LinearLoss
from gibbs_dp.model.losses.squared import Squared


@dataclass(frozen=True)
class GaussianNLL(LinearLoss):
    """``(y - x·theta)^2 / (2 s^2) + log(s sqrt(2 pi))``: ``y`` is ``N(x·theta, s^2)``.

    With ``gamma = 1`` the Gibbs posterior is that of Bayesian linear regression with known noise.

    Parameters
    ----------
    scale
        Standard deviation ``s`` of the noise.

    Raises
    ------
    ValueError
        If it is not positive and finite.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> noise = GaussianNLL(scale=2.0)
    >>> near, far = (noise(jnp.array([1.0]), (jnp.array([1.0]), jnp.array(y))) for y in (1.0, 5.0))
    >>> float(far - near)
    2.0
    """

    scale: float = 1.0
    is_quadratic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (self.scale > 0 and math.isfinite(self.scale)):
            raise ValueError(f"GaussianNLL(scale) must be positive and finite, got {self.scale}.")

    @property
    def _offset(self) -> float:
        return math.log(self.scale) + 0.5 * math.log(2 * math.pi)

    def pointwise(
        self, prediction: Float[Array, "*n"], y: Shaped[Array, "*n"]
    ) -> Float[Array, "*n"]:
        """``((y - prediction) / s)^2 / 2 + log(s sqrt(2 pi))``."""
        return 0.5 * ((y - prediction) / self.scale) ** 2 + self._offset

    def constants(self, domain: Domain) -> LossConstants:
        """Those of the squared loss, over ``2 s^2``."""
        squared, factor = Squared().constants(domain), 0.5 / self.scale**2
        low, high = squared.range
        return LossConstants(
            (factor * low + self._offset, factor * high + self._offset),
            *(factor * value for value in squared[1:]),
        )
