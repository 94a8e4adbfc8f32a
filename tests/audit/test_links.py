"""Identities that link audits to each other: groups, structured losses, blocks, seeds."""

import flat
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import QUICK, gaussian_examples, gaussian_mean

import gibbs_dp as gdp
from gibbs_dp.engine import plan
from gibbs_dp.engine.quantity import Settings
from gibbs_dp.model.populations import as_population
from gibbs_dp.quantities.on_average_kl import OnAverageKL
from gibbs_dp.sampling.as_sampler import as_sampler

N = 20


@pytest.fixture(scope="module")
def single():
    return flat.audit(gaussian_mean(1), gaussian_examples(1), N, [0.1], num_datasets=512, **QUICK)


@pytest.mark.trust
@pytest.mark.parametrize("group_size", [4, N])
def test_replacing_k_examples_costs_k_times_as_much(single, group_size):
    # Lemma 6; |z| <= 4 against the closed form k gamma / n
    report = gdp.audit(
        gaussian_mean(1),
        gaussian_examples(1),
        N,
        [0.1],
        num_datasets=512,
        learn=[*gdp.DEFAULT, gdp.OnAverageKL(group_size=group_size), gdp.MutualInformation(0)],
        progress=False,
    )
    truth = group_size * 0.1 / N
    for name in ("on_average_kl", "on_average_kl_ghost"):
        assert abs(report[name][0] - truth) < 4 * report[f"{name}_se"][0]
    assert report["generalization_error"][0] == pytest.approx(
        single["generalization_error"][0],
        abs=4 * np.hypot(report["generalization_error_se"], single["generalization_error_se"])[0],
    )


@pytest.mark.trust
def test_a_structured_sum_is_the_sum_loss(single):
    loss = gdp.losses.half_squared_distance
    structured = gdp.GibbsPosterior(
        total_loss=lambda theta, z: jnp.sum(loss.batch(theta, z)),
        prior=gdp.Flat(gdp.supports.real(1)),
    )
    report = flat.audit(structured, gaussian_examples(1), N, [0.1], num_datasets=512, **QUICK)
    for name in ("on_average_kl", "on_average_kl_ghost", "generalization_error"):
        error = np.hypot(report[f"{name}_se"], single[f"{name}_se"])
        assert (np.abs(report[name] - single[name]) < 4 * error).all()
    # Risks of a structured loss are of the whole dataset.
    assert report["empirical_risk"][0] == pytest.approx(N * single["empirical_risk"][0], rel=0.1)


@pytest.mark.trust(but="24-524288")
@pytest.mark.parametrize(("block_size", "cached"), [(24, 2**19), (64, 16 * 5440)])
def test_block_size_changes_nothing_but_rounding(single, block_size, cached, monkeypatch):
    # A dataset's draws have 64 (20 + 64 + 1) = 5,440 losses and coordinates: 16 are worked on at
    # once in the second case.
    monkeypatch.setattr(plan, "CACHED_NUMBERS", cached)
    settings = QUICK | {"num_datasets": 512, "block_size": block_size}
    report = flat.audit(gaussian_mean(1), gaussian_examples(1), N, [0.1], **settings)
    assert report.settings["block_size"] == block_size != single.settings["block_size"]
    for name in ("on_average_kl", "generalization_error", "population_risk"):
        assert report[name] == pytest.approx(single[name], rel=1e-4)


def asked(**changes):
    """Settings of an audit of one logistic or quadratic posterior."""
    loss = changes.pop("loss", gdp.losses.half_squared_distance)
    values = {
        "posterior": gdp.GibbsPosterior(loss, gdp.Flat(gdp.supports.real(1))),
        "population": as_population(gaussian_examples(1)),
        "n": N,
        "gammas": (0.1,),
        "num_datasets": 512,
        "num_ghosts": 64,
        "key": jax.random.key(0),
        "sampler": as_sampler(gdp.HMC()),
        "num_chains": 8,
        "num_warmup": None,
        "num_samples": 8,
        "group_size": 1,
        "rel_error": None,
        "max_datasets": 512,
        "block_size": 64,
        "leading": OnAverageKL(),
    }
    return Settings(**(values | changes))


def test_a_block_is_worked_on_in_equal_parts_that_fit_a_cache():
    assert asked().num_at_once == 64
    assert asked(n=200, num_ghosts=200).num_at_once == 16
    assert asked(n=200, num_ghosts=200, block_size=60).num_at_once == 20
    assert asked(n=200, num_ghosts=200, block_size=61).num_at_once == 61  # no parts of 8 or more
    # Fewer where their losses would be in memory that is not at hand.
    assert asked(n=10_000, num_ghosts=256, block_size=8).num_at_once == 4
    assert asked(n=100_000, num_ghosts=256, block_size=4).num_at_once == 1


@pytest.mark.of_cpus("blocks of other devices are larger")
def test_long_audits_have_larger_blocks_and_stores_one_size():
    posterior = asked().posterior

    def size(num_datasets, is_stored=False, n=200):
        return plan.default_block_size(posterior, n, 200, 8, 8, num_datasets, is_stored)

    assert [size(k) for k in (256, 4095, 4096, 10**6)] == [32, 32, 128, 128]
    assert [size(k, is_stored=True) for k in (256, 10**6)] == [64, 64]
    assert size(10**6, n=10_000) == 8  # as many losses as a block may have


def test_only_short_audits_of_quadratic_losses_are_compiled_in_haste():
    assert asked().is_brief
    assert not asked(num_datasets=65_536).is_brief
    assert not asked(gammas=(0.1,) * 16, num_datasets=4096).is_brief
    assert not asked(loss=gdp.losses.logistic).is_brief


def test_rel_error_adds_datasets_until_met():
    settings = QUICK | {"num_datasets": 64, "rel_error": 0.03}
    report = flat.audit(gaussian_mean(1), gaussian_examples(1), N, [0.1], **settings)
    assert report["num_datasets"][0] >= 256
    assert report["on_average_kl_se"][0] <= 0.03 * report["on_average_kl"][0]


@pytest.mark.trust
def test_gamma_zero_is_the_prior():
    report = gdp.audit(
        gaussian_mean(1, 1.0),
        gaussian_examples(1),
        N,
        [0.0],
        num_datasets=256,
        learn=[*gdp.DEFAULT, gdp.MutualInformation(0)],
        progress=False,
    )
    assert report["on_average_kl"][0] == 0.0
    assert abs(report["generalization_error"][0]) < 4 * report["generalization_error_se"][0]
