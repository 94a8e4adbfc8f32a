"""The chains' random numbers: the published generator, and the laws they should have."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from gibbs_dp.sampling import noise

PI = ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3))
ONES = ((0xFFFFFFFF, 0xFFFFFFFF),) * 2
ZEROS = ((0, 0),) * 2
# Known answers published with Random123: (rounds, key and count) -> words.
KNOWN = [
    (13, ZEROS, (0x9D1C5EC6, 0x8BD50731)),
    (13, ONES, (0xFD36D048, 0x2D17272C)),
    (13, PI, (0xBA3E4725, 0xF27D669E)),
    (20, ZEROS, (0x6B200159, 0x99BA4EFE)),
    (20, ONES, (0x1CB996FC, 0xBB002BE7)),
    (20, PI, (0xC4923A9C, 0x483DF7A0)),
]
STEPS = 2000


def words(pair):
    return tuple(jnp.uint32(w) for w in pair)


@pytest.mark.parametrize(("rounds", "given", "answer"), KNOWN)
def test_the_generator_gives_the_known_answers(rounds, given, answer):
    key, count = map(words, given)
    assert tuple(map(int, noise.threefry(key, count, rounds))) == answer


@pytest.fixture(scope="module")
def drawn():
    """Normals and uniforms of 8 chains, [8, STEPS, 5] and [8, STEPS, 2], as the engine draws."""
    streams = noise.chain_keys(jax.random.key(7), 8)

    def one(stream, step):
        return noise.normals_and_uniforms(noise.step_key(stream, step), 5, 2, jnp.float32)

    over_steps = jax.vmap(one, in_axes=(None, 0))
    return jax.tree.map(
        np.asarray, jax.vmap(over_steps, in_axes=(0, None))(streams, jnp.arange(STEPS))
    )


def test_normals_are_normal_and_uniforms_uniform(drawn):
    # Kolmogorov-Smirnov on 80,000 and 32,000 numbers: false alarm 1e-4 each.
    normals, uniforms = (x.reshape(-1).astype(float) for x in drawn)
    assert stats.kstest(normals, "norm").pvalue > 1e-4
    assert stats.kstest(uniforms, "uniform").pvalue > 1e-4
    assert 0 < uniforms.min() <= uniforms.max() < 1


def test_nothing_is_correlated_across_coordinates_steps_or_chains(drawn):
    # 4.5 standard errors of a correlation, over some 200 pairs: false alarm 0.2%.
    normals, uniforms = drawn
    columns = np.concatenate([normals, stats.norm.ppf(uniforms)], axis=2)  # [chain, step, 7]
    flat = columns.transpose(0, 2, 1).reshape(56, STEPS)
    lagged = np.corrcoef(flat[:, 1:], flat[:, :-1])[:56, 56:]
    same = np.corrcoef(flat) - np.eye(56)
    for table in (
        same[np.triu_indices(56, 1)],
        lagged.diagonal(),
        np.corrcoef(flat**2)[np.triu_indices(56, 1)],
    ):
        assert np.abs(table).max() < 4.5 / np.sqrt(STEPS - 1) * 1.2


def test_double_precision_has_more_than_24_bits(float64):
    u = noise.uniforms(jax.random.key(0), 4096, jnp.float64)
    assert u.dtype == jnp.float64
    assert np.unique(np.asarray(u) * 2**30 % 1).size > 4000
    assert stats.kstest(np.asarray(u), "uniform").pvalue > 1e-4


def test_any_kind_of_key_gives_a_stream():
    streams = noise.chain_keys(jax.random.key(0, impl="rbg"), 3)
    assert np.unique(np.asarray(streams)).size == 6


def test_quantiles_are_those_of_scipy():
    # Every 97th of the 2^23 single-precision uniforms, and all of the outermost.
    k = np.concatenate([np.arange(0, 2**23, 97), np.arange(2000), 2**23 - 1 - np.arange(2000)])
    u = (k + 0.5) * 2.0**-23
    found = np.asarray(noise.normal_quantile(jnp.asarray(u, jnp.float32)), float)
    np.testing.assert_allclose(found, stats.norm.ppf(u), rtol=4e-7, atol=4e-9)


def test_quantiles_in_double_precision(float64):
    u = np.linspace(1e-6, 1 - 1e-6, 1000)
    found = np.asarray(noise.normal_quantile(jnp.asarray(u)))
    np.testing.assert_allclose(found, stats.norm.ppf(u), rtol=1e-9, atol=1e-12)
