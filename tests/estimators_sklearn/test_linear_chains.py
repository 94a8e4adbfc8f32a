"""Draws of linear models without compilation, against quadrature and against gibbs_dp.sample."""

import numpy as np
import pytest
from scipy import linalg, stats
from threadpoolctl import threadpool_limits

import gibbs_dp as gdp
from gibbs_dp.model import losses
from gibbs_dp.privacy.noise import SecretNoise, SeededNoise
from gibbs_dp.sklearn.chains import (
    BallChart,
    GaussianChart,
    Target,
    TotalLoss,
    _agree,
    _mode,
    _run,
    draw_posterior,
)

EVERY = {
    "logistic": losses.logistic,
    "squared": losses.squared,
    "huber": losses.Huber(delta=0.5),
    "absolute": losses.absolute,
}
# Draws are compared by Kolmogorov and Smirnov's test: a false alarm in 10,000 each.
LEVEL = 1e-4
NUM_DRAWS = 3000


def examples(dim, n=30, seed=3):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, dim))
    x /= np.maximum(1.0, np.linalg.norm(x, axis=1))[:, None]
    return x, (rng.random(n) < 1 / (1 + np.exp(-3 * x[:, 0]))).astype(float)


@pytest.mark.parametrize("name", sorted(EVERY))
def test_values_gradients_and_curvature_are_those_of_the_losses(name):
    x, y = examples(3)
    total = TotalLoss(EVERY[name], 0.7, x, y)
    theta = np.random.default_rng(0).normal(size=(4, 3))
    batch = [0.7 * float(EVERY[name].batch(np_to_jax(t), np_to_jax((x, y))).sum()) for t in theta]
    np.testing.assert_allclose(total.value(theta), batch, rtol=2e-6)
    step = 1e-6 * np.eye(3)
    slopes = [(total.value(theta + s) - total.value(theta - s)) / 2e-6 for s in step]
    np.testing.assert_allclose(total.gradient(theta), np.stack(slopes, axis=1), atol=1e-5)
    found = total.curvature(theta[0])
    assert np.linalg.eigvalsh(found).min() > 0
    if name in ("logistic", "squared"):
        second = [(total.gradient(theta[:1] + s) - total.gradient(theta[:1] - s))[0] for s in step]
        np.testing.assert_allclose(found, np.stack(second) / 2e-6, rtol=1e-4, atol=1e-4)


def np_to_jax(tree):
    import jax
    import jax.numpy as jnp

    return jax.tree.map(lambda a: jnp.asarray(a, jnp.zeros(()).dtype), tree)


def test_softmax_is_that_of_the_library():
    x, _ = examples(2, n=12)
    y = np.arange(12) % 3
    loss = losses.SoftmaxCrossEntropy(3)
    total = TotalLoss(loss, 0.5, x, y)
    theta = np.random.default_rng(0).normal(size=(3, 6))
    data = np_to_jax((x, y * 1.0))
    ours = [0.5 * float(loss.batch(np_to_jax(t), data).sum()) for t in theta]
    np.testing.assert_allclose(total.value(theta), ours, rtol=2e-6)
    step = 1e-6 * np.eye(6)
    slopes = [(total.value(theta + s) - total.value(theta - s)) / 2e-6 for s in step]
    np.testing.assert_allclose(total.gradient(theta), np.stack(slopes, axis=1), atol=1e-6)
    second = [(total.gradient(theta[:1] + s) - total.gradient(theta[:1] - s))[0] for s in step]
    np.testing.assert_allclose(total.curvature(theta[0]), np.stack(second) / 2e-6, atol=1e-5)


@pytest.mark.parametrize(
    "chart", [BallChart(2.0), BallChart(1.5, precision=4.0), GaussianChart(0.7)]
)
def test_charts_pull_gradients_back(chart):
    u = np.random.default_rng(1).normal(size=(5, 3)) * [[0.01], [0.5], [1.0], [3.0], [12.0]]
    a = np.array([1.0, -2.0, 0.5])
    pulled = chart.pull_back(u, np.tile(a, (5, 1)))
    step = 1e-5
    for i in range(3):
        move = np.zeros(3)
        move[i] = step
        slope = (chart.theta(u + move) - chart.theta(u - move)) @ a / (2 * step)
        np.testing.assert_allclose(pulled[:, i], slope, atol=1e-7)
    np.testing.assert_allclose(chart.jacobian(u[1]) @ a, pulled[1], atol=1e-12)


@pytest.mark.trust(but=["gaussian-squared", "gaussian-huber", "ball-huber"])
@pytest.mark.parametrize("name", sorted(EVERY))
@pytest.mark.parametrize("prior", ["ball", "gaussian", "gaussian in a ball"])
def test_draws_in_one_dimension_have_the_posterior_law(name, prior):
    """Against quadrature of the density, with a gamma at which prior and data both matter."""
    x, y = examples(1, n=15)
    total = TotalLoss(EVERY[name], 0.6, x, y)
    chart = {
        "ball": BallChart(1.2),
        "gaussian": GaussianChart(0.8),
        "gaussian in a ball": BallChart(1.2, precision=2.0),
    }[prior]
    draws = draw_posterior(Target(total, chart), NUM_DRAWS, SeededNoise(5))
    end = 1.2 if prior != "gaussian" else 6.0
    grid = np.linspace(-end, end, 40_001)
    precision = {"ball": 0.0, "gaussian": 0.8**-2, "gaussian in a ball": 2.0}[prior]
    log_density = -total.value(grid[:, None]) - 0.5 * precision * grid**2
    law = np.cumsum(np.exp(log_density - log_density.max()))
    found = stats.kstest(draws[:, 0], lambda t: np.interp(t, grid, law / law[-1]))
    assert found.pvalue > LEVEL


def kept(target, num_chains):
    """All draws of many chains, [chains, draws, dim]: more than fits make, for small errors."""
    mode = _mode(target)
    lower = linalg.cholesky(target.curvature(mode), lower=True)
    with threadpool_limits(1):  # as fits do: threads would wait for each other
        return _run(target, mode, lower, num_chains, 1, SeededNoise(11))


def assert_zero_means(*values):
    """For numbers [chains, draws] of mean zero: at most one false alarm in 10,000 for all.

    Chains are independent once their steps are given, which keep the law whatever they are.
    """
    limit = stats.norm.isf(LEVEL / 2 / len(values))
    for value in values:
        means = value.mean(axis=1)
        assert abs(means.mean()) < limit * means.std(ddof=1) / np.sqrt(len(means))


def test_chains_keep_a_gaussian_posterior():
    """Squared loss and a Gaussian prior: mean and covariance are known."""
    x, y, gamma = np.array([[0.9, 0.1], [-0.3, 0.6], [0.5, 0.5]]), np.array([1.0, 0.0, 1.0]), 0.8
    draws = kept(Target(TotalLoss(losses.squared, gamma, x, y), GaussianChart(0.9)), 4000)
    precision = np.eye(2) / 0.9**2 + 2 * gamma * x.T @ x
    off = draws - np.linalg.solve(precision, 2 * gamma * x.T @ y)
    a, b = np.moveaxis(off @ np.linalg.cholesky(precision), 2, 0)
    assert_zero_means(a, b, a**2 - 1, b**2 - 1, a * b)


@pytest.mark.parametrize(
    ("chart", "precision", "end", "gamma", "num_chains"),
    [
        # Skewed: steps that are not reversible are seen by the mean.
        pytest.param(GaussianChart(3.0), 1 / 9, 30.0, 4.0, 30_000, id="gaussian"),
        pytest.param(BallChart(1.2, precision=2.0), 2.0, 1.2, 4.0, 4000, id="gaussian in a ball"),
    ],
)
def test_chains_keep_a_logistic_posterior(chart, precision, end, gamma, num_chains):
    """Of one row: mean and variance by quadrature."""
    one = np.ones((1, 1))
    draws = kept(Target(TotalLoss(losses.logistic, gamma, one, one[0]), chart), num_chains)
    grid = np.linspace(-end, end, 40_001)
    log_density = -gamma * np.logaddexp(0, -grid) - 0.5 * precision * grid**2
    law = np.exp(log_density - log_density.max())
    mean = law @ grid / law.sum()
    variance = law @ (grid - mean) ** 2 / law.sum()
    off = draws[:, :, 0] - mean
    assert_zero_means(off, off**2 - variance)


@pytest.mark.trust
@pytest.mark.parametrize("name", ["logistic"])
def test_draws_agree_with_the_other_sampler(name):
    """Ten parameters on a ball: means and variances of gibbs_dp.sample's draws, by z-scores."""
    x, y = examples(10, n=60)
    gamma = 1.0
    ours = draw_posterior(
        Target(TotalLoss(EVERY[name], gamma, x, y), BallChart(3.0)), 4000, SeededNoise(2)
    )
    posterior = gdp.GibbsPosterior(EVERY[name], gdp.Flat(gdp.supports.l2_ball(10, 3.0)))
    other = gdp.sample(posterior, (x, y), gamma=gamma, key=1, num_chains=8, num_samples=500)
    theirs = np.asarray(other.theta, np.float64)
    effective = 8 * 500 * 0.3
    for ours_of, theirs_of in ((ours, theirs), (ours**2, theirs**2)):
        flat = theirs_of.reshape(-1, 10)
        error = np.sqrt(ours_of.var(axis=0) / len(ours) + flat.var(axis=0) / effective)
        assert np.all(np.abs(ours_of.mean(axis=0) - flat.mean(axis=0)) < 4.5 * error)


def test_a_tempered_prior_would_be_seen():
    """The known-wrong variant: gamma on the prior too."""
    x, y = examples(1, n=15)
    total = TotalLoss(EVERY["squared"], 0.05, x, y)
    wrong = draw_posterior(Target(total, GaussianChart(0.8 / 0.05**0.5)), NUM_DRAWS, SeededNoise(5))
    precision = 0.8**-2 + 2 * 0.05 * float((x**2).sum())
    mean = 2 * 0.05 * float(x[:, 0] @ y) / precision
    assert stats.kstest(wrong[:, 0], stats.norm(mean, precision**-0.5).cdf).pvalue < LEVEL
    right = draw_posterior(Target(total, GaussianChart(0.8)), NUM_DRAWS, SeededNoise(5))
    assert stats.kstest(right[:, 0], stats.norm(mean, precision**-0.5).cdf).pvalue > LEVEL


def test_chains_that_cannot_agree_give_nothing(monkeypatch):
    from gibbs_dp.sklearn import chains

    monkeypatch.setattr(chains, "LONGER", (1,))
    monkeypatch.setattr(chains, "RHAT_LIMIT", 0.9)
    x, y = examples(2)
    target = Target(TotalLoss(EVERY["logistic"], 1.0, x, y), BallChart(2.0))
    assert draw_posterior(target, 1, SeededNoise(0)) is None


def test_normal_numbers_of_the_secret_source_are_normal():
    noise = SecretNoise()
    assert stats.kstest(noise.standard_normal(4000), stats.norm.cdf).pvalue > 1e-6
    assert stats.kstest(noise.random(4000), stats.uniform.cdf).pvalue > 1e-6
    assert (noise.random(5) != noise.random(5)).all()


def test_one_chain_that_never_moved_is_seen_among_thousands():
    draws = np.random.default_rng(3).normal(size=(4000, 100, 2))
    assert _agree(draws)
    draws[17] = draws[17, :1]
    assert not _agree(draws)
