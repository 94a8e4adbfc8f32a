import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gibbs_dp import Domain, losses
from gibbs_dp.model.losses.classification import softplus

LINEAR = {"squared": losses.squared, "absolute": losses.absolute, "logistic": losses.logistic}
# The formulas of theory.md, written out in NumPy: value and slope in the prediction p.
VALUE = {
    "squared": lambda p, y: (y - p) ** 2,
    "absolute": lambda p, y: np.abs(y - p),
    "logistic": lambda p, y: np.logaddexp(0.0, p) - y * p,
}
SLOPE = {
    "squared": lambda p, y: 2 * (p - y),
    "absolute": lambda p, y: np.sign(p - y),
    "logistic": lambda p, y: 1 / (1 + np.exp(-p)) - y,
}
CURVE = {
    "squared": lambda p, y: 2.0 + 0 * p,
    "absolute": lambda p, y: 0 * p,
    "logistic": lambda p, y: 1 / (2 + 2 * np.cosh(p)),
}


@pytest.mark.parametrize("name", LINEAR)
def test_values_and_gradients_are_the_formulas(precision, name):
    rng = np.random.default_rng(0)
    x, theta = rng.normal(size=(50, 3)), rng.normal(size=3)
    y = (rng.random(50) < 0.5).astype(float)
    examples = (jnp.asarray(x, precision), jnp.asarray(y, precision))
    loss, point = LINEAR[name], jnp.asarray(theta, precision)
    tolerance = 2e-5 if precision == jnp.float32 else 1e-12
    np.testing.assert_allclose(
        loss.batch(point, examples), VALUE[name](x @ theta, y), rtol=tolerance, atol=tolerance
    )
    gradients = jax.jit(jax.vmap(jax.grad(loss), in_axes=(None, 0)))(point, examples)
    truth = SLOPE[name](x @ theta, y)[:, None] * x
    np.testing.assert_allclose(gradients, truth, rtol=tolerance, atol=tolerance)


def test_logistic_loss_does_not_overflow(precision):
    far = jnp.asarray([500.0, -500.0], precision)
    got = losses.logistic.value(far, jnp.asarray([0.0, 0.0], precision))
    np.testing.assert_allclose(got, [500.0, 0.0], atol=1e-30)


def test_half_squared_distance_is_its_formula(precision):
    theta, z = jnp.asarray([1.0, 2.0], precision), jnp.asarray([[0.0, 0.0], [1.0, -2.0]], precision)
    np.testing.assert_allclose(losses.half_squared_distance.batch(theta, z), [2.5, 8.0])
    np.testing.assert_allclose(jax.grad(losses.half_squared_distance)(theta, z[1]), [0.0, 4.0])


# -- constants on a domain --------------------------------------------------------------------

bound = st.floats(0.05, 8.0)


@st.composite
def label_ranges(draw):
    low = draw(st.floats(-5.0, 4.0))
    return low, low + draw(st.floats(0.0, 4.0))


def search(name, domain, rng):
    """Examples and parameters of the domain: its extremes and random points inside.

    Returns predictions, labels and |x| of every (example, theta), and |theta| bounds respected.
    """
    low, high = (0.0, 1.0) if name == "logistic" else domain.y_range
    size = np.concatenate([[1.0, 1.0, 1.0, 1.0], rng.random(60)])
    x = domain.x_bound * size  # |x|; with x and theta in the plane, x·theta = |x||theta| cos
    y = np.concatenate([[low, low, high, high], rng.uniform(low, high, 60)])
    if name == "logistic":
        y = np.round(y)
    # theta along x, every length: predictions from -|x| T to |x| T, and the label itself if there.
    grid = np.concatenate([np.linspace(-1, 1, 41), rng.uniform(-1, 1, 20)])
    p = domain.theta_bound * x[:, None] * grid
    nearest = np.clip(y, -domain.theta_bound * x, domain.theta_bound * x)
    p = np.concatenate([p, nearest[:, None]], axis=1)
    return p, y[:, None], x[:, None]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(LINEAR)), bound, bound, label_ranges(), st.integers(0, 2**32 - 1))
def test_constants_hold_on_the_domain_and_are_attained(name, x_bound, theta_bound, y_range, seed):
    domain = Domain(x_bound=x_bound, y_range=y_range, theta_bound=theta_bound)
    constants = LINEAR[name].constants(domain)
    p, y, x = search(name, domain, np.random.default_rng(seed))
    value = VALUE[name](p, y)
    oscillation = np.max(value.max(axis=1) - value.min(axis=1))
    lipschitz = np.max(np.abs(SLOPE[name](p, y)) * x)
    slack = 1e-9 * (1 + constants.range[1])
    # Never violated:
    assert constants.range[0] - slack <= value.min()
    assert value.max() <= constants.range[1] + slack
    assert oscillation <= constants.oscillation + slack
    assert lipschitz <= constants.lipschitz + slack
    # Not loose:
    assert value.max() >= 0.95 * constants.range[1]
    assert value.min() <= constants.range[0] + 0.05 * (constants.range[1] - constants.range[0])
    assert oscillation >= 0.95 * constants.oscillation
    assert lipschitz >= 0.95 * constants.lipschitz
    if name == "absolute":
        assert constants.smoothness == np.inf
    else:
        smoothness = np.max(CURVE[name](p, y) * x**2)
        assert smoothness <= constants.smoothness + slack
        assert smoothness >= 0.95 * constants.smoothness  # p = 0 is among the predictions


@settings(max_examples=40, deadline=None)
@given(bound, bound, st.integers(0, 2**32 - 1))
def test_constants_of_half_squared_distance(x_bound, theta_bound, seed):
    rng = np.random.default_rng(seed)
    constants = losses.half_squared_distance.constants(
        Domain(x_bound=x_bound, theta_bound=theta_bound)
    )

    def in_ball(radius, count):
        v = rng.normal(size=(count, 2))
        v *= radius * rng.random((count, 1)) ** 0.5 / np.linalg.norm(v, axis=1, keepdims=True)
        ends = radius * np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0]])
        return np.concatenate([ends, np.linspace(-1, 1, 41)[:, None] * ends[:1], v])

    z, theta = in_ball(x_bound, 60), in_ball(theta_bound, 60)
    distance = np.linalg.norm(z[:, None] - theta, axis=-1)
    value = 0.5 * distance**2
    # The nearest parameter to each example, so that the smallest loss is among the points.
    length = np.linalg.norm(z, axis=1)
    least = 0.5 * np.maximum(0.0, length - theta_bound) ** 2
    oscillation = np.max(value.max(axis=1) - least)
    slack = 1e-9 * (1 + constants.range[1])
    assert constants.range[0] == 0.0
    assert value.max() <= constants.range[1] + slack
    assert oscillation <= constants.oscillation + slack
    assert distance.max() <= constants.lipschitz + slack
    assert value.max() >= 0.95 * constants.range[1]
    assert oscillation >= 0.95 * constants.oscillation
    assert distance.max() >= 0.95 * constants.lipschitz
    assert constants.smoothness == 1.0


def test_figure_2_of_the_paper_has_loss_range_16():
    domain = Domain(x_bound=1.0, y_range=(-2.0, 2.0), theta_bound=2.0)
    assert losses.squared.constants(domain).range == (0.0, 16.0)
    assert losses.squared.constants(domain).oscillation == 16.0


@pytest.mark.parametrize(
    "domain",
    [
        Domain(),
        Domain(x_bound=1.0),
        Domain(theta_bound=2.0),
        Domain(y_range=(-1.0, 1.0)),
        Domain(x_bound=0.0),
        Domain(theta_bound=0.0),
        Domain(x_bound=1.0, theta_bound=1.0),
    ],
)
@pytest.mark.parametrize(
    "loss", [*LINEAR.values(), losses.half_squared_distance], ids=lambda a: type(a).__name__
)
def test_unbounded_domains_give_infinity_and_never_nan(loss, domain):
    constants = loss.constants(domain)
    numbers = np.array([*constants.range, *constants[1:]])
    assert not np.isnan(numbers).any()
    assert (numbers >= 0).all()
    if domain == Domain():
        assert constants.oscillation == constants.lipschitz == np.inf


@pytest.mark.parametrize(
    "bad",
    [
        {"x_bound": -1.0},
        {"x_bound": float("nan")},
        {"y_range": (1.0, 0.0)},
        {"y_range": (float("nan"), 1.0)},
        {"theta_bound": -0.1},
        {"theta_bound": float("nan")},
    ],
)
def test_bad_domains_are_refused(bad):
    with pytest.raises(ValueError, match=rf"Domain\({next(iter(bad))}\)"):
        Domain(**bad)


# -- data checks ------------------------------------------------------------------------------

X = np.zeros((4, 2))


@pytest.mark.parametrize(
    ("labels", "match"),
    [
        ([0, 1, 2, 1], "needs labels 0 and 1, got 0, 1, 2"),
        ([-1.0, 1.0, 1.0, -1.0], "needs labels 0 and 1, got -1, 1"),
        ([0.0, 0.5, 1.0, 1.0], "recode"),
        ([1, 1, 1, 1], "every label is 1; .* both classes"),
        ([0.0, 0.0, 0.0, 0.0], "every label is 0"),
    ],
)
def test_labels_that_are_not_two_classes_are_refused(labels, match):
    with pytest.raises(ValueError, match=match):
        losses.logistic.check_data((X, np.array(labels)))


def test_good_labels_pass():
    losses.logistic.check_data((X, np.array([0, 1, 1, 0])))
    losses.logistic.check_data((X, np.array([False, True, True, False])))
    losses.squared.check_data((X, np.array([0.3, 1.0, -2.0, 5.0])))


@pytest.mark.parametrize("data", [X, (X,), (X[0], X[0]), (X, X), {"x": X}, (X, np.zeros(4), X)])
def test_examples_that_are_not_x_and_y_are_refused(data):
    with pytest.raises(ValueError, match=r"squared loss needs examples \(x, y\)"):
        losses.squared.check_data(data)


def test_softplus_is_exact_to_rounding_everywhere():
    x = np.concatenate([np.linspace(-80, 80, 160_001), np.geomspace(1e-8, 1e-2, 100)])
    x = np.concatenate([x, -x]).astype(np.float32)
    truth = np.logaddexp(0.0, x.astype(float))
    np.testing.assert_allclose(np.asarray(softplus(jnp.asarray(x)), float), truth, rtol=3e-7)
    ends = np.asarray(softplus(jnp.array([-np.inf, -200.0, 200.0, np.inf], jnp.float32)))
    np.testing.assert_array_equal(ends, [0.0, 0.0, 200.0, np.inf])
    assert np.isnan(softplus(jnp.array(np.nan, jnp.float32)))


def test_softplus_in_double_precision(float64):
    x = np.linspace(-700, 700, 10_001)
    np.testing.assert_allclose(softplus(jnp.asarray(x)), np.logaddexp(0.0, x), rtol=1e-15)
