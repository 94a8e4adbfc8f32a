"""Exact posteriors on grids: against the finite oracle, and against Markov chains."""

import flat
import jax.numpy as jnp
import numpy as np
import pytest
from problems import (
    QUICK,
    gaussian_examples,
    gaussian_mean,
    linear_regression,
    private_mean,
    private_median,
    regression_examples,
    truncated_normals,
)

import gibbs_dp as gdp
from gibbs_dp.papers import channels

THETA = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
Z, PROBS = np.array([0.0, 0.5, 1.0]), np.array([0.5, 0.3, 0.2])
GAMMAS = [0.2, 1.0, 3.0]


def agree(report, column, truth, truth_se=0.0):
    z = (report[column] - truth) / np.hypot(report[f"{column}_se"], truth_se)
    return (np.abs(z) < 4).all()  # false alarms: 6e-5 a value


@pytest.fixture(scope="module")
def finite_report():
    """The finite fixture of five hypotheses and three example values, n = 4."""
    posterior = gdp.GibbsPosterior(lambda t, z: (t - z) ** 2, gdp.Flat(gdp.supports.real()))
    population = gdp.populations.Finite(Z, PROBS)
    return gdp.audit(
        posterior,
        population,
        4,
        GAMMAS,
        num_datasets=4096,
        sampler=gdp.Grid(THETA),
        learn=[*gdp.DEFAULT, gdp.MutualInformation(0)],
        progress=False,
    )


def test_finite_class_matches_the_oracle(finite_report):
    problem = gdp.exact.FiniteProblem((THETA[:, None] - Z) ** 2, PROBS, np.full(5, 0.2))
    exact = [problem.quantities(gamma=g, n=4, beta=0.05) for g in GAMMAS]
    for name in ("on_average_kl", "generalization_error"):
        assert agree(finite_report, name, np.array([q[name] for q in exact]))
    ghost = np.array([q["on_average_kl"] for q in exact])
    assert agree(finite_report, "on_average_kl_ghost", ghost)
    assert finite_report.warnings == ()
    assert set(finite_report["estimator"]) == {"exact sum"}


def test_points_that_datasets_share_tell_any_kl(monkeypatch):
    """Of hundreds of nats, which sums of one posterior's weights have no digits for."""
    posterior = gdp.GibbsPosterior(lambda t, z: (t - z) ** 2, gdp.Flat(gdp.supports.real()))
    population, gammas = gdp.populations.Finite(Z, PROBS), [1.0, 100.0, 1e4]
    asked = {"num_datasets": 4096, "sampler": gdp.Grid(THETA), "progress": False}
    report = gdp.audit(posterior, population, 4, gammas, learn=[gdp.OnAverageKL()], **asked)
    problem = gdp.exact.FiniteProblem((THETA[:, None] - Z) ** 2, PROBS, np.full(5, 0.2))
    exact = [problem.quantities(gamma=g, n=4, beta=0.05)["on_average_kl"] for g in gammas]
    assert exact[-1] > 500
    assert agree(report, "on_average_kl", np.array(exact))
    assert report["estimator"].tolist() == ["exact sum", "ghost", "ghost"]
    assert report.warnings == ()
    # Where pilots do not see it, the datasets do.
    monkeypatch.setattr(gdp.OnAverageKL, "choose", lambda *_: "one-sided")
    again = gdp.audit(posterior, population, 4, gammas, learn=[gdp.OnAverageKL()], **asked)
    assert again["estimator"].tolist() == report["estimator"].tolist()
    np.testing.assert_array_equal(again["on_average_kl"], report["on_average_kl"])
    monkeypatch.undo()
    # Whoever asks for sums of one side is told.
    told = gdp.audit(
        posterior, population, 4, gammas[-1:], learn=[gdp.OnAverageKL("one-sided")], **asked
    )
    assert told["estimator"].tolist() == ["exact sum"]
    assert any("[beyond-sums]" in w for w in told.warnings)


def test_excess_risk_is_over_the_best_candidate(finite_report):
    risks = ((THETA[:, None] - Z) ** 2) @ PROBS
    excess = finite_report["population_risk"] - risks.min()
    # Subtracting the best candidate's loss on the same ghosts only removes noise.
    error = finite_report["population_risk_se"]
    assert (np.abs(finite_report["excess_risk"] - excess) < 4 * error).all()
    assert (finite_report["excess_risk"] > 0).all()


def test_private_median_by_the_exponential_mechanism():
    """Candidates for a median: chains on the same class do not exist, enumeration does."""
    posterior = gdp.GibbsPosterior(lambda t, z: jnp.abs(t - z), gdp.Flat(gdp.supports.real()))
    population = gdp.populations.Finite(Z, PROBS)
    report = gdp.audit(
        posterior,
        population,
        6,
        [0.5, 2.0],
        num_datasets=4096,
        sampler=gdp.Grid(THETA),
        learn=[*gdp.DEFAULT, gdp.MutualInformation(0)],
        progress=False,
    )
    problem = gdp.exact.FiniteProblem(np.abs(THETA[:, None] - Z), PROBS, np.full(5, 0.2))
    truth = [problem.quantities(gamma=g, n=6, beta=0.05)["on_average_kl"] for g in (0.5, 2.0)]
    assert agree(report, "on_average_kl", np.array(truth))


@pytest.mark.trust
def test_private_selection_of_the_commonest_value():
    """Votes for three candidates: utility is the count, the exponential mechanism has eps."""
    votes, probs, eps = np.arange(3.0), np.array([0.5, 0.3, 0.2]), 1.0
    posterior = gdp.GibbsPosterior(
        lambda t, z: jnp.where(t == z, 0.0, 1.0), gdp.Flat(gdp.supports.real())
    )
    report = flat.audit(
        posterior, gdp.populations.Finite(votes, probs), 5, [eps / 2], num_datasets=4096,
        kernel=gdp.Grid(votes), **QUICK,
    )  # fmt: skip
    count = np.eye(3)[gdp.exact.ordered_datasets(5, 3)].sum(axis=1)
    channel = channels.gibbs(-count, 5, eps / 2, probs, np.full(3, 1 / 3))
    assert agree(report, "on_average_kl", np.array([channel.on_average_kl()]))
    gap = channel.generalization_error(1 - np.eye(3))
    assert agree(report, "generalization_error", np.array([gap]))
    assert 0.8 * eps < channel.dp_epsilon() <= eps


@pytest.mark.trust
@pytest.mark.parametrize(
    ("posterior", "population", "n", "gammas", "grid", "kernel"),
    [
        (linear_regression(2.0), regression_examples, 100, [0.01, 1.0],
         gdp.Grid(low=-2.0, high=2.0, num_points=400), gdp.HMC()),
        (private_mean(), truncated_normals, 20, [1.0, 20.0],
         gdp.Grid(low=-14.0, high=14.0, num_points=4_000), gdp.HMC()),
        (private_median(), truncated_normals, 20, [0.3, 1.0],
         gdp.Grid(low=-2.0, high=2.0, num_points=1000), gdp.MALA()),
        (gaussian_mean(2, 1.0), gaussian_examples(2), 20, [0.1],
         gdp.Grid(low=-4.0, high=4.0, num_points=60), gdp.MALA()),
    ],
    ids=["bounded-regression", "private-mean", "private-median", "two-dimensional"],
)  # fmt: skip
def test_lattice_agrees_with_chains(posterior, population, n, gammas, grid, kernel):
    """The same datasets by sums and by chains: two routes that share nothing but the data."""
    settings = {"num_datasets": 256, "progress": False, "num_ghosts": 8, "num_information": 0}
    exact = flat.audit(posterior, population, n, gammas, kernel=grid, **settings)
    chains = flat.audit(posterior, population, n, gammas, kernel=kernel, **settings)
    for name in ("on_average_kl", "generalization_error", "empirical_risk"):
        assert agree(chains, name, exact[name], exact[f"{name}_se"])
    assert not any("lattice points" in w for w in exact.warnings)


@pytest.mark.trust
def test_a_poor_lattice_is_noticed():
    coarse = gdp.Grid(low=-0.5, high=0.5, num_points=6)
    report = gdp.audit(
        gaussian_mean(1),
        gaussian_examples(1),
        20,
        [100.0],
        num_datasets=64,
        sampler=coarse,
        learn=[*gdp.DEFAULT, gdp.MutualInformation(0)],
        progress=False,
    )
    assert any("rim" in w for w in report.warnings)
    assert any("raise Grid(num_points)" in w for w in report.warnings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "either `candidates`, or both"),
        ({"candidates": THETA, "low": 0.0, "high": 1.0}, "either `candidates`, or both"),
        ({"low": 1.0, "high": 0.0}, "low < high"),
        ({"low": 0.0, "high": 1.0, "num_points": 1}, "num_points"),
        ({"candidates": [1.0, np.nan]}, "finite points"),
    ],
)
def test_bad_grids_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        gdp.Grid(**settings)


def test_points_outside_the_support_are_refused():
    with pytest.raises(ValueError, match="outside the prior's support"):
        gdp.Grid(low=-3.0, high=3.0).check(linear_regression(2.0))
    with pytest.raises(ValueError, match="edge of the prior's support"):
        gdp.Grid([[-2.0], [0.0], [2.0]]).check(linear_regression(2.0))
    with pytest.raises(ValueError, match="3 dimensions is too large"):
        gdp.Grid(low=-3.0, high=3.0).check(gaussian_mean(3))
