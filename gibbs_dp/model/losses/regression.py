"""Losses of a prediction: squared, absolute, Huber, pinball, Gaussian, Poisson."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from gibbs_dp.model.domain import Domain, LossConstants, product
from gibbs_dp.model.losses.base import (
    Labels,
    LinearLoss,
    Values,
    array_namespace,
    largest_gap,
    largest_gap_of_squares,
    range_of_squares_on_a_line,
    smoothed_kink,
)


@dataclass(frozen=True)
class Squared(LinearLoss):
    """``(y - x·theta)^2``, without the factor one half.

    >>> import jax.numpy as jnp
    >>> float(Squared()(jnp.array([2.0]), (jnp.array([1.0]), jnp.array(5.0))))
    9.0
    """

    degree = 2

    is_quadratic: ClassVar[bool] = True

    def value(self, prediction: Values, y: Labels) -> Values:
        """``(y - prediction)^2``."""
        return (y - prediction) ** 2

    def slope(self, prediction: Values, y: Labels) -> Values:
        """``2 (prediction - y)``."""
        return 2 * (prediction - y)

    def curvature(self, prediction: Values, y: Labels) -> Values:
        """2."""
        return array_namespace(prediction).full_like(prediction, 2.0)

    def precise(self, prediction: Decimal, y: Decimal) -> Decimal:
        """``(y - prediction)^2`` to more digits."""
        return (y - prediction) ** 2

    def constants(self, domain: Domain) -> LossConstants:
        """Constants with ``|x·theta| <= P`` and ``|y| <= Y``.

        For one example the loss moves by ``(|y| + P)^2 - max(0, |y| - P)^2`` over theta, which
        is ``4 |y| P`` once ``|y| >= P``. The exchange range is twice that from two parameters on,
        and both exchange constants are attained (`gibbs_dp.model.losses.base`).
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


# Absolute error of a linear prediction.


@dataclass(frozen=True)
class Absolute(LinearLoss):
    """``|y - x·theta|``.

    >>> import jax.numpy as jnp
    >>> float(Absolute()(jnp.array([2.0]), (jnp.array([1.0]), jnp.array(5.0))))
    3.0
    """

    degree = 1

    def value(self, prediction: Values, y: Labels) -> Values:
        """``|y - prediction|``."""
        return array_namespace(prediction).abs(y - prediction)

    def slope(self, prediction: Values, y: Labels) -> Values:
        """Sign of ``prediction - y``."""
        return array_namespace(prediction).sign(prediction - y)

    def curvature(self, prediction: Values, y: Labels) -> Values:
        """0, but for the kink."""
        return array_namespace(prediction).zeros_like(prediction)

    def smoothed_curvature(self, prediction: Values, y: Labels) -> Values:
        """Smoothed kink at ``y``."""
        return smoothed_kink(prediction - y, 2.0)

    def constants(self, domain: Domain) -> LossConstants:
        """Constants with ``|x·theta| <= P`` and ``|y| <= Y``; the kink has no smoothness."""
        p, y = domain.prediction_bound, domain.y_bound
        low, high = domain.y_range
        gap = max(0.0, low - p, -p - high)
        oscillation = 2 * p if y >= p else y + p
        return LossConstants.of(
            range=(gap, y + p), oscillation=oscillation, lipschitz=domain.x_bound, smoothness=np.inf
        )


# Huber's loss of a linear prediction.


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

    degree = 2

    delta: float = 1.0

    def __post_init__(self) -> None:
        if not (self.delta > 0 and math.isfinite(self.delta)):
            raise ValueError(f"Huber(delta) must be positive and finite, got {self.delta}.")

    def value(self, prediction: Values, y: Labels) -> Values:
        """``c (|r| - c / 2)`` with ``c = min(|r|, delta)``."""
        xp = array_namespace(prediction)
        distance = xp.abs(y - prediction)
        cut = xp.minimum(distance, self.delta)
        return cut * (distance - 0.5 * cut)

    def slope(self, prediction: Values, y: Labels) -> Values:
        """``prediction - y``, cut off at ``delta``."""
        return array_namespace(prediction).clip(prediction - y, -self.delta, self.delta)

    def curvature(self, prediction: Values, y: Labels) -> Values:
        """1 up to ``delta``, 0 beyond."""
        is_near = array_namespace(prediction).abs(prediction - y) < self.delta
        return is_near.astype(prediction.dtype)

    def precise(self, prediction: Decimal, y: Decimal) -> Decimal:
        """``c (|r| - c / 2)`` to more digits."""
        distance = abs(y - prediction)
        cut = min(distance, Decimal(self.delta))
        return cut * (distance - cut / 2)

    def smoothed_curvature(self, prediction: Values, y: Labels) -> Values:
        """``slope / (prediction - y)``: of the parabola that touches the loss from above."""
        xp = array_namespace(prediction)
        return 1 / xp.maximum(1.0, xp.abs(prediction - y) / self.delta)

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


# Pinball (quantile) loss of a linear prediction.


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

    degree = 1

    quantile: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.quantile < 1:
            raise ValueError(
                f"Pinball(quantile) must lie strictly between 0 and 1, got {self.quantile}."
            )

    def value(self, prediction: Values, y: Labels) -> Values:
        """``max(q r, (q - 1) r)``."""
        residual = y - prediction
        return array_namespace(prediction).maximum(
            self.quantile * residual, (self.quantile - 1.0) * residual
        )

    def slope(self, prediction: Values, y: Labels) -> Values:
        """``-q`` below ``y``, ``1 - q`` above."""
        return 0.5 - self.quantile + 0.5 * array_namespace(prediction).sign(prediction - y)

    def curvature(self, prediction: Values, y: Labels) -> Values:
        """0, but for the kink."""
        return array_namespace(prediction).zeros_like(prediction)

    def smoothed_curvature(self, prediction: Values, y: Labels) -> Values:
        """Smoothed kink at ``y``."""
        return smoothed_kink(prediction - y, 1.0)

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


# Poisson negative log-likelihood with a log-linear mean.


@dataclass(frozen=True)
class Poisson(LinearLoss):
    """``exp(x·theta) - y x·theta`` for counts ``y``.

    The negative log-likelihood of ``Poisson(exp(x·theta))`` without ``log y!``, on which neither
    the posterior nor a difference of risks depends; the loss may be negative.

    >>> import jax.numpy as jnp
    >>> float(Poisson()(jnp.array([0.0]), (jnp.array([1.0]), jnp.array(3.0))))
    1.0
    """

    labels = "counts"

    def value(self, prediction: Values, y: Labels) -> Values:
        """``exp(prediction) - y prediction``."""
        return array_namespace(prediction).exp(prediction) - y * prediction

    def slope(self, prediction: Values, y: Labels) -> Values:
        """``exp(prediction) - y``."""
        return array_namespace(prediction).exp(prediction) - y

    def curvature(self, prediction: Values, y: Labels) -> Values:
        """``exp(prediction)``."""
        return array_namespace(prediction).exp(prediction)

    def precise(self, prediction: Decimal, y: Decimal) -> Decimal:
        """``exp(prediction) - y prediction`` to more digits."""
        return prediction.exp() - y * prediction

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
        return x, array_namespace(y).maximum(y, 0.0)

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


# Gaussian negative log-likelihood with a linear mean.


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

    name = "gaussian-nll"

    scale: float = 1.0
    is_quadratic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (self.scale > 0 and math.isfinite(self.scale)):
            raise ValueError(f"GaussianNLL(scale) must be positive and finite, got {self.scale}.")

    @property
    def _offset(self) -> float:
        return math.log(self.scale) + 0.5 * math.log(2 * math.pi)

    def value(self, prediction: Values, y: Labels) -> Values:
        """``((y - prediction) / s)^2 / 2 + log(s sqrt(2 pi))``."""
        return 0.5 * ((y - prediction) / self.scale) ** 2 + self._offset

    def slope(self, prediction: Values, y: Labels) -> Values:
        """``(prediction - y) / s^2``."""
        return (prediction - y) / self.scale**2

    def curvature(self, prediction: Values, y: Labels) -> Values:
        """``1 / s^2``."""
        return array_namespace(prediction).full_like(prediction, self.scale**-2)

    def precise(self, prediction: Decimal, y: Decimal) -> Decimal:
        """``((y - prediction) / s)^2 / 2`` to more digits, without the constant."""
        return ((y - prediction) / Decimal(self.scale)) ** 2 / 2

    def constants(self, domain: Domain) -> LossConstants:
        """Those of the squared loss, over ``2 s^2``."""
        squared, factor = Squared().constants(domain), 0.5 / self.scale**2
        low, high = squared.range
        return LossConstants(
            (factor * low + self._offset, factor * high + self._offset),
            *(factor * value for value in squared[1:]),
        )
