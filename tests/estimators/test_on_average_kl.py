"""Half the variance of a pair's log ratio, against every pair by itself."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gibbs_dp.estimators import (
    gap,
    group_variances,
    pair_variance,
    pair_variance_of_pairs,
    reference_gap,
    risk,
)

WEIGHT = jnp.array([[0.25, 0.75], [0.5, 0.5]])


def test_risk_weights_draws_within_and_chains_equally():
    losses = jnp.array([[[1.0], [2.0]], [[3.0], [5.0]]])
    assert float(risk(losses, WEIGHT)) == 0.5 * (0.25 + 1.5) + 0.5 * 4.0


def test_control_variate_keeps_the_mean_and_removes_variance():
    # gen of the Gaussian mean problem: theta = mean(z) + noise, truth 1/n with a flat prior.
    n, ghosts, datasets = 10, 4, 4000

    @jax.jit
    @jax.vmap
    def run(key):
        keys = jax.random.split(key, 3)
        z, fresh = jax.random.normal(keys[0], (n,)), jax.random.normal(keys[1], (ghosts,))
        theta = z.mean() + jax.random.normal(keys[2], (2, 2, 1)) / jnp.sqrt(n)
        loss = lambda t, x: 0.5 * (t - x) ** 2  # noqa: E731
        weight = jnp.full((2, 2), 0.5)
        plain = gap(loss(theta, z), loss(theta, fresh), weight)
        return plain, plain - reference_gap(loss(0.0, z), loss(0.0, fresh))

    plain, better = map(np.asarray, run(jax.random.split(jax.random.key(0), datasets)))
    for values in (plain, better):  # |z| <= 4: false alarms 6e-5 each
        assert abs(values.mean() - 1 / n) < 4 * values.std(ddof=1) / np.sqrt(datasets)
    assert better.var() < 0.7 * plain.var()


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
def test_all_pairs_and_some(dtype, losses, size):
    train, ghost, weight = losses
    a, b = (x[..., : x.shape[-1] // size * size] for x in (train, ghost))
    a, b = (x.reshape(4, 5, -1, size).sum(axis=-1) for x in (a, b))
    every = np.array(
        [
            [half_variance(GAMMA * (b[..., j] - a[..., i]), weight) for j in range(b.shape[-1])]
            for i in range(a.shape[-1])
        ]
    )
    arrays = [jnp.asarray(x, dtype) for x in (train, ghost, weight)]
    old, new = jnp.asarray([0, 2, 1, 2]), jnp.asarray([0, 0, 3, 3])
    found = jax.jit(pair_variance, static_argnums=4)(*arrays, jnp.asarray(GAMMA), size, old, new)
    exact = 1e-4 if dtype == "float32" else 1e-9
    assert float(found.mean) == pytest.approx(every.mean(), rel=exact)
    np.testing.assert_allclose(found.chosen, every[old, new], rtol=exact)
    # The parts of a pair bound it.
    parts = group_variances(*arrays, jnp.asarray(GAMMA), size)
    assert (every <= 1.001 * (parts[0][:, None] + parts[1])).all()


def test_columns_of_pairs(losses):
    _, ghost, weight = losses
    each = [half_variance(ghost[..., j], weight) for j in range(8)]
    some = jnp.asarray([5, 0, 5])
    found = pair_variance_of_pairs(jnp.asarray(ghost), jnp.asarray(weight), some)
    np.testing.assert_allclose(found.chosen, np.array(each)[some], rtol=1e-4)
    assert float(found.mean) == pytest.approx(np.mean(each), rel=1e-4)


def test_it_is_the_kl_to_second_order():
    # Linear losses of standard normal draws: the posterior of the replaced dataset is shifted.
    draws = jax.random.normal(jax.random.key(1), (8, 20000, 1))
    slopes = jnp.asarray([0.3, -0.2]), jnp.asarray([0.1, 0.5])
    weight = jnp.full((8, 20000), 1.0 / 20000)
    both, gamma = jnp.arange(2), jnp.asarray(0.5)
    found = pair_variance(draws * slopes[0], draws * slopes[1], weight, gamma, 1, both, both)
    exact = 0.125 * (slopes[1] - slopes[0]) ** 2
    np.testing.assert_allclose(found.chosen, exact, rtol=0.02)
