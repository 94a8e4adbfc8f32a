"""Trained critics against closed forms: never above beyond their error, near where optimal.

Averages over 32 independent pairs of samples; a limit of 3 standard errors has a one-sided
false-alarm rate of 1.3e-3, one of 4 a two-sided rate of 6e-5.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gibbs_dp.papers import capacity
from gibbs_dp.papers.capacity.adversaries import RandomFeatures
from gibbs_dp.papers.capacity.critics import train_and_judge
from gibbs_dp.papers.capacity.verify import span_kl

CLASSES = {
    "linear": capacity.Polynomial(1),
    "quadratic": capacity.Polynomial(2),
    "kernel": RandomFeatures(32),
    "network": capacity.TwoLayerReLU(16),
}
NUM_PAIRS, NUM_DRAWS = 32, 2048
# Shift and width of P in two coordinates; Q is standard normal.
SHIFT = ((0.8, 0.0), (1.0, 1.0))
BOTH = ((0.7, 0.0), (1.0, 0.6))
NONE = ((0.0, 0.0), (1.0, 1.0))


def gaussian_kl(shift, width):
    return sum(0.5 * (s * s + w * w - 1) - math.log(w) for s, w in zip(shift, width, strict=True))


@functools.cache
def program(is_double):
    @jax.vmap
    def run(key, shift, width):
        p, q = jax.random.normal(key, (2, NUM_DRAWS, 2), shift.dtype)
        p = shift + width * p
        found = [train_and_judge(key, p, q, adversary, 100) for adversary in CLASSES.values()]
        return jnp.stack([v.value for v in found]), jnp.stack([v.se for v in found])

    return jax.jit(run, compiler_options={"xla_backend_optimization_level": 1})


def estimates(case, precision="float32"):
    keys = jax.random.split(jax.random.key(7), NUM_PAIRS)
    shift, width = (jnp.tile(jnp.asarray(v, precision), (NUM_PAIRS, 1)) for v in case)
    values, errors = (
        np.asarray(v, np.float64) for v in program(precision == "float64")(keys, shift, width)
    )
    mean, se = values.mean(axis=0), values.std(axis=0, ddof=1) / math.sqrt(NUM_PAIRS)
    return dict(zip(CLASSES, zip(mean, se, errors.mean(axis=0), strict=True), strict=True))


@pytest.mark.trust
def test_a_shift_is_linear(precision):
    truth = gaussian_kl(*SHIFT)
    found = estimates(SHIFT, precision)
    for mean, se, own in found.values():
        assert mean <= truth + 3 * se
        assert mean > 0.75 * truth
        # The error over draws of one pair is the spread over pairs.
        assert 0.5 < own / (se * math.sqrt(NUM_PAIRS)) < 2
    assert found["linear"][0] >= 0.95 * truth


@pytest.mark.trust
def test_a_change_of_width_is_not():
    whole, linear = gaussian_kl(*BOTH), 0.7**2 / 2
    found = estimates(BOTH)
    for name in ("quadratic", "kernel", "network"):
        mean, se, _ = found[name]
        assert mean <= whole + 3 * se
        assert mean > linear + 3 * se  # more than any linear critic sees
    mean, se, _ = found["linear"]
    assert 0.95 * linear <= mean <= linear + 3 * se


@pytest.mark.trust
def test_nothing_is_found_where_nothing_is():
    for mean, se, _ in estimates(NONE).values():
        assert mean <= 3 * se
        assert mean > -0.02


def test_no_noise_diverges():
    # Without noise every draw is the same: the critic's slope has no finite best value.
    p, q = np.ones((64, 1)), np.zeros((64, 1))
    laws = np.array([0.0, 1.0]), np.array([1.0, 0.0])
    assert span_kl(np.array([[0.0, 1.0]]), *laws) == math.inf
    found = capacity.trained_divergence(capacity.Polynomial(1), p, q)
    assert found.bound.value == math.inf


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"adversary": capacity.Unrestricted()}, "has no critic to train"),
        ({"draws_p": np.ones((4, 1))}, "at least 16 draws"),
        ({"draws_p": np.ones((20, 1))}, "one shape"),
        ({"draws_p": np.full((32, 1), np.nan)}, "draws_p must be finite"),
        ({"num_steps": 0}, "num_steps: must be"),
    ],
)
def test_bad_input_is_named(change, reason):
    given = {
        "adversary": capacity.Polynomial(1),
        "draws_p": np.ones((32, 1)),
        "draws_q": np.zeros((32, 1)),
    }
    given |= change
    with pytest.raises(ValueError, match=reason):
        capacity.trained_divergence(**given)
