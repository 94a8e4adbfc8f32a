"""SMC along gamma, against closed forms and quadrature.

Limits are 4 standard errors: a false alarm in 16,000 for each number looked at; about 30 are.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import gibbs_dp as gdp
from gibbs_dp._jaxlib.compile import on_default_backend
from gibbs_dp.sampling.smc import pooled
from gibbs_dp.sampling.smc_particles import Landscape, Point, reweigh, systematic
from gibbs_dp.sampling.target import ImproperPosteriorError, Whitening

Z_LIMIT = 4.0
NUM_KEYS = 200


def _draw(posterior, sampler, keys, data, segments):
    return jax.lax.map(
        lambda key: sampler.draw_path(key, posterior, data, segments), keys, batch_size=50
    )


draw = on_default_backend(_draw, "posterior", "sampler")


def runs_of(posterior, data, pilots, gammas, sampler):
    segments = sampler.find_path(jax.random.key(1), posterior, pilots, gammas)
    keys = jax.random.split(jax.random.key(2), NUM_KEYS)
    return segments, jax.tree.map(np.asarray, draw(posterior, sampler, keys, data, segments))


def log_normalizers(runs, gammas):
    """Of ``exp(-gamma L) prior``, ``[keys, gammas]``."""
    at_reference = runs.reference.log_prior - np.asarray(gammas) * runs.reference.losses.sum(-1)
    return runs.log_normalizer + at_reference


def off(values, truth):
    """Distance of means over keys (first axis) from the truth, in standard errors."""
    return (values.mean(0) - truth) / (values.std(0, ddof=1) / np.sqrt(len(values)))


def two_hills(theta, z):
    return (z - theta**2 / 4 - theta / 10) ** 2 / 2


@pytest.fixture(scope="module")
def hills():
    """Quadrature of a posterior with two modes, and runs on it."""
    rng = np.random.default_rng(0)
    data, pilots = rng.normal(1.5, 1.0, 10), rng.normal(1.5, 1.0, (8, 10))
    gammas = [0.1, 1.0, 5.0]
    x = np.linspace(-25, 25, 200_001)
    loss = ((data[:, None] - x**2 / 4 - x / 10) ** 2 / 2).sum(0)
    log_prior = -0.5 * ((x - 1) / 3) ** 2 - np.log(3 * np.sqrt(2 * np.pi))
    ghost, first = (2.3 - x**2 / 4 - x / 10) ** 2 / 2, (data[0] - x**2 / 4 - x / 10) ** 2 / 2
    exact = []
    for gamma in gammas:
        height = log_prior - gamma * loss
        log_c = np.log(np.exp(height - height.max()).sum() * (x[1] - x[0])) + height.max()
        p = np.exp(height - log_c) * (x[1] - x[0])
        delta = gamma * (ghost - first)
        kl = p @ delta + np.log(p @ np.exp(-delta))
        exact.append((log_c, p[x < 0].sum(), kl))
    posterior = gdp.GibbsPosterior(two_hills, dist.Normal(1.0, 3.0))
    _, runs = runs_of(posterior, jnp.asarray(data), jnp.asarray(pilots), gammas, gdp.SMC())
    return gammas, data, np.array(exact), runs


@pytest.mark.trust
def test_normalizers_of_two_hills(hills):
    gammas, _, exact, runs = hills
    found = log_normalizers(runs, gammas)
    assert np.abs(off(found, exact[:, 0])).max() < Z_LIMIT
    assert np.abs(found.mean(0) - exact[:, 0]).max() < 0.03
    honest = np.sqrt((runs.log_normalizer_se**2).mean(0)) / found.std(0, ddof=1)
    assert (np.abs(np.log(honest)) < np.log(1.35)).all()


@pytest.mark.trust
def test_masses_and_kl_of_two_hills(hills):
    gammas, data, exact, runs = hills
    left = (runs.u[..., 0] < 0).mean(axis=(2, 3))
    assert np.abs(off(left, exact[:, 1])).max() < Z_LIMIT
    # As noisy as counts among the particles, but for a factor.
    counts = np.sqrt(exact[:, 1] * (1 - exact[:, 1]) / 256)
    assert (left.std(0) < 2.5 * counts).all()
    u = runs.u[..., 0].reshape(NUM_KEYS, len(gammas), -1)
    delta = np.asarray(gammas)[:, None] * (two_hills(u, 2.3) - two_hills(u, data[0]))
    kl = delta.mean(-1) + np.log(np.exp(-delta).mean(-1))
    # The plug-in's bias is half the relative variance of a mean over the particles.
    bias = 0.5 * np.exp(-delta).var(-1).mean(0) / np.exp(-delta).mean(-1).mean(0) ** 2 / 256
    assert (np.abs(kl.mean(0) - exact[:, 2]) < 4 * kl.std(0) / NUM_KEYS**0.5 + 4 * bias).all()


class TwiceAsCold(gdp.HMC):
    """A kernel that leaves another law invariant: the square of the density."""

    def init(self, key, position, potential):
        return super().init(key, position, lambda v: 2 * potential(v))

    def step_all(self, noise, states, potential, tuning):
        return super().step_all(noise, states, lambda v: 2 * potential(v), tuning)


@pytest.mark.trust
@pytest.mark.parametrize("is_broken", [False, True])
def test_gaussian_normalizers_and_a_kernel_that_breaks_them(is_broken):
    dim, gammas = 4, [0.1, 1.0]
    kernel = TwiceAsCold(integrator="leapfrog") if is_broken else None
    posterior = gdp.GibbsPosterior(
        lambda theta, z: jnp.sum((theta - z) ** 2) / 0.18, dist.Normal(jnp.zeros(dim), 3.0)
    )
    data = jnp.zeros((1, dim))
    segments, runs = runs_of(
        posterior, data, jnp.zeros((4, 1, dim)), gammas, gdp.SMC(kernel=kernel)
    )
    precision = np.asarray(gammas) / 0.09 + 1 / 9
    truth = -0.5 * dim * np.log(9 * precision)
    z = np.abs(off(log_normalizers(runs, gammas), truth))
    spread = runs.u.var(axis=(2, 3, 4)) * precision
    if is_broken:
        assert z.max() > 10
        return
    assert z.max() < Z_LIMIT
    assert np.abs(off(spread * 256 / 255, 1.0)).max() < Z_LIMIT
    ends = [float(p[c - 1]) for p, c in zip(segments.points.gamma, segments.num_steps, strict=True)]
    assert np.allclose(ends, gammas)
    assert np.abs(off(runs.virial.mean(-1), dim)).max() < Z_LIMIT


def test_one_step_from_the_prior_is_importance_sampling():
    """The normalizer of each island is the mean of ``exp(-gamma L)`` over draws of the prior."""
    gamma, data = 0.7, np.array([0.5, 2.0, 1.5], np.float32)
    posterior = gdp.GibbsPosterior(two_hills, dist.Normal(1.0, 3.0))
    landscape = Landscape(posterior, jnp.asarray(data), Whitening(jnp.zeros(1), jnp.ones(1)))
    begin, end = (Point(jnp.asarray(g), jnp.asarray(1.0)) for g in (0.0, gamma))
    keys = jax.random.split(jax.random.key(4))

    @jax.jit
    def weighed():
        particles = landscape.begin(keys[0], 3, 50)
        return particles, reweigh(keys[1], particles, landscape, begin, end).particles

    particles, found = weighed()
    theta = np.asarray(particles.u, np.float64)
    weights = np.exp(-gamma * two_hills(theta, data).sum(axis=-1))
    at_best = found.reference.log_prior - gamma * found.reference.losses.sum()
    np.testing.assert_allclose(
        found.log_normalizer + at_best, np.log(weights.mean(axis=1)), atol=1e-4
    )


def test_pooled_is_the_log_of_the_mean_and_its_error():
    rng = np.random.default_rng(3)
    islands = jnp.asarray(rng.normal(0.0, 0.5, (4000, 8)), jnp.float32) + 1e4
    value, se = map(np.asarray, jax.vmap(pooled)(islands))
    truth = 1e4 + 0.5**2 / 2
    assert abs(value.mean() - truth) < 4 * value.std() / np.sqrt(4000) + 2e-3
    assert 0.8 < np.sqrt((se**2).mean()) / value.std() < 1.25


def test_systematic_takes_each_as_often_as_its_weight_says():
    weight = np.array([0.5, 0.25, 0.125, 0.125, 0.0])
    log_weight = jnp.log(jnp.asarray(np.repeat(weight, 8) / 8))
    choose = jax.jit(jax.vmap(lambda u: systematic(u, log_weight)))
    chosen = choose(jnp.linspace(0.0, 0.999, 50))
    counts = np.apply_along_axis(np.bincount, 1, np.asarray(chosen) // 8, minlength=5)
    assert np.abs(counts - 40 * weight).max() <= 1
    assert counts[:, 4].max() == 0
    lost = systematic(jnp.asarray(0.3), jnp.full(6, -jnp.inf))
    assert np.asarray(lost).tolist() == list(range(6))


@pytest.mark.trust
def test_each_dataset_of_a_batch_goes_a_path_of_its_own():
    """Posteriors of widths from 0.7 to 0.001: one scale for all would leave the widest behind."""
    precision = jnp.geomspace(1.0, 1e6, 12)
    data = jnp.linspace(-1.0, 1.0, 12)[:, None], precision[:, None]
    posterior = gdp.GibbsPosterior(
        lambda theta, z: z[1] * (z[0] - theta) ** 2 / 2, dist.Normal(0.0, 1.0)
    )
    draws = gdp.sample(posterior, data, sampler=gdp.SMC(), is_batch=True)
    exact = 1.0 / (1.0 + precision)
    x = np.asarray((draws.theta.T - exact * precision * data[0].T) / jnp.sqrt(exact)).T
    x = x.reshape(12, -1)
    assert abs(off(x.mean(axis=1), 0.0)) < Z_LIMIT
    assert abs(off(x.var(axis=1, ddof=1), 1.0)) < Z_LIMIT
    alone = gdp.sample(
        posterior, jax.tree.map(lambda a: a[:1], data), sampler=gdp.SMC(), is_batch=True
    )
    np.testing.assert_allclose(alone.theta[0], draws.theta[0], rtol=1e-4, atol=1e-5)


@pytest.mark.trust
def test_a_flat_prior_begins_at_a_wide_normal_over_modes_far_apart():
    def loss(theta, z):
        return -jnp.logaddexp(
            jnp.log(0.6) - 0.5 * (theta - z) ** 2, jnp.log(0.4) - 0.5 * (theta - 12 - z) ** 2
        )

    posterior = gdp.GibbsPosterior(loss, gdp.Flat(gdp.supports.real()))
    draws = gdp.sample(posterior, jnp.zeros((12, 1)), sampler=gdp.SMC(), is_batch=True)
    right = (np.asarray(draws.theta) > 6).mean(axis=(1, 2))
    assert abs(right.mean() - 0.4) < 4 * right.std(ddof=1) / np.sqrt(12)
    with pytest.raises(ImproperPosteriorError, match="flat"):
        gdp.sample(posterior, jnp.zeros(1), gamma=0.0, sampler=gdp.SMC())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_particles": 100}, "islands of one size"),
        ({"num_particles": 8}, "num_particles"),
        ({"num_islands": 1}, "num_islands"),
        ({"least_ess": 1.0}, "least_ess"),
    ],
)
def test_settings_that_make_no_sense(settings, message):
    with pytest.raises(ValueError, match=message):
        gdp.SMC(**settings)


def test_init_is_refused():
    posterior = gdp.GibbsPosterior(two_hills, dist.Normal(1.0, 3.0))
    with pytest.raises(ValueError, match="init"):
        gdp.sample(posterior, jnp.zeros(3), sampler=gdp.SMC(), init=jnp.zeros(()))


def test_without_a_finite_loss_there_is_no_path():
    def loss(theta, z):
        return jnp.where(jnp.abs(theta - z) < 1e-9, 0.0, jnp.inf)

    posterior = gdp.GibbsPosterior(loss, dist.Normal(0.0, 1.0))
    with pytest.raises(ValueError, match=r"none of the \d+ points .* finite loss; give a prior"):
        gdp.SMC().find_path(jax.random.key(0), posterior, jnp.full((2, 3), jnp.pi), [1.0])


@pytest.mark.trust
def test_an_observed_site_of_the_prior_is_part_of_the_path():
    """The model draws as if it had not been seen; particles that begin there know nothing of it."""

    def model(x, y=None):
        slope = numpyro.sample("slope", dist.Normal(0.0, 3.0))
        numpyro.sample("pilot", dist.Normal(slope, 0.2), obs=jnp.array(2.0))
        with numpyro.plate("rows", x.shape[0]):
            numpyro.sample("y", dist.Normal(slope * x, 1.0), obs=y)

    x, y = np.array([0.1, 0.2, 0.3]), np.array([0.0, 0.1, 0.2])
    posterior = gdp.GibbsPosterior.from_numpyro(model, observed="y", args=(x, y))
    assert not posterior.prior.has_draws
    draws = gdp.sample(posterior, posterior.data, sampler=gdp.SMC(num_particles=512))
    precision = 1.0 / 9.0 + 25.0 + np.sum(x**2)
    mean, sd = (50.0 + np.sum(x * y)) / precision, precision**-0.5
    # 200 effective particles at the least: 4 standard errors.
    assert abs(draws.theta["slope"].mean() - mean) < 4.0 * sd / 200**0.5
    assert abs(draws.theta["slope"].std() / sd - 1.0) < 4.0 / 400**0.5
