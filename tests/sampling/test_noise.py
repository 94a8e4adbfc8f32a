"""The chains' random numbers: the laws they should have."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from gibbs_dp._jaxlib.chacha import CHACHA20
from gibbs_dp.sampling import kernels, rejection  # noqa: F401  (kernels first: a circle)

STEPS = 2000


@pytest.fixture(scope="module", params=[None, CHACHA20], ids=["threefry", "chacha"])
def drawn(request):
    """Normals and uniforms of 8 chains, [8, STEPS, 5] and [8, STEPS, 2], as the engine draws."""
    streams = rejection.chain_keys(jax.random.key(7, impl=request.param), 8)

    def one(stream, step):
        return rejection.normals_and_uniforms(rejection.step_key(stream, step), 5, 2, jnp.float32)

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


def test_any_kind_of_key_gives_a_stream():
    streams = rejection.chain_keys(jax.random.key(0, impl="rbg"), 3)
    assert np.unique(np.asarray(streams)).size == 6
