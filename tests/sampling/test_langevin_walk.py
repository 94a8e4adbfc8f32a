"""Unadjusted Langevin chains against their exact laws on quadratics.

Chains are independent, so the last draws of 8192 chains are an iid sample of a Gaussian: its
variance is known to sqrt(2 / 8192) = 1.6%. Each comparison allows 4 standard errors, false alarm
6e-5; 12 of them: a correct kernel fails this file with probability 1e-3.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import optax
import pytest
from scipy import linalg

import gibbs_dp as gdp
from gibbs_dp.sampling.kernels import langevin
from gibbs_dp.sampling.kernels.base import make_schedule
from gibbs_dp.sampling.laplace import Location, hessian_diagonal, locate
from gibbs_dp.sampling.target import Target, Whitening
from gibbs_dp.sampling.unadjusted import (
    batch_variance,
    kl_inflation,
    largest_curvature,
    precondition,
    project,
    walk_langevin,
)

NUM_CHAINS = 8192
NOISE = np.sqrt(2 / NUM_CHAINS)

# Squared loss (y - x theta)^2 in one dimension: curvatures 2 x^2 differ between examples, so the
# minibatch noise does not vanish at any theta.
RNG = np.random.default_rng(11)
X = RNG.normal(size=6)
Y = 0.7 * X + 0.5 * RNG.normal(size=6)
DATA = (jnp.asarray(X[:, None], jnp.float32), jnp.asarray(Y, jnp.float32))
POSTERIOR = gdp.GibbsPosterior(gdp.losses.squared, dist.Normal(jnp.zeros(1), 2.0))
GAMMA = 0.4
PRECISION = GAMMA * 2 * np.sum(X**2) + 0.25
MODE = GAMMA * 2 * np.sum(X * Y) / PRECISION


def chains(kernel, factor=None, num_steps=60, coordinates=None, start=MODE, seed=5):
    """Last positions of many chains, the estimated inflation of each; one draw a chain."""
    target = Target(POSTERIOR, DATA, jnp.asarray(GAMMA, jnp.float32))
    center = jnp.asarray([MODE], jnp.float32)
    if coordinates is None:
        coordinates = Whitening(center, jnp.ones(1))
    tuning = (kernel.default_tuning(1)[0] if factor is None else factor, num_steps)
    schedule = make_schedule(tuning, 0, 0)
    found = run_walk(
        kernel,
        target.data,
        target.gamma,
        center,
        coordinates,
        schedule,
        jax.random.key(seed),
        start,
    )
    return np.asarray(found.u)[:, 0, 0], float(found.inflation.mean())


def _walk(kernel, data, gamma, center, coordinates, schedule, key, start):
    target = Target(POSTERIOR, data, gamma)
    potential = target.relative_to(target.terms(center))
    positions = jnp.full((NUM_CHAINS, 1), start, jnp.float32)
    return walk_langevin(
        key, target, potential, positions, center, coordinates, kernel, schedule, 1
    )


run_walk = jax.jit(_walk, static_argnames=("kernel",))


def batch_moments(kernel):
    """Variance of the minibatch's curvature, and of its gradient at the mode (per unit h)."""
    curvature, gradient = GAMMA * 2 * X**2, GAMMA * 2 * X * (X * MODE - Y)
    n = len(X)
    if kernel.control_variate:  # the gradient at the mode is the full one
        gradient = 0.0 * gradient
    if kernel.sampling_rate is not None:
        scale = (1 - kernel.sampling_rate) / kernel.sampling_rate
        return scale * np.sum(curvature**2), scale * np.sum(gradient**2)
    scale = n**2 / kernel.batch_size
    return scale * np.var(curvature), scale * np.var(gradient)


def stationary_variance(kernel, h):
    """Exact: ``V = E[(1 - h P_B)^2] V + 2 h + h^2 Var(g_B)``; batches are free of the position."""
    curvature, gradient = batch_moments(kernel) if isinstance(kernel, gdp.SGLD) else (0.0, 0.0)
    contraction = (1 - h * PRECISION) ** 2 + h**2 * curvature
    return (2 * h + h**2 * gradient) / (1 - contraction)


def test_ula_has_the_stationary_variance_of_theory_and_mala_that_of_the_posterior():
    for relative in (0.2, 0.8):
        h = relative / PRECISION
        u, inflation = chains(gdp.ULA(step_size=0.1), h)
        exact = 1 / PRECISION / (1 - h * PRECISION / 2)
        assert stationary_variance(gdp.ULA(), h) == pytest.approx(exact, rel=1e-12)
        assert abs(u.var() / exact - 1) < 4 * NOISE
        assert abs(u.mean() - MODE) < 4 * np.sqrt(exact / NUM_CHAINS)
        assert inflation == pytest.approx(exact * PRECISION - 1, rel=1e-4)
        assert exact * PRECISION - 1 > 6 * NOISE  # the bias is one that this test would miss not
    adjusted = mala_draws(np.sqrt(2 * h))
    assert abs(adjusted.var() * PRECISION - 1) < 4 * NOISE


def mala_draws(size):
    """MALA at the same step: ``h = size^2 / 2``."""
    target = Target(POSTERIOR, DATA, jnp.asarray(GAMMA, jnp.float32))
    potential = target.relative_to(target.terms(jnp.asarray([MODE], jnp.float32)))
    tuning = make_schedule((size, 1), 0, 0).tuning

    @jax.vmap
    def run(key):
        def move(i, state):
            return langevin.step(jax.random.fold_in(key, i), state, potential, tuning)[0]

        state = langevin.evaluate(jnp.asarray([MODE], jnp.float32), potential)
        return jax.lax.fori_loop(0, 60, move, state).position[0]

    return np.asarray(jax.jit(run)(jax.random.split(jax.random.key(8), NUM_CHAINS)))


MINIBATCHES = {
    "two of six": gdp.SGLD(0.1, batch_size=2),
    "Poisson": gdp.SGLD(0.1, sampling_rate=0.3),
    "control variate": gdp.SGLD(0.1, batch_size=4, control_variate=True),
}


@pytest.mark.trust
@pytest.mark.parametrize("name", MINIBATCHES)
def test_sgld_has_the_stationary_variance_of_theory(name):
    """Multiplicative noise makes the law heavier than Gaussian: errors from the draws' own."""
    kernel = MINIBATCHES[name]
    excess = []
    for relative in (0.02, 0.1):
        h = relative / PRECISION
        u, estimated = chains(kernel, h, num_steps=round(6 / relative))
        exact = stationary_variance(kernel, h)
        squares = (u - MODE) ** 2
        assert abs(squares.mean() - exact) < 4 * squares.std() / np.sqrt(NUM_CHAINS)
        excess.append(exact * PRECISION - 1)
        # First order in h: the estimate leaves out the noise's own contribution to contraction.
        assert estimated == pytest.approx(excess[-1], rel=0.25)
    assert excess[0] < 0.25 * excess[1]  # shrinks with the step


def test_the_noise_of_a_step_has_the_variance_that_privacy_is_accounted_for():
    """Variance ``2 h`` of a million coordinates: 5 standard errors, a false alarm in a million."""
    count, h = 1_000_000, 0.03
    state = langevin.ula_init(jnp.zeros(count))
    moved = langevin.ula_step(jax.random.key(0), state, jnp.zeros_like, h).position
    assert np.var(np.asarray(moved, np.float64)) == pytest.approx(2 * h, rel=5 * (2 / count) ** 0.5)


def test_a_schedule_of_optax_sets_every_step():
    rule = optax.polynomial_schedule(0.5 / PRECISION, 0.05 / PRECISION, 1.0, 10)
    u, _ = chains(gdp.ULA(rule), num_steps=12, start=MODE)
    variance = 0.0
    for count in range(12):
        h = float(rule(count))
        variance = (1 - h * PRECISION) ** 2 * variance + 2 * h
    assert abs(u.var() / variance - 1) < 4 * NOISE
    fixed = 2 * 0.05 / PRECISION / (1 - (1 - 0.05) ** 2) * (1 - 0.95**24)
    assert abs(u.var() / fixed - 1) > 8 * NOISE  # not the last step's law


@pytest.mark.of_cpus("Optax rounds to zero elsewhere")
def test_a_schedule_of_optax_that_ends_a_rounding_below_zero_ends_at_zero():
    rule = optax.linear_schedule(1e-4, 0.0, 60)
    assert jax.jit(rule)(60) < 0
    step_at, one = gdp.ULA(rule).step_at, jnp.float32(1.0)
    assert jax.jit(step_at)(jnp.int32(60), one, one) == 0.0


def test_the_step_rule_divides_by_the_curvature():
    by_rule, inflation = chains(gdp.ULA(relative_step=0.5))
    by_hand, _ = chains(gdp.ULA(0.1), 0.5 / PRECISION)
    np.testing.assert_allclose(by_rule, by_hand, rtol=1e-4, atol=1e-5)
    assert inflation == pytest.approx(1 / 0.75 - 1, rel=1e-4)
    doubled = largest_curvature(lambda u: jnp.sum(u**2), jnp.zeros(3))
    assert float(doubled) == pytest.approx(2.0, rel=1e-5)


def test_minibatch_gradients_are_pulled_back_like_the_potential():
    """With equal curvatures the control variate leaves no noise: SGLD makes ULA's very steps."""
    rng = np.random.default_rng(2)
    data = jnp.asarray(rng.normal(size=(5, 2)), jnp.float32)
    posterior = gdp.GibbsPosterior(gdp.losses.half_squared_distance, dist.Normal(jnp.zeros(2), 1.0))
    target = Target(posterior, data, jnp.asarray(1.0, jnp.float32))
    center = jnp.sum(data, axis=0) / 6.0
    potential = target.relative_to(target.terms(center))
    coordinates = Whitening(center, jnp.asarray([[0.5, 0.0], [0.4, 0.3]]))

    def walk(kernel):
        schedule = make_schedule((0.1, 7), 0, 0)
        start = jnp.ones((3, 2))
        return walk_langevin(
            jax.random.key(0), target, potential, start, center, coordinates, kernel, schedule, 2
        ).u

    kernels = (
        gdp.ULA(0.1),
        gdp.SGLD(0.1, batch_size=2, control_variate=True),
        gdp.SGLD(0.1, batch_size=2),
    )
    ends = jax.jit(lambda: [walk(kernel) for kernel in kernels])()
    np.testing.assert_allclose(ends[1], ends[0], atol=1e-5)
    assert np.abs(ends[2] - ends[0]).max() > 0.05


def test_estimated_inflation_of_the_kl_is_that_of_the_lyapunov_equation():
    """Anisotropic prior and noise in three dimensions; the relaxation is faster than the sums."""
    rng = np.random.default_rng(9)
    z = rng.normal(size=(7, 3)) * [1.0, 2.0, 0.3]
    prior_precision = np.array([30.0, 5.0, 10.0])
    prior = dist.Normal(jnp.zeros(3), jnp.asarray(prior_precision**-0.5, jnp.float32))
    posterior = gdp.GibbsPosterior(gdp.losses.half_squared_distance, prior)
    target = Target(posterior, jnp.asarray(z, jnp.float32), jnp.asarray(0.5, jnp.float32))
    center = jnp.zeros(3)
    coordinates, kernel = Whitening(center, jnp.ones(3)), gdp.SGLD(0.02, batch_size=2)
    h, hessian = 0.02, np.diag(prior_precision + 3.5)
    noise = 0.5**2 * 49 / 2 * np.cov(z.T, bias=True)
    contraction = np.eye(3) - h * hessian
    law = linalg.solve_discrete_lyapunov(contraction, 2 * h * np.eye(3) + h**2 * noise)
    variance = batch_variance(target, center, coordinates, kernel)
    probe = jnp.asarray([1.0, -1.0, 1.0])
    exact = np.asarray(probe) @ noise @ np.asarray(probe)
    assert float(variance(probe, probe)) == pytest.approx(exact, rel=1e-4)
    potential = target.relative_to(target.terms(center))
    key, size = jax.random.key(3), jnp.asarray(h)
    found = jax.jit(
        lambda: kl_inflation(key, target, potential, variance, coordinates, center, size)
    )()
    signs = np.asarray(jax.random.normal(key, (7,), jnp.float32))
    direction = (signs - signs.mean()) @ z
    excess = direction @ law @ direction / (direction / np.diag(hessian) @ direction) - 1
    assert excess > 0.5
    assert float(found) == pytest.approx(excess, rel=1e-3)


def test_the_variance_of_poisson_samples_is_that_of_all_of_them():
    """Every subset of the rows, by its probability; slopes of squared losses by hand."""
    rate, kernel = 0.3, gdp.SGLD(0.02, sampling_rate=0.3)
    target = Target(POSTERIOR, DATA, jnp.asarray(GAMMA, jnp.float32))
    variance = batch_variance(target, jnp.zeros(1), Whitening(jnp.zeros(1), jnp.ones(1)), kernel)
    slopes = 2 * X * (0.2 * X - Y)
    subsets = np.array(list(itertools.product([0, 1], repeat=6)))
    weight = np.prod(np.where(subsets, rate, 1 - rate), axis=1)
    estimates = GAMMA * subsets @ slopes / rate
    exact = weight @ estimates**2 - (weight @ estimates) ** 2
    found = variance(jnp.full(1, 0.2), jnp.ones(1))
    assert float(found) == pytest.approx(exact, rel=1e-4)


def test_points_beyond_a_ball_go_to_its_surface_along_the_ray():
    flat = gdp.Flat(gdp.supports.l2_ball(3, 1.5))
    prior = gdp.GibbsPosterior(gdp.losses.half_squared_distance, flat).prior
    directions = np.random.default_rng(12).normal(size=(20, 3))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    for length in (0.4, 1.49, 1.51, 30.0):
        moved = jax.vmap(lambda u: project(prior, u))(jnp.asarray(length * directions, jnp.float32))
        np.testing.assert_allclose(moved, min(length, 1.5) * directions, atol=1e-5)


def test_preconditioners_and_curvature_of_a_known_hessian():
    rng = np.random.default_rng(4)
    root = rng.normal(size=(4, 4))
    hessian = root @ root.T + np.diag([0.1, 1.0, 5.0, 50.0])
    covariance = np.linalg.inv(hessian)
    quadratic = jnp.asarray(hessian, jnp.float32)

    def potential(u):
        return 0.5 * u @ quadratic @ u

    zero, false = jnp.zeros(4), jnp.zeros((), bool)
    fit = Whitening(zero, jnp.asarray(np.linalg.cholesky(covariance), jnp.float32))
    found = Location(zero[None], fit, jnp.diagonal(quadratic), None, zero[:1], ~false, false)
    top = np.linalg.eigvalsh(hessian)[-1]
    assert 0.9 * top < float(largest_curvature(potential, zero)) < top * (1 + 1e-5)
    wide = precondition(gdp.ULA(preconditioner="laplace"), found)
    np.testing.assert_allclose(wide.scale @ wide.scale.T, covariance, rtol=1e-4, atol=1e-5)
    assert float(largest_curvature(wide.pull_back(potential), zero)) == pytest.approx(1, rel=1e-3)
    narrow = precondition(gdp.ULA(preconditioner="diagonal"), found)
    np.testing.assert_allclose(narrow.scale, np.diag(hessian) ** -0.5, rtol=1e-5)
    flat = precondition(gdp.ULA(preconditioner="diagonal"), found._replace(curvature=zero))
    np.testing.assert_allclose(flat.scale, np.diag(fit.scale), rtol=1e-6)
    np.testing.assert_array_equal(precondition(gdp.ULA(), found).scale, 1.0)
    diagonal = np.diag(hessian)
    exact = hessian_diagonal(lambda u: 0.5 * jnp.sum(diagonal * u**2), zero, 1)
    np.testing.assert_allclose(exact, diagonal, rtol=1e-5)
    assert float(largest_curvature(lambda u: 3.0 * jnp.abs(u[0] - 1.0), zero[:1])) == 9.0


@pytest.mark.trust
def test_many_coordinates_are_located_by_descent():
    """600 coordinates, Gaussian: mode and curvature are known; prior scales 1 and 1/3."""
    scales = jnp.where(jnp.arange(600) < 300, 1.0, 1 / 3)
    posterior = gdp.GibbsPosterior(
        gdp.losses.half_squared_distance, dist.Normal(jnp.zeros(600), scales)
    )
    data = 1.0 + jnp.asarray(np.random.default_rng(0).normal(size=(5, 600)), jnp.float32)
    target = Target(posterior, data, jnp.asarray(0.5, jnp.float32))
    precision = 2.5 + np.asarray(scales) ** -2.0
    mode = 0.5 * np.asarray(data).sum(axis=0) / precision
    found = jax.jit(lambda start: locate(target, start))(-jnp.ones((1, 600)))
    assert np.abs((np.asarray(found.centers[0]) - mode) * np.sqrt(precision)).max() < 0.1
    np.testing.assert_allclose(found.curvature, precision, rtol=1e-4)
    np.testing.assert_allclose(found.whitening.scale, precision**-0.5, rtol=1e-4)
    assert not bool(found.is_curved)


def unchecked(kernel, **settings):
    """Set what the runtime type checks of tests would refuse first."""
    for name, value in settings.items():
        object.__setattr__(kernel, name, value)
    kernel.__post_init__()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: gdp.ULA(0.1, relative_step=0.1), r"ULA\(step_size, relative_step\)"),
        (lambda: gdp.ULA(relative_step=2.0), r"ULA\(relative_step\) must be below 2"),
        (lambda: gdp.ULA(relative_step=-1.0), r"ULA\(relative_step\) must be positive"),
        (lambda: unchecked(gdp.ULA(), preconditioner="dense"), r"ULA\(preconditioner\)"),
        (lambda: gdp.SGLD(batch_size=0), r"SGLD\(batch_size\)"),
        (lambda: gdp.SGLD(sampling_rate=0.1, batch_size=3), r"SGLD\(sampling_rate, batch_size\)"),
        (lambda: gdp.SGLD(clip=1.0, control_variate=True), r"SGLD\(control_variate\)"),
    ],
)
def test_settings_that_make_no_sense(make, message):
    with pytest.raises(ValueError, match=message):
        make()
