"""The problems that samplers are compared on, with their truths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import gibbs_dp as gdp
from gibbs_dp import estimators
from gibbs_dp.engine.plan import Inputs, Plan, default_ghosts
from gibbs_dp.engine.view import per_example_losses, structured_losses
from gibbs_dp.model.populations import as_population
from gibbs_dp.papers.on_average_kl import closed_forms
from gibbs_dp.papers.on_average_kl.closed_forms import linear_regression_replaced
from gibbs_dp.problems.regression import random_features as random_features_problem
from gibbs_dp.sampling.kernels.base import make_schedule


@dataclass(frozen=True)
class Case:
    """One posterior at one gamma, and the truth about its on-average KL (value, error)."""

    name: str
    posterior: gdp.GibbsPosterior
    examples: Callable[..., Any]
    n: int
    gamma: float
    truth: Callable[[], tuple[float, float]]
    adapt_rounds: int = 0

    @property
    def num_ghosts(self):
        """Fresh examples per dataset, for everybody: what an audit takes by default."""
        return default_ghosts(self.posterior, self.population, self.n)

    @property
    def population(self):
        """Examples as the engine takes them."""
        return as_population(self.examples)

    def fresh(self, num_ghosts):
        """Fresh examples to draw: a structured loss needs a whole dataset of them."""
        return num_ghosts + (self.n if self.posterior.structured else 0)

    def start(self, key):
        """Start near the middle, dispersed by less than a prior or a support is wide."""
        return 0.1 * jax.random.normal(key, (self.posterior.dim,))

    def estimate(self, draws, train, ghosts):
        """Return the ghost and the direct estimate from draws ``[1, draws, dim]``."""
        count = draws.shape[1]
        u = draws.reshape(4, count // 4, -1)  # the jackknife wants several chains
        zero = jnp.zeros((self.posterior.dim,))
        inputs = Inputs(
            jnp.asarray(self.gamma), make_schedule((1.0, 1), 0, 0), jnp.asarray(0), zero,
            jnp.asarray(False), zero, zero, zero, zero, zero, zero,
        )  # fmt: skip
        num_ghosts = jax.tree.leaves(ghosts)[0].shape[0] - self.fresh(0)
        plan = Plan(self.n, num_ghosts, 1, 4, count // 4)
        weight = jnp.full(u.shape[:2], 4.0 / count)
        if self.posterior.structured:
            losses = structured_losses(self.posterior, u, train, ghosts, inputs, plan)
            delta = inputs.gamma * (losses.ghost - losses.train)
            direct = estimators.direct_kl_of_pairs(delta, weight).value
            # A swap changes the dataset's loss by what on-average KL is an expectation of.
            return jnp.mean(delta), direct
        losses = per_example_losses(self.posterior, u, train, ghosts, inputs, plan)
        direct = estimators.direct_kl(losses.train, losses.ghost, weight, inputs.gamma, 1).value
        return self.gamma * (jnp.mean(losses.ghost) - jnp.mean(losses.train)), direct


def logistic():
    """Logistic regression, d = 10, n = 200, Gaussian prior."""
    posterior = gdp.GibbsPosterior(gdp.losses.logistic, dist.Normal(0.0, 1.0).expand([10]))

    def examples(key, n):
        x_key, y_key = jax.random.split(key)
        x = gdp.random.normal(x_key, (n, 10))
        y = gdp.random.uniform(y_key, (n,)) < jax.nn.sigmoid(0.5 * x.sum(axis=1))
        return x, y.astype(x.dtype)

    def truth():
        report = gdp.audit(
            posterior,
            examples,
            200,
            [1.0],
            num_datasets=65_536,
            key=99,
            sampler=gdp.Chains(num_samples=16, num_warmup=64),
            learn=[*gdp.DEFAULT, gdp.MutualInformation(0)],
            progress=False,
        )
        return report["on_average_kl"][0], report["on_average_kl_se"][0]

    return Case("logistic regression", posterior, examples, 200, 1.0, truth)


def linear():
    """Linear regression of Figure 2b, d = 1, n = 100, flat prior."""
    posterior = gdp.GibbsPosterior(gdp.losses.squared, gdp.Flat(gdp.supports.real(1)))

    def examples(key, n):
        x_key, noise_key = jax.random.split(key)
        x = gdp.random.uniform(x_key, (n,), minval=-1.0, maxval=1.0)
        return x[:, None], x + gdp.random.uniform(noise_key, (n,), minval=-1.0, maxval=1.0)

    def truth():
        return _gaussian_truth(as_population(examples), 100, 1.0, 1e-9)

    return Case("linear regression", posterior, examples, 100, 1.0, truth)


def _gaussian_truth(population, n, gamma, prior_precision, num_datasets=20_000):
    """Average the exact KL of Gaussian posteriors over datasets; value and standard error."""
    keys = jax.random.split(jax.random.key(7), num_datasets)
    (x, y), (ghost_x, ghost_y) = jax.jit(jax.vmap(lambda k: population.sample(k, n, 16)))(keys)
    found = linear_regression_replaced(x, y, ghost_x, ghost_y, gamma, prior_precision)
    values = found.on_average_kl
    return float(np.mean(values)), float(np.std(values) / np.sqrt(num_datasets))


def random_features():
    """Ridge regression on p = 30 random features, n = 20: more coefficients than examples."""
    problem = random_features_problem(num_features=30)

    def truth():
        return _gaussian_truth(as_population(problem.population), 20, 1.0, 0.25)

    return Case("random features", problem.posterior, problem.population, 20, 1.0, truth)


def private_mean():
    """Return the Laplace mechanism of Figure 2a: a structured loss with a kink, n = 100."""
    posterior = gdp.GibbsPosterior(
        total_loss=lambda theta, z: jnp.abs(jnp.mean(z) - theta),
        prior=gdp.Flat(gdp.supports.real()),
        sensitivity=lambda n: 4.0 / n,
        location_family=True,
    )

    def examples(key, n):
        return gdp.random.truncated_normal(key, -2.0, 2.0, (n,))

    def truth():
        return closed_forms.private_mean_on_average_kl(10.0, 100), 0.0

    return Case("private mean", posterior, examples, 100, 10.0, truth, adapt_rounds=6)


PROBLEMS = {
    "logistic": logistic,
    "linear": linear,
    "random-features": random_features,
    "private-mean": private_mean,
}
