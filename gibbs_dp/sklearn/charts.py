"""Coordinates in which a prior is a standard normal law: of Gaussians, and of balls."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float
from scipy.interpolate import make_interp_spline

from gibbs_dp.model.ball import log_stretch, longest_square

Points = Float[np.ndarray, "chains dim"]
Values = Float[np.ndarray, " chains"]


@runtime_checkable
class Chart(Protocol):
    """A map from coordinates ``u`` to parameters, with what the prior adds to ``|u|^2 / 2``."""

    def theta(self, u: Points) -> Points:
        """Parameters at the coordinates."""

    def pull_back(self, u: Points, gradient: Points) -> Points:
        """Turn a gradient in theta into one in ``u``."""

    def jacobian(self, u: Float[np.ndarray, " dim"]) -> Float[np.ndarray, "dim dim"]:
        """Differentiate theta in ``u`` at one point; the matrix is symmetric."""

    @property
    def precision(self) -> float:
        """Precision of a Gaussian prior that comes on top; 0 for none."""


@dataclass(frozen=True)
class GaussianChart:
    """``theta = scale u``: under ``N(0, scale^2 I)``, ``u`` is a standard normal vector.

    Parameters
    ----------
    scale
        Standard deviation of the prior.

    Examples
    --------
    >>> GaussianChart(2.0).theta(np.ones((1, 1)))
    array([[2.]])
    """

    scale: float
    precision: float = 0.0

    def theta(self, u: Points) -> Points:
        """Parameters at the coordinates."""
        return self.scale * u

    def pull_back(self, u: Points, gradient: Points) -> Points:
        """Turn a gradient in theta into one in ``u``."""
        del u
        return self.scale * gradient

    def jacobian(self, u: Float[np.ndarray, " dim"]) -> Float[np.ndarray, "dim dim"]:
        """Differentiate theta in ``u``."""
        return self.scale * np.eye(len(u))


@dataclass(frozen=True)
class BallChart:
    """``theta = radius F(|u|)^(1/d) u / |u|``: under the flat law of a ball, ``u`` is normal.

    In NumPy and double precision what `gibbs_dp.model.ball.BallChart` is in JAX.

    Parameters
    ----------
    radius
        Of the ball.
    precision
        Of a Gaussian that is truncated to it; 0 for the flat law.

    Examples
    --------
    >>> chart = BallChart(2.0)
    >>> round(float(chart.theta(np.array([[0.6744897501960817]]))[0, 0]), 9)     # the median length
    1.0
    """

    radius: float
    precision: float = 0.0

    def theta(self, u: Points) -> Points:
        """Parameters at the coordinates."""
        stretch, _ = _stretch(np.sum(u**2, axis=-1), u.shape[-1])
        return np.asarray(self.radius * stretch[..., None] * u)

    def pull_back(self, u: Points, gradient: Points) -> Points:
        """Turn a gradient in theta into one in ``u``."""
        stretch, slope = _stretch(np.sum(u**2, axis=-1), u.shape[-1])
        along = np.sum(u * gradient, axis=-1)
        pulled = stretch[..., None] * gradient + (2 * slope * along)[..., None] * u
        return np.asarray(self.radius * pulled)

    def jacobian(self, u: Float[np.ndarray, " dim"]) -> Float[np.ndarray, "dim dim"]:
        """Differentiate theta in ``u``."""
        stretch, slope = _stretch(np.sum(u**2, keepdims=True), len(u))
        return np.asarray(
            self.radius * (stretch[0] * np.eye(len(u)) + 2 * slope[0] * np.outer(u, u))
        )


@lru_cache(maxsize=64)
def _log_stretch_spline(dim: int) -> tuple[Any, Any]:
    """Logarithm of ``F(r)^(1/dim) / r`` and its derivative, in ``s = r^2``."""
    end = longest_square(dim)
    s = np.linspace(0.0, end, 1 + int(np.ceil(end / (max(1.0, np.sqrt(dim)) / 24.0))))
    spline = make_interp_spline(s, log_stretch(s, dim), k=5)
    return spline, spline.derivative()


def _stretch(s: Values, dim: int) -> tuple[Values, Values]:
    """``F(r)^(1/dim) / r`` with ``s = r^2``, and its derivative in ``s``."""
    spline, derivative = _log_stretch_spline(dim)
    end = longest_square(dim)
    inside = np.minimum(s, end)
    is_far = s > end
    safe = np.where(is_far, s, 1.0)
    value = np.where(is_far, safe**-0.5, np.exp(spline(inside)))
    # Rounding must not leave the open ball.
    value = np.minimum(value, (1 - 1e-12) / np.sqrt(np.maximum(s, 1.0)))
    slope = np.where(is_far, -0.5 * safe**-1.5, value * derivative(inside))
    return value, slope
