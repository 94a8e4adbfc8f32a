"""Audits and draws of ULA and SGLD: the bias is the one of theory, estimated and reported.

Statistical comparisons allow 4 standard errors, false alarm 6e-5 each.
"""

import flat
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from problems import QUICK, gaussian_examples, gaussian_mean

import gibbs_dp as gdp

N = 10
GAMMAS = (0.05, 0.2)
RELATIVE = 0.5
INFLATED = 1 / (1 - RELATIVE / 2)  # of a flat prior's posterior, at every gamma: h follows it


@pytest.fixture(scope="module")
def report():
    kernel = gdp.ULA(relative_step=RELATIVE, num_steps=10)
    return flat.audit(
        gaussian_mean(1),
        gaussian_examples(1),
        N,
        GAMMAS,
        num_datasets=512,
        kernel=kernel,
        key=2,
        **QUICK,
    )


@pytest.mark.trust
def test_ula_inflates_the_direct_estimate_and_leaves_the_gap_alone(report):
    """Closed form ``eps_KL = gamma / n``; the direct one is Var(delta) / 2, so inflated alike."""
    for row in report.rows:
        exact = row["gamma"] / N
        assert abs(row["on_average_kl"] - INFLATED * exact) < 4 * row["on_average_kl_se"]
        assert abs(row["on_average_kl_ghost"] - exact) < 4 * row["on_average_kl_ghost_se"]
        assert row["on_average_kl"] - exact > 10 * row["on_average_kl_se"]


@pytest.mark.trust
def test_the_bias_is_estimated_reported_and_caught(report):
    for row in report.rows:
        assert row["variance_inflation"] == pytest.approx(INFLATED - 1, rel=1e-3)
        assert row["kl_inflation"] == pytest.approx(INFLATED - 1, rel=1e-3)
        assert abs(row["virial"] - INFLATED) < 4 * row["virial_se"]
        assert "accept_rate" not in row
    assert "kl_inflation" in report.summary(all=True)
    assert any("they are no bounds" in note for note in report.notes)
    for gamma in GAMMAS:
        assert any(f"gamma={gamma:g}: the mean of (theta" in text for text in report.warnings)


@pytest.mark.trust
def test_a_grid_of_gammas_compiles_once_and_the_step_follows_it():
    calls = []

    def loss(theta, z):
        calls.append(1)
        return 0.5 * jnp.sum((theta - z) ** 2)

    posterior = gdp.GibbsPosterior(loss, gdp.Flat(gdp.supports.real(1)))
    data = np.linspace(-1.0, 2.0, 6, dtype=np.float32)[:, None]
    kernel = gdp.SGLD(relative_step=RELATIVE, num_steps=15, batch_size=3)
    given = {"sampler": kernel, "num_warmup": 5, "num_samples": 1000, "num_chains": 8}
    gdp.sample(posterior, data, gamma=1.0, **given)
    for gamma in (0.1, 10.0):
        before = len(calls)
        draws = gdp.sample(posterior, data, gamma=gamma, key=1, **given)
        assert len(calls) - before == 2  # the check of value and gradient; the sampler is cached
        precision = 6 * gamma
        h = RELATIVE / precision
        noise = (6 * gamma) ** 2 * data.var() / 3
        exact = (1 + h * noise / 2) / (1 - RELATIVE / 2)
        assert draws.variance_inflation == pytest.approx(exact - 1, rel=1e-3)
        ratio = np.asarray(draws.theta, np.float64).var() * precision
        assert abs(ratio / exact - 1) < 4 * np.sqrt(2 / 8000)
    assert "estimated" in draws.warnings[0]
    assert "no acceptance step" in draws.summary()


@pytest.mark.trust
def test_hmc_with_five_hundred_coordinates_has_the_exact_kl():
    """Above 512 there is no Laplace fit: diagonal adaptation, against the closed form."""
    dim, gamma, n = 520, 0.01, 5
    posterior = gdp.GibbsPosterior(
        gdp.losses.half_squared_distance, dist.Normal(jnp.zeros(dim), 1.0)
    )
    found = flat.audit(
        posterior,
        lambda key, n: jax.random.normal(key, (n, dim)),
        n,
        [gamma],
        num_datasets=16,
        num_chains=4,
        estimator="one-sided",
        **QUICK,
    ).rows[0]
    exact = dim * gamma**2 / (n * gamma + 1.0)
    assert abs(found["on_average_kl"] - exact) < 4 * found["on_average_kl_se"]
    assert found["on_average_kl_se"] < 0.02 * exact
    assert abs(found["virial"] - 1) < 4 * found["virial_se"]
    assert "mutual_information_lower" not in found
    assert "variance_inflation" not in found


@pytest.mark.parametrize(
    ("posterior", "kernel", "message"),
    [
        (gaussian_mean(600), gdp.ULA(preconditioner="laplace"), "use ULA.preconditioner='diag"),
        (
            gdp.GibbsPosterior(total_loss=lambda t, z: t, prior=dist.Normal(0.0, 1.0)),
            gdp.SGLD(),
            "needs gradients per example",
        ),
    ],
)
def test_kernels_that_a_posterior_cannot_have(posterior, kernel, message):
    with pytest.raises(ValueError, match=message):
        flat.audit(posterior, gaussian_examples(600), 5, [1.0], kernel=kernel, **QUICK)
    with pytest.raises(ValueError, match=message):
        gdp.sample(posterior, np.zeros((5, 600)), sampler=kernel)


def test_chains_that_diverge_are_reported():
    rng = np.random.default_rng(0)
    energy = rng.normal(size=(4, 50))
    energy[1, 20:] = np.nan
    accept, stuck = np.full(4, np.nan), np.zeros(4, bool)
    draws = gdp.Draws(rng.normal(size=(4, 50)), energy, accept, stuck, 1.0, {})
    assert "1 of 4 chains diverged" in " ".join(draws.warnings)
