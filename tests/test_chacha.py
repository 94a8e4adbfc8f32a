"""ChaCha20 as a generator of JAX's keys: published blocks, laws, and every transformation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from gibbs_dp._jaxlib.chacha import CHACHA20, blocks, chacha_key, is_chacha, key_kind, wrap_key
from gibbs_dp._jaxlib.precision import precision
from gibbs_dp.privacy.noise import secret_key
from gibbs_dp.random import normal

KEY = chacha_key(np.arange(8, dtype=np.uint32))
# RFC 8439: section 2.3.2, then the first two of appendix A.1. Key, count, nonce, block.
PUBLISHED = {
    "2.3.2": (
        bytes(range(32)).hex(),
        1,
        "000000090000004a00000000",
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e",
    ),
    "A.1, 1": (
        "00" * 32,
        0,
        "00" * 12,
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586",
    ),
    "A.1, 2": (
        "00" * 32,
        1,
        "00" * 12,
        "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
        "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f",
    ),
}


def words_of(text):
    return np.frombuffer(bytes.fromhex(text), "<u4").astype(np.uint32)


@pytest.mark.parametrize("case", PUBLISHED)
def test_blocks_are_the_published_ones(case):
    key, count, nonce, block = PUBLISHED[case]
    counts = jnp.asarray([5, count], jnp.uint32)
    found = blocks(jnp.asarray(words_of(key)), counts, tuple(map(int, words_of(nonce))))
    np.testing.assert_array_equal(found[:, 1], words_of(block))
    assert not np.array_equal(found[:, 0], found[:, 1])


def data(keys):
    return np.asarray(jax.random.key_data(keys)).reshape(-1, 8)


def test_no_two_uses_of_a_key_share_a_block():
    """Bits, children and numbered children, each of which is under a nonce of its own."""
    bits = np.asarray(jax.random.bits(KEY, (64,), jnp.uint32)).reshape(16, 4)[:8].T
    children = data(jax.random.split(KEY, (2, 2)))
    numbered = data(jax.vmap(lambda i: jax.random.fold_in(KEY, i))(jnp.arange(4)))
    every = np.concatenate([data(KEY), bits, children, numbered])
    assert len(np.unique(every, axis=0)) == len(every) == 13
    words = jax.random.key_data(KEY)
    np.testing.assert_array_equal(
        bits.T, blocks(words, jnp.arange(4, dtype="uint32"), (0, 0, 0))[:8]
    )
    np.testing.assert_array_equal(
        numbered.T, blocks(words, jnp.arange(4, dtype="uint32"), (2, 0, 0))[:8]
    )


def draw(key):
    one, two, three = jax.random.split(jax.random.fold_in(key, 3), 3)
    return (
        jax.random.normal(one, (3, 5)),
        jax.random.uniform(two, (17,)),
        jax.random.randint(three, (4,), 0, 1000),
        jax.random.bits(three, (7,), jnp.uint8),
        jax.random.bits(three, (7,), jnp.uint16),
        normal(two, (6,)),
    )


@pytest.mark.trust(but="False")
@pytest.mark.parametrize("is_double", [False, True])
def test_transformations_change_no_number(is_double):
    with precision(is_double):
        keys = jax.random.split(KEY, 4)
        plain = [draw(key) for key in keys]
        assert plain[0][0].dtype == (jnp.float64 if is_double else jnp.float32)
        ways = (
            jax.jit(jax.vmap(draw))(keys),
            jax.lax.map(draw, keys),
            jax.lax.scan(lambda carry, key: (carry, draw(key)), 0, keys)[1],
        )
        for found in ways:
            for i, wanted in enumerate(plain):
                for a, b in zip(found, wanted, strict=True):
                    # Words are the same; their normal quantiles are rounded as they are fused.
                    np.testing.assert_allclose(a[i], b, rtol=1e-5, atol=1e-6)
        assert len({np.asarray(one[0]).tobytes() for one in plain}) == 4


@pytest.mark.trust(but="False")
@pytest.mark.parametrize("is_double", [False, True])
def test_numbers_have_their_laws(is_double):
    """Kolmogorov-Smirnov on 50,000 numbers, and bits: a false alarm of 1e-5 each."""
    with precision(is_double):
        a, b, c = jax.random.split(KEY, 3)
        normals, uniforms = jax.random.normal(a, (50_000,)), jax.random.uniform(b, (50_000,))
        own = normal(c, (50_000,))
        assert stats.kstest(np.asarray(normals, float), "norm").pvalue > 1e-5
        assert stats.kstest(np.asarray(own, float), "norm").pvalue > 1e-5
        assert stats.kstest(np.asarray(uniforms, float), "uniform").pvalue > 1e-5
        assert stats.kstest(1.02 * np.asarray(uniforms, float), "uniform").pvalue < 1e-5
    ones = np.unpackbits(np.asarray(jax.random.bits(a, (50_000,), jnp.uint8)))
    assert abs(ones.mean() - 0.5) < 4.5 * 0.5 / len(ones) ** 0.5


def test_secret_keys_have_256_bits_and_survive_their_words():
    keys = [secret_key() for _ in range(20)]
    assert len(np.unique(np.concatenate([data(key) for key in keys]))) == 160  # of 2^32 words each
    assert all(map(is_chacha, keys))
    assert key_kind(keys[0]) == "chacha20"
    again = wrap_key(jax.random.key_data(keys[0]), key_kind(keys[0]))
    assert again.dtype == keys[0].dtype
    np.testing.assert_array_equal(draw(again)[0], draw(keys[0])[0])
    seeded = [data(jax.random.key(seed, impl=CHACHA20))[0].tolist() for seed in (0, 1, 2**31)]
    assert seeded == [[0] * 8, [1] + [0] * 7, [2**31] + [0] * 7]
