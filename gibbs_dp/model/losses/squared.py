"""Squared error of a linear prediction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Array, Float, Shaped

from gibbs_dp.model.domain import Domain, LossConstants, product
from gibbs_dp.model.losses.base import LinearLoss
from gibbs_dp.model.losses.exchange import (
    largest_gap_of_squares,
    range_of_squares_on_a_line,
)


@dataclass(frozen=True)
class Squared(LinearLoss):
    """``(y - x·theta)^2``, without the factor one half.

    >>> import jax.numpy as jnp
    >>> float(Squared()(jnp.array([2.0]), (jnp.array([1.0]), jnp.array(5.0))))
    9.0
    """

    is_quadratic: ClassVar[bool] = True

    def pointwise(
        self, prediction: Float[Array, "*n"], y: Shaped[Array, "*n"]
    ) -> Float[Array, "*n"]:
        """``(y - prediction)^2``."""
        return (y - prediction) ** 2

    def constants(self, domain: Domain) -> LossConstants:
        """Constants with ``|x·theta| <= P`` and ``|y| <= Y``.

        For one example the loss moves by ``(|y| + P)^2 - max(0, |y| - P)^2`` over theta, which
        is ``4 |y| P`` once ``|y| >= P``. The exchange range is twice that from two parameters on,
        and both exchange constants are attained (`gibbs_dp.model.losses.exchange`).
        """
        p, y = domain.prediction_bound, domain.y_bound
        low, high = domain.y_range
        gap = max(0.0, low - p, -p - high)
        oscillation = product(4.0, y, p) if y >= p else (y + p) ** 2
        lipschitz = product(2.0, y + p, domain.x_bound)
        constants = LossConstants.of(
            range=(gap**2, (y + p) ** 2),
            oscillation=oscillation,
            lipschitz=lipschitz,
            smoothness=2 * domain.x_bound**2,
            exchange_lipschitz=product(2.0, largest_gap_of_squares(p, y), domain.x_bound),
        )
        if domain.num_parameters != 1:
            return constants
        return constants._replace(exchange_range=range_of_squares_on_a_line(p, y))
