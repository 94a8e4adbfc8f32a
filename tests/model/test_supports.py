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
    "l2_ball-1d": lambda: gdp.supports.l2_ball(1, 0.5),
}


def defect_of_jacobian(support, precision, log_det=None):
    """Largest difference of ``log_det`` to the determinant of the differentiated map."""
    log_det = support.log_det if log_det is None else log_det
    is_simplex = isinstance(support.constraint, type(constraints.simplex))

    def chart(u):
        theta = support.constrain(u).ravel()
        return theta[:-1] if is_simplex else theta  # d - 1 free coordinates

    shape = (24, *support.unconstrained_shape)
    points = 1.2 * jax.random.normal(jax.random.key(1), shape, precision)
    matrices = jax.vmap(jax.jacfwd(chart))(points).reshape(24, points[0].size, points[0].size)
    truth = np.linalg.slogdet(np.asarray(matrices, np.float64))[1]
    return np.max(np.abs(np.asarray(jax.vmap(log_det)(points)) - truth))


@pytest.mark.parametrize("name", SUPPORTS)
def test_log_det_is_the_determinant_of_the_map(precision, name):
    tolerance = 2e-4 if precision == jnp.float32 else 1e-10
    assert defect_of_jacobian(SUPPORTS[name](), precision) < tolerance


@pytest.mark.parametrize("name", [name for name in SUPPORTS if name != "real"])
def test_missing_or_wrong_jacobian_is_caught(name):
    support = SUPPORTS[name]()
    for wrong in (lambda u: 0.0 * jnp.sum(u), lambda u: 1.05 * support.log_det(u)):
        assert defect_of_jacobian(support, jnp.float32, wrong) > 0.01


@pytest.mark.parametrize("name", SUPPORTS)
def test_map_lands_inside_and_inverts(precision, name):
    support = SUPPORTS[name]()
    shape = (50, *support.unconstrained_shape)
    u = jax.random.normal(jax.random.key(2), shape, precision)
    theta = jax.vmap(support.constrain)(u)
    assert bool(jnp.all(jax.vmap(support.contains)(theta)))
    tolerance = 1e-3 if precision == jnp.float32 else 1e-9
    np.testing.assert_allclose(jax.vmap(support.unconstrain)(theta), u, atol=tolerance)


@pytest.mark.parametrize("name", SUPPORTS)
def test_far_points_stay_inside_with_finite_potential_and_gradient(precision, name):
    """Chains wander far in flat coordinates; rounding must not push them through the wall."""
    support = SUPPORTS[name]()
    if name == "positive":
        pytest.skip("the exponential leaves float32 at 88: far is infinite there by nature")
    u = 15.0 * jax.random.normal(jax.random.key(3), (100, *support.unconstrained_shape), precision)
    theta = jax.vmap(support.constrain)(u)
    if name != "simplex":  # its entries may round to 0, its sum to 1 within 1e-6
        assert bool(jnp.all(jax.vmap(support.contains)(theta)))
    value, gradient = jax.vmap(jax.value_and_grad(support.log_det))(u)
    assert bool(jnp.all(jnp.isfinite(value)))
    assert bool(jnp.all(jnp.isfinite(gradient)))


@pytest.mark.parametrize("radius", [0.0, 1e-8, 1e-4, 1e-2, 0.0999, 0.1001, 1.0])
def test_ball_has_exact_second_derivatives_down_to_its_centre(precision, radius):
    """Against the radial formula in float64; a mode search ends at the centre."""
    dim = 3
    support = gdp.supports.l2_ball(dim, 2.0)
    axis = np.array([0.6, 0.0, 0.8])
    hessian = jax.hessian(support.log_det)(jnp.asarray(radius * axis, precision))
    r = max(radius, 1e-3)  # below, the limit at 0 within 1e-6
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
    mass = shell * np.exp(np.asarray(jax.vmap(support.log_det)(points), float)) * float(r[1] - r[0])
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
    starts = jax.vmap(posterior.initial)(jax.random.split(jax.random.key(0), 40))
    assert starts.shape == (40, 3)
    assert bool(
        jnp.all(jax.vmap(lambda u: posterior.prior.contains(posterior.constrain(u)))(starts))
    )
    assert len(np.unique(np.asarray(starts[:, 1]))) == 40
    np.testing.assert_array_equal(
        starts[0], posterior.initial(jax.random.split(jax.random.key(0), 40)[0])
    )
