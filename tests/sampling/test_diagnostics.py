"""Pooled diagnostics on draws whose law is known. Seeds fixed; false alarms stated at each test."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from gibbs_dp.sampling.cautions import judge
from gibbs_dp.sampling.diagnostics import Spread, pool

DATASETS, CHAINS, SAMPLES, DIM = 400, 8, 16, 3


def spreads(v, potential):
    """:func:`gibbs_dp.sampling.diagnostics.spread` of raw arrays, written again in NumPy."""
    x = np.concatenate([v, potential[..., None]], axis=-1)
    moving = np.stack([potential, np.sum(v**2, axis=-1)], axis=-1)
    half = v.shape[2] // 2
    steps = x.mean(axis=1, keepdims=True) + x.mean(axis=2, keepdims=True)
    rest = x - steps + x.mean(axis=(1, 2), keepdims=True)
    return Spread(
        within=np.sum(rest**2, axis=(1, 2)) / ((v.shape[1] - 1) * (v.shape[2] - 1)),
        between=x.mean(axis=2).var(axis=1, ddof=1),
        drift=moving[:, :, :half].mean(axis=(1, 2)) - moving[:, :, -half:].mean(axis=(1, 2)),
        drift_scale=moving.std(axis=(1, 2)),
    )


def iid(seed, shift=0.0, split=0.0):
    """Standard normals; ``shift`` moves the first half of the draws, ``split`` half the chains."""
    v = np.random.default_rng(seed).normal(size=(DATASETS, CHAINS, SAMPLES, DIM))
    v[:, :, : SAMPLES // 2, 0] += shift
    v[:, ::2, :, 0] += split
    return pool(spreads(v, 0.5 * np.sum(v**2, axis=-1)), CHAINS, SAMPLES)


def test_independent_draws_look_converged():
    pooled = iid(0)
    # R-hat^2 = 1 - 1/T + B/W with E[T B / W] = 1: exactly 1, up to 1e-2 / sqrt(datasets).
    assert abs(pooled.r_hat - 1) < 0.002
    assert abs(pooled.ess_min / (CHAINS * SAMPLES) - 1) < 0.15
    cells = DATASETS * (DIM + 1)
    assert abs(pooled.r_hat_exceed - 0.01) < 5 * np.sqrt(0.01 / cells)
    assert pooled.drift_size < 0.05


def test_chains_that_share_noise_look_no_worse():
    """Squared radii that add up to the same at every draw: chains are not independent."""
    radii = np.random.default_rng(5).normal(size=(DATASETS, CHAINS, SAMPLES))
    radii -= radii.mean(axis=1, keepdims=True)
    v = np.random.default_rng(6).normal(size=(DATASETS, CHAINS, SAMPLES, DIM))
    found = spreads(v, radii)
    ratio = SAMPLES * found.between[:, -1].mean() / found.within[:, -1].mean()
    # Four standard errors of a variance with 400 x 7 degrees of freedom (0.11), false-alarm rate
    # 6e-5. Without allowing for what chains share it would be 8 / 7.
    assert abs(ratio - 1) < 4 * np.sqrt(2 / (DATASETS * (CHAINS - 1)))


def test_drift_z_is_a_z_score():
    """Under no drift each of the two z-scores is N(0, 1): largest absolute of two dependent."""
    z = np.array([iid(seed).drift_z for seed in range(40)])
    # P(max of two |z| > x) lies between that of one and of two independent ones.
    assert stats.kstest(z, lambda x: 2 * stats.norm.cdf(x) - 1, alternative="greater").pvalue > 1e-4
    twice = lambda x: (2 * stats.norm.cdf(x) - 1) ** 2  # noqa: E731
    assert stats.kstest(z, twice, alternative="less").pvalue > 1e-4


def test_injected_drift_is_seen():
    pooled = iid(1, shift=0.5)
    assert pooled.drift_z > 6
    assert pooled.drift_size > 0.02


def test_chains_that_disagree_are_seen():
    pooled = iid(2, split=1.0)
    assert pooled.r_hat > 1.05
    assert pooled.ess_min < 0.5 * CHAINS * SAMPLES


def test_one_bad_dataset_hardly_moves_rhat_but_shows_as_a_cell():
    v = np.random.default_rng(3).normal(size=(DATASETS, CHAINS, SAMPLES, DIM))
    clean = pool(spreads(v, v[..., 0]), CHAINS, SAMPLES)
    v[:40, ::2, :, 0] += 3.0
    dirty = pool(spreads(v, v[..., 1]), CHAINS, SAMPLES)
    assert dirty.r_hat_exceed > 1.5 * clean.r_hat_exceed


@pytest.mark.parametrize("num_samples", [8, 9])
def test_spread_is_its_definition(num_samples):
    from gibbs_dp.sampling.diagnostics import spread
    from gibbs_dp.sampling.sampler import ChainDraws

    v = np.random.default_rng(4).normal(size=(4, num_samples, 2)).astype(np.float32)
    potential = 0.5 * np.sum(v**2, axis=-1)
    blank = dict.fromkeys(ChainDraws._fields)
    draws = ChainDraws(**(blank | {"v": jnp.asarray(v), "potential": jnp.asarray(potential)}))
    got, wanted = spread(draws), spreads(v[None], potential[None])
    for name in Spread._fields:
        np.testing.assert_allclose(getattr(got, name), getattr(wanted, name)[0], atol=1e-5)
    assert jax.tree.structure(got) == jax.tree.structure(wanted)


@pytest.mark.parametrize("advice", [None, "raise num_samples"])
@pytest.mark.parametrize("is_path", [False, True])
def test_remedies_are_those_of_the_sampler_that_was_used(is_path, advice):
    log_density = np.zeros((4, 50))
    rows = [{"ess": 5.0, "r_hat": 3.0}]
    told = judge(np.zeros(4, bool), log_density, None, rows, is_path=is_path, advice=advice)
    assert len(told) == 2
    for sentence in map(str, told):  # a horseshoe's funnel: longer chains do not help
        assert ("num_particles" in sentence) == is_path
        assert ("leave sampler= out" in sentence) == (not is_path and advice is None)
        assert ("; raise num_samples." in sentence) == (not is_path and advice is not None)
