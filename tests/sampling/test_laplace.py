from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import optimize

import gibbs_dp as gdp
from gibbs_dp.sampling.laplace import find_mode, is_improper, locate
from gibbs_dp.sampling.target import Target

FLAT = {d: gdp.Flat(gdp.supports.real(d)) for d in (1, 2, 3, 12)}


def fitter(posterior):
    """Jitted ``(data, gamma, start) -> (fit, is_improper)``."""

    @jax.jit
    def fit(data, gamma, start):
        target = Target(posterior, data, gamma)
        found = find_mode(target, start)
        return found, is_improper(target, *found[:5])

    return lambda data, gamma, start: fit(data, jnp.asarray(gamma), jnp.asarray(start))


@cache
def flat_fitter(name, d):
    """Of a loss by its name, with a flat prior."""
    return fitter(gdp.GibbsPosterior(getattr(gdp.losses, name), FLAT[d]))


def regression(seed, n, d, labels=False):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    logits = x @ rng.normal(size=d)
    y = rng.random(n) < 1 / (1 + np.exp(-logits)) if labels else logits + rng.normal(size=n)
    return jnp.asarray(x), jnp.asarray(y, jnp.zeros(()).dtype)


def test_least_squares_mode_and_covariance(precision):
    x, y = regression(0, 20, 3)
    fit, improper = fitter(gdp.GibbsPosterior(gdp.losses.squared, FLAT[3]))((x, y), 0.7, np.ones(3))
    design = np.asarray(x, float)
    covariance = np.linalg.inv(2 * 0.7 * design.T @ design)
    mode = np.linalg.lstsq(design, np.asarray(y, float), rcond=None)[0]
    tolerance = 1e-4 if precision == jnp.float32 else 1e-10
    np.testing.assert_allclose(fit.mode, mode, atol=tolerance)
    np.testing.assert_allclose(fit.scale @ fit.scale.T, covariance, atol=tolerance)
    np.testing.assert_array_equal(fit.scale, np.tril(fit.scale))
    assert bool(fit.is_curved)
    assert bool(fit.is_converged)
    assert not bool(improper)


@pytest.mark.trust
def test_no_search_ends_on_a_plateau_of_the_logistic_map(precision):
    # At gamma = 100 some starts jump far up the flat end of (-2, 2): a slope of one nat remains
    # there, which a step damped for the steep start takes for nothing.
    posterior = gdp.GibbsPosterior(gdp.losses.squared, gdp.Flat(gdp.supports.box(-2.0, 2.0, 1)))

    def search(key):
        data_key, start_key = jax.random.split(key)
        x, noise = jax.random.uniform(data_key, (2, 100), minval=-1.0)
        target = Target(posterior, (x[:, None], x + noise), jnp.asarray(100.0))
        fit = find_mode(target, posterior.initial(start_key))
        near = find_mode(target, posterior.unconstrain(jnp.ones(1)))
        return (fit.mode - near.mode) / jnp.diag(near.scale), fit.is_converged

    distance, converged = jax.jit(jax.vmap(search))(jax.random.split(jax.random.key(5), 4096))
    assert np.all(converged)
    assert np.abs(distance).max() < 0.1


@pytest.mark.trust
def test_searches_in_a_box_end_at_one_mode():
    # Far up one side of the logistic map the Hessian is indefinite, and steps bounded by its norm
    # crawl: damping has to grow until it is definite.
    box = gdp.GibbsPosterior(gdp.losses.logistic, gdp.Flat(gdp.supports.box(-2.0, 2.0, 5)))
    x, y = regression(3, 200, 5, labels=True)

    def search(key):
        target = Target(box, (x, y), jnp.asarray(10.0))
        fit = find_mode(target, 1.5 * box.initial(key))
        near = find_mode(target, jnp.zeros(5))
        distance = jax.scipy.linalg.solve_triangular(near.scale, fit.mode - near.mode, lower=True)
        return distance, fit.is_converged

    distance, converged = jax.jit(jax.vmap(search))(jax.random.split(jax.random.key(6), 1024))
    assert np.all(converged)
    assert np.abs(distance).max() < 0.3


def test_a_ridge_has_the_width_of_its_curvature():
    """A search that begins between two modes stays there, without a slope: widths were 3e8."""
    posterior = gdp.GibbsPosterior(
        lambda t, z: -jnp.logaddexp(-0.5 * (z - t) ** 2, -0.5 * (z + t) ** 2), dist.Normal(0.0, 3.0)
    )
    z = jnp.array([1.5, 2.0, 2.5, 1.0])
    fit = find_mode(Target(posterior, z, jnp.ones(())), jnp.array([-3e-8]))
    assert not fit.is_curved
    # At 0 the loss's curvature is 1 - z^2, and the prior's 1 / 9.
    curvature = float(abs(jnp.sum(1 - z**2) + 1 / 9))
    assert float(fit.scale[0, 0]) == pytest.approx(curvature**-0.5, rel=0.01)


def test_logistic_mode_and_covariance_agree_with_scipy(precision):
    x, y = regression(1, 60, 3, labels=True)
    posterior = gdp.GibbsPosterior(gdp.losses.logistic, dist.Normal(jnp.zeros(3), 2.0).to_event(1))
    fit, _ = fitter(posterior)((x, y), 1.5, np.zeros(3))
    design, labels = np.asarray(x, float), np.asarray(y, float)

    def potential(theta):
        p = design @ theta
        return 1.5 * np.sum(np.logaddexp(0, p) - labels * p) + 0.5 * np.sum((theta / 2) ** 2)

    mode = optimize.minimize(potential, np.zeros(3), tol=1e-10).x
    weight = 1 / (2 + 2 * np.cosh(design @ mode))
    hessian = 1.5 * (design.T * weight) @ design + np.eye(3) / 4
    # The search stops 0.01 nats from the mode: 0.14 standard deviations at most.
    off = np.asarray(fit.mode, float) - mode
    assert off @ hessian @ off < 0.02
    np.testing.assert_allclose(fit.scale @ fit.scale.T @ hessian, np.eye(3), atol=0.1)
    assert bool(fit.is_curved & fit.is_converged)


def test_mode_through_a_constraint():
    """Uniform on the ball, no loss: a standard normal in flat coordinates."""
    posterior = gdp.GibbsPosterior(
        lambda theta, z: 0.0 * jnp.sum(theta), gdp.Flat(gdp.supports.l2_ball(3, 2.0))
    )
    fit, _ = fitter(posterior)(jnp.zeros(2), 1.0, np.array([0.6, -0.4, 0.9]))
    assert bool(fit.is_curved & fit.is_converged)
    np.testing.assert_allclose(fit.mode, 0.0, atol=0.1)
    np.testing.assert_allclose(fit.hessian, np.eye(3), atol=1e-3)


@pytest.mark.parametrize("start", [3.0, 0.25])
def test_absolute_distance_has_no_curvature_but_a_mode_and_a_scale(start):
    """|theta - zbar|: the Laplace mechanism; also when the search starts exactly at the kink."""
    posterior = gdp.GibbsPosterior(
        total_loss=lambda theta, z: jnp.abs(jnp.mean(z) - theta[0]), prior=FLAT[1]
    )
    fit, improper = fitter(posterior)(jnp.asarray([0.0, 0.5]), 8.0, np.array([start]))
    np.testing.assert_allclose(fit.mode, 0.25, atol=0.05)
    assert not bool(fit.is_curved)
    np.testing.assert_allclose(fit.scale, [[1 / 8]], rtol=1e-5)
    assert not bool(improper)


def test_a_start_without_gradient_or_curvature_gets_a_moderate_scale():
    """Between the two middle examples of an even number the absolute loss is flat."""
    posterior = gdp.GibbsPosterior(gdp.losses.absolute, FLAT[1])
    data = (jnp.ones((4, 1)), jnp.asarray([-3.0, -1.0, 1.0, 2.0]))
    fit, improper = fitter(posterior)(data, 8.0, np.zeros(1))
    np.testing.assert_array_equal(fit.scale, [[1.0]])
    np.testing.assert_array_equal(fit.mode, [0.0])
    assert not bool(improper)


@pytest.mark.trust(but="float32")
def test_separable_logistic_with_a_flat_prior_is_improper(precision):
    x = jnp.asarray([[-2.0, 0.3], [-1.0, -0.2], [1.0, 0.1], [2.5, -0.4]], precision)
    y = jnp.asarray([0.0, 0.0, 1.0, 1.0], precision)
    assert bool(
        fitter(gdp.GibbsPosterior(gdp.losses.logistic, FLAT[2]))((x, y), 1.0, np.zeros(2))[1]
    )
    proper = gdp.GibbsPosterior(gdp.losses.logistic, dist.Normal(jnp.zeros(2), 1.0).to_event(1))
    assert not bool(fitter(proper)((x, y), 1.0, np.zeros(2))[1])


@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_more_coefficients_than_examples_with_a_flat_prior_is_improper(loss):
    fit = fitter(gdp.GibbsPosterior(getattr(gdp.losses, loss), FLAT[12]))
    for seed in range(5):
        assert bool(fit(regression(seed, 8, 12), 1.0, np.zeros(12))[1])


def test_no_information_is_improper():
    fit = flat_fitter("squared", 2)
    x, y = regression(0, 20, 2)
    assert bool(fit((x.at[:, 1].set(0.0), y), 1.0, np.zeros(2))[1])
    assert bool(fit((x, y), 0.0, np.zeros(2))[1])


@pytest.mark.parametrize(
    ("loss", "n", "gamma"),
    [("squared", 20, 1.0), ("squared", 20, 1e-3), ("squared", 20, 1e4), ("absolute", 20, 1.0)],
)
def test_healthy_flat_posteriors_are_never_called_improper(loss, n, gamma):
    fit = flat_fitter(loss, 2)
    for seed in range(40):
        x, y = regression(seed, n, 2)
        exact_mode = np.linalg.lstsq(np.asarray(x, float), np.asarray(y, float), rcond=None)[0]
        for start in (np.zeros(2), exact_mode):
            found, improper = fit((x, y), gamma, np.asarray(start, np.float32))
            assert not bool(improper), (seed, start, found.mode)


def test_overlapping_logistic_with_a_flat_prior_is_proper():
    fit = fitter(gdp.GibbsPosterior(gdp.losses.logistic, FLAT[1]))
    rng = np.random.default_rng(0)
    for _ in range(40):
        x = rng.normal(size=(30, 1))
        y = (rng.random(30) < 1 / (1 + np.exp(-x[:, 0]))).astype(np.float32)
        product = (2 * y - 1) * x[:, 0]
        separable = (product > 0).all() or (product < 0).all()
        assert bool(fit((jnp.asarray(x), jnp.asarray(y)), 1.0, np.zeros(1))[1]) == separable


# Where chains start when some mode searches end where the density is no finite number.

DATA = jnp.linspace(-0.5, 1.1, 40)


def overflowing(theta, z):
    """Half a squared distance, and more than float32 holds where any theta < -2.5."""
    return jnp.sum(0.5 * (z - theta) ** 2 + (jnp.minimum(theta, 0.0) / 2.0) ** 400)


@pytest.mark.parametrize("dim", [1, 520])  # Newton's method; Adam
def test_starts_that_overflow_take_the_best_mode(dim):
    posterior = gdp.GibbsPosterior(overflowing, dist.Normal(jnp.zeros(dim), 1.0).to_event(1))
    target = Target(posterior, DATA, jnp.asarray(1.0))
    inside, outside = jnp.full(dim, 0.5), jnp.full(dim, -3.0)
    found = jax.jit(lambda s: locate(target, s))(jnp.stack([outside, inside, 2 * outside]))
    mode = 40 * 0.3 / 41
    assert found.centers == pytest.approx(np.full((3, dim), mode), abs=0.03)
    assert found.gaps[1] == 0
    assert not np.isfinite(found.gaps[::2]).any()


@pytest.mark.trust
def test_draws_are_right_although_starts_overflow():
    # 4 of 20 starts overflow with these keys. Each mean by 4.5 errors: once in 30,000 runs.
    posterior = gdp.GibbsPosterior(overflowing, dist.Normal(jnp.zeros(1), 3.0).to_event(1))
    precision = 40 + 1 / 9
    for key in range(5):
        draws = gdp.sample(posterior, DATA, key=key)
        error = 4.5 / np.sqrt(precision * draws.to_dataframe()["ess"].iloc[0])
        assert abs(draws.theta.mean() - 40 * 0.3 / precision) < error
        assert not draws.warnings
