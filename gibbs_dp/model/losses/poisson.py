"""Poisson negative log-likelihood with a log-linear mean."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped

from gibbs_dp.model.domain import Domain, LossConstants, product
from gibbs_dp.model.losses.base import LinearLoss


@dataclass(frozen=True)
class Poisson(LinearLoss):
    """``exp(x·theta) - y x·theta`` for counts ``y``.

    The negative log-likelihood of ``Poisson(exp(x·theta))`` without ``log y!``, on which neither
    the posterior nor a difference of risks depends; the loss may be negative.

    >>> import jax.numpy as jnp
    >>> float(Poisson()(jnp.array([0.0]), (jnp.array([1.0]), jnp.array(3.0))))
    1.0
    """

    def pointwise(
        self, prediction: Float[Array, "*n"], y: Shaped[Array, "*n"]
    ) -> Float[Array, "*n"]:
        """``exp(prediction) - y prediction``."""
        return jnp.exp(prediction) - y * prediction

    def constants(self, domain: Domain) -> LossConstants:
        """Constants with ``|x·theta| <= P`` and counts from ``max(0, low)`` to ``high``.

        The loss is convex in the prediction and linear in ``y``, so that every extreme is at an
        end of both, or at the prediction ``log y``.
        """
        p = domain.prediction_bound
        ends = [max(0.0, y) for y in domain.y_range]
        steepest = max(_exp(p) - ends[0], ends[1] - math.exp(-p))
        lipschitz = product(steepest, domain.x_bound)
        highest = [max(_loss(-p, y), _loss(p, y)) for y in ends]
        lowest = [_loss(min(max(math.log(y) if y else -math.inf, -p), p), y) for y in ends]
        oscillation = max(_difference(a, b) for a, b in zip(highest, lowest, strict=True))
        if p == 0:
            oscillation = 0.0
        return LossConstants.of(
            range=(min(lowest), max(highest)),
            oscillation=oscillation,
            lipschitz=lipschitz,
            smoothness=product(_exp(p), domain.x_bound**2),
        )

    def clip(self, data: Any, domain: Domain) -> Any:
        """Project onto the domain, and counts onto the nonnegative numbers."""
        x, y = super().clip(data, domain)
        return x, np.maximum(y, 0.0)

    def check_examples(self, data: Any) -> None:
        """Raise a ValueError unless the labels are counts: nonnegative numbers."""
        super().check_examples(data)
        least = float(np.min(np.asarray(data[1])))
        if least < 0:
            raise ValueError(
                f"data: the Poisson loss needs counts, got {least:g}; labels must be at least 0."
            )


def _exp(value: float) -> float:
    return math.exp(value) if value < 709.0 else math.inf


def _loss(prediction: float, y: float) -> float:
    """``exp(prediction) - y prediction``; the exponential wins over any finite line."""
    rise = _exp(prediction)
    if rise == math.inf:
        return -math.inf if y == math.inf else math.inf
    return rise - product(y, prediction)


def _difference(high: float, low: float) -> float:
    return math.inf if math.inf in (high, -low) else high - low
