"""The chains' random numbers: the laws they should have."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import gibbs_dp as gdp
from gibbs_dp._jaxlib.chacha import CHACHA20
from gibbs_dp.sampling import noise
from gibbs_dp.sampling.chains import evolve
from gibbs_dp.sampling.kernels.base import make_schedule
from gibbs_dp.sampling.noise import radius_quantile, spread_radii
from gibbs_dp.sampling.target import Whitening

STEPS = 2000


@pytest.fixture(scope="module", params=[None, CHACHA20], ids=["threefry", "chacha"])
def drawn(request):
    """Normals and uniforms of 8 chains, [8, STEPS, 5] and [8, STEPS, 2], as the engine draws."""
    streams = noise.chain_keys(jax.random.key(7, impl=request.param), 8)

    def one(stream, step):
        return noise.normals_and_uniforms(noise.step_key(stream, step), 5, 2, jnp.float32)

    over_steps = jax.vmap(one, in_axes=(None, 0))
    return jax.tree.map(
        np.asarray, jax.jit(jax.vmap(over_steps, in_axes=(0, None)))(streams, jnp.arange(STEPS))
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


@pytest.mark.parametrize("kind", [None, CHACHA20], ids=["threefry", "chacha"])
@pytest.mark.parametrize("n", [1, 7, 2**16, 2**16 + 1, 20_000_003, 2**31 - 1])
def test_integers_are_the_high_word_of_a_product(kind, n):
    """By Python's integers, of the same bits."""
    key = jax.random.key(3, impl=kind)
    found = np.asarray(noise.integers(key, 5000, n))
    high, low = np.split(np.asarray(noise._bits(key, 10_000, stream=1)), 2)
    wanted = [(((int(a) << 32) + int(b)) * n) >> 64 for a, b in zip(high, low, strict=True)]
    assert found.tolist() == wanted


@pytest.mark.parametrize("kind", [None, CHACHA20], ids=["threefry", "chacha"])
def test_integers_are_uniform_and_not_those_of_the_normals(kind):
    # A chi-square test and 2 correlations: false alarm 1e-4 each.
    keys = jax.random.split(jax.random.key(11, impl=kind), 400)
    rows = np.asarray(jax.jit(jax.vmap(lambda key: noise.integers(key, 50, 97)))(keys)).ravel()
    assert stats.chisquare(np.bincount(rows, minlength=97)).pvalue > 1e-4
    draw = jax.vmap(lambda key: noise.normals_and_uniforms(key, 50, 0, jnp.float32)[0])
    normals = np.asarray(jax.jit(draw)(keys), float).ravel()
    for values in (normals, normals**2):
        assert stats.pearsonr(values, rows).pvalue > 1e-4


def test_any_kind_of_key_gives_a_stream():
    streams = noise.chain_keys(jax.random.key(0, impl="rbg"), 3)
    assert np.unique(np.asarray(streams)).size == 6


# Lengths from different shells: the law of each vector, and of chains that share their noise.

CHAINS = 8


def spread(key, dim, dtype=jnp.float32):
    normal_key, radius_key, turn_key = jax.random.split(key, 3)
    normals = jax.random.normal(normal_key, (CHAINS, dim), dtype)
    uniforms = jax.random.uniform(radius_key, (CHAINS,), dtype)
    return normals, spread_radii(normals, uniforms, jax.random.uniform(turn_key, (), dtype))


@pytest.mark.parametrize("dim", [1, 2, 10, 5000])
def test_quantiles_are_those_of_scipy(dim, dtype):
    u = np.concatenate([np.linspace(0.001, 0.999, 999), [1e-6, 1 - 1e-6]])
    found = np.asarray(radius_quantile(jnp.asarray(u, dtype), dim), np.float64)
    rtol = 2e-5 if dtype == jnp.float32 else 2e-6  # u itself has 1e-7 of rounding
    np.testing.assert_allclose(found[:-1], stats.chi.ppf(u[:-1], dim), rtol=rtol, atol=1e-6)
    assert found[-1] == pytest.approx(stats.chi.isf(1e-6, dim), rel=2e-2)


@pytest.mark.parametrize("dim", [1, 3, 20])
def test_one_length_in_every_shell_and_directions_kept(dim):
    draw = jax.jit(jax.vmap(lambda k: spread(k, dim)))
    normals, moved = draw(jax.random.split(jax.random.key(0), 500))
    places = CHAINS * stats.chi.cdf(np.linalg.norm(moved, axis=2), dim)
    shells = np.floor(places)
    rounded = (np.sort(shells, axis=1) != np.arange(CHAINS)).any(axis=1)
    assert rounded.mean() < 0.01  # a length at the border of two shells
    # Anywhere within its shell: a false alarm has 1e-6.
    assert stats.kstest((places % 1.0).ravel(), "uniform").pvalue > 1e-6
    cosine = np.sum(normals * moved, axis=2) / np.linalg.norm(normals, axis=2)
    np.testing.assert_allclose(cosine, np.linalg.norm(moved, axis=2), rtol=1e-5)


@pytest.mark.trust
def test_every_vector_is_standard_normal(dtype):
    # Kolmogorov-Smirnov of 8 chains x 2 coordinates and 8 lengths: false alarm 24 x 1e-5.
    _, moved = jax.vmap(lambda k: spread(k, 2, dtype))(jax.random.split(jax.random.key(1), 20_000))
    moved = np.asarray(moved, np.float64)
    for chain in range(CHAINS):
        assert stats.kstest(np.linalg.norm(moved[:, chain], axis=1), "chi", (2,)).pvalue > 1e-5
        for column in moved[:, chain].T:
            assert stats.kstest(column, "norm").pvalue > 1e-5
    # Coordinates of different chains stay uncorrelated: 4.5 standard errors, 120 pairs, 0.1%.
    flat = moved.reshape(-1, 2 * CHAINS).T
    table = np.corrcoef(flat)[np.triu_indices(2 * CHAINS, 1)]
    assert np.abs(table).max() < 4.5 / np.sqrt(flat.shape[1])


def logistic_potential(v):
    """Independent standard logistic coordinates: heavier tails than the Gaussian's."""
    return jnp.sum(v + 2.0 * jax.nn.softplus(-v))


def chains_of_logistic():
    """Where 8 chains are after 12 joint steps from exact draws, [repeats, chains, 2]."""
    kernel = gdp.HMC(num_leapfrog=2)
    schedule = make_schedule(kernel.default_tuning(2), 11, 0)
    unit = Whitening(jnp.zeros(2), jnp.ones(2))

    def one(key):
        start_key, walk_key = jax.random.split(key)
        start = jax.random.logistic(start_key, (CHAINS, 2))
        return evolve(walk_key, logistic_potential, start, unit, kernel, schedule, 1, True).v[:, 0]

    return np.asarray(jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(2), 8192)))


def test_every_chain_by_itself_leaves_its_posterior_invariant():
    # 16 Kolmogorov-Smirnov tests: false alarm 1.6e-4.
    found = chains_of_logistic()
    for chain in range(CHAINS):
        for column in found[:, chain].T:
            assert stats.kstest(column, "logistic").pvalue > 1e-5


def test_shells_that_never_turn_are_caught(monkeypatch):
    # Known wrong: the first chain's momenta would always be the shortest.
    from gibbs_dp.sampling.kernels import hmc

    still = lambda normals, uniforms, _: spread_radii(normals, uniforms, jnp.zeros(()))  # noqa: E731
    monkeypatch.setattr(hmc, "spread_radii", still)
    first = chains_of_logistic()[:, 0, 0]
    assert stats.kstest(first, "logistic").pvalue < 1e-5


@pytest.mark.trust
def test_averages_over_chains_vary_less():
    # Mean squares of 8 draws in one dimension: by 8 shells, 20 times less than by chance.
    keys = jax.random.split(jax.random.key(3), 4000)
    normals, moved = jax.vmap(lambda k: spread(k, 1))(keys)
    by_chance, by_shells = (
        np.var(np.mean(np.asarray(x) ** 2, axis=(1, 2))) for x in (normals, moved)
    )
    assert by_shells < by_chance / 4


def test_hmc_draws_its_chains_noise_together_and_mala_does_not():
    assert gdp.HMC().traits.has_joint_noise
    assert not gdp.MALA().traits.has_joint_noise
