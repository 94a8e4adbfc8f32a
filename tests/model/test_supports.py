from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro.distributions import constraints
from scipy import special, stats
from scipy.integrate import quad

import gibbs_dp as gdp
from gibbs_dp.model.prior import Prior
from gibbs_dp.model.supports import Support

SUPPORTS = {
    "real": lambda: gdp.supports.real(3),
    "positive": lambda: gdp.supports.positive(2),
    "box": lambda: gdp.supports.box(-1.0, 2.0, 2),
    "simplex": lambda: gdp.supports.simplex(4),
    "l2_ball": lambda: gdp.supports.l2_ball(3, 2.0),
}


@cache
def examine(name, dtype):
    """Everything the tests below look at, from one compiled program per support."""
    support = SUPPORTS[name]()
    is_simplex = isinstance(support.constraint, type(constraints.simplex))

    def chart(u):
        theta = support.constrain(u).ravel()
        return theta[:-1] if is_simplex else theta  # d - 1 free coordinates

    def look(u):
        theta = support.constrain(u)
        log_det, slope = jax.value_and_grad(support.log_det)(u)
        matrix = jax.jacfwd(chart)(u).reshape(u.size, u.size)
        return {
            "u": u,
            "inside": support.contains(theta),
            "back": support.unconstrain(theta),
            "log_det": log_det,
            "slope": slope,
            "matrix": matrix,
        }

    noise = np.random.default_rng(1).normal(size=(40, *support.unconstrained_shape))
    program = jax.jit(jax.vmap(look))
    near, far = (program(jnp.asarray(size * noise, dtype)) for size in (1.0, 15.0))
    return jax.tree.map(np.asarray, near), jax.tree.map(np.asarray, far)


def defect_of_jacobian(near, log_det):
    """Largest difference of ``log_det`` to the determinant of the differentiated map."""
    truth = np.linalg.slogdet(near["matrix"].astype(float))[1]
    return np.max(np.abs(log_det - truth))


@pytest.mark.parametrize("name", SUPPORTS)
def test_log_det_is_the_determinant_of_the_map(precision, name):
    near, _ = examine(name, precision)
    tolerance = 2e-4 if precision == jnp.float32 else 1e-10
    assert defect_of_jacobian(near, near["log_det"]) < tolerance


@pytest.mark.parametrize("name", [name for name in SUPPORTS if name != "real"])
def test_missing_or_wrong_jacobian_is_caught(precision, name):
    near, _ = examine(name, precision)
    for wrong in (np.zeros(40), 1.05 * near["log_det"]):
        assert defect_of_jacobian(near, wrong) > 0.01


@pytest.mark.parametrize("name", SUPPORTS)
def test_map_lands_inside_and_inverts(precision, name):
    near, _ = examine(name, precision)
    assert near["inside"].all()
    tolerance = 1e-3 if precision == jnp.float32 else 1e-9
    np.testing.assert_allclose(near["back"], near["u"], atol=tolerance)


@pytest.mark.parametrize("name", [name for name in SUPPORTS if name != "positive"])
def test_far_points_stay_inside_with_finite_jacobian(precision, name):
    """Chains wander far in flat coordinates; rounding must not push them through the wall.

    (The exponential of ``positive`` overflows at 88 in float32 by nature.)
    """
    _, far = examine(name, precision)
    assert far["inside"].all()
    assert np.isfinite(far["log_det"]).all()
    assert np.isfinite(far["slope"]).all()


BALLS = (1, 2, 31, 300)


@pytest.mark.parametrize("dim", BALLS)
def test_ball_s_radius_is_the_quantile_of_the_length_of_a_normal_vector(precision, dim):
    """Against SciPy, from the centre to where the ball is full to double precision."""
    support = gdp.supports.l2_ball(dim, 2.0)
    axis = np.random.default_rng(2).normal(size=dim)
    axis /= np.linalg.norm(axis)
    middle = np.sqrt(dim)
    lengths = np.array([0.0, 1e-6, 1e-3, 0.1, 0.5 * middle, middle, middle + 2, middle + 20])
    found = jax.jit(jax.vmap(support.constrain))(jnp.asarray(lengths[:, None] * axis, precision))
    # Near the centre the law of the length underflows: F(r) / r^d = c int_0^1 e^(-r^2 v^(2/d) / 2).
    log_c = -0.5 * dim * np.log(2) - special.gammaln(0.5 * dim + 1)
    near = [quad(lambda v, r=r: np.exp(-0.5 * r**2 * v ** (2 / dim)), 0, 1) for r in lengths[1:4]]
    truth = [
        *(
            2 * r * np.exp((log_c + np.log(i[0])) / dim)
            for r, i in zip(lengths[1:4], near, strict=True)
        ),
        *(2 * stats.chi.cdf(lengths[4:], dim) ** (1 / dim)),
    ]
    tolerance = 3e-5 if precision == jnp.float32 else 1e-8
    np.testing.assert_allclose(np.linalg.norm(found, axis=1)[1:], truth, rtol=tolerance)
    np.testing.assert_array_equal(found[0], 0.0)


def test_ball_is_smooth_down_to_its_centre(precision):
    """A mode search ends there: derivatives through the length would lose every digit."""
    support = gdp.supports.l2_ball(3, 2.0)
    axis = np.array([0.6, 0.0, 0.8])
    radii = np.array([0.0, 1e-8, 1e-4, 1e-2, 0.1, 1.0])
    points = jnp.asarray(radii[:, None] * axis, precision)

    def along(u):
        return jnp.sum(support.constrain(u) * jnp.asarray(axis, u.dtype))

    slope = jax.jit(jax.vmap(jax.grad(along)))(points) @ axis
    bend = jnp.einsum("pij,i,j->p", jax.jit(jax.vmap(jax.hessian(along)))(points), axis, axis)
    # rho = 2 F^(1/3); the ball is nearly linear inside: F = c r^3 (1 - 3 r^2 / 10 + ...).
    r = np.maximum(radii, 1e-5)
    law, density = stats.chi.cdf(r, 3), stats.chi.pdf(r, 3)
    first = 2 / 3 * law ** (-2 / 3) * density
    second = first * (2 / r - r - 2 / 3 * density / law)
    loose = 2e-3 if precision == jnp.float32 else 1e-5
    np.testing.assert_allclose(slope, first, rtol=loose)
    np.testing.assert_allclose(bend, second, atol=loose)


def shares_of_the_flat_law(name, theta):
    """Transforms of points that are uniform on (0, 1) where the points are on the support."""
    if name == "box":
        return (theta + 1.0) / 3.0
    if name == "simplex":  # each entry of a uniform point is Beta(1, 3)
        return stats.beta.cdf(theta, 1, 3)
    length = np.linalg.norm(theta, axis=1, keepdims=True)
    direction = 0.5 + 0.5 * theta / length  # Archimedes: uniform in three dimensions
    return np.concatenate([(length / 2.0) ** 3, direction], axis=1)


@pytest.mark.parametrize("name", ["box", "simplex", "l2_ball"])
def test_normal_points_become_flat_ones(precision, name):
    """Eleven tests by Kolmogorov and Smirnov at 1e-6 each: a false alarm in 90,000 runs."""
    support = SUPPORTS[name]()
    noise = np.random.default_rng(7).normal(size=(20_000, *support.unconstrained_shape))
    theta = np.asarray(jax.jit(jax.vmap(support.constrain))(jnp.asarray(noise, precision)), float)
    for shares in shares_of_the_flat_law(name, theta).T:
        assert stats.kstest(shares, "uniform").pvalue > 1e-6
    # A fifth too wide is seen.
    wide = np.asarray(jax.jit(jax.vmap(support.constrain))(jnp.asarray(1.2 * noise, precision)))
    p_values = [stats.kstest(x, "uniform").pvalue for x in shares_of_the_flat_law(name, wide).T]
    assert min(p_values) < 1e-6


def test_ends_of_a_box_keep_their_digits(precision):
    """Points that differ by less than the rounding of 1 are told apart at an end that is 0."""
    for low, high, sign in ((0.0, 1.0, -1.0), (-1.0, 0.0, 1.0)):
        support = gdp.supports.box(low, high, 3)
        u = jnp.asarray(sign * np.array([6.0, 8.0, 12.0]), precision)
        theta = jax.jit(support.constrain)(u)
        np.testing.assert_allclose(np.abs(theta), stats.norm.sf([6.0, 8.0, 12.0]), rtol=1e-4)
        np.testing.assert_allclose(jax.jit(support.unconstrain)(theta), u, rtol=1e-4)


def test_only_flat_laws_take_the_charts():
    """NumPyro's models keep NumPyro's coordinates."""
    flat = gdp.Flat(constraints.interval(0.0, 2.0), 3)
    uniform = Prior(dist.Uniform(0.0, 2.0).expand([3]).to_event(1))
    beta = Prior(dist.Beta(2.0, 3.0))
    for support in (flat.support, uniform.supports[0]):
        np.testing.assert_allclose(support.constrain(jnp.ones(3)), 2 * stats.norm.cdf(1), rtol=1e-6)
    np.testing.assert_allclose(beta.supports[0].constrain(jnp.ones(())), 1 / (1 + np.exp(-1)))
    wide = gdp.Flat(constraints.independent(constraints.interval(-1.0, 1.0), 1), 2).support
    np.testing.assert_allclose(wide.log_det(jnp.zeros(2)), 2 * np.log(2 * stats.norm.pdf(0)))


@pytest.mark.parametrize(
    ("support", "bounds", "l2"),
    [
        (gdp.supports.real(2), (-np.inf, np.inf), np.inf),
        (gdp.supports.positive(2), (0.0, np.inf), np.inf),
        (gdp.supports.box(-1.0, 2.0, 4), (-1.0, 2.0), 4.0),
        (gdp.supports.simplex(5), (0.0, 1.0), 1.0),
        (gdp.supports.l2_ball(3, 2.5), (-2.5, 2.5), 2.5),
        (Support(constraints.independent(constraints.interval(-1.0, 2.0), 1), (4,)), (-1, 2), 4.0),
    ],
)
def test_bounds_are_the_support_s(support, bounds, l2):
    assert support.bounds() == bounds
    assert support.l2_bound() == pytest.approx(l2)


def test_norm_bound_of_a_prior_is_over_all_its_parts():
    parts = {
        "a": dist.Uniform(-2.0, 2.0).expand([3]).to_event(1),
        "b": dist.Dirichlet(jnp.ones((2, 3))),
    }
    assert Prior(parts).l2_bound() == pytest.approx(np.sqrt(12 + 2))
    assert Prior({"a": parts["a"], "c": dist.Normal()}).l2_bound() == np.inf


def test_only_flat_on_an_unbounded_support_counts_as_flat():
    assert Prior(gdp.Flat(gdp.supports.real(2))).is_flat
    assert Prior({"a": dist.Normal(), "b": gdp.Flat(gdp.supports.positive())}).is_flat
    assert not Prior(gdp.Flat(gdp.supports.l2_ball(2))).is_flat
    assert not Prior(dist.Normal()).is_flat


def test_flat_takes_a_numpyro_constraint_and_a_shape():
    flat = gdp.Flat(constraints.interval(0.0, 2.0), 3)
    assert flat.support.shape == (3,)
    assert flat.log_prob(jnp.ones(3)) == 0.0


@pytest.mark.parametrize(
    "make",
    [
        lambda: gdp.supports.box(1.0, 1.0),
        lambda: gdp.supports.box(2.0, 1.0),
        lambda: gdp.supports.box(0.0, np.inf),
        lambda: gdp.supports.box(float("nan"), 1.0),
        lambda: gdp.supports.simplex(1),
        lambda: gdp.supports.l2_ball(2, 0.0),
        lambda: gdp.supports.l2_ball(2, np.inf),
        lambda: gdp.supports.l2_ball(0),
        lambda: gdp.supports.real(-1),
        lambda: gdp.Flat(gdp.supports.real(2), 2),
        lambda: gdp.Flat(constraints.real, (0,)),
        lambda: gdp.Flat("real"),
        lambda: gdp.GibbsPosterior(lambda t, z: t, gdp.Flat(constraints.simplex)),
        lambda: gdp.GibbsPosterior(lambda t, z: t, gdp.Flat(constraints.boolean)),
    ],
)
def test_bad_supports_are_refused(make):
    with pytest.raises(ValueError, match=r"box|simplex|l2_ball|shape|Flat|bijection|discrete"):
        make()


def test_initial_points_are_in_the_support_and_follow_the_key():
    prior = {"a": dist.Gamma(2.0), "b": gdp.Flat(gdp.supports.l2_ball(2))}
    posterior = gdp.GibbsPosterior(lambda theta, z: theta["a"] * z, prior)

    @jax.jit
    @jax.vmap
    def draw(key):
        u = posterior.initial(key)
        return u, posterior.prior.contains(posterior.constrain(u))

    starts, inside = draw(jax.random.split(jax.random.key(0), 40))
    assert starts.shape == (40, 3)
    assert bool(jnp.all(inside))
    assert len(np.unique(np.asarray(starts[:, 1]))) == 40
    again, _ = draw(jax.random.split(jax.random.key(0), 40))
    np.testing.assert_array_equal(starts, again)


# Shape, and whether a convex combination of two points always lies in the set.
SETS = {
    "real": (constraints.real, (3,), True),
    "positive": (constraints.positive, (2,), True),
    "softplus": (constraints.softplus_positive, (2,), True),
    "half-line above": (constraints.greater_than(1.5), (2,), True),
    "half-line below": (constraints.less_than(-1.0), (2,), True),
    "interval": (constraints.interval(-1.0, 2.0), (2,), True),
    "event": (constraints.independent(constraints.unit_interval, 1), (4, 2), True),
    "simplex": (constraints.simplex, (5, 3), True),
    "ordered": (constraints.ordered_vector, (4,), True),
    "positive ordered": (constraints.positive_ordered_vector, (4,), True),
    "positive definite": (constraints.positive_definite, (3, 3), True),
    "lower Cholesky": (constraints.lower_cholesky, (3, 3), True),
    "l1 ball": (constraints.l1_ball, (3,), True),
    "l2 ball": (gdp.supports.l2_ball(3, 2.0).constraint, (5, 3), True),
    "correlation Cholesky": (constraints.corr_cholesky, (3, 3), False),
}


@pytest.mark.trust
@pytest.mark.parametrize("name", SETS)
def test_what_is_called_convex_holds_its_segments(name):
    constraint, shape, is_convex = SETS[name]
    support = Support(constraint, shape)
    assert support.is_convex == is_convex
    u = 0.7 * np.random.default_rng(3).normal(size=(2, 200, *support.unconstrained_shape))
    ends = np.asarray(jax.vmap(jax.vmap(support.constrain))(jnp.asarray(u, jnp.float32)))
    middle = 0.5 * (ends[0] + ends[1])
    assert bool(jax.vmap(support.contains)(jnp.asarray(middle)).all()) == is_convex


def test_an_unknown_set_is_not_called_convex():
    class Ring(type(constraints.real)):
        pass

    assert not Support(Ring(), (2,)).is_convex
    assert not Support(constraints.circular, ()).is_convex
    assert Prior({"a": gdp.Flat(gdp.supports.real(1)), "b": dist.Normal()}).is_on_convex_set
    bent = {"a": dist.Normal(), "b": gdp.Flat(constraints.corr_cholesky, (2, 2))}
    assert Prior(bent).curvature() == (-np.inf, 1.0)
