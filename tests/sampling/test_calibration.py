"""Simulation-based calibration (Talts et al. 2018) of the whole chain program.

theta from the prior, data from the likelihood: the rank of theta among posterior draws is then
uniform. ``loss = -log likelihood / 4`` with ``gamma = 4`` is the Bayesian posterior only if gamma
multiplies the loss and not the prior. One draw of each of 15 independent chains gives 16 equally
likely ranks. Each chi-square test is refused below 1e-5, and there are at most 50: a correct
sampler fails with probability 5e-4.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax.flatten_util import ravel_pytree
from scipy import stats

import gibbs_dp as gdp
from gibbs_dp.sampling.as_sampler import as_sampler
from gibbs_dp.sampling.kernels.base import make_schedule
from gibbs_dp.sampling.target import Target

FALSE_ALARM = 1e-5
GAMMA = 4.0
NUM_DATASETS = 480
NUM_CHAINS = 15
BURN_IN = 40


class Regression:
    """y = x·theta + noise of standard deviation 1/2; a correlated design."""

    n = 6
    prior = dist.Normal(jnp.asarray([0.0, 1.0]), jnp.asarray([1.0, 0.4])).to_event(1)

    @staticmethod
    def loss(theta, z):
        return (z[1] - z[0] @ theta) ** 2 / (2 * 0.5**2) / GAMMA

    def data(self, key, theta):
        x_key, y_key = jax.random.split(key)
        x = jax.random.normal(x_key, (self.n, 2)) @ jnp.asarray([[1.0, 0.8], [0.0, 0.6]])
        return x, x @ theta + 0.5 * jax.random.normal(y_key, (self.n,))


class Rate:
    """A constrained parameter: exponential data with a half-normal rate."""

    n = 4
    prior = dist.HalfNormal(1.0)

    @staticmethod
    def loss(theta, z):
        return (theta * z - jnp.log(theta)) / GAMMA

    def data(self, key, theta):
        return jax.random.exponential(key, (self.n,)) / theta


class Supports:
    """Every support at once, and a hierarchical part: each entry is seen with Gaussian noise."""

    n = 3
    noise = 0.5
    prior: ClassVar = {
        "ball": gdp.Flat(gdp.supports.l2_ball(2, 1.0)),
        "simplex": dist.Dirichlet(jnp.asarray([2.0, 1.0, 1.5])),
        "positive": dist.Gamma(2.0, 2.0),
        "box": dist.Uniform(-1.0, 2.0),
        "scaled": lambda earlier: dist.Normal(0.0, earlier["positive"]),
    }

    def draw(self, key):
        """From the prior, by NumPyro's and other means than the bijections."""
        keys = jax.random.split(key, 6)
        direction = jax.random.normal(keys[0], (2,))
        radius = jnp.sqrt(jax.random.uniform(keys[1]))
        theta = {
            "ball": radius * direction / jnp.linalg.norm(direction),
            "simplex": self.prior["simplex"].sample(keys[2]),
            "positive": self.prior["positive"].sample(keys[3]),
            "box": jax.random.uniform(keys[4], minval=-1.0, maxval=2.0),
        }
        return theta | {"scaled": theta["positive"] * jax.random.normal(keys[5])}

    @classmethod
    def loss(cls, theta, z):
        return jnp.sum((z - ravel_pytree(theta)[0]) ** 2) / (2 * cls.noise**2) / GAMMA

    def data(self, key, theta):
        flat = ravel_pytree(theta)[0]
        return flat + self.noise * jax.random.normal(key, (self.n, flat.size))


class TemperedPrior(gdp.GibbsPosterior):
    """Known wrong: gamma multiplies the prior as well."""

    def log_prior_unconstrained(self, u):
        extra = (GAMMA - 1) * self.prior.log_prob(self.constrain(u))
        return super().log_prior_unconstrained(u) + extra


class NoJacobian(gdp.GibbsPosterior):
    """Known wrong: the change of variables is forgotten."""

    def log_prior_unconstrained(self, u):
        return self.prior.log_prob(self.constrain(u))


def p_values(model, kernel, kind=gdp.GibbsPosterior):
    """Of uniform ranks, one per coordinate of theta and one for the empirical loss."""
    posterior = kind(model.loss, model.prior)
    schedule = make_schedule(kernel.default_tuning(posterior.dim), BURN_IN, 0)

    def one_rank(key):
        theta_key, data_key, chain_key = jax.random.split(key, 3)
        theta = model.draw(theta_key) if hasattr(model, "draw") else model.prior.sample(theta_key)
        data = model.data(data_key, theta)
        target = Target(posterior, data, jnp.asarray(GAMMA))
        start = jnp.zeros((1, posterior.dim))
        draws = as_sampler(kernel).draw(chain_key, target, start, schedule, NUM_CHAINS, 1)

        def statistics(theta):
            loss = posterior.empirical_loss(theta, data)
            return jnp.append(ravel_pytree(theta)[0], loss)

        sampled = jax.vmap(lambda u: statistics(posterior.constrain(u)))(draws.u[:, 0])
        return jnp.sum(sampled < statistics(theta), axis=0)

    keys = jax.random.split(jax.random.key(2018), NUM_DATASETS)
    ranks = np.asarray(jax.jit(jax.vmap(one_rank))(keys))
    return [
        stats.chisquare(np.bincount(column, minlength=NUM_CHAINS + 1)).pvalue for column in ranks.T
    ]


@pytest.mark.trust(but="Regression-HMC")
@pytest.mark.parametrize(
    ("model", "kernel"),
    [
        *(
            (model(), kernel())
            for model in (Regression, Rate, Supports)
            for kernel in (gdp.HMC, gdp.MALA)
        ),
        (Supports(), gdp.UnderdampedLangevin()),
    ],
    ids=lambda x: type(x).__name__,
)
def test_ranks_are_uniform(model, kernel):
    assert min(p_values(model, kernel)) > FALSE_ALARM


@pytest.mark.trust(but="tempered-prior")
@pytest.mark.parametrize(
    ("model", "kind"),
    [(Regression(), TemperedPrior), (Rate(), NoJacobian)],
    ids=["tempered-prior", "no-jacobian"],
)
def test_known_wrong_posteriors_are_caught(model, kind):
    assert min(p_values(model, gdp.HMC(), kind)) < FALSE_ALARM
