"""Random numbers for populations: the published generator, and laws checked against SciPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from gibbs_dp import random

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
NUM = 60_000


def words(pair):
    return tuple(jnp.uint32(w) for w in pair)


@pytest.mark.parametrize(("rounds", "given", "answer"), KNOWN)
def test_the_generator_gives_the_known_answers(rounds, given, answer):
    key, count = map(words, given)
    assert tuple(map(int, random.threefry(key, count, rounds))) == answer


def law_of(draws, law, level=1e-4):
    """Kolmogorov-Smirnov; ``level`` is the false-alarm rate."""
    assert stats.kstest(np.asarray(draws, float).reshape(-1), law).pvalue > level


@pytest.mark.trust(but=["shape2"])
@pytest.mark.parametrize("shape", [NUM, (NUM // 10, 10), (3, NUM // 3)])
def test_shapes_hold_the_same_numbers(shape):
    key = jax.random.key(3)
    flat, shaped = random.normal(key, (NUM,)), random.normal(key, shape)
    assert shaped.shape == ((shape,) if isinstance(shape, int) else shape)
    np.testing.assert_array_equal(flat, shaped.reshape(-1))


def test_normals_and_uniforms_have_their_laws():
    law_of(random.normal(jax.random.key(11), (NUM // 4, 4)), "norm")
    drawn = random.uniform(jax.random.key(12), (NUM,), minval=-1.0, maxval=3.0)
    law_of(drawn, stats.uniform(-1.0, 4.0).cdf)
    assert -1.0 <= drawn.min() < drawn.max() <= 3.0


@pytest.mark.parametrize(
    ("lower", "upper"), [(-2.0, 2.0), (-0.5, 3.0), (3.0, 4.0), (-4.0, -3.0), (2.0, np.inf)]
)
def test_truncated_normals_have_their_law_tails_included(lower, upper):
    drawn = random.truncated_normal(jax.random.key(13), lower, upper, (NUM,))
    assert drawn.min() >= lower
    assert drawn.max() <= upper
    law_of(drawn, stats.truncnorm(lower, upper).cdf)


def test_coins_fall_as_often_as_asked():
    # Four standard errors for each of four: false alarm 3e-4.
    p = np.array([0.02, 0.3, 0.5, 0.97])
    share = random.bernoulli(jax.random.key(14), p, (NUM, 4)).mean(axis=0)
    assert (np.abs(share - p) < 4 * np.sqrt(p * (1 - p) / NUM)).all()
    assert random.bernoulli(jax.random.key(14), p).shape == (4,)


def test_numbers_of_different_keys_and_places_are_unrelated():
    # 4.5 standard errors of a correlation, over three times 780 pairs: false alarm 2%.
    keys = jax.random.split(jax.random.key(15), 20)
    drawn = np.asarray(jax.vmap(lambda k: random.normal(k, (5000, 2)))(keys))  # [key, 5000, 2]
    columns = drawn.transpose(0, 2, 1).reshape(40, 5000)
    lagged = np.corrcoef(columns[:, 1:], columns[:, :-1])[:40, 40:]
    for table in (np.corrcoef(columns), np.corrcoef(columns**2), lagged):
        pairs = table[np.triu_indices(40, 1)]
        assert np.abs(pairs).max() < 4.5 / np.sqrt(5000)


def test_a_key_and_its_children_draw_different_numbers():
    key = jax.random.key(16)
    first = [random.normal(k, (8,)) for k in (key, *jax.random.split(key, 3))]
    words_of_children = np.asarray(jax.random.key_data(jax.random.split(key, 64))).reshape(-1)
    own = np.asarray(random.words(tuple(jax.random.key_data(key)), 128))
    assert np.unique(np.stack(first)).size == 32
    assert not np.intersect1d(words_of_children, own).size


def test_a_numbers_place_does_not_depend_on_the_batch():
    keys = jax.random.split(jax.random.key(17), 5)
    together = jax.jit(jax.vmap(lambda k: random.normal(k, (7, 3))))(keys)
    alone = random.normal(keys[3], (7, 3))
    np.testing.assert_allclose(together[3], alone, rtol=1e-6, atol=1e-7)


def test_any_kind_of_key_will_do():
    old, new = jax.random.PRNGKey(5), jax.random.key(5)
    np.testing.assert_array_equal(random.uniform(old, (4,)), random.uniform(new, (4,)))
    other = random.uniform(jax.random.key(5, impl="rbg"), (NUM,))
    law_of(other, "uniform")


def test_only_floating_types_are_drawn():
    with pytest.raises(ValueError, match="dtype: must be float32 or float64"):
        random.normal(jax.random.key(0), (2,), dtype=jnp.float16)


def test_double_precision_has_more_than_24_bits(float64):
    u = random.uniform(jax.random.key(0), (4096,))
    assert u.dtype == jnp.float64
    assert np.unique(np.asarray(u) * 2**30 % 1).size > 4000
    law_of(u, "uniform")
    law_of(random.normal(jax.random.key(1), (NUM,)), "norm")
    assert random.normal(jax.random.key(1), (3,), dtype=jnp.float32).dtype == jnp.float32


def test_quantiles_are_those_of_scipy():
    # Every 97th of the 2^23 single-precision uniforms, and all of the outermost.
    k = np.concatenate([np.arange(0, 2**23, 97), np.arange(2000), 2**23 - 1 - np.arange(2000)])
    u = (k + 0.5) * 2.0**-23
    found = np.asarray(random.normal_quantile(jnp.asarray(u, jnp.float32)), float)
    np.testing.assert_allclose(found, stats.norm.ppf(u), rtol=4e-7, atol=4e-9)


def test_quantiles_in_double_precision(float64):
    u = np.linspace(1e-6, 1 - 1e-6, 1000)
    found = np.asarray(random.normal_quantile(jnp.asarray(u)))
    np.testing.assert_allclose(found, stats.norm.ppf(u), rtol=1e-9, atol=1e-12)
