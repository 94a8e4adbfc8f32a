"""Absolute error of a linear prediction."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped

from gibbs_dp.model.domain import Domain, LossConstants
from gibbs_dp.model.losses.base import LinearLoss


@dataclass(frozen=True)
class Absolute(LinearLoss):
    """``|y - x·theta|``.

    >>> import jax.numpy as jnp
    >>> float(Absolute()(jnp.array([2.0]), (jnp.array([1.0]), jnp.array(5.0))))
    3.0
    """

    def pointwise(
        self, prediction: Float[Array, "*n"], y: Shaped[Array, "*n"]
    ) -> Float[Array, "*n"]:
        """``|y - prediction|``."""
        return jnp.abs(y - prediction)

    def constants(self, domain: Domain) -> LossConstants:
        """Constants with ``|x·theta| <= P`` and ``|y| <= Y``; the kink has no smoothness."""
        p, y = domain.prediction_bound, domain.y_bound
        low, high = domain.y_range
        gap = max(0.0, low - p, -p - high)
        oscillation = 2 * p if y >= p else y + p
        return LossConstants.of(
            range=(gap, y + p),
            oscillation=oscillation,
            lipschitz=domain.x_bound,
            smoothness=np.inf,
        )
