"""Losses of a dataset's draws: all examples count, and few are in memory at once."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from problems import gaussian_examples, gaussian_mean

import gibbs_dp as gdp
from gibbs_dp.engine import view as module
from gibbs_dp.engine.plan import Inputs, Plan
from gibbs_dp.papers.on_average_kl import closed_forms
from gibbs_dp.sampling.kernels.base import make_schedule

POSTERIOR = gdp.GibbsPosterior(gdp.losses.logistic, dist.Normal(0.0, 1.0).expand([3]))


def inputs(dtype):
    """As much of the engine's inputs as losses read."""
    zero = jnp.zeros((3,), dtype)
    return Inputs(
        jnp.asarray(1.0, dtype), make_schedule((1.0, 1), 0, 0), jnp.asarray(0), zero,
        jnp.asarray(False), zero, zero, zero, zero, zero, zero,
    )  # fmt: skip


def examples(n, seed, dtype):
    rng = np.random.default_rng(seed)
    return jnp.asarray(rng.normal(size=(n, 3)), dtype), jnp.asarray(rng.integers(2, size=n), dtype)


@pytest.mark.trust
@pytest.mark.parametrize(("n", "group_size"), [(7, 1), (24, 1), (41, 1), (41, 3)])
def test_the_mean_is_over_all_examples_in_chunks(n, group_size, precision, monkeypatch):
    """8 groups are looked at; 16 further examples are added at a time, a remainder too."""
    monkeypatch.setattr(module, "MAX_GROUPS", 8)
    monkeypatch.setattr(module, "GROUPS_PER_GHOST", 0)
    monkeypatch.setattr(module, "CHUNK", 16)
    u = jnp.asarray(np.random.default_rng(0).normal(size=(2, 5, 3)), precision)
    train, ghosts = examples(n, 1, precision), examples(6, 2, precision)
    plan = Plan(n, 6, group_size, 2, 5)
    found = module.per_example_losses(POSTERIOR, u, train, ghosts, inputs(precision), plan)
    every = jax.vmap(jax.vmap(lambda theta: POSTERIOR.losses(theta, train)))(u)
    tolerance = 20 * jnp.finfo(precision).eps
    np.testing.assert_allclose(found.mean, every.mean(axis=-1), rtol=tolerance)
    np.testing.assert_allclose(found.train, every[..., : 8 * group_size], rtol=tolerance)
    assert found.reference[0].shape == (n,)
    assert found.ghost.shape == (2, 5, 6)


@pytest.mark.trust
def test_an_infinite_loss_far_down_the_table_shows(monkeypatch):
    monkeypatch.setattr(module, "MAX_GROUPS", 8)
    monkeypatch.setattr(module, "GROUPS_PER_GHOST", 0)
    monkeypatch.setattr(module, "CHUNK", 16)
    x, y = examples(50, 3, jnp.float32)
    found = module.per_example_losses(
        POSTERIOR,
        jnp.ones((1, 2, 3)),
        (x.at[30].set(jnp.inf), y),
        (x, y),
        inputs(jnp.float32),
        Plan(50, 50, 1, 1, 2),
    )
    assert not np.isfinite(found.mean).any()
    assert np.isfinite(found.train).all()


@pytest.mark.trust
def test_audits_of_more_examples_than_are_looked_at_keep_to_the_truth(monkeypatch):
    """8 of 40 examples in the direct estimate; |z| <= 4 has a false-alarm rate of 6e-5."""
    monkeypatch.setattr(module, "MAX_GROUPS", 8)
    monkeypatch.setattr(module, "GROUPS_PER_GHOST", 0)
    monkeypatch.setattr(module, "CHUNK", 16)
    loss, prior = gdp.losses.half_squared_distance, dist.Normal(0.0, 2.0).expand([2])
    posterior = gdp.GibbsPosterior(loss, prior)  # of this test: its program is no other's

    def population(key, n):
        return jax.random.normal(key, (n, 2))

    report = gdp.audit(
        posterior,
        population,
        40,
        [0.3],
        num_datasets=512,
        learn=[*gdp.DEFAULT, gdp.OnAverageKL("one-sided"), gdp.MutualInformation(0)],
        progress=False,
    )
    truth = closed_forms.gaussian_mean(0.3, 40, 2, 1.0, 4.0)
    for name, value in {
        "on_average_kl": truth.on_average_kl,
        "on_average_kl_ghost": truth.on_average_kl,
        "generalization_error": truth.generalization_error,
    }.items():
        assert abs(report[name][0] - value) < 4 * report[f"{name}_se"][0], name
        assert report[f"{name}_se"][0] < 0.1 * value
    assert not report.warnings


def test_a_group_has_as_many_gaps_as_examples():
    """Gaussian mean, flat prior: two of 20 replaced at gamma 2 make a KL of ``2 gamma / n = 0.2``.

    Within 4 standard errors: a false alarm has 6e-5.
    """
    learn = [gdp.OnAverageKL("ghost", group_size=2)]
    report = gdp.audit(
        gaussian_mean(1), gaussian_examples(1), 20, [2.0], num_datasets=512, learn=learn,
        progress=False,
    )  # fmt: skip
    error = report["on_average_kl_se"][0]
    assert error < 0.03
    assert abs(report["on_average_kl"][0] - 0.2) < 4 * error
