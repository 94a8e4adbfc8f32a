from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro.distributions import constraints

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


def test_ball_has_exact_second_derivatives_down_to_its_centre(precision):
    """Against the radial formula in float64; a mode search ends at the centre."""
    dim = 3
    support = gdp.supports.l2_ball(dim, 2.0)
    axis = np.array([0.6, 0.0, 0.8])
    radii = np.array([0.0, 1e-8, 1e-4, 1e-2, 0.0999, 0.1001, 1.0])
    points = jnp.asarray(radii[:, None] * axis, precision)
    hessian = jax.jit(jax.vmap(jax.hessian(support.log_det)))(points)
    r = np.maximum(radii, 1e-3)[:, None, None]  # below, the limit at 0 within 1e-6
    # f(r) = -2 log cosh r + (d - 1) log(tanh(r) / r)
    slope = -2 * np.tanh(r) + (dim - 1) * (2 / np.sinh(2 * r) - 1 / r)
    curve = -2 / np.cosh(r) ** 2 + (dim - 1) * (1 / r**2 - 4 * np.cosh(2 * r) / np.sinh(2 * r) ** 2)
    radial = np.outer(axis, axis)
    truth = curve * radial + slope / r * (np.eye(dim) - radial)
    np.testing.assert_allclose(hessian, truth, atol=2e-3 if precision == jnp.float32 else 1e-5)


def test_uniform_on_the_ball_is_uniform():
    """Its radius has distribution function (r / R)^d; by quadrature over the flat radius."""
    support = gdp.supports.l2_ball(3, 2.0)
    r = jnp.linspace(1e-3, 12.0, 20001)
    points = r[:, None] * jnp.asarray([0.6, 0.0, 0.8])
    shell = 4 * np.pi * np.asarray(r, float) ** 2
    log_det = np.asarray(jax.jit(jax.vmap(support.log_det))(points), float)
    mass = shell * np.exp(log_det) * float(r[1] - r[0])
    assert abs(mass.sum() / (4 / 3 * np.pi * 2.0**3) - 1) < 1e-3
    share = mass[2.0 * np.tanh(np.asarray(r, float)) < 1.0].sum() / mass.sum()
    assert abs(share - 1 / 8) < 1e-3


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
