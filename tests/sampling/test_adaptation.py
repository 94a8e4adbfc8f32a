"""When `gdp.sample` learns its coordinates from draws, rather than from the fit at the mode."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro.diagnostics import effective_sample_size

import gibbs_dp as gdp
from gibbs_dp.sampling.chains import evolve
from gibbs_dp.sampling.kernels.base import make_schedule
from gibbs_dp.sampling.target import Whitening

DIM = 31


def shell(u, z):
    """Energy of a point that ``radius tanh(|u|)`` maps to a uniform one on a ball.

    At its center it is curved 22 times as much as the posterior is narrow: a fitted Gaussian is
    half as wide as the shell that the draws fill, and proposals of that size are accepted.
    """
    r = jnp.sqrt(jnp.sum(u**2) + 0.01)
    log_cosh = r + jnp.log1p(jnp.exp(-2 * r)) - jnp.log(2.0)
    return 2 * log_cosh - (DIM - 1) * jnp.log(jnp.tanh(r) / r) + 0.0 * z


@pytest.mark.trust
def test_draws_wider_than_the_fit_start_it_and_have_the_right_law():
    wide = gdp.GibbsPosterior(shell, gdp.Flat(gdp.supports.real(DIM)))
    draws = gdp.sample(wide, jnp.zeros(1), key=1, num_samples=2000)
    assert draws.settings["is_adapted"]
    assert draws.accept_rate.mean() > 0.5  # which is why acceptance cannot be what starts it
    volume = np.tanh(np.linalg.norm(np.asarray(draws.theta, float), axis=-1)) ** DIM
    # Uniform on (0, 1): 4.5 standard errors are exceeded once in 150,000 runs.
    error = 4.5 / np.sqrt(12 * effective_sample_size(volume))
    assert abs(volume.mean() - 0.5) < error < 0.1


@pytest.mark.trust
def test_a_gaussian_needs_none():
    near = gdp.GibbsPosterior(gdp.losses.half_squared_distance, dist.Normal(jnp.zeros(2), 1.0))
    assert not gdp.sample(near, jnp.ones((3, 2)), num_samples=100).settings["is_adapted"]


def test_a_chain_that_cannot_move_goes_on_from_another():
    # The energy v^4 is so steep at 1,000 that every trajectory from there flies away, whatever
    # step suits the other chains.
    starts = jnp.array([[1000.0], [0.5], [-0.3], [1.0]])
    unit = Whitening(jnp.zeros(1), jnp.ones(1))
    kernel = gdp.HMC()

    def run(rounds):
        schedule = make_schedule(kernel.default_tuning(1), 20, rounds)
        return evolve(
            jax.random.key(0), lambda v: jnp.sum(v**4), starts, unit, kernel, schedule, 50
        )

    assert run(0).is_stuck.tolist() == [True, False, False, False]
    moved = run(2)
    assert not moved.is_stuck.any()
    assert abs(moved.v).max() < 5.0


@pytest.mark.trust
def test_a_mode_beside_the_mean_needs_none():
    # Under flat priors the logarithm of a scale has its mode 1.2 deviations below its mean here.
    def loss(theta, z):
        residual = (z["y"] - z["x"] @ theta["coefficients"]) / theta["scale"]
        return 0.5 * residual**2 + jnp.log(theta["scale"])

    rng = np.random.default_rng(8)
    data = {"x": rng.normal(size=(30, 8)), "y": rng.normal(size=30)}
    prior = {
        "coefficients": gdp.Flat(gdp.supports.real(8)),
        "scale": gdp.Flat(dist.constraints.positive),
    }
    draws = gdp.sample(gdp.GibbsPosterior(loss, prior), data)
    assert not draws.settings["is_adapted"]
    values = draws.theta["coefficients"]
    assert min(effective_sample_size(np.asarray(values[..., k])) for k in range(8)) > 1000
