"""Narrow ridges in single precision: one curvature is lost in the rounding of another."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import gibbs_dp as gdp
from gibbs_dp.sampling.laplace import find_mode, is_improper, locate
from gibbs_dp.sampling.sample import share_at_ends
from gibbs_dp.sampling.target import Target, Whitening


def flat(dim):
    return gdp.Flat(gdp.supports.real(dim))


def collinear(gap, num=200):
    """Two columns that differ by ``gap``, in single precision; and what they say in double."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((num, 3))
    x[:, 1] = x[:, 0] + gap * x[:, 1]
    y = x @ [1.0, 1.0, -1.0] + rng.standard_normal(num)
    x, y = x.astype(np.float32), y.astype(np.float32)
    mean, *_ = np.linalg.lstsq(x.astype(float), y.astype(float), rcond=None)
    return (jnp.asarray(x), jnp.asarray(y)), x.astype(float), mean


def turned(condition, dim):
    """Rows whose squares have precisions from 1 to ``condition``, in no coordinate's direction."""
    rng = np.random.default_rng(dim)
    axes = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
    return jnp.asarray(np.sqrt(np.geomspace(1.0, condition, dim))[:, None] * axes)


@pytest.fixture(scope="module")
def fit():
    """Jitted search for a mode, a program a posterior and shape."""

    @partial(jax.jit, static_argnames=("loss", "dim"))
    def search(loss, data, dim):
        target = Target(gdp.GibbsPosterior(loss, flat(dim)), data, jnp.asarray(0.5))
        found = find_mode(target, jnp.zeros(dim))
        return found, is_improper(target, *found[:5])

    return search


def squares_of_rows(theta, row):
    return jnp.sum(row * (theta - 1.0)) ** 2


@pytest.mark.parametrize(("condition", "dim"), [(1e8, 2), (1e8, 10), (1e4, 2)])
def test_a_gaussian_is_fitted_to_a_ridge(fit, condition, dim):
    rows = turned(condition, dim)
    found, improper = fit(squares_of_rows, rows, dim)
    whitened = np.asarray(rows, float) @ np.asarray(found.scale, float)
    np.testing.assert_allclose(np.linalg.svd(whitened)[1], 1.0, atol=0.02)
    np.testing.assert_array_equal(found.scale, np.tril(found.scale))
    off = np.asarray(rows, float) @ (np.asarray(found.mode, float) - 1.0)
    assert np.linalg.norm(off) < 0.15  # the search's tolerance, in standard deviations
    assert bool(found.is_curved & found.is_converged)
    assert not bool(improper)


@pytest.mark.parametrize("gap", [1e-2, 1e-3, 1e-4])
def test_a_gaussian_is_fitted_to_collinear_columns(fit, gap):
    data, x, mean = collinear(gap)
    found, improper = fit(gdp.losses.squared, data, 3)
    whitened = x @ np.asarray(found.scale, float)
    np.testing.assert_allclose(np.linalg.svd(whitened)[1], 1.0, atol=0.02)
    assert np.linalg.norm(x @ (np.asarray(found.mode, float) - mean)) < 0.15
    assert bool(found.is_curved & found.is_converged)
    assert not bool(improper)


def test_a_quadratic_loss_of_collinear_columns_keeps_its_small_curvature():
    """Its Hessian in flat coordinates has 13% of it in rounding."""
    data, x, mean = collinear(1e-3)
    target = Target(gdp.GibbsPosterior(gdp.losses.squared, flat(3)), data, jnp.asarray(0.5))
    ridge = np.linalg.svd(x)[2][-1] / np.linalg.svd(x)[1][-1]  # one standard deviation

    @jax.jit
    def along(steps):
        found = locate(target, jnp.zeros((1, 3)))
        potential = target.around(found.whitening.center, found.reference, found.whitening)
        points = found.whitening.center + steps[:, None] * jnp.asarray(ridge)
        return found.whitening.center, jax.vmap(potential)(points)

    steps = np.array([-4.0, -2.0, 2.0, 4.0])
    center, found = along(jnp.asarray(steps))
    center = np.asarray(center, float)
    points = center + steps[:, None] * ridge
    wanted = [0.5 * np.sum((x @ (p - mean)) ** 2 - (x @ (center - mean)) ** 2) for p in points]
    np.testing.assert_allclose(found, wanted, rtol=0.01)


@pytest.mark.trust
def test_draws_of_collinear_columns_are_as_wide_as_they_should_be():
    """Off by 4 standard errors of 4,000 draws with probability 6e-5 a number; it was 13%."""
    data, x, mean = collinear(1e-3)
    posterior = gdp.GibbsPosterior(gdp.losses.squared, flat(3))
    draws = gdp.sample(posterior, data, gamma=0.5, key=5)
    sds = np.sqrt(np.diagonal(np.linalg.inv(x.T @ x)))
    theta = draws.theta.astype(float)
    ess = draws.to_dataframe()["ess"].to_numpy()
    assert np.all(np.abs(theta.mean((0, 1)) - mean) < 4 * sds / np.sqrt(ess))
    # The effective draws of squares are fewer than those of what is squared, by half at most here.
    np.testing.assert_allclose(theta.std((0, 1)) / sds, 1.0, atol=4 / np.sqrt(2 * ess.min() / 2))
    assert not draws.warnings


@pytest.mark.trust
def test_losses_that_rounding_spoils_are_told_of():
    """Counts of a million: the loss is 1.3e7, of which a float32 has eight digits."""
    counts = np.random.default_rng(0).poisson(1e6, 10).astype(np.float32)

    def poisson(theta, z):
        return jnp.exp(theta[0]) - z * theta[0]

    def without_a_constant(theta, z):
        return 1e6 * jnp.expm1(theta[0]) - z * theta[0]

    for loss, spread, is_told in ((poisson, 10.0, True), (without_a_constant, 0.1, False)):
        posterior = gdp.GibbsPosterior(loss, dist.Normal(jnp.zeros(1), spread).to_event(1))
        draws = gdp.sample(posterior, counts, num_samples=100)
        assert any("rounded-losses" in w for w in draws.warnings) == is_told, draws.warnings


@pytest.mark.parametrize("part", [0.0, 0.25])
def test_whole_numbers_are_not_rounded(part):
    target = Target(
        gdp.GibbsPosterior(lambda theta, z: z + 0.0 * theta[0], flat(1)),
        jnp.asarray([3e5 + part, 4e5]),
        jnp.asarray(1e3),
    )
    found = float(target.rounding(jnp.zeros(1), target.terms(jnp.zeros(1))))
    # A float32 of 3e5 has parts of 1/32: it is off by 1/64 at most, 1/111 on average.
    assert (1e3 / 200 < found < 1e3 / 64) if part else found == 0.0


@pytest.mark.trust
@pytest.mark.parametrize(("gap", "is_proper"), [(1e-4, True), (0.0, False)])
def test_nearly_equal_columns_are_told_from_equal_ones(gap, is_proper):
    """Of 500 datasets, in the first case all, in the second none has a normalizer."""
    posterior = gdp.GibbsPosterior(gdp.losses.squared, flat(3))

    def one(key):
        keys = jax.random.split(key)
        x = jax.random.normal(keys[0], (50, 3))
        x = x.at[:, 1].set(x[:, 0] + gap * x[:, 1])
        y = x @ jnp.array([1.0, 1.0, -1.0]) + jax.random.normal(keys[1], (50,))
        found = locate(Target(posterior, (x, y), jnp.asarray(0.5)), jnp.zeros((1, 3)))
        return found.is_improper, found.is_curved

    improper, curved = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(3), 500))
    assert int(improper.sum()) == (0 if is_proper else 500)
    if is_proper:
        assert bool(curved.all())


@pytest.mark.trust
@pytest.mark.parametrize(("concentration", "is_told"), [(0.05, True), (0.5, False)])
def test_mass_that_single_precision_cannot_reach_is_told_of(concentration, is_told):
    """Of Beta(0.05, 0.05) 22% is nearer to one than any float32 is; of Beta(1/2, 1/2) 0.02%."""
    law = dist.Beta(jnp.full(1, concentration), concentration).to_event(1)
    posterior = gdp.GibbsPosterior(lambda theta, z: 0.0 * z * theta[0], law)
    draws = gdp.sample(posterior, jnp.zeros(1), num_samples=250)
    assert any("draws-at-an-end" in w for w in draws.warnings) == is_told, draws.warnings


def test_only_ends_that_numbers_cannot_come_near_count():
    near = np.float32(1.0) - np.float32(1.2e-7)
    draws = jnp.asarray([[0.0, 0.5], [near, near], [near, 0.5], [0.3, 0.5]]).reshape(1, 1, 4, 2)
    supports = gdp.supports
    for support, share in (
        (supports.box(0.0, 1.0, 2), 0.5),
        (supports.box(-1.0, 2.0, 2), 0.0),
        (supports.positive(2), 0.0),
        (supports.real(2), 0.0),
        (supports.l2_ball(2, 1.0), 0.0),
    ):
        assert share_at_ends([support], [draws]) == share, support.constraint


# The potential from a quadratic loss's statistics is the one over its examples.

NORMAL = dist.Normal(0.0, 1.0)
CASES = {
    "box": (gdp.losses.squared, gdp.Flat(gdp.supports.box(-2.0, 2.0, 2)), (30, 2)),
    "as many parameters as examples": (gdp.losses.squared, NORMAL.expand([5]), (5, 5)),
    "simplex": (gdp.losses.squared, gdp.Flat(gdp.supports.simplex(3)), (30, 3)),
    "mean": (gdp.losses.half_squared_distance, NORMAL.expand([3]), (9, 3)),
}


@pytest.mark.trust(but=["float32-box", "float64-mean"])
@pytest.mark.parametrize("case", CASES)
def test_statistics_say_what_the_examples_say(case, precision):
    loss, prior, shape = CASES[case]
    posterior = gdp.GibbsPosterior(loss, prior)
    keys = jax.random.split(jax.random.key(0), 3)
    x = jax.random.normal(keys[0], shape)
    data = x if case == "mean" else (x, jax.random.normal(keys[1], shape[:1]))
    target, center = Target(posterior, data, jnp.asarray(0.7)), jnp.full(posterior.dim, 0.2)
    scale = jnp.tril(jnp.full((posterior.dim, posterior.dim), 0.3)) + jnp.eye(posterior.dim)
    points = center + jax.random.normal(keys[2], (16, posterior.dim))

    def plain(u):
        return target.relative_to(target.terms(center))(u)

    def quick(u):
        return target.around(center, target.terms(center), Whitening(center, scale))(u)

    @jax.jit  # one program, not one an operation
    def values_and_gradients(points):
        return [jax.vmap(jax.value_and_grad(f))(points) for f in (plain, quick)]

    for wanted, found in zip(*values_and_gradients(points), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=3e3 * jnp.finfo(precision).eps, atol=1e-4)
    # It is the cheap form: no intermediate result has an axis of examples.
    cheap = target.around(center, target.terms(center), Whitening(center, scale))
    sizes = [v.aval.shape for eqn in jax.make_jaxpr(cheap)(center).eqns for v in eqn.outvars]
    assert (shape[0] in {n for size in sizes for n in size}) == (case.startswith("as many"))


def test_other_losses_and_short_tables_keep_their_examples():
    wide = gdp.GibbsPosterior(gdp.losses.squared, NORMAL.expand([4]))
    data = (jnp.ones((3, 4)), jnp.ones(3))
    assert not gdp.GibbsPosterior(gdp.losses.logistic, NORMAL.expand([4])).is_quadratic
    target = Target(wide, data, jnp.asarray(1.0))
    center = jnp.zeros(4)
    here = Whitening(center, jnp.eye(4))
    found = jax.make_jaxpr(target.around(center, target.terms(center), here))(center)
    assert any(v.aval.shape == (3,) for eqn in found.eqns for v in eqn.outvars)
