"""Features of the user's and balls of a kernel against closed forms and a convex program.

Averages over 32 independent pairs of samples; a limit of 3 standard errors has a one-sided
false-alarm rate of 1.3e-3.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import NonlinearConstraint, minimize
from scipy.special import logsumexp

from gibbs_dp.papers import capacity
from gibbs_dp.papers.capacity.adversaries import PolynomialMap
from gibbs_dp.papers.capacity.critics import KL, Training, kernel_inputs, train_and_judge

SHIFT, NUM_PAIRS, NUM_DRAWS = 0.8, 32, 2048
BANDWIDTH, NORMS = 1.0, (0.3, 1.0, 3.0)


def itself(theta):
    return theta


def squares(theta):
    return theta**2


def both(theta):
    return jnp.concatenate([theta, theta**2])


CLASSES = (
    *(capacity.LinearFeatures(phi, phi.__name__) for phi in (itself, squares, both)),
    *(capacity.KernelBall(norm, BANDWIDTH, 48) for norm in NORMS),
)


@functools.cache
def estimates():
    """Mean and standard error over pairs, per class and for a shift and none."""

    @jax.vmap
    def run(key, shift):
        p, q = jax.random.normal(key, (2, NUM_DRAWS, 1), shift.dtype)
        found = [
            train_and_judge(key, p + shift, q, adversary, KL(), Training(num_steps=150)).value
            for adversary in CLASSES
        ]
        return jnp.stack(found)

    keys = jax.random.split(jax.random.key(5), 2 * NUM_PAIRS)
    shift = jnp.repeat(jnp.asarray([SHIFT, 0.0]), NUM_PAIRS)
    values = np.asarray(
        jax.jit(run, compiler_options={"xla_backend_optimization_level": 0})(keys, shift)
    )
    values = values.astype(np.float64).reshape(2, NUM_PAIRS, len(CLASSES))
    return values.mean(axis=1), values.std(axis=1, ddof=1) / math.sqrt(NUM_PAIRS)


@pytest.mark.trust
def test_linear_functions_of_features():
    mean, se = (found[0] for found in estimates())
    # N(0.8, 1) against N(0, 1): the whole KL; of the square, an exponential family of its own.
    second = 1 + SHIFT**2
    truths = (SHIFT**2 / 2, (second - 1 - math.log(second)) / 2, SHIFT**2 / 2)
    for k, truth in enumerate(truths):
        assert mean[k] <= truth + 3 * se[k]
        assert mean[k] >= 0.9 * truth - 3 * se[k]


def ball_kl(norm):
    """Largest value in the ball, by a convex program on a fine grid of centres."""
    centres = np.linspace(-5, 6, 45)
    x, w = np.polynomial.hermite_e.hermegauss(60)
    w = w / w.sum()
    gram = np.exp(-((centres[:, None] - centres) ** 2) / (2 * BANDWIDTH**2))
    size, ways = np.linalg.eigh(gram)
    kept = size > 1e-9
    root = ways[:, kept] / np.sqrt(size[kept])

    def features(at):
        return np.exp(-((at[:, None] - centres) ** 2) / (2 * BANDWIDTH**2)) @ root

    target, under = features(x + SHIFT).T @ w, features(x)

    def loss(a):
        exponent = np.log(w) + under @ a
        total = logsumexp(exponent)
        return total - a @ target, under.T @ np.exp(exponent - total) - target

    inside = NonlinearConstraint(lambda a: a @ a, -np.inf, norm**2, jac=lambda a: 2 * a[None, :])
    found = minimize(
        loss, 0.01 * target, jac=True, method="SLSQP", constraints=inside, options={"ftol": 1e-12}
    )
    return -found.fun


@pytest.mark.trust
def test_balls_of_a_kernel():
    mean, se = (found[0] for found in estimates())
    before = 0.0
    for k, norm in enumerate(NORMS, start=3):
        exact = ball_kl(norm)
        assert before < exact < SHIFT**2 / 2
        assert mean[k] <= exact + 3 * se[k]
        assert mean[k] >= 0.9 * exact - 3 * se[k]
        # Values in [-norm, norm]: Hoeffding's lemma, and Theorem 7 up to a norm of 1.
        assert exact < 2 * norm
        before = exact


@pytest.mark.trust
def test_nothing_is_found_where_nothing_is():
    mean, se = (found[1] for found in estimates())
    assert (mean <= 3 * se).all()
    assert (mean > -0.02).all()


def test_norms_in_the_space_of_the_kernel():
    z = jnp.asarray(np.random.default_rng(0).normal(size=(20, 2)), "float32")
    ball = capacity.KernelBall(1.0, 0.7)
    x = jnp.asarray(np.random.default_rng(1).normal(size=(50, 2)), "float32")
    features = np.asarray(kernel_inputs(ball, x, z), np.float64)
    gram = np.exp(-np.sum((np.asarray(x)[:, None] - np.asarray(z)) ** 2, -1) / (2 * 0.49))
    among = np.exp(-np.sum((np.asarray(z)[:, None] - np.asarray(z)) ** 2, -1) / (2 * 0.49))
    a = np.random.default_rng(2).normal(size=20)
    # The same function as a combination of the kernel: its norm is no more than that of a.
    c = np.linalg.solve(among + 1e-4 * np.eye(20), gram.T)
    np.testing.assert_allclose(features @ features.T, gram @ c, atol=2e-3)
    coefficients = np.linalg.lstsq(gram, features @ a)[0]
    assert coefficients @ among @ coefficients <= a @ a * (1 + 1e-3)


@pytest.fixture(scope="module")
def shifted():
    p, q = np.random.default_rng(3).normal(size=(2, 20_000, 1))
    return p + 1.0, q


def test_metrics(shifted):
    # Gaussian kernel of bandwidth 1, N(1, 1) against N(0, 1), in closed form.
    exact = math.sqrt(2 / math.sqrt(3) * (1 - math.exp(-1 / 6)))
    ball = capacity.trained_divergence(capacity.KernelBall(3.0), *shifted, "ipm")
    assert abs(ball.bound.value - 3 * exact) < 4 * ball.se + 0.02
    first = capacity.trained_divergence(capacity.LinearFeatures(itself), *shifted, "ipm")
    assert abs(first.bound.value - 1.0) < 4 * first.se
    # Theorem 7 applies within norm 1 alone.
    seen = capacity.CapacityBound(0.01, "kl", capacity.KernelBall(1.0))
    assert capacity.ipm_from_kl(seen).value == pytest.approx(0.8)
    with pytest.raises(ValueError, match=r"of range \[-1, 1\]"):
        capacity.ipm_from_kl(capacity.CapacityBound(0.01, "kl", capacity.KernelBall(1.5)))


def test_without_noise():
    p, q = np.ones((64, 1)), np.zeros((64, 1))
    found = capacity.trained_divergence(capacity.LinearFeatures(squares), p, q)
    assert found.bound.value == math.inf
    # Bounded critics see f(1) - f(0), at most 2 sin-like: |k(1, .) - k(0, .)|.
    ball = capacity.trained_divergence(capacity.KernelBall(0.5), p, q)
    assert ball.bound.value <= 0.5 * math.sqrt(2 * (1 - math.exp(-0.5))) * (1 + 1e-4)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: capacity.KernelBall(0.0), "norm"),
        (lambda: capacity.KernelBall(1.0, -1.0), "bandwidth"),
        (lambda: capacity.KernelBall(1.0, 1.0, 0), "num_landmarks"),
        (lambda: CLASSES[0].before(PolynomialMap(1)), "mapping: features"),
        (lambda: CLASSES[3].before(PolynomialMap(1)), "mapping: a kernel"),
    ],
)
def test_bad_input_is_named(call, reason):
    with pytest.raises(ValueError, match=reason):
        call()


@pytest.mark.parametrize(
    ("adversary", "more", "reason"),
    [
        (capacity.LinearFeatures(jnp.sum), (), "phi: must return one vector"),
        (capacity.KernelBall(), ("renyi", 2.0), "classes closed under scaling"),
    ],
)
def test_bad_combinations_are_named(adversary, more, reason):
    with pytest.raises(ValueError, match=reason):
        capacity.trained_divergence(adversary, np.ones((32, 1)), np.zeros((32, 1)), *more)
