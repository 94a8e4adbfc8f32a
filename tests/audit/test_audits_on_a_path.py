"""Audits whose gammas share one SMC run, against sums over a lattice on the same datasets.

Paired differences between estimates of the same datasets, at most 4 standard errors: a false alarm
in 16,000 for each of the 12 numbers.
"""

from __future__ import annotations

import flat
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import gibbs_dp as gdp

GAMMAS = (0.1, 0.5, 1.0)
COUNTS = {"num_datasets": 64, "num_information": 0, "progress": False}


def loss(theta, z):
    """Two hills, 8 apart, whose weights depend on the data."""
    near, far = 0.5 * (theta - z) ** 2, 0.5 * (theta - 8 - 1.3 * z) ** 2
    return -jnp.logaddexp(jnp.log(0.5) - near, jnp.log(0.5) - far)


def population(key, n):
    return 0.7 * jax.random.normal(key, (n,))


POSTERIOR = gdp.GibbsPosterior(loss, dist.Normal(4.0, 6.0))


@pytest.fixture(scope="module")
def exact():
    return flat.audit(
        POSTERIOR, population, 3, GAMMAS, kernel=gdp.Grid(low=-15.0, high=25.0, num_points=800),
        **COUNTS,
    )  # fmt: skip


@pytest.fixture(scope="module")
def changed():
    """The default kernel of chains, which finds the hills and goes on with SMC.

    Compiles an audit twice, by chains and by particles: some 20 seconds.
    """
    return flat.audit(POSTERIOR, population, 3, GAMMAS, sampler=gdp.Chains(), **COUNTS)


@pytest.mark.trust
@pytest.mark.parametrize("name", ["on_average_kl", "empirical_risk", "generalization_error"])
def test_paths_agree_with_sums_dataset_by_dataset(exact, changed, name):
    for theirs, ours in zip(exact.per_dataset, changed.per_dataset, strict=True):
        gap = ours[name] - theirs[name]
        assert abs(gap.mean()) < 4 * gap.std(ddof=1) / np.sqrt(gap.size)
        # The particles are a good part of what datasets differ by, and no more.
        assert gap.std() < theirs[name].std()


@pytest.mark.trust
def test_a_default_audit_goes_on_with_smc_and_says_so(changed):
    assert changed.settings["kernel"].startswith("SMC(")
    assert [w for w in changed.warnings if "[changed-sampler]" in w and "gibbs_dp.SMC()" in w]
    for text in changed.trust:
        assert "particles from the prior" in text
        assert "no second mode" not in text


@pytest.mark.trust
def test_chains_that_were_asked_for_stay_and_are_doubtful():
    report = flat.audit(POSTERIOR, population, 3, GAMMAS[-1], kernel=gdp.HMC(), **COUNTS)
    assert any("[several-modes]" in w for w in report.warnings)
    assert report.trust[0].startswith("gamma=1: doubtful (")


@pytest.mark.trust
def test_healthy_posteriors_keep_chains_and_are_checked():
    posterior = gdp.GibbsPosterior(gdp.losses.half_squared_distance, dist.Normal(jnp.zeros(1), 3.0))
    report = flat.audit(
        posterior,
        lambda key, n: jax.random.normal(key, (n, 1)),
        10,
        [1.0],
        sampler=gdp.Chains(),
        **COUNTS,
    )
    assert report.settings["kernel"].startswith("HMC(")
    assert not report.warnings
    assert report.trust[0].startswith("gamma=1: checked: two routes differ by ")
    assert "loss and prior are convex, so that there is one mode" in report.trust[0]


@pytest.mark.trust
def test_a_store_continues_a_path_and_refuses_another_grid(tmp_path, changed):
    kernel, more = gdp.SMC(), {**COUNTS, "store": tmp_path / "store", "block_size": 32}
    small = {**more, "num_datasets": 32}
    flat.audit(POSTERIOR, population, 3, GAMMAS, kernel=kernel, **small)
    report = flat.audit(POSTERIOR, population, 3, GAMMAS, kernel=kernel, **more)
    assert report["num_datasets"].tolist() == [64, 64, 64]
    for name in ("on_average_kl", "empirical_risk"):
        assert np.allclose(report[name], changed[name], rtol=1e-3)
    with pytest.raises(ValueError, match=r"gammas is .* there and .* here"):
        flat.audit(POSTERIOR, population, 3, [0.1, 2.0], kernel=kernel, **more)


@pytest.mark.trust
def test_pairs_of_posteriors_along_one_path(exact):
    report = flat.audit(
        POSTERIOR, population, 3, GAMMAS, kernel=gdp.SMC(), estimator="two-sided", **COUNTS
    )
    for row, ours, theirs in zip(report.rows, report.per_dataset, exact.per_dataset, strict=True):
        assert row["estimator"] == "two-sided"
        gap = ours["on_average_kl"] - theirs["on_average_kl"]
        assert abs(gap.mean()) < 4 * gap.std(ddof=1) / np.sqrt(gap.size)
