"""Losses and priors that factor matrices are told what this jaxlib may do with them."""

import importlib
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
    with pytest.warns(
        WaitingWarning, match="cholesky on 12 x 12 matrices for every draw or dataset, and"
    ):
        warn_of_lapack(posterior(covariance_loss), EXAMPLES)
    correlated = {"factor": dist.LKJCholesky(12), "mean": dist.Normal(0.0, 1.0).expand([12])}

    def loss(theta, z):
        scale = theta["factor"]
        return -dist.MultivariateNormal(theta["mean"], scale_tril=scale).log_prob(z)

    with pytest.warns(WaitingWarning, match="triangular_solve on 12 x 12"):
        warn_of_lapack(posterior(loss, correlated), EXAMPLES)


def spectral_loss(theta, z):
    return jnp.sum(jnp.linalg.eigvalsh(jnp.outer(theta[:6], z[:6])) ** 2)


def wide_loss(theta, z):
    factor = jnp.tril(jnp.ones((6, 6)) + jnp.outer(theta[:6], theta[:6]))
    return jnp.sum(jax.scipy.linalg.solve_triangular(factor, jnp.outer(z[:6], jnp.ones(2000))))


def tridiagonal_loss(theta, z):
    edge = jnp.concatenate([theta] * 12)
    return jnp.sum(jax.lax.linalg.tridiagonal_solve(edge, edge + 9, edge, edge[:, None]))


def loss_of_data_alone(theta, data):
    return jnp.sum(theta) * jnp.sum(jnp.linalg.cholesky(data.T @ data + jnp.eye(12)))


@pytest.mark.parametrize(
    "loss",
    [spectral_loss, wide_loss, tridiagonal_loss, loss_of_data_alone],
    ids=lambda f: f.__name__,
)
def test_small_matrices_count_with_what_is_done_to_them(loss):
    prior = dist.Normal(0.0, 1.0).expand([12])
    kind = "total_loss" if loss is loss_of_data_alone else "loss"
    target = gdp.GibbsPosterior(prior=prior, **{kind: loss})
    with pytest.warns(WaitingWarning):
        warn_of_lapack(target, EXAMPLES)


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
        monkeypatch.setattr(lapack, "platform", lambda: "gpu")
        warn_of_lapack(target, EXAMPLES)


def test_audits_and_samples_pass_it_on(monkeypatch):
    def not_now(*_):
        raise InterruptedError

    monkeypatch.setattr(importlib.import_module("gibbs_dp.auditing.api"), "run_sweep", not_now)
    target = posterior(covariance_loss, dist.Normal(0.0, 2.0).expand([12]))
    with pytest.warns(WaitingWarning), pytest.raises(InterruptedError):
        gdp.audit(
            target, lambda key, n: jax.random.normal(key, (n, 12)), 5, [1.0], 4, progress=False
        )
    with pytest.warns(WaitingWarning):
        gdp.sample(posterior(covariance_loss), EXAMPLES, num_samples=4, num_chains=2, num_warmup=1)
