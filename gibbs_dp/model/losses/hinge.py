"""Hinge loss of a linear prediction."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped

from gibbs_dp.model.domain import Domain, LossConstants
from gibbs_dp.model.losses.labels import TwoClassLoss


@dataclass(frozen=True)
class Hinge(TwoClassLoss):
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
        return LossConstants.of(
            range=(max(0.0, 1 - p), 1 + p),
            oscillation=oscillation,
            lipschitz=domain.x_bound,
            smoothness=0.0 if p < 1 else np.inf,
        )
