"""The population's best parameter, from which excess risk is measured: against quadrature."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import gibbs_dp as gdp
from gibbs_dp.quantities.risks import below_best

ONLY_RISKS = {"learn": [gdp.OnAverageKL(), gdp.Risks()], "progress": False}
PLACES, SHARES = np.array([-6.0, 0.0, 6.0]), np.array([0.45, 0.1, 0.45])


def three_hills(key, n):
    """Two large hills, and a small one where the prior and the pilots' mean are."""
    place_key, key = jax.random.split(key)
    place = jax.random.choice(place_key, jnp.asarray(PLACES), (n,), p=jnp.asarray(SHARES))
    return place + 0.5 * jax.random.normal(key, (n,))


def agrees(report, least, slack=0.0):
    """Excess risk against the same row's population risk less the least of all risks."""
    truth = report["population_risk"] - least
    return np.abs(report["excess_risk"] - truth) < 4 * report["excess_risk_se"] + slack


def test_a_loss_of_several_valleys_is_measured_from_the_deepest():
    """Welsch's loss: from the pilots' mean the search ends in the small valley between two."""
    posterior = gdp.GibbsPosterior(
        lambda t, z: 1.0 - jnp.exp(-0.5 * (t - z) ** 2), dist.Normal(0.0, 5.0)
    )
    lattice = gdp.Grid(low=-15.0, high=15.0, num_points=400)
    report = gdp.audit(
        posterior, three_hills, 20, 1.0, num_datasets=128, sampler=lattice, **ONLY_RISKS
    )
    t = np.linspace(-8.0, 8.0, 1601)[:, None]
    # E exp(-(t - z)^2 / 2) of a normal z of variance 1/4.
    heights = np.exp(-0.5 * (t - PLACES) ** 2 / 1.25) / np.sqrt(1.25)
    least = (1.0 - heights @ SHARES).min()
    assert agrees(report, least).all()
    assert report["excess_risk"][0] > 0
    assert report.warnings == ()


@pytest.mark.trust
def test_a_loss_of_steps_has_no_slope_and_a_best_parameter():
    posterior = gdp.GibbsPosterior(
        lambda t, z: jnp.where((z[0] > t) != (z[1] > 0.5), 1.0, 0.0), dist.Normal(0.0, 2.0)
    )

    def examples(key, n):
        x_key, y_key = jax.random.split(key)
        x, is_wrong = jax.random.normal(x_key, (n,)), jax.random.uniform(y_key, (n,)) < 0.2
        return x, ((x > 1.0) != is_wrong).astype(x.dtype)

    report = gdp.audit(posterior, examples, 10, [0.3, 1.0], num_datasets=512, **ONLY_RISKS)
    # The risk of the best threshold is 0.2; the one of 65,536 examples, 0.2 to 4 * 0.0016.
    assert agrees(report, 0.2, slack=0.0063).all()


def test_draws_that_do_better_than_the_best_are_told():
    row = {"excess_risk": -0.05, "excess_risk_se": 0.01, "population_risk": 0.3}
    (told,) = below_best(row)
    assert str(told).startswith("excess_risk is 5 standard errors below zero")
    assert below_best(row | {"excess_risk": -0.039}) == []
    assert below_best(row | {"excess_risk": -2e-4, "excess_risk_se": 1e-6}) == []  # rounding
    assert below_best({"population_risk": 0.3}) == []
