"""Half the variance of a pair's log ratio, against every pair by itself."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gibbs_dp.estimators import pair_variance, pair_variance_of_pairs

GAMMA = 0.7


@pytest.fixture(scope="module")
def losses():
    """Losses with much in common, as those of one draw have, and weights of the draws."""
    rng = np.random.default_rng(0)
    shared = 100.0 * rng.normal(size=(4, 5, 1))
    train, ghost = (shared + rng.normal(size=(4, 5, n)) for n in (6, 8))
    weight = rng.random((4, 5))
    return train, ghost, weight / weight.sum(axis=1, keepdims=True)


def half_variance(delta, weight):
    weight = weight.ravel() / weight.shape[0]
    delta = delta.ravel() - weight @ delta.ravel()
    return 0.5 * weight @ delta**2


@pytest.mark.parametrize("size", [1, 2])
def test_all_pairs_and_the_first_ones(dtype, losses, size):
    train, ghost, weight = losses
    a, b = (x[..., : x.shape[-1] // size * size] for x in (train, ghost))
    a, b = (x.reshape(4, 5, -1, size).sum(axis=-1) for x in (a, b))
    every = np.array(
        [
            [half_variance(GAMMA * (b[..., j] - a[..., i]), weight) for j in range(b.shape[-1])]
            for i in range(a.shape[-1])
        ]
    )
    arrays = (jnp.asarray(x, dtype) for x in (train, ghost, weight))
    found = jax.jit(pair_variance, static_argnums=(4, 5))(*arrays, jnp.asarray(GAMMA), size, 3)
    exact = 1e-4 if dtype == "float32" else 1e-9
    assert float(found.mean) == pytest.approx(every.mean(), rel=exact)
    np.testing.assert_allclose(found.first, np.diag(every)[:3], rtol=exact)


def test_columns_of_pairs(losses):
    _, ghost, weight = losses
    each = [half_variance(ghost[..., j], weight) for j in range(8)]
    found = pair_variance_of_pairs(jnp.asarray(ghost), jnp.asarray(weight), 3)
    np.testing.assert_allclose(found.first, each[:3], rtol=1e-4)
    assert float(found.mean) == pytest.approx(np.mean(each), rel=1e-4)


def test_it_is_the_kl_to_second_order():
    # Linear losses of standard normal draws: the posterior of the replaced dataset is shifted.
    draws = jax.random.normal(jax.random.key(1), (8, 20000, 1))
    slopes = jnp.asarray([0.3, -0.2]), jnp.asarray([0.1, 0.5])
    weight = jnp.full((8, 20000), 1.0 / 20000)
    found = pair_variance(draws * slopes[0], draws * slopes[1], weight, jnp.asarray(0.5), 1, 2)
    exact = 0.125 * (slopes[1] - slopes[0]) ** 2
    np.testing.assert_allclose(found.first, exact, rtol=0.02)
