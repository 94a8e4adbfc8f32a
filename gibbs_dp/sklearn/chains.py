"""Draws from posteriors of linear models by Hamiltonian Monte Carlo, without compilation.

A fit needs one draw, of a posterior that is log-concave, or nearly, with a Gaussian or flat prior.
In coordinates that make the prior normal, scaled by the curvature at the mode, every direction is
about as wide as every other, and a few hundred gradients suffice: less time than any program takes
to compile. Everything is in double precision, all chains at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Shaped
from numpyro import diagnostics
from scipy.interpolate import make_interp_spline
from scipy.linalg import cholesky, solve_triangular
from threadpoolctl import threadpool_limits

from gibbs_dp.model.charts import log_stretch, longest_square
from gibbs_dp.model.losses import LinearLoss, SoftmaxCrossEntropy
from gibbs_dp.privacy.noise import Noise
from gibbs_dp.sampling.diagnostics import effective_draws

Points = Float[np.ndarray, "chains dim"]
Values = Float[np.ndarray, " chains"]

# Coordinates in which a prior is a standard normal law: of Gaussians, and of balls.


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
    """``theta = scale u``: under ``N(0, scale^2 I)``, ``u`` is a standard normal vector."""

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
    """``theta = radius F(|u|)^(1/d) u / |u|``: under the flat law of a ball, ``u`` is normal."""

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


# The data's part: total losses, with gradients and curvature, for many parameters at once.

# Numbers in the Hessians of rows that are held at a time.
MOST_CURVATURES = 2**20


class TotalLoss:
    """``gamma L(theta, Z)`` of a linear model on fixed data, at many thetas at once."""

    def __init__(
        self,
        loss: LinearLoss | SoftmaxCrossEntropy,
        gamma: float,
        x: Float[np.ndarray, "rows features"],
        y: Shaped[np.ndarray, " rows"],
    ) -> None:
        self.loss, self.gamma = loss, gamma
        self.x, self.y = np.asarray(x, np.float64), np.asarray(y, np.float64)[:, None]
        # A score for each class, where the loss takes them; else one prediction.
        self.num_scores = loss.num_classes if isinstance(loss, SoftmaxCrossEntropy) else None

    @property
    def dim(self) -> int:
        """Number of parameters."""
        return self.x.shape[1] * (self.num_scores or 1)

    def value(self, theta: Points) -> Values:
        """``gamma L`` at every theta."""
        return np.asarray(self.gamma * self.loss.value(self._scores(theta), self.y).sum(axis=0))

    def gradient(self, theta: Points) -> Points:
        """Gradient of ``gamma L`` at every theta."""
        slope = self.loss.slope(self._scores(theta), self.y)
        if self.num_scores is None:
            return np.asarray(self.gamma * (slope.T @ self.x))
        gradient = np.stack([one.T @ self.x for one in np.moveaxis(slope, 2, 0)], axis=2)
        return np.asarray(self.gamma * gradient.reshape(len(theta), -1))

    def curvature(self, theta: Float[np.ndarray, " dim"]) -> Float[np.ndarray, "dim dim"]:
        """Hessian of ``gamma L`` at one theta, or what stands in for it."""
        scores = self._scores(theta[None])
        if isinstance(self.loss, LinearLoss):
            weight = self.loss.smoothed_curvature(scores, self.y)
            return np.asarray(self.gamma * (self.x.T * weight[:, 0]) @ self.x)
        (rows, size), k = self.x.shape, self.loss.num_classes
        blocks = np.zeros((size, k, size, k))
        step = max(1, MOST_CURVATURES // k**2)
        for begin in range(0, rows, step):
            x, part = self.x[begin : begin + step], slice(begin, begin + step)
            weight = self.loss.curvature(scores[part, 0], self.y[part, 0])
            for i in range(k):
                for j in range(k):
                    blocks[:, i, :, j] += (x.T * weight[:, i, j]) @ x
        return self.gamma * blocks.reshape(self.dim, self.dim)

    def _scores(self, theta: Points) -> Float[np.ndarray, "rows chains *classes"]:
        if self.num_scores is None:
            return np.asarray(self.x @ theta.T)
        matrices = theta.reshape(len(theta), self.x.shape[1], -1)
        # Classes are first in memory, so that sums over few classes are of long rows.
        scores = np.stack([self.x @ column.T for column in np.moveaxis(matrices, 2, 0)])
        return np.moveaxis(scores, 0, 2)


# Chains.

NUM_CHAINS = 8
# Numbers of rows times features from which fewer chains run, for time.
LARGE, FEWER_CHAINS = 100_000, 4
NUM_WARMUP, NUM_SAMPLES = 40, 100
# A chain must be as many autocorrelation times long as would leave no trace of its start.
ESS_OF_A_CHAIN, RHAT_LIMIT = 30, 1.05
# Factors by which chains run longer where shorter ones did not pass the checks.
LONGER = (1, 4, 16, 64)
TRAJECTORY = 0.5 * np.pi
ACCEPTANCE = 0.85
MAX_NEWTON_STEPS = 100


class Target(NamedTuple):
    """A posterior in its chart: ``total + precision |theta|^2 / 2 + |u|^2 / 2``."""

    total: TotalLoss
    chart: Chart

    def value(self, u: Points) -> Values:
        """Negative log density in the coordinates."""
        theta = self.chart.theta(u)
        prior = self.chart.precision * np.sum(theta**2, axis=1) + np.sum(u**2, axis=1)
        return np.asarray(self.total.value(theta) + 0.5 * prior)

    def gradient(self, u: Points) -> Points:
        """Its gradient."""
        theta = self.chart.theta(u)
        gradient = self.total.gradient(theta) + self.chart.precision * theta
        return np.asarray(self.chart.pull_back(u, gradient) + u)

    def curvature(self, u: Float[np.ndarray, " dim"]) -> Float[np.ndarray, "dim dim"]:
        """Return a positive matrix near the Hessian, without the curvature of the chart."""
        theta, bend = self.chart.theta(u[None])[0], self.chart.jacobian(u)
        inner = self.total.curvature(theta) + self.chart.precision * np.eye(len(u))
        return np.asarray(bend.T @ inner @ bend + np.eye(len(u)))


def draw_posterior(target: Target, num_draws: int, noise: Noise) -> Points | None:
    """Draw independent thetas; None where chains fail, or still disagree after the longest run."""
    # Matrices are small: threads that wait for each other cost far more than they give.
    with threadpool_limits(1):
        return _draw(target, num_draws, noise)


def _draw(target: Target, num_draws: int, noise: Noise) -> Points | None:
    mode = _mode(target)
    if mode is None:
        return None
    lower = cholesky(target.curvature(mode), lower=True)
    few = FEWER_CHAINS if target.total.x.size > LARGE else NUM_CHAINS
    num_chains = max(few, num_draws)
    for factor in LONGER:
        draws = _run(target, mode, lower, num_chains, factor, noise)
        if draws is not None and _agree(draws):
            return draws[:num_draws, -1]
    return None


def _mode(target: Target) -> Float[np.ndarray, " dim"] | None:
    """Find the mode by Newton steps, each shortened until it descends."""
    u = np.zeros(target.total.dim)
    value = target.value(u[None])[0]
    for _ in range(MAX_NEWTON_STEPS):
        gradient = target.gradient(u[None])[0]
        step = np.linalg.solve(target.curvature(u), gradient)
        decrease = float(gradient @ step)
        if not np.isfinite(decrease):
            return None
        if decrease < 1e-6:
            break
        length = 1.0
        while length > 1e-8:
            trial = u - length * step
            new_value = target.value(trial[None])[0]
            if new_value <= value - 1e-4 * length * decrease:
                break
            length *= 0.5
        else:
            break  # as low as it gets in rounded numbers, or at a kink
        u, value = trial, new_value
    return u


def _run(
    target: Target,
    mode: Float[np.ndarray, " dim"],
    lower: Float[np.ndarray, "dim dim"],
    num_chains: int,
    factor: int,
    noise: Noise,
) -> Float[np.ndarray, "chains draws dim"] | None:
    """Run chains in coordinates scaled by the Cholesky factor of the curvature at the mode."""
    dim = len(mode)

    def position(v: Points) -> Points:
        return np.asarray(mode + solve_triangular(lower, v.T, lower=True, trans="T").T)

    def slope(v: Points) -> Points:
        return np.asarray(solve_triangular(lower, target.gradient(position(v)).T, lower=True).T)

    v = noise.standard_normal((num_chains, dim))
    value, gradient = target.value(position(v)), slope(v)
    step = min(TRAJECTORY / 2, 1.5 * dim**-0.25)
    warmup, kept = factor * NUM_WARMUP, []
    for i in range(warmup + factor * NUM_SAMPLES):
        length = step * (0.8 + 0.4 * float(noise.random(1)[0]))
        momentum = noise.standard_normal((num_chains, dim))
        before = value + 0.5 * np.sum(momentum**2, axis=1)
        w, new_gradient = v, gradient
        for _ in range(int(np.ceil(TRAJECTORY / step))):
            momentum = momentum - 0.5 * length * new_gradient
            w = w + length * momentum
            new_gradient = slope(w)
            momentum = momentum - 0.5 * length * new_gradient
        new_value = target.value(position(w))
        change = before - new_value - 0.5 * np.sum(momentum**2, axis=1)
        chance = np.exp(np.minimum(0.0, np.where(np.isfinite(change), change, -np.inf)))
        is_taken = noise.random(num_chains) < chance
        v = np.where(is_taken[:, None], w, v)
        value = np.where(is_taken, new_value, value)
        gradient = np.where(is_taken[:, None], new_gradient, gradient)
        if i < warmup:
            step *= np.exp((float(chance.mean()) - ACCEPTANCE) / np.sqrt(1 + i))
            step = min(max(step, 1e-3), TRAJECTORY / 2)
        else:
            kept.append(v)
    if not np.isfinite(value).all():
        return None
    draws = np.stack(kept, axis=1)
    flat = target.chart.theta(position(draws.reshape(-1, dim)))
    return flat.reshape(draws.shape)


def _agree(draws: Float[np.ndarray, "chains draws dim"]) -> bool:
    """Return whether chains are long enough, and agree."""
    if not (np.isfinite(draws).all() and (np.ptp(draws, axis=1) > 0).all()):
        return False
    return bool(
        np.max(diagnostics.split_gelman_rubin(draws)) <= RHAT_LIMIT
        and np.min(effective_draws(draws)) >= ESS_OF_A_CHAIN * len(draws)
    )
