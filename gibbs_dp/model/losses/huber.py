"""Huber's loss of a linear prediction."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped

from gibbs_dp.model.domain import Domain, LossConstants, product
from gibbs_dp.model.losses.base import LinearLoss
from gibbs_dp.model.losses.exchange import largest_gap


@dataclass(frozen=True)
class Huber(LinearLoss):
    """``r^2 / 2`` for residuals ``r = y - x·theta`` up to ``delta``, linear beyond (Huber 1964).

    Parameters
    ----------
    delta
        Residual from which the loss grows linearly, with slope ``delta``.

    Raises
    ------
    ValueError
        If ``delta`` is not positive and finite.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> float(Huber(delta=1.0)(jnp.array([2.0]), (jnp.array([1.0]), jnp.array(5.0))))
    2.5
    """

    delta: float = 1.0

    def __post_init__(self) -> None:
        if not (self.delta > 0 and math.isfinite(self.delta)):
            raise ValueError(f"Huber(delta) must be positive and finite, got {self.delta}.")

    def pointwise(
        self, prediction: Float[Array, "*n"], y: Shaped[Array, "*n"]
    ) -> Float[Array, "*n"]:
        """``c (|r| - c / 2)`` with ``c = min(|r|, delta)``."""
        distance = jnp.abs(y - prediction)
        cut = jnp.minimum(distance, self.delta)
        return cut * (distance - 0.5 * cut)

    def constants(self, domain: Domain) -> LossConstants:
        """Constants with ``|x·theta| <= P`` and ``|y| <= Y``.

        The loss of an example varies most where ``|y| = Y``: from the far end of the predictions to
        the near one, or to a residual of 0 if they reach it.
        """
        p, y = domain.prediction_bound, domain.y_bound
        low, high = domain.y_range
        gap = max(0.0, low - p, -p - high)
        if y >= p and math.isfinite(p):
            linear = product(2.0, self.delta, p)
            oscillation = linear if y - p >= self.delta else self._value(y + p) - self._value(y - p)
        else:
            oscillation = self._value(y + p)
        lipschitz = product(min(self.delta, y + p), domain.x_bound)
        return LossConstants.of(
            range=(self._value(gap), self._value(y + p)),
            oscillation=oscillation,
            lipschitz=lipschitz,
            smoothness=domain.x_bound**2 if gap < self.delta else 0.0,
            exchange_lipschitz=product(_largest_gap(p, y, self.delta), domain.x_bound),
        )

    def _value(self, distance: float) -> float:
        cut = min(distance, self.delta)
        return cut * (distance - 0.5 * cut)


@lru_cache(maxsize=256)
def _largest_gap(prediction_bound: float, y_bound: float, delta: float) -> float:
    return largest_gap(lambda p: np.clip(p + y_bound, 0.0, delta), prediction_bound)
