"""Hinge loss of a linear prediction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped

from gibbs_dp.model.domain import Domain, LossConstants
from gibbs_dp.model.losses.base import LinearLoss
from gibbs_dp.model.losses.labels import check_two_classes


@dataclass(frozen=True)
class Hinge(LinearLoss):
    """``max(0, 1 - s x·theta)`` with the sign ``s = 2 y - 1`` of a label ``y`` in {0, 1}.

    Labels are those of the logistic loss, so that the two can be compared on one dataset.

    >>> import jax.numpy as jnp
    >>> float(Hinge()(jnp.array([2.0]), (jnp.array([0.25]), jnp.array(1.0))))
    0.5
    """

    def pointwise(
        self, prediction: Float[Array, "*n"], y: Shaped[Array, "*n"]
    ) -> Float[Array, "*n"]:
        """``max(0, 1 - (2 y - 1) prediction)``."""
        return jnp.maximum(0.0, 1.0 - (2.0 * y - 1.0) * prediction)

    def constants(self, domain: Domain) -> LossConstants:
        """Constants with ``|x·theta| <= P``; linear where ``P < 1``, with a kink otherwise."""
        p = domain.prediction_bound
        oscillation = min(2 * p, 1 + p)
        return LossConstants(
            range=(max(0.0, 1 - p), 1 + p),
            oscillation=oscillation,
            lipschitz=domain.x_bound,
            smoothness=0.0 if p < 1 else np.inf,
            strong_convexity=0.0,
            exchange_range=2 * oscillation,
            exchange_lipschitz=2 * domain.x_bound,
        )

    def clip(self, data: Any, domain: Domain) -> Any:
        """Project onto the domain, and labels onto [0, 1], where the constants hold."""
        x, y = super().clip(data, domain)
        return x, np.clip(y, 0.0, 1.0)

    def check_data(self, data: Any) -> None:
        """Raise a ValueError unless the labels are 0 and 1, both present."""
        super().check_data(data)
        check_two_classes(data[1], "hinge")
