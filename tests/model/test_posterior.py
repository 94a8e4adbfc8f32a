import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import gibbs_dp as gdp

GAMMA = 3.0
DATA = np.array([0.3, -0.2, 1.1, 0.8])


def squared(theta, z):
    return (theta - z) ** 2


class TemperedPrior(gdp.GibbsPosterior):
    """Known wrong: gamma multiplies the prior as well."""

    def log_density(self, theta, data, gamma):
        return gamma * super().log_density(theta, data, 1.0)


def defect_of_log_density(posterior, gamma, thetas=(-1.3, 0.0, 0.4, 2.0)):
    """Largest difference to ``-gamma sum(loss) + log prior`` written out in NumPy float64."""
    defects = []
    for theta in thetas:
        log_prior = -0.5 * (theta / 2.0) ** 2 - np.log(2.0 * np.sqrt(2 * np.pi))
        truth = -gamma * np.sum((theta - DATA) ** 2) + log_prior
        got = posterior.log_density(jnp.asarray(theta), jnp.asarray(DATA), gamma)
        defects.append(abs(float(got) - truth))
    return max(defects)


@pytest.mark.parametrize("gamma", [0.0, 0.1, 1.0, GAMMA])
def test_log_density_is_minus_gamma_loss_plus_log_prior(precision, gamma):
    posterior = gdp.GibbsPosterior(squared, dist.Normal(0.0, 2.0))
    tolerance = 200 * float(jnp.finfo(precision).eps)
    assert defect_of_log_density(posterior, gamma) < tolerance
    value = posterior.log_density(jnp.asarray(0.4), jnp.asarray(DATA), gamma)
    assert value.dtype == precision


def test_gamma_on_the_prior_is_caught():
    wrong = TemperedPrior(squared, dist.Normal(0.0, 2.0))
    assert defect_of_log_density(wrong, 1.0) < 1e-4  # indistinguishable at gamma = 1
    assert defect_of_log_density(wrong, GAMMA) > 1.0


@pytest.mark.parametrize(
    ("prior", "inside", "outside"),
    [
        (gdp.Flat(gdp.supports.box(-1.0, 2.0)), 1.9, [2.1, -1.1]),
        (dist.Uniform(-1.0, 2.0), -0.9, [2.1, -1.1]),
        (dist.HalfNormal(), 0.1, [-0.1]),
        (dist.Gamma(2.0), 0.1, [-0.1]),
        (dist.Beta(2.0, 2.0), 0.5, [-0.1, 1.2]),
        (dist.TruncatedNormal(low=0.5), 0.6, [0.4]),
    ],
)
def test_log_density_is_minus_infinity_outside_the_support(prior, inside, outside):
    posterior = gdp.GibbsPosterior(squared, prior)
    assert np.isfinite(posterior.log_density(inside, jnp.asarray(DATA), 1.0))
    for theta in outside:
        assert posterior.log_density(theta, jnp.asarray(DATA), 1.0) == -np.inf


def test_loss_that_is_nan_outside_the_support_still_gives_minus_infinity():
    posterior = gdp.GibbsPosterior(lambda theta, z: -jnp.log(theta) * z, dist.HalfNormal())
    assert posterior.log_density(jnp.asarray(-0.5), jnp.asarray(DATA), 1.0) == -np.inf


def test_theta_may_be_a_python_number_or_numpy_array():
    posterior = gdp.GibbsPosterior(squared, gdp.Flat(gdp.supports.real()))
    wanted = posterior.log_density(jnp.asarray(2.0), jnp.asarray(DATA), 1.0)
    for theta in (2.0, 2, np.float64(2.0), np.asarray(2.0, np.float32)):
        assert posterior.log_density(theta, jnp.asarray(DATA), 1.0) == wanted


# -- pytrees ----------------------------------------------------------------------------------

PARTS = {
    "rate": dist.Gamma(2.0, 1.0),
    "weights": dist.Dirichlet(jnp.ones(3)),
    "slope": dist.Normal(jnp.zeros(2), 1.0).to_event(1),
    "offset": gdp.Flat(gdp.supports.box(-1.0, 1.0, (2, 2))),
}
THETA = {
    "rate": jnp.asarray(0.7),
    "weights": jnp.asarray([0.2, 0.5, 0.3]),
    "slope": jnp.asarray([0.1, -0.4]),
    "offset": jnp.asarray([[0.1, 0.2], [-0.3, 0.9]]),
}


def loss_of_parts(theta, z):
    return theta["rate"] * z["x"] ** 2 + jnp.sum(theta["slope"]) * z["x"] + theta["weights"][z["k"]]


def test_theta_and_data_may_be_pytrees():
    posterior = gdp.GibbsPosterior(loss_of_parts, PARTS)
    data = {"x": jnp.asarray([1.0, 2.0]), "k": jnp.asarray([0, 2])}
    losses = [0.7 - 0.3 + 0.2, 0.7 * 4 - 0.3 * 2 + 0.3]
    np.testing.assert_allclose(posterior.losses(THETA, data), losses, rtol=1e-6)
    log_prior = sum(
        float(PARTS[name].log_prob(THETA[name])) for name in ("rate", "weights", "slope")
    )
    got = posterior.log_density(THETA, data, GAMMA)
    np.testing.assert_allclose(got, -GAMMA * sum(losses) + log_prior, rtol=1e-6)
    assert posterior.dim == 1 + 2 + 2 + 4


def test_flat_coordinates_round_trip_for_pytrees(precision):
    posterior = gdp.GibbsPosterior(loss_of_parts, PARTS)
    u = jax.jit(posterior.unconstrain)(jax.tree.map(lambda a: jnp.asarray(a, precision), THETA))
    assert u.shape == (posterior.dim,)
    back = jax.jit(posterior.constrain)(u)
    assert jax.tree.structure(back) == jax.tree.structure(THETA)
    for name, value in THETA.items():
        np.testing.assert_allclose(back[name], value, atol=1e-5)


def test_outside_in_one_part_is_outside():
    posterior = gdp.GibbsPosterior(loss_of_parts, PARTS)
    data = {"x": jnp.asarray([1.0]), "k": jnp.asarray([0])}
    for name, bad in [
        ("rate", -1.0),
        ("weights", [0.5, 0.6, 0.3]),
        ("offset", [[0.0, 0.0], [0.0, 1.5]]),
    ]:
        assert posterior.log_density(THETA | {name: jnp.asarray(bad)}, data, 1.0) == -np.inf


@pytest.mark.parametrize(
    ("prior", "shape", "dim"),
    [
        (dist.Normal(jnp.zeros(3), 1.0), (3,), 3),
        (dist.Normal(0.0, 1.0).expand([2, 3]), (2, 3), 6),
        (dist.MultivariateNormal(jnp.zeros(2), jnp.eye(2)), (2,), 2),
        (dist.Dirichlet(jnp.ones((2, 4))), (2, 4), 6),
        (dist.HalfNormal(jnp.ones(3)).to_event(1), (3,), 3),
    ],
)
def test_batch_and_event_shapes_are_one_array_of_independent_entries(prior, shape, dim):
    posterior = gdp.GibbsPosterior(total_loss=lambda theta, z: 0.0 * jnp.sum(z), prior=prior)
    assert posterior.dim == dim

    @jax.jit
    def evaluate(key):
        theta = posterior.constrain(posterior.initial(key))
        density = posterior.log_density(theta, jnp.asarray(DATA), 1.0)
        return theta, density, jnp.sum(prior.log_prob(theta))

    theta, got, wanted = evaluate(jax.random.key(0))
    assert theta.shape == shape
    np.testing.assert_allclose(got, wanted, rtol=1e-5)


# -- losses -----------------------------------------------------------------------------------


def test_structured_loss_sees_the_whole_dataset():
    posterior = gdp.GibbsPosterior(
        total_loss=lambda theta, z: jnp.abs(jnp.mean(z) - theta),
        prior=gdp.Flat(gdp.supports.real()),
    )
    assert posterior.structured
    got = posterior.log_density(0.0, jnp.asarray(DATA), GAMMA)
    np.testing.assert_allclose(got, -GAMMA * 0.5, rtol=1e-6)
    with pytest.raises(ValueError, match="no per-example losses"):
        posterior.losses(0.0, jnp.asarray(DATA))


def test_batched_evaluation_is_used_and_agrees():
    x = jax.random.normal(jax.random.key(0), (7, 3))
    y = (jnp.arange(7) % 2).astype(x.dtype)
    theta = jnp.asarray([0.3, -1.0, 0.5])
    for loss in (gdp.losses.squared, gdp.losses.absolute, gdp.losses.logistic):
        whole = gdp.GibbsPosterior(loss, dist.Normal(jnp.zeros(3), 1.0))
        one_by_one = gdp.GibbsPosterior(
            lambda theta, z, loss=loss: loss(theta, z), dist.Normal(jnp.zeros(3), 1.0)
        )
        np.testing.assert_allclose(
            whole.losses(theta, (x, y)), one_by_one.losses(theta, (x, y)), rtol=2e-6, atol=1e-6
        )


# -- unconstrained ----------------------------------------------------------------------------


LAWS = ["normal", "half-normal", "beta", "flat-box", "flat-ball"]


@pytest.mark.trust(but=["float64-beta", *(f"float32-{law}" for law in LAWS)])
@pytest.mark.parametrize(
    "prior",
    [
        dist.Normal(0.0, 2.0),
        dist.HalfNormal(0.5),
        dist.Beta(2.0, 3.0),
        gdp.Flat(gdp.supports.box(-1.0, 2.0)),
        gdp.Flat(gdp.supports.l2_ball(1, 1.5)),
    ],
    ids=LAWS,
)
def test_normalizer_is_the_same_in_flat_coordinates(precision, prior):
    """``int exp(unconstrained) du == int exp(log_density) dtheta``, both by quadrature."""
    posterior = gdp.GibbsPosterior(lambda theta, z: jnp.sum((theta - z) ** 2), prior)
    data = jnp.asarray(DATA, precision)
    target = posterior.unconstrained(data, 0.3)
    u = jnp.linspace(-40.0, 40.0, 40001, dtype=precision)[:, None]
    in_flat = np.exp(np.asarray(jax.jit(jax.vmap(target.log_density))(u), float))
    theta = jnp.linspace(-12.0, 12.0, 48001, dtype=precision)
    theta = theta.reshape(-1, *posterior.prior.supports[0].shape)
    in_theta = jax.jit(jax.vmap(lambda t: posterior.log_density(t, data, 0.3)))(theta)
    a = in_flat.sum() * 80 / 40000
    b = np.exp(np.asarray(in_theta, float)).sum() * 24 / 48000
    assert abs(a / b - 1) < 1e-3


@pytest.mark.parametrize(
    "prior", [dist.Normal(0.0, 2.0), dist.HalfNormal(0.5), dist.Uniform(-1.0, 2.0)]
)
def test_proper_priors_integrate_to_one_in_flat_coordinates(precision, prior):
    posterior = gdp.GibbsPosterior(squared, prior)
    target = posterior.unconstrained(jnp.asarray(DATA, precision), 0.0)
    u = jnp.linspace(-40.0, 40.0, 40001, dtype=precision)[:, None]
    density = np.exp(np.asarray(jax.jit(jax.vmap(target.log_density))(u), float))
    mass = density.sum() * 80 / 40000
    assert abs(mass - 1) < 1e-4


def test_unconstrained_is_log_density_plus_log_jacobian():
    posterior = gdp.GibbsPosterior(loss_of_parts, PARTS)
    data = {"x": jnp.asarray([1.0, 2.0]), "k": jnp.asarray([0, 2])}
    target = posterior.unconstrained(data, GAMMA)
    u = posterior.unconstrain(THETA)
    log_det, start = 0.0, 0
    for support in posterior.prior.supports:
        size = int(np.prod(support.unconstrained_shape))
        log_det += support.log_det(u[start : start + size].reshape(support.unconstrained_shape))
        start += size
    wanted = posterior.log_density(target.constrain(u), data, GAMMA) + log_det
    np.testing.assert_allclose(target.log_density(u), wanted, rtol=1e-5)
    np.testing.assert_allclose(target.unconstrain(target.constrain(u)), u, atol=1e-5)
    assert target.dim == u.shape[0]


def test_improper_uniform_laws_are_flat_measures():
    """NumPyro's, as they are and expanded, in one array and in a tree; they have no draws there."""
    improper = dist.ImproperUniform(dist.constraints.positive, (), ())
    for law, shape in ((improper, ()), (improper.expand([3]).to_event(1), (3,))):
        for tree in (law, {"a": law, "b": dist.Normal()}):
            posterior = gdp.GibbsPosterior(lambda theta, z: z, tree)
            assert posterior.prior.is_flat
            assert posterior.prior.supports[0].shape == shape
            start = jax.tree.leaves(posterior.prior.initial(jax.random.key(0)))[0]
            assert (start > 0).all()


# -- refusals ---------------------------------------------------------------------------------


def one_clear_sentence(caught):
    text = str(caught.value)
    return "\n" not in text and len(text) < 260


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"loss": squared, "total_loss": squared, "prior": dist.Normal()}, "exactly one"),
        ({"prior": dist.Normal()}, "exactly one"),
        ({"loss": squared}, "`prior` is missing"),
        ({"loss": squared, "prior": dist.Normal(), "sensitivity": lambda n: 1.0}, "`total_loss`"),
        ({"loss": squared, "prior": dist.Normal(), "location_family": True}, "`total_loss`"),
        ({"loss": squared, "prior": dist.Bernoulli(0.5)}, "discrete"),
        ({"loss": squared, "prior": dist.Delta(0.5)}, "a Delta fixes a parameter"),
        ({"loss": squared, "prior": {"a": dist.Normal(), "b": dist.Poisson(1.0)}}, "discrete"),
        ({"loss": squared, "prior": {}}, "empty"),
        ({"loss": squared, "prior": 3.0}, "float"),
        ({"loss": squared, "prior": {"a": dist.Normal(), "b": 1}}, "int"),
        ({"loss": squared, "prior": dist.Normal}, "every leaf"),
    ],
)
def test_bad_arguments_are_refused(arguments, match):
    with pytest.raises(ValueError, match=match) as caught:
        gdp.GibbsPosterior(**arguments)
    assert one_clear_sentence(caught)


@pytest.mark.parametrize(
    "theta",
    [
        {"a": jnp.zeros(())},
        {"a": jnp.zeros(()), "c": jnp.zeros(2)},
        {"a": jnp.zeros(()), "b": jnp.zeros(2), "c": jnp.zeros(())},
        {"a": jnp.zeros(()), "b": jnp.zeros(3)},
        {"a": jnp.zeros(()), "b": {"x": jnp.zeros(2)}},
        {"a": None, "b": jnp.zeros(2)},
        jnp.zeros(2),
        "text",
    ],
)
def test_wrong_theta_is_refused(theta):
    prior = {"a": dist.Normal(), "b": dist.Normal(jnp.zeros(2), 1.0)}
    posterior = gdp.GibbsPosterior(lambda theta, z: theta["a"] * z, prior)
    with pytest.raises(ValueError, match="theta: ") as caught:
        posterior.log_density(theta, jnp.asarray(DATA), 1.0)
    assert one_clear_sentence(caught)
