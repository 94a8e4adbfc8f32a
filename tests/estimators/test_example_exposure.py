"""What each example costs: against sums over all parameters, and unbiased from few draws."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from gibbs_dp.estimators import average_by_row, direct_kl, example_exposure

THETA = np.linspace(0.0, 1.0, 5)


def exact(train, ghost, weight, gamma):
    """KL and total variation to every replaced posterior, summed over all parameters."""
    p = weight * np.ones(train.shape[0])
    delta = gamma * (ghost[:, None, :] - train[:, :, None])
    q = p[:, None, None] * np.exp(-delta)
    q /= q.sum(axis=0)
    kl = np.sum(p[:, None, None] * (np.log(p)[:, None, None] - np.log(q)), axis=0)
    return kl.mean(axis=1), 0.5 * np.abs(p[:, None, None] - q).sum(axis=0).mean(axis=1)


@pytest.mark.trust(but=["3-0.03", "3-1.0", "3-30.0"])
@pytest.mark.parametrize("gamma", [0.03, 1.0, 30.0])
@pytest.mark.parametrize("num_ghosts", [1, 3, 6])
def test_sums_over_all_parameters_are_exact(gamma, num_ghosts):
    train = (THETA[:, None] - np.array([0.0, 0.5, 1.0, 0.2])) ** 2
    ghost = (THETA[:, None] - np.linspace(0.1, 1.5, num_ghosts)) ** 2
    weight = np.exp(-gamma * train.sum(axis=1))
    weight /= weight.sum()
    arrays = [jnp.asarray(a[None], jnp.float32) for a in (train, ghost, weight)]
    found = example_exposure(*arrays, jnp.asarray(gamma))
    kl, advantage = exact(train, ghost, weight, gamma)
    np.testing.assert_allclose(found.kl, kl, rtol=1e-3)
    np.testing.assert_allclose(found.advantage, advantage, rtol=2e-4)
    np.testing.assert_array_equal(found.tail, 0.0)


# Draws of chains that share the noise of their steps, as those of an audit may: of each step, the
# mean is kept near that of the posterior.
@pytest.mark.trust(but="True")
@pytest.mark.parametrize("is_shared", [False, True])
def test_few_draws_are_unbiased(is_shared):
    n, num_ghosts, repeats, gamma = 10, 8, 3000, 1.0
    rng = np.random.default_rng(7)
    z, fresh = rng.normal(size=(repeats, n)), rng.normal(size=(repeats, num_ghosts))
    noise = rng.normal(size=(repeats, 8, 8))
    if is_shared:
        noise = noise - 0.5 * noise.mean(axis=1, keepdims=True)
        noise /= np.sqrt(1 - 0.75 / 8)
    theta = z.mean(axis=1)[:, None, None] + noise / np.sqrt(n * gamma)
    train, ghost = (
        jnp.asarray(0.5 * (theta[..., None] - x[:, None, None, :]) ** 2, jnp.float32)
        for x in (z, fresh)
    )
    weight, g = jnp.full((8, 8), 1 / 8), jnp.asarray(gamma)
    found = jax.jit(jax.vmap(lambda a, b: example_exposure(a, b, weight, g)))(train, ghost)
    shift = np.sqrt(gamma / n) * np.abs(z[:, :, None] - fresh[:, None, :])
    truths = 0.5 * shift**2, 2.0 * norm.cdf(0.5 * shift) - 1.0
    for values, truth in zip(found, truths, strict=False):
        gap = np.asarray(values, np.float64).mean(axis=1) - truth.mean(axis=(1, 2))
        error = gap.std() / np.sqrt(repeats)
        # 4 standard errors, and what the jackknife leaves of pairs beyond a nat: 1% at this gamma.
        assert abs(gap.mean()) < 4 * error + 0.01 * truth.mean()
        assert error < 0.008 * truth.mean()  # so that a plug-in's bias would be seen
    whole = jax.jit(jax.vmap(lambda a, b: direct_kl(a, b, weight, g).value))(train, ghost)
    np.testing.assert_allclose(found.kl.mean(), whole.mean(), rtol=2e-3)


def test_rows_are_averaged_over_the_datasets_that_hold_them():
    rng = np.random.default_rng(3)
    rows = rng.integers(0, 7, size=(50, 6))
    rows[rows == 5] = 2  # nobody has it
    values = rng.normal(size=rows.shape) + rows
    found = average_by_row(values, rows, 8)
    for row in range(8):
        held = [i for i in range(50) if (rows[i] == row).any()]
        assert found.num_datasets[row] == len(held)
        if not held:
            assert np.isnan(found.value[row])
            continue
        assert found.value[row] == pytest.approx(values[rows == row].mean())
        rest = [np.sum(values[i][rows[i] == row] - found.value[row]) for i in held]
        error = np.sqrt(np.sum(np.square(rest)) * len(held) / (len(held) - 1))
        assert found.se[row] == pytest.approx(error / (rows == row).sum())


def test_rows_in_parts_are_rows_in_one(monkeypatch):
    module = sys.modules["gibbs_dp.estimators.average"]  # the name is also that of a function

    rng = np.random.default_rng(4)
    rows, values = rng.integers(0, 9, size=(40, 5)), rng.normal(size=(40, 5))
    whole = average_by_row(values, rows, 9)
    monkeypatch.setattr(module, "_CHUNK", 15)
    for one, other in zip(whole, average_by_row(values, rows, 9), strict=True):
        np.testing.assert_allclose(one, other)
