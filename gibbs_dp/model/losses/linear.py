"""Linear loss of a linear prediction: the correlation with the label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Array, Float, Shaped

from gibbs_dp.model.domain import Domain, LossConstants, product
from gibbs_dp.model.losses.base import LinearLoss


@dataclass(frozen=True)
class Linear(LinearLoss):
    """``-y x·theta``: it rewards predictions that agree in sign with the label, without limit.

    With a Gaussian prior ``N(0, s^2 I)`` the Gibbs posterior is exactly ``N(gamma s^2 sum y_i x_i,
    s^2 I)``: the Gaussian mechanism on ``sum y_i x_i``. For two classes, code labels as -1/2, 1/2.

    >>> import jax.numpy as jnp
    >>> float(Linear()(jnp.array([2.0]), (jnp.array([1.0]), jnp.array(-0.5))))
    1.0
    """

    is_quadratic: ClassVar[bool] = True

    def pointwise(
        self, prediction: Float[Array, "*n"], y: Shaped[Array, "*n"]
    ) -> Float[Array, "*n"]:
        """``-y prediction``."""
        return -y * prediction

    def constants(self, domain: Domain) -> LossConstants:
        """Constants with ``|x·theta| <= P`` and ``|y| <= Y``; gradients are free of theta."""
        p, y = domain.prediction_bound, domain.y_bound
        largest = product(y, p)
        return LossConstants.of(
            range=(-largest, largest),
            oscillation=2 * largest,
            lipschitz=product(y, domain.x_bound),
            smoothness=0.0,
        )
