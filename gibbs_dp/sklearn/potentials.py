"""Total losses of linear models, with gradients and curvature, for many parameters at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Shaped
from scipy.special import expit
from scipy.stats import norm

from gibbs_dp.model import losses
from gibbs_dp.model.losses import Loss

Thetas = Float[np.ndarray, "chains dim"]
Values = Float[np.ndarray, " chains"]
Predictions = Float[np.ndarray, "rows chains"]
Labels = Float[np.ndarray, "rows 1"]


class Pointwise(NamedTuple):
    """A loss ``phi(prediction, y)``, elementwise.

    Attributes
    ----------
    value, slope
        ``phi`` and its derivative in the prediction.
    curvature
        Second derivative, or where there is none a positive stand-in: it only scales the chains.
    """

    value: Callable[[Predictions, Labels], Predictions]
    slope: Callable[[Predictions, Labels], Predictions]
    curvature: Callable[[Predictions, Labels], Predictions]


def pointwise(loss: Loss) -> Pointwise:
    """Look up a loss.

    Raises
    ------
    ValueError
        If it is none of those of a linear prediction that estimators offer.

    Examples
    --------
    >>> float(pointwise(losses.squared).slope(np.array([[3.0]]), np.array([[1.0]]))[0, 0])
    4.0
    """
    if isinstance(loss, losses.Logistic):
        return Pointwise(
            lambda p, y: np.maximum(p, 0.0) + np.log1p(np.exp(-np.abs(p))) - y * p,
            lambda p, y: expit(p) - y,
            lambda p, y: expit(p) * expit(-p),
        )
    if isinstance(loss, losses.Squared):
        return Pointwise(
            lambda p, y: (p - y) ** 2, lambda p, y: 2 * (p - y), lambda p, y: np.full_like(p, 2.0)
        )
    if isinstance(loss, losses.Huber):
        delta = loss.delta

        def value(p: Predictions, y: Labels) -> Predictions:
            distance = np.abs(p - y)
            cut = np.minimum(distance, delta)
            return np.asarray(cut * (distance - 0.5 * cut))

        return Pointwise(
            value,
            lambda p, y: np.clip(p - y, -delta, delta),
            lambda p, y: 1 / np.maximum(1.0, np.abs(p - y) / delta),
        )
    if isinstance(loss, losses.Absolute):

        def stand_in(p: Predictions, y: Labels) -> Predictions:
            # What kinks add up to: twice the density of residuals at 0, smoothed.
            width = 0.4 * np.abs(p - y).mean() + 1e-9
            return np.asarray(2 / width * norm.pdf((p - y) / width) + 1e-3 / width)

        return Pointwise(lambda p, y: np.abs(p - y), lambda p, y: np.sign(p - y), stand_in)
    raise ValueError(f"loss: {type(loss).__name__} is none of the losses of linear models here.")


class TotalLoss:
    """``gamma L(theta, Z)`` of a linear model on fixed data, at many thetas at once.

    Parameters
    ----------
    loss
        Logistic, squared, Huber or absolute, or the softmax cross-entropy, whose matrix of
        parameters ``[features, classes]`` is flattened.
    gamma
        Inverse temperature.
    x, y
        Examples ``[rows, features]`` and ``[rows]``, clipped.
    """

    def __init__(
        self,
        loss: Loss,
        gamma: float,
        x: Float[np.ndarray, "rows features"],
        y: Shaped[np.ndarray, " rows"],
    ) -> None:
        self.gamma = gamma
        self.x = np.asarray(x, np.float64)
        self.num_classes = (
            loss.num_classes if isinstance(loss, losses.SoftmaxCrossEntropy) else None
        )
        if self.num_classes is None:
            self.phi, self.y = pointwise(loss), np.asarray(y, np.float64)[:, None]
        else:
            self.is_class = np.arange(self.num_classes) == np.asarray(y)[:, None]

    @property
    def dim(self) -> int:
        """Number of parameters."""
        return self.x.shape[1] * (self.num_classes or 1)

    def value(self, theta: Thetas) -> Values:
        """``gamma L`` at every theta."""
        if self.num_classes is None:
            return np.asarray(self.gamma * self.phi.value(self.x @ theta.T, self.y).sum(axis=0))
        scores = self._scores(theta)
        top = scores.max(axis=0)
        log_sum = top + np.log(np.exp(scores - top).sum(axis=0))
        own = (scores * self.is_class.T[:, :, None]).sum(axis=(0, 1))
        return np.asarray(self.gamma * (log_sum.sum(axis=0) - own))

    def gradient(self, theta: Thetas) -> Thetas:
        """Gradient of ``gamma L`` at every theta."""
        if self.num_classes is None:
            slope = self.phi.slope(self.x @ theta.T, self.y)
            return np.asarray(self.gamma * (slope.T @ self.x))
        share = self._shares(theta)
        share -= self.is_class.T[:, :, None]
        gradient = np.stack([slope.T @ self.x for slope in share], axis=2)
        return np.asarray(self.gamma * gradient.reshape(len(theta), -1))

    def curvature(self, theta: Float[np.ndarray, " dim"]) -> Float[np.ndarray, "dim dim"]:
        """Hessian of ``gamma L`` at one theta, or what stands in for it."""
        if self.num_classes is None:
            weight = self.phi.curvature(self.x @ theta[:, None], self.y)
            return np.asarray(self.gamma * (self.x.T * weight[:, 0]) @ self.x)
        share = self._shares(theta[None])[:, :, 0].T
        k = self.num_classes
        blocks = np.empty((self.x.shape[1], k, self.x.shape[1], k))
        for i in range(k):
            for j in range(k):
                weight = share[:, i] * ((i == j) - share[:, j])
                blocks[:, i, :, j] = (self.x.T * weight) @ self.x
        return self.gamma * blocks.reshape(self.dim, self.dim)

    def _scores(self, theta: Thetas) -> Float[np.ndarray, "classes rows chains"]:
        """Scores with classes first, so that sums over few classes are of long rows."""
        matrices = theta.reshape(len(theta), self.x.shape[1], -1)
        return np.stack([self.x @ column.T for column in np.moveaxis(matrices, 2, 0)])

    def _shares(self, theta: Thetas) -> Float[np.ndarray, "classes rows chains"]:
        scores = self._scores(theta)
        scores -= scores.max(axis=0)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=0)
        return scores
