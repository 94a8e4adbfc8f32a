"""Draws from posteriors of linear models by Hamiltonian Monte Carlo, without compilation.

A fit needs one draw, of a posterior that is log-concave, or nearly, with a Gaussian or flat prior.
In coordinates that make the prior normal (`gibbs_dp.sklearn.charts`), scaled by the curvature at
the mode, every direction is about as wide as every other, and a few hundred gradients suffice:
less time than any program takes to compile. Everything is in double precision, all chains at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpyro import diagnostics
from scipy.linalg import cholesky, solve_triangular
from threadpoolctl import threadpool_limits

from gibbs_dp.privacy.noise import Noise
from gibbs_dp.sklearn.charts import Chart
from gibbs_dp.sklearn.potentials import TotalLoss

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

Points = Float[np.ndarray, "chains dim"]
Values = Float[np.ndarray, " chains"]


class Target(NamedTuple):
    """A posterior in its chart: ``total + precision |theta|^2 / 2 + |u|^2 / 2``.

    Attributes
    ----------
    total
        The data's part.
    chart
        Coordinates, and the prior.
    """

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
    """Draw independent thetas; None where chains fail, or still disagree after the longest run.

    Parameters
    ----------
    target
        The posterior.
    num_draws
        How many; each is the last state of a chain of its own.
    noise
        Where random numbers come from.

    Returns
    -------
    array or None
        ``[num_draws, dim]``.

    Examples
    --------
    >>> from gibbs_dp import losses
    >>> from gibbs_dp.sklearn.charts import BallChart
    >>> total = TotalLoss(losses.logistic, 1.0, np.ones((20, 1)), np.ones(20))
    >>> from gibbs_dp.privacy.noise import SecretNoise
    >>> draw_posterior(Target(total, BallChart(3.0)), 2, SecretNoise()).shape
    (2, 1)
    """
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

    def place(v: Points) -> Points:
        return np.asarray(mode + solve_triangular(lower, v.T, lower=True, trans="T").T)

    def slope(v: Points) -> Points:
        return np.asarray(solve_triangular(lower, target.gradient(place(v)).T, lower=True).T)

    v = noise.standard_normal((num_chains, dim))
    value, gradient = target.value(place(v)), slope(v)
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
        new_value = target.value(place(w))
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
    flat = target.chart.theta(place(draws.reshape(-1, dim)))
    return flat.reshape(draws.shape)


def _agree(draws: Float[np.ndarray, "chains draws dim"]) -> bool:
    """Whether chains are long enough, and agree."""
    if not (np.isfinite(draws).all() and (draws.std(axis=(0, 1)) > 0).all()):
        return False
    return bool(
        np.max(diagnostics.split_gelman_rubin(draws)) <= RHAT_LIMIT
        and np.min(diagnostics.effective_sample_size(draws)) >= ESS_OF_A_CHAIN * len(draws)
    )
