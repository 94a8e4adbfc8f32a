"""Posteriors of several separated modes, each with the lattice that its exact values come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import quadrature

import gibbs_dp as gdp
from gibbs_dp.engine.datasets import Stream, draw_dataset, roots
from gibbs_dp.model.populations import as_population
from gibbs_dp.problems import build_problem

GHOSTS = 64


@dataclass(frozen=True)
class TwoHills:
    """``-log(exp(-(t - a - z)^2 / 2) + exp(-s (t - b - z)^2 / 2 + (s - 1) / 2 + c z))``.

    With ``n`` standard normal examples the posterior has a hill at ``a`` and one at ``b``. Their
    odds change with the data, through ``c sum(z)`` and, where ``s`` is not 1, the spread: draws of
    one hill cannot know. The term ``(s - 1) / 2`` makes the odds even on average.

    Parameters
    ----------
    first, second
        ``a`` and ``b``.
    tilt
        ``c``.
    sharpness
        ``s``: how much narrower the second hill is.
    """

    first: float
    second: float
    tilt: float = 0.0
    sharpness: float = 1.0

    def __call__(self, theta, z):
        """Loss of one example."""
        return self.batch(theta, z[None])[0]

    def batch(self, theta, data):
        """Losses of ``z [n]``."""
        return -jnp.logaddexp(*self._hills(theta, data))

    def on(self, points, data):
        """Losses ``[m, n]`` of points ``[m, 1]``, in NumPy."""
        return -np.logaddexp(*self._hills(points, data))

    def _hills(self, theta, z):
        s = self.sharpness
        other = (s - 1) / 2 + self.tilt * z - s * (theta - self.second - z) ** 2 / 2
        return -((theta - self.first - z) ** 2) / 2, other


@dataclass(frozen=True)
class MixtureOn:
    """The loss of `gibbs_dp.problems.clusters`, written again in NumPy for means on a line."""

    shares: tuple[float, ...]

    def __call__(self, points, data):
        """Losses ``[m, n]`` of means ``[m, k]`` and examples ``[n, 1]``."""
        found = np.full((len(points), len(data)), -np.inf)
        for share, mean in zip(self.shares, points.T, strict=True):
            log = np.log(share / np.sqrt(2 * np.pi)) - (data[:, 0] - mean[:, None]) ** 2 / 2
            found = np.logaddexp(found, log)
        return -found


class Case(NamedTuple):
    """A posterior and population, and how the exact values are found.

    Attributes
    ----------
    name
        Of the case.
    posterior, population, n, gammas
        What is audited.
    loss
        The loss in NumPy, as `quadrature.exact` takes it.
    prior_scale
        Standard deviation of the centered normal prior; None for a flat one.
    low, high, num
        The lattice.
    is_bounded
        Whether it fills the prior's support.
    """

    name: str
    posterior: gdp.GibbsPosterior
    population: Any
    n: int
    gammas: tuple[float, ...]
    loss: Any
    prior_scale: float | None
    low: tuple[float, ...]
    high: tuple[float, ...]
    num: int
    is_bounded: bool = False

    def log_prior(self, points):
        """Log density of the prior up to a constant."""
        if self.prior_scale is None:
            return np.zeros(len(points))
        return -np.sum(points**2, axis=1) / (2 * self.prior_scale**2)


def examples(key, n):
    """Draw standard normal examples."""
    return jax.random.normal(key, (n,))


def hills(name, loss, n, prior_scale, gammas=(0.1, 0.3, 1.0)):
    """Two hills under a normal prior, or a flat one on the box of the lattice (scale None)."""
    low, high = loss.first - 15.0, loss.second + 15.0
    if prior_scale is None:
        prior = gdp.Flat(gdp.supports.box(low, high, 1))
    else:
        prior = dist.Normal(jnp.zeros(1), prior_scale)
    # theta has shape [1], the loss of one example none: the one coordinate is taken out.
    posterior = gdp.GibbsPosterior(OneCoordinate(loss), prior)
    return Case(
        name, posterior, examples, n, gammas, loss.on, prior_scale, (low,), (high,), 600,
        is_bounded=prior_scale is None,
    )  # fmt: skip


@dataclass(frozen=True)
class OneCoordinate:
    """A loss of a number, for a vector of length one."""

    loss: TwoHills

    def __call__(self, theta, z):
        """Loss of one example."""
        return self.loss(theta[0], z)

    def batch(self, theta, data):
        """Losses of all examples."""
        return self.loss.batch(theta[0], data)


def mixture(name, **options):
    """Two means on a line, equal or unequal shares."""
    problem = build_problem("mixture", **options)
    shares = problem.population.function.shares
    scale = float(np.ravel(problem.posterior.prior.tree.scale)[0])
    return Case(
        name, problem.posterior, problem.population, problem.n, problem.gammas,
        MixtureOn(shares), scale, (-14.0, -14.0), (14.0, 14.0), 168,
    )  # fmt: skip


CASES = {
    "mixture": lambda: mixture("mixture"),
    "mixture, shares .3 .7": lambda: mixture("mixture, shares .3 .7", shares=(0.3, 0.7)),
    "0 and 12, normal": lambda: hills("0 and 12, normal", TwoHills(0.0, 12.0, 1.0), 10, 10.0),
    "0 and 12, flat": lambda: hills("0 and 12, flat", TwoHills(0.0, 12.0, 1.0), 10, None),
    "15 and 25, normal": lambda: hills(
        "15 and 25, normal", TwoHills(15.0, 25.0, 0.7, 2.0), 10, 20.0
    ),
    "15 and 25, flat": lambda: hills("15 and 25, flat", TwoHills(15.0, 25.0, 0.7, 2.0), 10, None),
}


def datasets_of(case, num_datasets, key=0):
    """Training and fresh examples of an audit with this integer key: ``[datasets, ...]`` each."""
    root = roots(jax.random.key(key), Stream.MAIN)[0]
    source = as_population(case.population)

    def draw(number):
        own = jax.random.fold_in(root, number)
        return draw_dataset(case.posterior, source, own, case.n, GHOSTS)

    train, ghosts = jax.jit(jax.vmap(draw))(jnp.arange(num_datasets))
    return np.asarray(train, float), np.asarray(ghosts, float)


def exact_of(case, num_datasets, gamma, key=0):
    """Exact values of the datasets of such an audit."""
    grid = quadrature.lattice(case.low, case.high, case.num)
    train, ghosts = datasets_of(case, num_datasets, key)
    return quadrature.exact(case.loss, case.log_prior, grid, train, ghosts, gamma, case.is_bounded)
