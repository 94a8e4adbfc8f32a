"""Mixtures and k-means: losses that ignore the order of components, and their data."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from gibbs_dp._options import parameters
from gibbs_dp.privacy import pure_dp_epsilon
from gibbs_dp.problems import build_problem
from gibbs_dp.problems.clusters import MixtureLoss


def exact_loss(theta, z, shares, scale):
    """Minus the log density, in double precision."""
    logs = [
        np.log(share) + stats.multivariate_normal(mean, scale**2).logpdf(z)
        for share, mean in zip(shares, theta, strict=True)
    ]
    return -special.logsumexp(logs, axis=0)


@pytest.mark.trust(but=["shares1-2-0.4"])
@pytest.mark.parametrize(
    ("shares", "dim", "scale"), [((0.5, 0.5), 1, 1.0), ((0.2, 0.3, 0.5), 2, 0.4)]
)
def test_the_loss_is_minus_the_log_density(shares, dim, scale):
    rng = np.random.default_rng(0)
    theta, z = rng.normal(size=(len(shares), dim)), 3 * rng.normal(size=(40, dim))
    loss = MixtureLoss(shares, scale)
    found = loss.batch(jnp.asarray(theta, jnp.float32), jnp.asarray(z, jnp.float32))
    np.testing.assert_allclose(found, exact_loss(theta, z, shares, scale), rtol=2e-5, atol=2e-5)
    one = loss(jnp.asarray(theta, jnp.float32), jnp.asarray(z[3], jnp.float32))
    np.testing.assert_allclose(one, found[3], rtol=1e-6)


def test_the_loss_is_exact_in_single_precision_far_away():
    """Where both densities underflow, and where they lie on a common large offset."""
    loss = MixtureLoss((0.5, 0.5), 0.5)
    offset = 4096.0
    theta = offset + np.array([[-1.0], [60.0]])
    z = offset + np.array([[-50.0], [0.0], [29.5], [150.0]])
    batch = jax.jit(lambda theta: loss.batch(theta, jnp.asarray(z, jnp.float32)))
    at = jnp.asarray(theta, jnp.float32)
    np.testing.assert_allclose(batch(at), exact_loss(theta, z, (0.5, 0.5), 0.5), rtol=1e-5)
    slope = jax.jacobian(batch)(at)[
        :, :, 0
    ]  # minus the share of the component times (z - mean)/s^2
    # The third example lies halfway: both components have the same share in it.
    exact = [[196.0, 0.0], [-4.0, 0.0], [-61.0, 61.0], [0.0, -360.0]]
    np.testing.assert_allclose(slope, exact, rtol=1e-5, atol=1e-5)


@pytest.mark.trust
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("mixture", {"num_components": 3, "dim": 2}),
        ("k-means", {"num_clusters": 3}),
    ],
)
def test_every_order_of_labels_has_the_same_density(name, options):
    problem = build_problem(name, **options)
    data = problem.population.function(jax.random.key(0), 20)
    theta = jax.random.uniform(jax.random.key(1), (3, 2), minval=-0.9, maxval=0.9)
    found = [
        float(problem.posterior.log_density(theta[jnp.asarray(order)], data, 1.0))
        for order in itertools.permutations(range(3))
    ]
    np.testing.assert_allclose(found, found[0], rtol=1e-6)


@pytest.mark.trust
def test_unequal_shares_tell_labels_apart():
    problem = build_problem("mixture", shares=(0.3, 0.7))
    theta = jnp.array([[-1.5], [1.5]])
    data = problem.population.function(jax.random.key(0), 200)
    right, wrong = (
        float(problem.posterior.log_density(t, data, 1.0)) for t in (theta, theta[::-1])
    )
    assert right > wrong + 10


def test_a_command_line_takes_several_shares():
    option = parameters("gibbs_dp.problems.clusters:mixture")["shares"]
    assert (option.flag, option.kind, option.is_list) == ("--shares", "float", True)
    assert option.text.endswith("(default equal)")


def test_examples_come_from_the_mixture():
    """Moments of 100,000 examples, 4 standard errors each."""
    shares, n = (0.2, 0.3, 0.5), 100_000
    problem = build_problem(
        "mixture", num_components=3, dim=2, separation=4.0, data_scale=0.5, shares=shares
    )
    z = np.asarray(problem.population.function(jax.random.key(3), n))
    assert z.shape == (n, 2)
    nearest = np.argmin(np.abs(z[:, :1] - np.array([-4.0, 0.0, 4.0])), axis=1)
    assert np.all(np.abs(z[:, 0] - 4.0 * (nearest - 1)) < 0.5 * 8)  # 2 is 4 sd: nearest is own
    for k, share in enumerate(shares):
        own = z[nearest == k]
        assert abs(len(own) / n - share) < 4 * np.sqrt(share * (1 - share) / n) + 1e-4
        error = own - np.array([4.0 * (k - 1), 0.0])
        assert np.all(np.abs(error.mean(axis=0)) < 4 * 0.5 / np.sqrt(len(own)) + 1e-4)
        np.testing.assert_allclose(error.std(axis=0), 0.5, rtol=4 / np.sqrt(2 * len(own)) + 2e-3)


def test_centers_are_anywhere_in_the_square_unless_boxed():
    """The chart of a flat prior takes standard normals to it: 4,000 draws are uniform."""
    u = jax.random.normal(jax.random.key(4), (4000, 6))
    draws = {}
    for is_boxed in (False, True):
        posterior = build_problem("k-means", num_clusters=3, is_boxed=is_boxed).posterior
        draws[is_boxed] = np.asarray(jax.vmap(posterior.constrain)(u))
        density = jax.vmap(posterior.prior.log_prob)(draws[is_boxed])
        np.testing.assert_allclose(density, density[0], atol=1e-6)
    columns = draws[False].reshape(4000, 6).T
    least = min(stats.kstest(column, stats.uniform(-1, 2).cdf).pvalue for column in columns)
    assert least > 1e-5  # of six tests: 6 in 100,000
    edges = np.linspace(-1, 1, 4)
    for k in range(3):
        inside = draws[True][:, k, 0]
        assert edges[k] <= inside.min() < inside.max() <= edges[k + 1]
        assert draws[True][:, k, 1].min() < -0.9


@pytest.mark.parametrize("is_boxed", [False, True])
def test_the_worst_case_epsilon_of_k_means_is_that_of_the_square(is_boxed):
    problem = build_problem("k-means", is_boxed=is_boxed)
    epsilon = pure_dp_epsilon(problem.posterior, 1.0, 50, problem.domain, adjacency="replace-one")
    corner = jnp.array([[-1.0, -1.0], [-1.0, -1.0]])  # both centers opposite to the example
    largest = float(problem.posterior.loss(corner, jnp.array([1.0, 1.0])))
    assert epsilon == pytest.approx(2 * largest)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_components": 1}, "num_components: must be at least 2"),
        ({"dim": 0}, "dim: must be at least 1"),
        ({"separation": 0.0}, "separation: must be positive and finite"),
        ({"data_scale": np.nan}, "data_scale: must be positive and finite"),
        ({"prior_scale": np.inf}, "prior_scale: must be positive and finite"),
        ({"shares": (0.5, 0.3, 0.2)}, "shares: 3 for 2 components; give one for each"),
        ({"shares": (0.5, 0.6)}, "shares: must be positive and sum to 1, got 0.5, 0.6"),
        ({"shares": (0.0, 1.0)}, "shares: must be positive"),
    ],
)
def test_mixtures_that_make_no_sense(options, message):
    with pytest.raises(ValueError, match=message):
        build_problem("mixture", **options)
