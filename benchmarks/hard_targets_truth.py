"""What a hard target is, and true moments from exact draws, quadrature or tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import gibbs_dp as gdp

ROW = jnp.zeros((1,))  # data of a loss that is minus a log density
NUM_EXACT = 2**20
Read = Callable[[Any], dict[str, Any]]


class Moments(NamedTuple):
    """Mean and standard deviation of a statistic."""

    mean: float
    sd: float


class Target(NamedTuple):
    """A posterior whose moments are known.

    Attributes
    ----------
    posterior, data, gamma
        What :func:`gibbs_dp.sample` is given.
    read
        Statistics of a parameter, by name: parameters have leading axes of any number.
    truth
        Moments of the statistics; None where the posterior cannot be normalized.
    settings
        Further arguments of `gibbs_dp.sample`.
    """

    posterior: gdp.GibbsPosterior
    data: Any
    read: Read
    truth: dict[str, Moments] | None
    gamma: float = 1.0


def coordinate(index: int) -> Callable[[Any], Any]:
    """Read one number of the parameter."""
    return lambda theta: np.asarray(theta, np.float64)[..., index]


def first(theta: Any) -> dict[str, Any]:
    """Read the first number of the parameter."""
    return {"first": coordinate(0)(theta)}


def ends(theta: Any) -> dict[str, Any]:
    """Read the first and the last number of the parameter."""
    return {"first": coordinate(0)(theta), "last": coordinate(-1)(theta)}


def robust(theta: Any) -> dict[str, Any]:
    """Read what has moments however heavy the tails are."""
    x = coordinate(0)(theta)
    return {"tanh": np.tanh(x), "log size": np.log1p(x**2)}


def moments(values: Any, weights: Any = None) -> Moments:
    """Moments of values, weighted or not."""
    values = np.asarray(values, np.float64)
    mean = np.average(values, weights=weights)
    return Moments(float(mean), float(np.sqrt(np.average((values - mean) ** 2, weights=weights))))


def of_points(read: Read, points: Any, weights: Any = None) -> dict[str, Moments]:
    """Moments of statistics over exact draws, or over weighted points of a grid."""
    return {name: moments(values, weights) for name, values in read(points).items()}


def on_line(log_density: Callable, low: float, high: float, read: Read, num: int = 2_000_001):
    """Moments by the midpoint rule; ``log_density`` takes an array of numbers."""
    edges = np.linspace(low, high, num)
    x = (edges[1:] + edges[:-1]) / 2
    logs = log_density(x)
    return of_points(read, x[:, None], np.exp(logs - logs.max()))


def on_plane(log_density: Callable, low: Any, high: Any, read: Read, num: int = 2001):
    """Moments by the midpoint rule; ``log_density`` takes an array of points."""
    x, y = (
        np.linspace(a, b, num + 1)[:-1] + (b - a) / num / 2 for a, b in zip(low, high, strict=True)
    )
    points = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1).reshape(-1, 2)
    logs = log_density(points)
    return of_points(read, points, np.exp(logs - logs.max()))


def flat(dim: int) -> gdp.Flat:
    """Take Lebesgue measure on all of the space."""
    return gdp.Flat(gdp.supports.real(dim))


def wide(dim: int, scale: float = 10.0) -> dist.Distribution:
    """Take a normal prior around 0."""
    return dist.Normal(jnp.zeros(dim), scale).to_event(1)


def with_density(log_density: Callable, prior: Any) -> gdp.GibbsPosterior:
    """Posterior of a given log density: the loss takes the prior out again."""

    def loss(theta: Any, z: Any) -> Any:
        log_prior = 0.0 if isinstance(prior, gdp.Flat) else prior.log_prob(theta)
        return jnp.sum(log_prior) - log_density(theta) + 0.0 * z

    return gdp.GibbsPosterior(loss, prior)
