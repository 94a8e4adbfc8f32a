"""Constants of an exchanged example, clipping to a domain, declared losses, prior curvature."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gibbs_dp as gdp
from gibbs_dp.model.prior import Prior

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


def in_ball(rng, count, radius):
    points = rng.normal(size=(count, 2))
    return radius * points / np.linalg.norm(points, axis=1, keepdims=True)


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from([*VALUE, "half_squared_distance"]),
    bounds=st.tuples(*[st.floats(0.1, 4.0)] * 3),
    seed=st.integers(0, 2**31),
)
def test_no_exchange_exceeds_its_constants(name, bounds, seed):
    """Two random examples on the rim, many parameters: range and gradient of the difference."""
    x_bound, y_bound, radius = bounds
    rng = np.random.default_rng(seed)
    domain = gdp.Domain(x_bound, (-y_bound, y_bound), theta_bound=radius)
    constants = getattr(gdp.losses, name).constants(domain)
    x, theta = in_ball(rng, 2, x_bound), in_ball(rng, 400, radius)
    if name == "half_squared_distance":
        values = [((theta - z) ** 2).sum(axis=1) / 2 for z in x]
        gradients = [theta - z for z in x]
    else:
        y = rng.choice([0.0, 1.0] if name == "logistic" else [-y_bound, y_bound], 2)
        values = [VALUE[name](theta @ a, b) for a, b in zip(x, y, strict=True)]
        gradients = [SLOPE[name](theta @ a, b)[:, None] * a for a, b in zip(x, y, strict=True)]
    gap = values[0] - values[1]
    assert gap.max() - gap.min() <= constants.exchange_range * (1 + 1e-9)
    length = np.linalg.norm(gradients[0] - gradients[1], axis=1).max()
    assert length <= constants.exchange_lipschitz * (1 + 1e-9)


def test_half_squared_distances_differ_by_a_linear_function():
    """Attained, also where theta reaches further than the examples: 4 |z| |theta|, 2 |z|."""
    found = gdp.losses.half_squared_distance.constants(gdp.Domain(x_bound=1.0, theta_bound=3.0))
    assert (found.exchange_range, found.exchange_lipschitz) == (12.0, 2.0)


def test_clipping_projects_rows_and_labels():
    domain = gdp.Domain(x_bound=1.0, y_range=(-1.0, 2.0))
    x = np.array([[3.0, 4.0], [0.3, 0.4], [1e200, 1e200], [np.nan, np.inf]])
    clipped, y = domain.clip((x, [5.0, -5.0, 0.5, np.nan]))
    np.testing.assert_allclose(clipped[0], [0.6, 0.8], rtol=2e-6)
    np.testing.assert_array_equal(clipped[1], x[1])
    np.testing.assert_allclose(clipped[2], [0.5**0.5] * 2, rtol=2e-6)
    np.testing.assert_array_equal(clipped[3], [0.0, 0.0])
    np.testing.assert_array_equal(y, [2.0, -1.0, 0.5, 0.0])
    assert np.linalg.norm(clipped.astype(np.float32), axis=1).max() <= 1.0
    np.testing.assert_allclose(domain.clip(np.array([-7.0, 0.5])), [-1.0, 0.5], rtol=2e-6)
    np.testing.assert_array_equal(
        gdp.losses.logistic.clip((x, [5.0, -5, 0.5, 1]), domain)[1], [1.0, 0.0, 0.5, 1.0]
    )
    with pytest.raises(ValueError, match="a Domain can clip"):
        domain.clip({"x": x})


def test_declared_losses_refuse_contradictions():
    with pytest.raises(ValueError, match="oscillation"):
        gdp.losses.Declared(lambda t, z: t, oscillation=-1.0)
    with pytest.raises(ValueError, match="strong_convexity"):
        gdp.losses.Declared(lambda t, z: t, smoothness=1.0, strong_convexity=2.0)


@pytest.mark.parametrize(
    ("prior", "curvature"),
    [
        (dist.Normal(jnp.zeros(2), jnp.array([0.5, 2.0])), (0.25, 4.0)),
        (dist.Normal(0.0, 2.0).expand([3]).to_event(1), (0.25, 0.25)),
        (dist.TruncatedNormal(0.0, 0.5, low=-1.0, high=1.0), (4.0, 4.0)),
        (dist.MultivariateNormal(jnp.zeros(2), jnp.diag(jnp.array([4.0, 0.25]))), (0.25, 4.0)),
        ({"a": dist.Normal(0.0, 1.0), "b": gdp.Flat(gdp.supports.real(2))}, (0.0, 1.0)),
        (dist.Cauchy(0.0, 1.0), (-np.inf, np.inf)),
    ],
)
def test_curvature_of_priors(prior, curvature):
    assert Prior(prior).curvature() == pytest.approx(curvature, rel=1e-6)
