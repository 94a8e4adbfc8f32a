"""Dependent examples: only whole datasets may be replaced (Remark 1)."""

import flat
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import QUICK, gaussian_mean

import gibbs_dp as gdp
from gibbs_dp.papers import channels
from gibbs_dp.papers.on_average_kl import counterexamples
from gibbs_dp.papers.on_average_kl.closed_forms import correlated_mean

N, RHO, GAMMA = 10, 0.8, 0.1


def autoregression(key, n):
    """A stationary Gaussian chain with unit variance and correlation RHO."""
    first, rest = jax.random.split(key)
    noise = jax.random.normal(rest, (n - 1,)) * np.sqrt(1 - RHO**2)

    def step(x, e):
        return RHO * x + e, RHO * x + e

    start = jax.random.normal(first)
    _, later = jax.lax.scan(step, start, noise)
    return jnp.append(start, later)[:, None]


@pytest.mark.trust
def test_replacing_the_whole_dataset_matches_the_closed_form():
    # Posterior N(mean(z), 1/(n gamma)): E KL of two independent datasets is n gamma Var(mean(z)).
    report = flat.audit(
        gaussian_mean(1), gdp.populations.Dependent(autoregression), N, [GAMMA], num_datasets=1024,
        group_size=N, **QUICK,
    )  # fmt: skip
    lags = np.abs(np.subtract.outer(np.arange(N), np.arange(N)))
    truth = N * GAMMA * (RHO**lags).mean()
    for name in ("on_average_kl", "on_average_kl_ghost"):  # |z| <= 4: false alarms 6e-5
        assert abs(report[name][0] - truth) < 4 * report[f"{name}_se"][0]
    # Independent examples would give a quarter of it: the dependence is really there.
    assert truth > 3 * GAMMA


def two_states(key, n):
    """A chain that starts at 1 in 3 of 10 cases and keeps its state nine times in ten."""
    start, later = jax.random.split(key)
    first = jax.random.bernoulli(start, 0.3)
    flips = jax.random.bernoulli(later, 0.1, (n,)).at[0].set(first)
    return jnp.cumsum(flips).astype(float) % 2


def test_a_markov_chain_on_a_finite_class_matches_enumeration():
    n, theta, gammas = 5, np.array([0.0, 0.25, 0.5, 1.0]), [0.3, 2.0]
    posterior = gdp.GibbsPosterior(lambda t, z: (t - z) ** 2, gdp.Flat(gdp.supports.real()))
    report = flat.audit(
        posterior, gdp.populations.Dependent(two_states), n, gammas, num_datasets=4096,
        group_size=n, kernel=gdp.Grid(theta), **QUICK,
    )  # fmt: skip
    law = counterexamples.markov_chain_probs([0.7, 0.3], [[0.9, 0.1], [0.1, 0.9]], n)
    free = counterexamples.markov_chain_probs([0.7, 0.3], [[0.7, 0.3], [0.7, 0.3]], n)
    loss = channels.summed_loss((theta[:, None] - np.array([0.0, 1.0])) ** 2, n)
    for row, gamma in zip(report.rows, gammas, strict=True):
        exact = counterexamples.whole_dataset_gibbs(loss, gamma, law, np.full(4, 0.25))
        truth = exact.on_average_kl()
        for name in ("on_average_kl", "on_average_kl_ghost"):  # |z| <= 4: false alarms 6e-5
            assert abs(row[name] - truth) < 4 * row[f"{name}_se"]
            assert row[f"{name}_se"] < 0.05 * truth
        gap = exact.generalization_error(loss.T) / n  # per example
        assert abs(row["generalization_error"] - gap) < 4 * row["generalization_error_se"]
        independent = counterexamples.whole_dataset_gibbs(loss, gamma, free, np.full(4, 0.25))
        assert truth > 1.5 * independent.on_average_kl()  # the dependence is really there
    assert report.warnings == ()


@pytest.mark.trust
def test_a_gaussian_process_matches_its_closed_form():
    """Squared exponential covariance: every example depends on all others, not on a few."""
    time = np.arange(N)
    covariance = np.exp(-(np.subtract.outer(time, time) ** 2) / (2 * 3.0**2)) + 1e-5 * np.eye(N)
    root = np.linalg.cholesky(covariance)

    def path(key, n):
        return jnp.asarray(root, float) @ jax.random.normal(key, (n, 2))

    report = flat.audit(
        gaussian_mean(2, 0.7), gdp.populations.Dependent(path), N, [0.02, GAMMA], num_datasets=2048,
        group_size=N, **QUICK,
    )  # fmt: skip
    assert report.warnings == ()
    for row in report.rows:
        exact = correlated_mean(row["gamma"], covariance, 2, 0.7**2)
        for name in ("on_average_kl", "on_average_kl_ghost"):
            assert abs(row[name] - exact.on_average_kl) < 4 * row[f"{name}_se"]
            assert row[f"{name}_se"] < 0.04 * exact.on_average_kl
        gap = row["generalization_error"] - exact.generalization_error
        assert abs(gap) < 4 * row["generalization_error_se"]
    # Independent examples would give a fifth of it.
    assert covariance.mean() > 5 / N


@pytest.mark.parametrize("group_size", [1, 3])
def test_independent_ghosts_are_refused(group_size):
    with pytest.raises(ValueError, match=r"group_size: .*dependent.*group_size=n \(10\)"):
        flat.audit(
            gaussian_mean(1), gdp.populations.Dependent(autoregression), N, [GAMMA],
            group_size=group_size, **QUICK,
        )  # fmt: skip
