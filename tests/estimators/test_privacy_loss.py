"""Tails, ranks and divergences of the privacy loss, on Gaussian pairs with known answers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from gibbs_dp.estimators.jackknife import LeavingOut
from gibbs_dp.estimators.privacy_loss import (
    EPSILONS,
    ORDERS,
    log_normalizer_ratio,
    one_sided_loss,
    two_sided_loss,
)

SHAPE, NUM_PAIRS, NUM_DATASETS = (8, 8), 16, 1024
WEIGHT = jnp.full(SHAPE, 1.0 / SHAPE[1])


def gaussian_truth(mu, num_releases=1):
    """Exact law of the loss of ``N(0, 1)`` and ``N(mu, 1)``: ``N(mu^2/2, mu^2)``."""
    mu = mu * np.sqrt(num_releases)
    above = stats.norm.sf((EPSILONS - mu**2 / 2) / mu)
    false = stats.norm.sf((EPSILONS + mu**2 / 2) / mu)
    return above - false, above, stats.norm.cdf(mu / np.sqrt(2)), np.array([mu**2, 4 * mu**2])


def draws(key, mu, shape):
    """``delta = log p/p'`` up to a constant at draws of ``p``."""
    return -mu * jax.random.normal(key, shape)


def z_scores(values, truth):
    values = np.asarray(values, np.float64).reshape(values.shape[0], -1)
    se = values.std(axis=0, ddof=1) / np.sqrt(values.shape[0])
    return (values.mean(axis=0) - truth) / np.where(se > 0, se, np.inf)


# Four standard errors at a dozen numbers a case: a false alarm once in a thousand.
@pytest.mark.trust(but="0.3-1")
@pytest.mark.parametrize(("mu", "num_releases"), [(0.02, 1), (0.3, 1), (0.8, 1), (0.3, 3)])
def test_one_side(mu, num_releases):
    def one(key):
        return one_sided_loss(draws(key, mu, (NUM_PAIRS, *SHAPE)), WEIGHT, num_releases)

    found = jax.lax.map(one, jax.random.split(jax.random.key(1), NUM_DATASETS))
    excess, above, auc, renyi = gaussian_truth(mu, num_releases)
    likely = above > 1e-3
    assert (np.abs(z_scores(found.excess, excess)[likely]) < 4).all()
    assert (np.abs(z_scores(found.above, above)[likely]) < 4).all()
    assert (np.abs(z_scores(found.auc, auc)) < 4).all()
    assert np.abs(z_scores(found.renyi, renyi))[0] < 4 or found.weight[:, 0].mean() > 0.1
    if mu < 0.1:
        assert np.abs(z_scores(found.renyi, renyi))[1] < 4
    else:  # too few draws carry order 8, and the largest share says so
        assert found.weight[:, 1].mean() > 0.1


@pytest.mark.trust(but=["5.0"])
@pytest.mark.parametrize("mu", [0.3, 2.0, 5.0])
def test_both_sides(mu):
    def one(key):
        first, second = jax.random.split(key)
        # log p/p' is -mu x up to a constant, and p' has its mean at mu.
        other = -mu * (mu + jax.random.normal(second, SHAPE))
        return two_sided_loss(draws(first, mu, SHAPE), other, WEIGHT, WEIGHT)

    found = jax.lax.map(one, jax.random.split(jax.random.key(2), NUM_DATASETS))
    excess, above, auc, _ = gaussian_truth(mu)
    for values, truth in ((found.excess[:, 0], excess[0]), (found.auc, auc)):
        mean = float(np.mean(values))
        se = float(np.std(values) / np.sqrt(NUM_DATASETS))
        assert abs(mean - truth) < 4 * se + 0.01 * truth  # the rest of a bias of order 1 / draws
    at_one = int(np.argmin(np.abs(EPSILONS - 1.0)))
    profile = np.asarray(found.excess - np.expm1(EPSILONS) * (found.above - found.excess))
    truth = (excess - np.expm1(EPSILONS) * (above - excess))[at_one]
    se = profile[:, at_one].std() / np.sqrt(NUM_DATASETS)
    assert abs(profile[:, at_one].mean() - truth) < 4 * se + 0.015 * truth


@pytest.mark.parametrize("mu", [1e-6, 1e-4])
def test_divergences_far_below_the_rounding_of_one(mu):
    """Both sides, to 5% (of 1e-12 rounding is 2%); 3e-4 false alarms."""

    def one(key):
        first, second = jax.random.split(key)
        other = -mu * (mu + jax.random.normal(second, SHAPE))
        return (
            one_sided_loss(draws(first, mu, (NUM_PAIRS, *SHAPE)), WEIGHT).renyi,
            two_sided_loss(draws(first, mu, SHAPE), other, WEIGHT, WEIGHT).renyi,
        )

    one_side, both_sides = jax.lax.map(one, jax.random.split(jax.random.key(3), NUM_DATASETS))
    truth = mu**2 * np.array([2.0, 8.0]) / 2
    for found in (one_side, both_sides):
        values = np.asarray(found, np.float64) / truth
        se = values.std(axis=0) / np.sqrt(NUM_DATASETS)
        assert (np.abs(values.mean(axis=0) - 1.0) < 4 * se + 0.05).all()
        assert (se < 0.05).all()


@pytest.mark.parametrize(("shift", "is_there"), [(0.5, True), (2.5, False)])
def test_sums_tell_what_lies_where_they_have_no_weights(shift, is_there):
    """Of shifted Gaussians ``D_8 = 4 shift^2``; its law lies at 7 shifts, and weights end at 13."""
    x = jnp.linspace(-20.0, 20.0, 801)
    weight = jax.nn.softmax(-0.5 * x**2)
    assert float(weight[0]) == 0.0
    found = one_sided_loss((shift * x)[None, None], weight[None])
    assert (abs(float(found.renyi[1]) / (4 * shift**2) - 1) < 1e-4) == is_there
    assert float(found.weight[1]) < 0.01 if is_there else float(found.weight[1]) > 0.05
    assert found.weight[0] < 0.01
    np.testing.assert_allclose(found.renyi[0], shift**2, rtol=1e-4)


def test_points_of_a_sum_without_weight_change_no_divergence():
    """However far out they are: in NumPy, of the points that have weight."""
    delta = np.concatenate([np.linspace(-0.5, 0.5, 30), [-60.0, 60.0]]).astype(np.float32)
    weight = np.concatenate([np.full(30, 1 / 30), [0.0, 0.0]]).astype(np.float32)
    found = one_sided_loss(jnp.asarray(delta)[None, None], jnp.asarray(weight)[None])
    loss = delta[:30].astype(float) + np.log(np.mean(np.exp(-delta[:30].astype(float))))
    truth = [np.log(np.mean(np.exp((a - 1) * loss))) / (a - 1) for a in (2.0, 8.0)]
    np.testing.assert_allclose(found.renyi, truth, rtol=1e-4)


def test_ranks_of_chains_that_one_noise_moves():
    """A dataset's chains and those of its replaced version are coupled: pairs of them win always.

    Draws of a chain depend on each other too. A false alarm once in 16,000; with the coupled
    comparisons left in, the area is 60 standard errors too large.
    """
    mu, steps = 0.1, np.arange(SHAPE[1])
    mix = np.linalg.cholesky(0.5 ** np.abs(steps[:, None] - steps))

    def one(key):
        x = jax.random.normal(key, SHAPE) @ mix.T
        return two_sided_loss(-mu * x, -mu * (mu + x), WEIGHT, WEIGHT)

    found = jax.lax.map(one, jax.random.split(jax.random.key(7), NUM_DATASETS))
    assert np.abs(z_scores(found.auc, gaussian_truth(mu)[2])) < 4


@pytest.mark.trust(but=["shape2-2", "shape3-1"])
@pytest.mark.parametrize(
    ("shape", "releases"), [((1, 8), 1), ((8, 1), 1), ((2, 2), 2), ((1, 1), 1)]
)
def test_ranks_of_what_is_little(shape, releases):
    """One chain, one draw of each, as many releases as chains: still a rank, and no NaN."""
    weight = jnp.full(shape, 1.0 / shape[1])
    first, second = (jax.random.normal(jax.random.key(k), shape) for k in (8, 9))
    found = two_sided_loss(-5.0 * first, -5.0 * (5.0 + second), weight, weight, releases)
    assert 0.99 < float(found.auc) <= 1.0


@pytest.mark.trust
def test_a_missing_normalizer_is_seen():
    """``delta`` alone is no privacy loss: far apart normalizers would show at once."""
    delta = draws(jax.random.key(3), 1.0, (NUM_PAIRS, *SHAPE))
    right = one_sided_loss(delta, WEIGHT)
    moved = one_sided_loss(delta + 5.0, WEIGHT)
    np.testing.assert_allclose(moved.excess, right.excess, atol=2e-5)
    assert abs(float(right.excess[0]) - gaussian_truth(1.0)[0][0]) < 0.1


def test_level_between_two_densities():
    """Bennett's ratio of two Gaussians: ``delta`` is ``L`` less ``mu^2 / 2``."""
    first, second = jax.random.split(jax.random.key(4))
    mu, count = 1.5, 200_000
    level = log_normalizer_ratio(
        draws(first, mu, (count,)), -mu * (mu + jax.random.normal(second, (count,)))
    )
    assert abs(float(level) - mu**2 / 2) < 0.02  # four standard errors


def test_leaving_out_allows_for_shared_steps():
    """The bias of ``mean^2`` is the variance of the mean, whatever chains and steps share."""
    rng, count = np.random.default_rng(5), 20_000
    chains, steps = SHAPE
    left = LeavingOut.of(chains, steps)
    kept = np.asarray(left.kept) / np.asarray(left.kept).sum(axis=1, keepdims=True)
    for of_chains, of_steps in ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (0.7, 0.7)):
        x = rng.normal(size=(count, chains, steps))
        x += of_chains * rng.normal(size=(count, chains, 1))
        x += of_steps * rng.normal(size=(count, 1, steps))
        flat = x.reshape(count, -1)
        whole, parts = flat.mean(axis=1) ** 2, (flat @ kept.T) ** 2
        corrected = (1 + left.whole) * whole + parts @ np.asarray(left.parts)
        se = corrected.std() / np.sqrt(count)
        assert abs(corrected.mean()) < 4 * se
        assert whole.mean() > 8 * whole.std() / np.sqrt(count)  # without it the bias shows


@pytest.mark.trust
def test_weights_count():
    """Draws that weigh nothing may be anything."""
    delta = draws(jax.random.key(6), 0.5, (NUM_PAIRS, *SHAPE))
    weight = jnp.where(jnp.arange(SHAPE[1]) < 4, 0.25, 0.0) * jnp.ones((SHAPE[0], 1))
    found = one_sided_loss(delta, weight)
    other = one_sided_loss(jnp.where(weight > 0, delta, 7.0), weight)
    np.testing.assert_allclose(found.excess, other.excess, atol=1e-5)
    np.testing.assert_allclose(found.auc, other.auc, atol=1e-5)


def test_exact_sums_are_not_jackknifed():
    """One chain of weighted points: two states, by hand."""
    p, q = np.array([0.7, 0.3]), np.array([0.4, 0.6])
    delta = jnp.asarray(np.log(p / q), jnp.float32)[None, None]
    found = one_sided_loss(delta, jnp.asarray(p, jnp.float32)[None])
    np.testing.assert_allclose(found.excess[0], 0.3, rtol=1e-5)
    np.testing.assert_allclose(found.above[0], 0.7, rtol=1e-5)
    renyi = [np.log(np.sum(p**a * q ** (1 - a))) / (a - 1) for a in ORDERS]
    np.testing.assert_allclose(found.renyi, renyi, rtol=1e-5)


@pytest.mark.trust
def test_few_pairs_that_divergences_are_made_of_are_heavy():
    """Skewed data: of 32 pairs one moves far, and makes nearly all of the mean divergence."""
    draws = np.random.default_rng(0).normal(size=(1, 8, 8)).astype(np.float32)
    shift = np.full((32, 1, 1), 1e-3, np.float32)
    shift[7] = 1.5
    found = one_sided_loss(jnp.asarray(shift * draws), jnp.full((8, 8), 0.125))
    assert found.weight[1] > 0.5
    shift[7] = 1e-3
    alike = one_sided_loss(jnp.asarray(shift * draws), jnp.full((8, 8), 0.125))
    assert alike.weight[1] < 0.05
