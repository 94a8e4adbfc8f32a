import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import gibbs_dp as gdp
from gibbs_dp.sampling import laplace
from gibbs_dp.sampling.as_sampler import as_sampler
from gibbs_dp.sampling.kernels.base import make_schedule
from gibbs_dp.sampling.target import Target, Whitening, fit_whitening

NUM_CHAINS, NUM_SAMPLES = 4, 16


def sampler(posterior, kernel=None):
    """Jitted ``(seed, data of many datasets, gamma, ...) -> ChainDraws`` with a leading axis."""
    kernel = gdp.HMC() if kernel is None else kernel

    def one(key, data, gamma, schedule):
        starts = jnp.zeros((1, posterior.dim))
        target = Target(posterior, data, gamma)
        return as_sampler(kernel).draw(key, target, starts, schedule, NUM_CHAINS, NUM_SAMPLES)

    many = jax.vmap(one, in_axes=(0, 0, None, None))
    program = jax.jit(many, compiler_options={"xla_backend_optimization_level": 1})

    def run(seed, data, gamma, num_rounds=0, num_burn_in=64):
        schedule = make_schedule(kernel.default_tuning(posterior.dim), num_burn_in, num_rounds)
        keys = jax.random.split(jax.random.key(seed), jax.tree.leaves(data)[0].shape[0])
        return program(keys, data, jnp.asarray(gamma), schedule)

    return run


# -- float32 energies -------------------------------------------------------------------------

# n gamma = 2e7: the potential is 2e7 itself, and one unit in its last place is 2.
N, GAMMA = 500, 4e4


@pytest.fixture(scope="module")
def cold_data():
    return np.random.default_rng(0).normal(size=(64, N, 2)) + 1.0


@pytest.mark.trust
def test_huge_energies_keep_acceptance_and_variance(precision, cold_data):
    posterior = gdp.GibbsPosterior(gdp.losses.half_squared_distance, gdp.Flat(gdp.supports.real(2)))
    draws = sampler(posterior)(1, jnp.asarray(cold_data, precision), GAMMA)
    assert float(draws.accept_prob.mean()) > 0.8
    centred = np.asarray(draws.u, float) - cold_data.mean(axis=1)[:, None, None]
    # 64 datasets x 4 chains x 16 draws, of which a third are independent: standard error 4% of the
    # variance at most; five of them.
    ratio = (centred**2).mean(axis=(0, 1, 2)) * N * GAMMA
    assert np.all(np.abs(ratio - 1) < 0.2)


def test_energy_differences_are_exact_where_energies_are_not(cold_data):
    """Against float64: a move of one standard deviation changes the potential by order 1."""
    posterior = gdp.GibbsPosterior(gdp.losses.half_squared_distance, gdp.Flat(gdp.supports.real(2)))
    data = jnp.asarray(cold_data[0], jnp.float32)
    target = Target(posterior, data, jnp.asarray(GAMMA, jnp.float32))
    start = jnp.mean(data, axis=0)
    step = start + 8.0 / jnp.sqrt(N * GAMMA)
    exact = np.asarray(data, np.float64)
    sums = [0.5 * GAMMA * np.sum((np.asarray(u, np.float64) - exact) ** 2) for u in (start, step)]
    truth = sums[1] - sums[0]
    assert 20 < truth < 200
    np.testing.assert_allclose(target.relative_to(target.terms(start))(step), truth, rtol=0.1)
    naive = [-posterior.log_density(u, data, GAMMA) for u in (start, step)]
    assert sums[0] > 1e7
    assert float(naive[1] - naive[0]) % 1 == 0  # a float32 of this size has no fraction


# -- the Laplace fit is of no use -----------------------------------------------------------------


def absolute_regression(seed, num_datasets, n, d):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(num_datasets, n, d)) * np.array([1.0, 0.1, 10.0])[:d]
    y = x.sum(axis=-1) + rng.laplace(size=(num_datasets, n))
    return jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32)


@pytest.fixture(scope="module")
def absolute_sampler():
    prior = dist.Normal(jnp.zeros(3), 100.0).to_event(1)
    return sampler(gdp.GibbsPosterior(gdp.losses.absolute, prior))


@pytest.mark.trust
def test_adaptation_recovers_the_scale_of_absolute_loss_regression(absolute_sampler):
    """Zero Hessian, coordinates two decades apart; judged on scale-free calibration.

    gamma = 1 is the Laplace likelihood and the prior is so wide that it does not matter: with
    adaptation the chains must accept, move and agree, and their pooled spread must track the
    design's scales.
    """
    draws = absolute_sampler(3, absolute_regression(0, 24, 40, 3), 1.0, num_rounds=6)
    assert not bool(draws.is_stuck.any())
    accept = np.asarray(draws.accept_prob)
    assert np.median(accept) > 0.5
    spread = np.asarray(draws.u).std(axis=(1, 2)).mean(axis=0)
    # Asymptotic posterior: standard deviations 1 / sqrt(n) over the feature's scale.
    np.testing.assert_allclose(spread * np.array([1.0, 0.1, 10.0]) * np.sqrt(40), 1.0, atol=0.35)
    whitened = np.asarray(draws.v, float)
    between = whitened.mean(axis=2).var(axis=1, ddof=1).mean(axis=0)
    within = whitened.var(axis=2, ddof=1).mean(axis=(0, 1))
    assert np.all(np.sqrt(1 - 1 / NUM_SAMPLES + between / within) < 1.2)


@pytest.mark.trust
def test_without_adaptation_the_same_problem_is_seen_to_fail(absolute_sampler):
    draws = absolute_sampler(3, absolute_regression(0, 24, 40, 3), 1.0)
    spread = np.asarray(draws.u).std(axis=(1, 2)).mean(axis=0)
    scaled = spread * np.array([1.0, 0.1, 10.0]) * np.sqrt(40)
    assert np.abs(scaled - 1).max() > 0.35 or float(np.median(draws.accept_prob)) < 0.5


@pytest.mark.trust
def test_many_dimensions_adapt_diagonally(monkeypatch):
    monkeypatch.setattr(laplace, "MAX_LAPLACE_DIM", 3)
    scales = np.array([1.0, 0.2, 5.0, 1.0])
    posterior = gdp.GibbsPosterior(
        gdp.losses.half_squared_distance, dist.Normal(jnp.zeros(4), scales).to_event(1)
    )
    data = jnp.asarray(np.random.default_rng(4).normal(size=(48, 3, 4)), jnp.float32)
    draws = sampler(posterior)(5, data, 0.2, num_rounds=8, num_burn_in=100)
    precision = 3 * 0.2 + 1 / scales**2
    mean = 0.2 * np.asarray(data).sum(axis=1) / precision
    z = (np.asarray(draws.u, float) - mean[:, None, None]) * np.sqrt(precision)
    # 48 x 4 chains, at least 4 independent draws each: standard errors 0.036 and 0.05; five.
    assert np.all(np.abs(z.mean(axis=(0, 1, 2))) < 0.18)
    assert np.all(np.abs((z**2).mean(axis=(0, 1, 2)) - 1) < 0.25)
    assert not bool(draws.is_curved.any())
    assert not bool(draws.is_stuck.any())


# -- what a run returns ---------------------------------------------------------------------------


def test_draws_follow_the_key_and_carry_consistent_fields():
    posterior = gdp.GibbsPosterior(gdp.losses.half_squared_distance, dist.Normal(jnp.zeros(2), 1.0))
    data = jnp.asarray(np.random.default_rng(6).normal(size=(3, 5, 2)), jnp.float32)
    run = sampler(posterior, gdp.MALA())
    one, same, other = run(0, data, 1.0), run(0, data, 1.0), run(1, data, 1.0)
    jax.tree.map(np.testing.assert_array_equal, one, same)
    assert not np.array_equal(one.u, other.u)
    assert one.u.shape == one.v.shape == (3, NUM_CHAINS, NUM_SAMPLES, 2)
    np.testing.assert_allclose(one.weight.sum(axis=-1), 1.0, rtol=1e-6)
    # Potential is relative to the mode: minus log density ratio.
    target = posterior.unconstrained(data[0], 1.0)
    wanted = target.log_density(one.mode[0]) - target.log_density(one.u[0, 1, 3])
    np.testing.assert_allclose(one.potential[0, 1, 3], wanted, atol=1e-4)
    assert bool(one.is_curved.all())
    assert not bool(one.is_stuck.any() | one.is_improper.any())


def test_two_modes_show_as_a_gap_of_starts():
    """A start in each of two wells of different depth: the gap is the difference in depth."""
    posterior = gdp.GibbsPosterior(
        total_loss=lambda theta, z: jnp.sum(4 * (theta**2 - 1) ** 2 + 0.5 * theta),
        prior=dist.Normal(jnp.zeros(1), 10.0),
    )
    schedule = make_schedule(gdp.HMC().default_tuning(1), 16, 0)
    starts = jnp.asarray([[1.2], [-1.2]])
    draws = jax.jit(
        lambda key: as_sampler(gdp.HMC()).draw(
            key, Target(posterior, jnp.zeros(1), jnp.asarray(2.0)), starts, schedule, 2, 8
        )
    )(jax.random.key(0))
    assert float(draws.mode[0]) < 0
    gaps = np.sort(np.asarray(draws.mode_potential_gap))
    np.testing.assert_allclose(gaps, [-2.0, 0.0], atol=0.1)
    signs = np.sign(np.asarray(draws.u[:, :, 0]))
    assert (signs[0] == 1).all()
    assert (signs[1] == -1).all()


def test_whitening_inverts_and_fits():
    rng = np.random.default_rng(7)
    scale = np.array([[2.0, 0.0], [-1.0, 0.3]], np.float32)
    dense = Whitening(jnp.asarray([1.0, 2.0]), jnp.asarray(scale))
    v = jnp.asarray([0.4, -0.7])
    np.testing.assert_allclose(dense.whiten(dense.color(v)), v, atol=1e-5)
    draws = jnp.asarray(rng.normal(size=(4000, 2)) @ scale.T + np.array([1.0, 2.0]), jnp.float32)
    fitted = fit_whitening(draws, dense)
    np.testing.assert_allclose(fitted.scale @ fitted.scale.T, scale @ scale.T, atol=0.2)
    diagonal = fit_whitening(draws, Whitening(jnp.zeros(2), jnp.ones(2)))
    np.testing.assert_allclose(diagonal.scale, np.sqrt(np.diag(scale @ scale.T)), rtol=0.06)
    broken = fit_whitening(draws.at[0, 0].set(jnp.nan), dense)
    np.testing.assert_array_equal(broken.scale, dense.scale)
