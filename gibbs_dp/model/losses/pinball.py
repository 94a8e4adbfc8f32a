"""Pinball (quantile) loss of a linear prediction."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped

from gibbs_dp.model.domain import Domain, LossConstants, product
from gibbs_dp.model.losses.base import LinearLoss


@dataclass(frozen=True)
class Pinball(LinearLoss):
    """``max(q r, (q - 1) r)`` of residuals ``r = y - x·theta`` (Koenker & Bassett 1978).

    Its minimizer over constants is the ``q``-quantile of ``y``; ``q = 1/2`` is half the absolute
    error.

    Parameters
    ----------
    quantile
        ``q``, strictly between 0 and 1.

    Raises
    ------
    ValueError
        If it is not.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> float(Pinball(quantile=0.75)(jnp.array([2.0]), (jnp.array([1.0]), jnp.array(6.0))))
    3.0
    """

    quantile: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.quantile < 1:
            raise ValueError(
                f"Pinball(quantile) must lie strictly between 0 and 1, got {self.quantile}."
            )

    def pointwise(
        self, prediction: Float[Array, "*n"], y: Shaped[Array, "*n"]
    ) -> Float[Array, "*n"]:
        """``max(q r, (q - 1) r)``."""
        residual = y - prediction
        return jnp.maximum(self.quantile * residual, (self.quantile - 1.0) * residual)

    def constants(self, domain: Domain) -> LossConstants:
        """Constants with ``|x·theta| <= P`` and ``y`` in its range.

        The loss of an example varies most where ``y`` is at an end of its range; there is no kink
        if all residuals have one sign.
        """
        p = domain.prediction_bound
        low, high = domain.y_range
        least, most = low - p, high + p  # residuals
        slopes = [self.quantile] * (most > 0) + [1 - self.quantile] * (least < 0)
        oscillation = max(self._oscillation(low, p), self._oscillation(high, p))
        lipschitz = product(max(slopes, default=0.0), domain.x_bound)
        return LossConstants.of(
            range=(self._value(min(max(0.0, least), most)), max(map(self._value, (least, most)))),
            oscillation=oscillation,
            lipschitz=lipschitz,
            smoothness=np.inf if least <= 0 <= most else 0.0,
        )

    def _value(self, residual: float) -> float:
        return product(self.quantile if residual >= 0 else self.quantile - 1, residual)

    def _oscillation(self, y: float, p: float) -> float:
        """Oscillation of the loss of one example over predictions in ``[-p, p]``."""
        if y >= p and np.isfinite(p):
            return product(2.0, self.quantile, p)
        if y <= -p and np.isfinite(p):
            return product(2.0, 1 - self.quantile, p)
        return max(self._value(y - p), self._value(y + p)) if np.isfinite(p) else np.inf
