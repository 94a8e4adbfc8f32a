"""Range, Lipschitz and smoothness constants against search over the declared domain.

Values and derivatives are written out in NumPy, independently of the losses; a bounded domain's
extremes are among the points searched, so that constants are both never violated and attained.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gibbs_dp import Domain, losses

DELTA, QUANTILE, NOISE = 0.7, 0.3, 1.7
OFFSET = np.log(NOISE * np.sqrt(2 * np.pi))
LINEAR = {
    "absolute": losses.absolute,
    "huber": losses.Huber(DELTA),
    "hinge": losses.hinge,
    "pinball": losses.Pinball(QUANTILE),
    "poisson": losses.poisson,
    "gaussian": losses.GaussianNLL(NOISE),
}
# Value, slope and curvature in the prediction p.
VALUE = {
    "absolute": lambda p, y: np.abs(y - p),
    "huber": lambda p, y: np.where(
        np.abs(y - p) <= DELTA, (y - p) ** 2 / 2, DELTA * np.abs(y - p) - DELTA**2 / 2
    ),
    "hinge": lambda p, y: np.where((2 * y - 1) * p < 1, 1 - (2 * y - 1) * p, 0.0),
    "pinball": lambda p, y: np.where(y >= p, QUANTILE * (y - p), (1 - QUANTILE) * (p - y)),
    "poisson": lambda p, y: np.exp(p) - y * p,
    "gaussian": lambda p, y: (y - p) ** 2 / (2 * NOISE**2) + OFFSET,
}
SLOPE = {
    "absolute": lambda p, y: np.sign(p - y),
    "huber": lambda p, y: np.clip(p - y, -DELTA, DELTA),
    "hinge": lambda p, y: np.where((2 * y - 1) * p < 1, 1 - 2 * y, 0.0),
    "pinball": lambda p, y: np.select([y > p, y < p], [-QUANTILE, 1 - QUANTILE], 0.0),
    "poisson": lambda p, y: np.exp(p) - y,
    "gaussian": lambda p, y: (p - y) / NOISE**2,
}
CURVE = {
    "huber": lambda p, y: (np.abs(p - y) < DELTA) * 1.0,
    "poisson": lambda p, y: np.exp(p) + 0 * y,
    "gaussian": lambda p, y: 1 / NOISE**2 + 0 * p * y,
}
SMOOTH_WHERE = {  # no kink is within reach
    "absolute": lambda p, y: False,  # where it is none is not looked for
    "hinge": lambda p, y: p.max() < 1,
    "pinball": lambda p, y: (y - p).min() > 0 or (y - p).max() < 0,
}

bound = st.floats(0.05, 4.0)


@st.composite
def label_ranges(draw):
    low = draw(st.floats(-5.0, 4.0))
    return low, low + draw(st.floats(0.0, 4.0))


def search(name, domain, rng):
    """Predictions, labels and feature norms: extremes of the domain, and points inside."""
    low, high = domain.y_range
    if name == "hinge":
        low, high = 0.0, 1.0
    if name == "poisson":
        low, high = max(low, 0.0), max(high, 0.0)
    x = domain.x_bound * np.concatenate([np.ones(4), rng.random(40)])
    y = np.concatenate([[low, low, high, high], rng.uniform(low, high, 40)])
    if name == "hinge":
        y = np.round(y)
    grid = np.concatenate([np.linspace(-1, 1, 201), rng.uniform(-1, 1, 20)])
    p = domain.theta_bound * x[:, None] * grid
    best = np.log(np.maximum(y, 1e-30)) if name == "poisson" else y
    best = np.clip(best, -domain.theta_bound * x, domain.theta_bound * x)
    return np.concatenate([p, best[:, None]], axis=1), y[:, None], x[:, None]


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(sorted(LINEAR)), bound, bound, label_ranges(), st.integers(0, 2**32 - 1))
def test_constants_of_linear_losses(name, x_bound, theta_bound, y_range, seed):
    domain = Domain(x_bound=x_bound, y_range=y_range, theta_bound=min(theta_bound, 4 / x_bound))
    constants = LINEAR[name].constants(domain)
    p, y, x = search(name, domain, np.random.default_rng(seed))
    value = VALUE[name](p, y)
    low, high = constants.range
    slack = 1e-9 * (1 + abs(low) + abs(high))
    oscillation = np.max(value.max(axis=1) - value.min(axis=1))
    lipschitz = np.max(np.abs(SLOPE[name](p, y)) * x)
    assert low - slack <= value.min() <= low + 0.02 * (high - low) + slack
    assert high + slack >= value.max() >= high - 0.02 * (high - low) - slack
    assert constants.oscillation + slack >= oscillation >= 0.98 * constants.oscillation - slack
    assert constants.lipschitz + slack >= lipschitz >= 0.98 * constants.lipschitz - slack
    assert constants.strong_convexity == 0.0 or name == "gaussian"
    exchanged = value[:, None] - VALUE[name](p[:, None], y[None])  # same prediction, other label
    assert np.max(np.ptp(exchanged, axis=-1)) <= constants.exchange_range + slack
    if name in CURVE:
        smoothness = np.max(CURVE[name](p, y) * x**2)
        # Huber's core may be a sliver of the predictions that the search misses.
        assert smoothness <= constants.smoothness + slack
        assert smoothness >= 0.98 * constants.smoothness - slack or name == "huber"
    else:
        assert constants.smoothness == (0.0 if SMOOTH_WHERE[name](p, y) else np.inf)


def ball(rng, shape, radius):
    """Points on and in a ball of all of ``shape``'s last axes."""
    v = rng.normal(size=shape)
    axes = tuple(range(1, v.ndim))
    v /= np.sqrt((v**2).sum(axis=axes, keepdims=True))
    v[len(v) // 2 :] *= rng.random((len(v) - len(v) // 2, *([1] * (v.ndim - 1))))
    return radius * v


def softmax_candidates(rng, k, p):
    """Scores with the label's own first: random ones, and the symmetric extremes."""
    angle = np.linspace(0, np.pi, 400)
    own, rest = p * np.cos(angle), p * np.sin(angle)
    one = np.stack([own, rest, *[0 * own] * (k - 2)], axis=1)
    even = np.concatenate([own[:, None], np.repeat(rest[:, None], k - 1, 1) / np.sqrt(k - 1)], 1)
    both = np.zeros((1, k))
    both[0, :2] = p / np.sqrt(2)
    return np.concatenate([one, even, -even, both, ball(rng, (4000, k), p)])


@pytest.mark.parametrize("k", [2, 3, 10])
@pytest.mark.parametrize("p", [0.01, 0.5, 2.0, 6.0, 40.0])
def test_constants_of_softmax_cross_entropy(k, p):
    constants = losses.SoftmaxCrossEntropy(k).constants(Domain(x_bound=2.0, theta_bound=p / 2))
    v = softmax_candidates(np.random.default_rng(k), k, p)
    shares = np.exp(v - v.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    value = np.log(np.exp(v).sum(axis=1)) - v[:, 0]
    low, high = constants.range
    slack = 1e-9 * (1 + high)
    assert low - slack <= value.min() <= low + 0.01 * (high - low)
    assert high + slack >= value.max() >= high - 0.01 * high
    # One theta may have any of these scores for the largest x.
    assert constants.oscillation >= np.ptp(value) - slack
    error = shares - np.eye(k)[0]
    lipschitz = 2.0 * np.max(np.linalg.norm(error, axis=1))
    curves = [np.linalg.eigvalsh(np.diag(s) - np.outer(s, s))[-1] for s in shares[::7]]
    curves.append(
        np.linalg.eigvalsh(np.diag(shares[1200]) - np.outer(shares[1200], shares[1200]))[-1]
    )
    smoothness = 4.0 * max(curves)
    assert lipschitz <= constants.lipschitz + slack
    assert smoothness <= constants.smoothness + slack
    if k == 2 or p in (0.01, 40.0):  # exact there, a bound between
        assert np.ptp(value) >= 0.98 * constants.oscillation
        assert lipschitz >= 0.98 * constants.lipschitz
        assert smoothness >= 0.98 * constants.smoothness
    else:
        assert lipschitz >= 0.75 * constants.lipschitz
        assert smoothness >= 0.35 * constants.smoothness


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize(("x_bound", "theta_bound"), [(1.0, 2.0), (2.0, 0.5)])
def test_constants_of_k_means(k, x_bound, theta_bound):
    rng = np.random.default_rng(1)
    loss = losses.KMeans(k)
    constants = loss.constants(Domain(x_bound=x_bound, theta_bound=theta_bound))
    theta = ball(rng, (3000, k, 2), theta_bound)
    z = ball(rng, (40, 2), x_bound)
    apart = -theta_bound / np.sqrt(k) * z[:1] / np.linalg.norm(z[0])
    together = np.zeros((1, k, 2))
    together[0, 0] = z[0] * min(1, theta_bound / np.linalg.norm(z[0]))
    theta = np.concatenate([theta, np.repeat(apart[None], k, axis=1), together])
    distance = np.linalg.norm(theta[:, None] - z[None, :, None], axis=-1).min(axis=-1)
    value = distance**2
    assert constants.range[0] <= value.min()
    assert value.max() == pytest.approx(constants.range[1])
    oscillation = np.ptp(value, axis=0).max()
    assert 0.95 * constants.oscillation <= oscillation <= constants.oscillation * (1 + 1e-9)
    assert 2 * distance.max() == pytest.approx(constants.lipschitz)
    assert constants.smoothness == (2.0 if k == 1 else np.inf)
    assert constants.strong_convexity == (2.0 if k == 1 else -np.inf)


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
        Domain(x_bound=1.0, theta_bound=1.0, y_range=(3.0, np.inf)),
    ],
)
@pytest.mark.parametrize(
    "loss",
    [*LINEAR.values(), losses.SoftmaxCrossEntropy(3), losses.KMeans(1), losses.KMeans(3)],
    ids=lambda a: type(a).__name__,
)
def test_unbounded_domains_give_infinity_and_never_nan(loss, domain):
    constants = loss.constants(domain)
    numbers = np.array([*constants.range, *constants[1:]])
    assert not np.isnan(numbers).any()
    assert constants.oscillation >= 0
    assert constants.lipschitz >= 0
    if domain == Domain():
        assert constants.oscillation == np.inf


# -- values and derivatives ---------------------------------------------------------------------


def test_values_and_gradients_are_the_formulas(float64):
    rng = np.random.default_rng(0)
    x, theta, scores = rng.normal(size=(50, 3)), rng.normal(size=3), rng.normal(size=(3, 2))
    y = (rng.random(50) < 0.5) * 1.0
    softmax = losses.SoftmaxCrossEntropy(2)

    @jax.jit  # one program for all of them
    def evaluate(theta, scores, x, y):
        def total(theta, loss):
            return loss.batch(theta, (x, y)).sum()

        found = {
            name: (loss.batch(theta, (x, y)), jax.grad(total)(theta, loss))
            for name, loss in LINEAR.items()
        }
        far = softmax.batch(jnp.asarray([[500.0, -500.0]]), (jnp.ones((2, 1)), jnp.arange(2)))
        return found, softmax.batch(scores, (x, y)), softmax(scores, (x[3], y[3])), far

    found, batched, single, far = evaluate(theta, scores, x, y)
    for name, (value, gradient) in found.items():
        np.testing.assert_allclose(value, VALUE[name](x @ theta, y), atol=1e-12)
        np.testing.assert_allclose(gradient, SLOPE[name](x @ theta, y) @ x, atol=1e-12)
    p = x @ (scores[:, 1] - scores[:, 0])  # of two classes it is the logistic loss
    np.testing.assert_allclose(batched, np.logaddexp(0.0, p) - y * p, atol=1e-12)
    np.testing.assert_allclose(single, batched[3], atol=1e-12)
    np.testing.assert_allclose(far, [0.0, 1000.0])  # and does not overflow


# -- what is refused ----------------------------------------------------------------------------

X = np.zeros((4, 2))


@pytest.mark.parametrize(
    ("loss", "data", "match"),
    [
        (losses.hinge, (X, [-1.0, 1.0, 1.0, -1.0]), "hinge loss needs labels 0 and 1, got -1, 1"),
        (losses.hinge, (X, [1, 1, 1, 1]), "hinge loss needs both classes"),
        (losses.poisson, (X, [0.0, 2.0, -3.0, 1.0]), "needs counts, got -3"),
        (losses.SoftmaxCrossEntropy(3), (X, [0, 1, 2, 3]), r"needs labels 0\.\.2, got 0, 1, 2, 3"),
        (losses.SoftmaxCrossEntropy(3), X, r"needs examples \(x, y\)"),
        (losses.KMeans(2), (X, X), r"one array \[n, d\]"),
        (losses.KMeans(2), X[:, 0], r"one array \[n, d\]"),
    ],
)
def test_bad_examples_are_refused(loss, data, match):
    data = tuple(map(np.asarray, data)) if isinstance(data, tuple) else data
    with pytest.raises(ValueError, match=match):
        loss.check_data(data)


@pytest.mark.parametrize(
    ("make", "bad"),
    [
        (losses.Huber, 0.0),
        (losses.Huber, np.inf),
        (losses.Pinball, 1.0),
        (losses.GaussianNLL, -1.0),
        (losses.SoftmaxCrossEntropy, 1),
        (losses.KMeans, 0),
    ],
)
def test_bad_settings_are_refused(make, bad):
    with pytest.raises(ValueError, match=make.__name__):
        make(bad)


def test_labels_are_clipped_to_where_the_constants_hold():
    domain = Domain(x_bound=1.0)
    labels = np.array([-3.0, 0.0, 1.4, 9.0])
    for loss, wanted in (
        (losses.hinge, [0, 0, 1, 1]),
        (losses.poisson, [0, 0, 1.4, 9]),
        (losses.SoftmaxCrossEntropy(3), [0, 0, 1, 2]),
    ):
        np.testing.assert_array_equal(loss.clip((X, labels), domain)[1], wanted)
