"""Losses and priors that factor matrices are told what this jaxlib may do with them."""

import warnings

import jax
import jax.numpy as jnp
import jaxlib
import numpyro.distributions as dist
import pytest

import gibbs_dp as gdp
from gibbs_dp.model import lapack
from gibbs_dp.model.lapack import WaitingWarning, warn_of_lapack

EXAMPLES = jnp.ones((5, 12))


@pytest.fixture(autouse=True)
def jaxlib_that_waits(monkeypatch):
    monkeypatch.setattr(jaxlib.version, "__version_info__", (0, 10, 2))


def covariance_loss(theta, z):
    def body(_, total):
        factor = jnp.linalg.cholesky(jnp.eye(12) + jnp.outer(theta, theta))
        return total + jnp.sum(jax.scipy.linalg.solve_triangular(factor, z, lower=True) ** 2)

    return jax.lax.fori_loop(0, 2, body, 0.0)  # looked for within loops too


def posterior(loss=gdp.losses.half_squared_distance, prior=None):
    return gdp.GibbsPosterior(loss, prior or dist.Normal(0.0, 1.0).expand([12]))


def test_a_factorization_for_every_draw_is_warned_of():
    with pytest.warns(WaitingWarning, match="cholesky on 12 x 12 matrices for every draw, and"):
        warn_of_lapack(posterior(covariance_loss), EXAMPLES)
    correlated = {"factor": dist.LKJCholesky(12), "mean": dist.Normal(0.0, 1.0).expand([12])}

    def loss(theta, z):
        scale = theta["factor"]
        return -dist.MultivariateNormal(theta["mean"], scale_tril=scale).log_prob(z)

    with pytest.warns(WaitingWarning, match="triangular_solve on 12 x 12"):
        warn_of_lapack(posterior(loss, correlated), EXAMPLES)


@pytest.mark.parametrize(
    "target",
    [
        posterior(),
        posterior(prior=dist.MultivariateNormal(jnp.zeros(12), 2 * jnp.eye(12))),
        posterior(prior=gdp.Flat(gdp.supports.real(12))),
    ],
)
def test_a_factor_that_all_draws_share_is_not(target):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_lapack(target, EXAMPLES)


def test_another_jaxlib_or_device_is_not_warned_of(monkeypatch):
    target = posterior(covariance_loss)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for version in ((0, 9, 2), (0, 11, 1)):
            monkeypatch.setattr(jaxlib.version, "__version_info__", version)
            warn_of_lapack(target, EXAMPLES)
        monkeypatch.setattr(jaxlib.version, "__version_info__", lapack.LAST)
        monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
        warn_of_lapack(target, EXAMPLES)


def test_audits_and_samples_pass_it_on():
    with pytest.warns(WaitingWarning):
        gdp.sample(posterior(covariance_loss), EXAMPLES, num_samples=4, num_chains=2, num_warmup=1)
