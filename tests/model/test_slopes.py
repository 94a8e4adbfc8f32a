"""Values, slopes and curvatures of losses: by differentiation, of NumPy's and of JAX's arrays."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gibbs_dp import losses
from gibbs_dp._source import losses_of
from gibbs_dp.model.losses import as_loss

LINEAR = [
    losses.squared,
    losses.absolute,
    losses.Huber(0.7),
    losses.Pinball(0.3),
    losses.poisson,
    losses.GaussianNLL(1.7),
    losses.logistic,
    losses.hinge,
    losses.linear,
]
RNG = np.random.default_rng(0)
# Far from kinks and from ends of doubles; a square, so that shapes may broadcast.
PREDICTIONS, LABELS = RNG.normal(scale=2.0, size=(40, 5)), RNG.integers(0, 2, (40, 1)) * 1.0


def test_every_loss_of_a_linear_prediction_is_here():
    named = {name for name in losses.__all__ if isinstance(getattr(losses, name), type)}
    classes = {getattr(losses, name) for name in named} - {losses.LinearLoss, losses.TwoClassLoss}
    assert {c for c in classes if issubclass(c, losses.LinearLoss)} == {type(a) for a in LINEAR}


def tolerance(precision):
    return {"rtol": 2e-5, "atol": 2e-6} if precision == jnp.float32 else {"rtol": 1e-12}


@pytest.mark.parametrize("loss", LINEAR, ids=lambda a: a.name)
def test_slopes_and_curvatures_are_derivatives(precision, loss):
    p, y = jnp.asarray(PREDICTIONS, precision), jnp.asarray(LABELS, precision)

    def differentiated(function):
        return jax.jit(jax.vmap(jax.vmap(jax.grad(function), (0, None))))(p, y[:, 0])

    near = {"rtol": 2e-5, "atol": 1e-5} if precision == jnp.float32 else {"atol": 1e-12}
    slope, curve = differentiated(loss.value), differentiated(jax.grad(loss.value))
    np.testing.assert_allclose(loss.slope(p, y), slope, **near)
    np.testing.assert_allclose(loss.curvature(p, y), curve, **near)
    assert loss.slope(p, y).dtype == loss.curvature(p, y).dtype == precision


@pytest.mark.parametrize("loss", LINEAR, ids=lambda a: a.name)
def test_the_slope_at_a_kink_lies_between_those_beside_it(loss):
    at, y = np.array([0.0, 1.0, 1.0, -1.0]), np.array([0.0, 1.0, 0.0, 0.0])
    left, right = loss.slope(at - 1e-9, y), loss.slope(at + 1e-9, y)
    found = loss.slope(at, y)
    assert ((np.minimum(left, right) - 1e-8 <= found) & (found <= right + 1e-8)).all()


@pytest.mark.parametrize("loss", LINEAR, ids=lambda a: a.name)
@pytest.mark.parametrize("method", ["value", "slope", "curvature", "smoothed_curvature"])
def test_numpy_and_jax_agree(precision, loss, method):
    of = getattr(loss, method)
    here = of(PREDICTIONS.astype(precision), LABELS.astype(precision))
    there = of(jnp.asarray(PREDICTIONS, precision), jnp.asarray(LABELS, precision))
    assert (type(here), isinstance(there, jax.Array)) == (np.ndarray, True)
    assert here.dtype == there.dtype == precision
    assert here.shape == there.shape == PREDICTIONS.shape
    np.testing.assert_allclose(here, there, **tolerance(precision))


@pytest.mark.parametrize("loss", LINEAR, ids=lambda a: a.name)
def test_a_batch_is_the_values_of_its_predictions(precision, loss):
    x, theta = RNG.normal(size=(40, 3)), RNG.normal(size=3)
    found = loss.batch(
        jnp.asarray(theta, precision),
        (jnp.asarray(x, precision), jnp.asarray(LABELS[:, 0], precision)),
    )
    near = {"rtol": 1e-4, "atol": 1e-5} if precision == jnp.float32 else {"rtol": 1e-10}
    np.testing.assert_allclose(found, loss.value(x @ theta, LABELS[:, 0]), **near)


@pytest.mark.parametrize("loss", LINEAR, ids=lambda a: a.name)
def test_what_scales_chains_is_finite_and_not_negative(loss):
    for scale in (1e-6, 1.0, 1e3):
        if loss.name == "poisson" and scale > 100:
            continue
        found = loss.smoothed_curvature(scale * PREDICTIONS, LABELS)
        assert (np.isfinite(found) & (found >= 0)).all()


def test_smoothed_kinks_add_up_to_the_jump_of_the_slope():
    """Over predictions around one label: their integral is how far the slope rises."""
    grid = np.linspace(-60, 60, 200_001)[:, None]
    for loss, jump in ((losses.absolute, 2.0), (losses.Pinball(0.3), 1.0), (losses.hinge, 1.0)):
        p = grid + (1.0 if loss.name == "hinge" else 0.0)
        found = loss.smoothed_curvature(p, np.ones_like(p) if loss.name == "hinge" else 0 * p)
        assert found.sum() * (grid[1, 0] - grid[0, 0]) == pytest.approx(jump, rel=0.02)


def test_scores_of_classes(precision):
    loss = losses.SoftmaxCrossEntropy(4)
    scores, y = RNG.normal(scale=3.0, size=(30, 4)), RNG.integers(0, 4, 30) * 1.0
    s, labels = jnp.asarray(scores, precision), jnp.asarray(y, precision)
    slope = jax.jit(jax.vmap(jax.grad(loss.value)))(s, labels)
    curve = jax.jit(jax.vmap(jax.hessian(loss.value)))(s, labels)
    near = {"rtol": 1e-4, "atol": 1e-6} if precision == jnp.float32 else {"rtol": 1e-10}
    near |= {"atol": 1e-6 if precision == jnp.float32 else 1e-14}
    for method, truth in (("value", loss.value(s, labels)), ("slope", slope), ("curvature", curve)):
        np.testing.assert_allclose(getattr(loss, method)(scores, y), truth, **near)
        np.testing.assert_allclose(getattr(loss, method)(s, labels), truth, **near)
    assert isinstance(loss.curvature(scores, y), np.ndarray)
    # Any axes before the classes, with labels that broadcast over them.
    many = RNG.normal(size=(6, 5, 4))
    found = loss.value(many, y[:6, None])
    for i in range(5):
        np.testing.assert_allclose(found[:, i], loss.value(many[:, i], y[:6]), rtol=1e-14)


def test_a_matrix_of_weights_may_come_as_one_vector():
    loss, theta = losses.SoftmaxCrossEntropy(3), jnp.asarray(RNG.normal(size=(2, 3)))
    data = jnp.asarray(RNG.normal(size=(5, 2))), jnp.asarray([0.0, 1.0, 2.0, 1.0, 0.0])
    np.testing.assert_array_equal(loss.batch(theta, data), loss.batch(theta.reshape(-1), data))


# -- names ------------------------------------------------------------------------------------


def test_names_are_those_of_the_classes():
    """What is read from the sources, for help without JAX, is what the classes say."""
    for labels in ("two classes", "classes", "numbers", "counts"):
        found = losses_of(labels)
        classes = [getattr(losses, name) for name in losses.__all__]
        wanted = {
            one.name: one.__name__
            for one in classes
            if isinstance(one, type)
            and issubclass(one, losses.Loss)
            and one.labels == labels
            and not one.__abstractmethods__
        }
        assert found == wanted != {}
        for name in found:
            assert as_loss(name, labels).name == name
    assert losses.linear.labels is None  # a sum that no data stop: nothing to fit


@pytest.mark.parametrize(
    "given", ["linear", "nonsense", 3.0, None, losses.Huber, losses.huber.value]
)
def test_what_is_no_loss_is_refused_with_the_names(given):
    with pytest.raises(ValueError, match="is none of absolute, gaussian-nll, huber, pinball, squ"):
        as_loss(given, "numbers")


def test_a_loss_of_other_labels_is_refused():
    with pytest.raises(ValueError, match="loss: the poisson loss takes counts, and here"):
        as_loss(losses.poisson, "numbers")
