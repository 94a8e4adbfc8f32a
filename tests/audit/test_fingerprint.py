"""What a fingerprint tells apart: code, constants, data, derivative rules; and what it need not."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from problems import gaussian_examples

import gibbs_dp as gdp
from gibbs_dp.engine.store.configuration import difference, fingerprints

NORMAL = dist.Normal(0.0, 1.0)


def of(loss=None, prior=NORMAL, population=None, **structured):
    posterior = gdp.GibbsPosterior(loss, prior, **structured)
    source = population or gdp.populations.Independent(lambda key, n: jax.random.normal(key, (n,)))
    return fingerprints(posterior, source, 5, 2)


def squared(theta, z):
    return (theta - z) ** 2


def with_gradient(scale):
    """Same values whatever the scale; another derivative rule."""

    @jax.custom_jvp
    def loss(theta, z):
        return (theta - z) ** 2

    loss.defjvp(lambda x, t: (loss(*x), scale * 2 * (x[0] - x[1]) * (t[0] - t[1])))
    return lambda theta, z: loss(theta, z)


def weighted(weights):
    return lambda theta, z: jnp.sum(weights * (theta - z) ** 2)


LARGE = np.arange(5000.0, dtype=np.float32)
PAIRS = {
    "code": (squared, lambda theta, z: jnp.abs(theta - z)),
    "constant": (lambda t, z: 0.1 * (t - z) ** 2, lambda t, z: 0.1000001 * (t - z) ** 2),
    "array it closes over": (weighted(LARGE), weighted(np.where(LARGE == 2500, 7, LARGE))),
    "array inside a jitted function": (
        jax.jit(weighted(LARGE)),
        jax.jit(weighted(np.where(LARGE == 2500, 7, LARGE))),
    ),
    "derivative rule": (with_gradient(1.0), with_gradient(0.5)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_a_changed_loss_is_seen(name):
    first, second = (of(loss) for loss in PAIRS[name])
    assert first == of(PAIRS[name][0])
    assert first["loss"] != second["loss"]
    assert (first["prior"], first["population"]) == (second["prior"], second["population"])


def test_a_changed_prior_and_population_are_seen():
    plain = of(squared)
    assert of(squared, dist.Normal(0.0, 1.001))["prior"] != plain["prior"]
    tables = [np.zeros(9), np.eye(9)[4]]
    digests = [
        of(squared, population=gdp.populations.Table(t, replace=r))["population"]
        for t in tables
        for r in (True, False)
    ]
    assert len({*digests, plain["population"]}) == 5


def test_a_structured_loss_and_a_built_in_one_are_seen():
    a, b = (
        of(None, total_loss=lambda theta, z, c=c: jnp.abs(theta - c * jnp.mean(z)))["loss"]
        for c in (1.0, 2.0)
    )
    assert a != b
    vectors = gdp.populations.Independent(gaussian_examples(1))
    one = of(gdp.losses.half_squared_distance, NORMAL.expand([1]), vectors)
    assert one == of(gdp.losses.half_squared_distance, NORMAL.expand([1]), vectors)


def test_the_difference_is_named():
    old = {"n": 10, "key": [0, 0], "versions": {"jax": "1", "numpy": "2"}, "loss": "f 1"}
    assert difference(old, old | {"key": [0, 1]}) == "key is [0, 0] there and [0, 1] here"
    new = old | {"versions": {"jax": "9", "numpy": "2"}, "loss": "f 2"}
    assert difference(old, new) == "versions.jax is 1 there and 9 here"
