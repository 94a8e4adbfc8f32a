"""On-average capacity-bounded KL of Gibbs posteriors against closed forms; double and single."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gibbs_dp as gdp
from gibbs_dp.papers import capacity
from gibbs_dp.papers.capacity.adversaries import RandomFeatures
from gibbs_dp.papers.capacity.on_average import OnAverageCapacity

N = 10
SETTINGS = {"num_datasets": 48, "num_chains": 32, "num_samples": 32, "num_steps": 100}


def gaussian_examples(key, n):
    return jax.random.normal(key, (n, 1))


@pytest.fixture(scope="module")
def posterior():
    return gdp.GibbsPosterior(gdp.losses.half_squared_distance, gdp.Flat(gdp.supports.real(1)))


@pytest.fixture(scope="module")
def found(posterior):
    classes = [capacity.Polynomial(1), capacity.TwoLayerReLU(8)]
    return capacity.on_average_capacity_kl(
        posterior, gaussian_examples, N, [0.3, 1.0], classes, **SETTINGS
    )


@pytest.mark.trust
def test_gaussian_posteriors_are_seen_by_linear_critics(found):
    # N(mean, 1 / (n gamma)): the KL of a pair is linear in theta, and gamma / n on average.
    assert not found.warnings
    assert found.critics.shape == (2, 48, 2)
    names = {"linear": 0.9, "two-layer ReLU, width 8": 0.7}
    for row in found.rows():
        truth = row["gamma"] / N
        assert abs(row["on_average_kl"] - truth) < 4 * row["on_average_kl_se"]
        assert row["capacity_kl"] <= truth + 3 * row["capacity_kl_se"]
        assert row["share"] <= 1 + 3 * row["share_se"]
        assert row["share"] > names[row["adversary"]]
        assert row["num_datasets"] == 48


@pytest.mark.trust
def test_one_dataset_is_the_same_in_any_sweep(posterior, found):
    fewer = {**SETTINGS, "num_datasets": 20}
    again = capacity.on_average_capacity_kl(
        posterior, gaussian_examples, N, [1.0], found.adversaries, **fewer
    )
    np.testing.assert_allclose(again.critics[0], found.critics[1, :20], rtol=1e-5, atol=1e-6)


def test_failures_are_reported_and_left_out():
    full = np.array([[1.0, 1.0, np.nan]])
    found = OnAverageCapacity(
        (1.0,),
        5,
        (RandomFeatures(4),),
        np.array([[[0.5], [0.7], [np.nan]]]),
        full,
        np.array([[True, True, False]]),
        ("gamma=1: failed",),
    )
    row = found.rows()[0]
    assert (row["num_datasets"], row["failed_datasets"]) == (2, 1)
    assert row["capacity_kl"] == pytest.approx(0.6)
    assert row["adversary"] == "kernel, 4 random features"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"gammas": [0.0]}, "gammas: must be positive"),
        ({"gammas": []}, "gammas: must be positive"),
        ({"adversaries": []}, "give at least one class"),
        ({"adversaries": [capacity.Unrestricted()]}, "no critic to train"),
        ({"num_chains": 5}, "num_chains: must be even"),
        ({"num_datasets": 1}, "num_datasets: must be"),
        (
            {"sampler": gdp.Grid(low=-1.0, high=1.0)},
            "a Grid sums over the posterior and makes no draws here",
        ),
    ],
)
def test_bad_input_is_named(posterior, change, reason):
    given = {"gammas": [1.0], "adversaries": [capacity.Polynomial(1)], **change}
    gammas, adversaries = given.pop("gammas"), given.pop("adversaries")
    with pytest.raises(ValueError, match=reason):
        capacity.on_average_capacity_kl(
            posterior, gaussian_examples, N, gammas, adversaries, **given
        )


def uniform_examples(key, n):
    return jax.random.uniform(key, (n,))


def distance_to_mean(theta, z):
    return jnp.abs(jnp.mean(z) - theta)


@pytest.mark.trust
def test_structured_losses_are_taken_in_double_precision(float64):
    # The Laplace mechanism: a linear critic sees a bit more than half.
    posterior = gdp.GibbsPosterior(
        total_loss=distance_to_mean, prior=gdp.Flat(gdp.supports.real(()))
    )
    linear = [capacity.Polynomial(1)]
    row = capacity.on_average_capacity_kl(
        posterior, uniform_examples, N, [15.0], linear, **SETTINGS
    ).rows()[0]
    gaps = np.random.default_rng(0).uniform(size=(2, 4000))
    eps = 1.5 * np.abs(gaps[0] - gaps[1])
    exact = np.mean([capacity.laplace_linear_kl(1.0, e) for e in eps])
    whole = np.mean([capacity.laplace_unrestricted_kl(1.0, e) for e in eps])
    assert abs(row["on_average_kl"] - whole) < 4 * row["on_average_kl_se"]
    assert row["capacity_kl"] <= exact + 3 * row["capacity_kl_se"]
    assert row["share"] <= exact / whole + 3 * row["share_se"]
    assert row["share"] > 0.8 * exact / whole
