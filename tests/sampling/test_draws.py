"""gdp.sample and the draws it returns."""

import dataclasses
import itertools

import arviz
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import gibbs_dp as gdp
from gibbs_dp.one_dataset.log_likelihood import mixing
from gibbs_dp.sampling.diagnostics import describe

X = np.random.default_rng(0).normal(size=(40, 2))
Y = X @ np.array([1.0, -1.0]) + 0.5 * np.random.default_rng(1).normal(size=40)
POSTERIOR = gdp.GibbsPosterior(
    lambda theta, z: (z[1] - z[0] @ theta["slope"] - theta["shift"]) ** 2 / (2 * 0.25),
    {"slope": dist.Normal(0.0, 1.0).expand([2]), "shift": dist.Normal(0.0, 1.0)},
)


@pytest.fixture(scope="module")
def draws():
    return gdp.sample(POSTERIOR, (X, Y), gamma=2.0, num_samples=500)


def exact(gamma):
    design = np.column_stack([np.ones(40), X])
    precision = gamma * design.T @ design / 0.25 + np.eye(3)
    mean = np.linalg.solve(precision, gamma * design.T @ Y / 0.25)
    return mean, np.sqrt(np.diag(np.linalg.inv(precision)))


@pytest.mark.trust
def test_draws_match_the_conjugate_posterior(draws):
    mean, sd = exact(2.0)
    table = draws.to_dataframe()
    assert list(table.index) == ["shift", "slope[0]", "slope[1]"]
    error = sd / np.sqrt(table["ess"])  # |z| <= 4: false alarms 6e-5 each
    assert (np.abs(table["mean"] - mean) < 4 * error).all()
    assert (np.abs(table["sd"] / sd - 1) < 4 * np.sqrt(1 / table["ess"])).all()
    assert draws.warnings == ()


@pytest.mark.trust
def test_a_batch_is_its_datasets(draws):
    batch = gdp.sample(
        POSTERIOR, (np.stack([X, X]), np.stack([Y, Y + 1.0])), gamma=2.0, num_samples=500,
        is_batch=True,
    )  # fmt: skip
    assert batch.theta["slope"].shape == (2, 4, 500, 2)
    assert batch.theta["shift"][0] == pytest.approx(draws.theta["shift"], abs=1e-4)
    means = batch.to_dataframe()["mean"].unstack()
    assert means["shift"][1] - means["shift"][0] == pytest.approx(1.0, abs=0.05)


def test_files_and_arviz(draws, tmp_path):
    path = tmp_path / "draws.nc"
    draws.save(path)
    again = gdp.load_draws(path)
    assert again.summary() == draws.summary()
    assert np.array_equal(again.theta["slope"], draws.theta["slope"])
    tree = draws.to_xarray()
    assert tree["posterior"]["slope"].dims == ("chain", "draw", "slope_dim_0")
    with pytest.raises(ValueError, match="does not hold a gibbs_dp report"):
        gdp.load_report(path)


def test_draws_that_alternate_are_worth_the_most_that_is_told():
    """Of a sequence ``x' = -0.9 x + noise`` N draws are worth 19 N; told is ``N log10(N)``."""
    values = np.random.default_rng(0).normal(size=(4, 1000, 20))
    for before, now in itertools.pairwise(range(1000)):
        values[:, now] -= 0.9 * values[:, before]
    np.testing.assert_allclose(describe(values)["ess"], 4000 * np.log10(4000))
    assert mixing(values).ess_min > 4000


@pytest.mark.filterwarnings("ignore::FutureWarning")  # ArviZ announces its 1.0 on import
def test_arviz_reads_them(draws):
    data = draws.to_arviz()
    assert dict(data.posterior.sizes) == {"chain": 4, "draw": 500, "slope_dim_0": 2}
    with pytest.raises(ValueError, match="do not know what was sampled; pass posterior and data"):
        dataclasses.replace(draws, source=None).to_arviz(log_likelihood=True)


@pytest.mark.trust
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore:The inplace keyword")  # of pandas, used by ArviZ
def test_arviz_compares_models_by_their_log_likelihoods(draws):
    by_hand = -2.0 * (Y - X @ draws.theta["slope"][1, 7] - draws.theta["shift"][1, 7]) ** 2 / 0.5
    assert draws.log_likelihood()[1, 7] == pytest.approx(by_hand, rel=1e-4, abs=1e-5)
    smaller = gdp.GibbsPosterior(
        lambda theta, z: (z[1] - theta["shift"]) ** 2 / (2 * 0.25), {"shift": dist.Normal()}
    )
    other = gdp.sample(smaller, (X, Y), gamma=2.0, num_samples=500)
    table = arviz.compare({"both": draws.to_arviz(), "shift": other.to_arviz()})
    assert list(table.index) == ["both", "shift"]
    # Removing an example of a linear regression with known variance (leverage h, residual r):
    # log p(y_i | the others) = log N(r / (1 - h); 0, v / (1 - h)), without the constant of N(y).
    design, v = np.column_stack([np.ones(40), X]), 0.25 / 2.0
    cov = np.linalg.inv(design.T @ design / v + np.eye(3))
    h = np.einsum("ij,jk,ik->i", design, cov, design) / v
    r = Y - design @ (cov @ design.T @ Y / v)
    elpd = (0.5 * np.log(1 - h) - r**2 / (2 * v * (1 - h))).sum()
    found = arviz.loo(draws.to_arviz())
    value = found.elpd_loo if arviz.__version__.startswith("0.") else found.elpd
    assert value == pytest.approx(elpd, rel=0.01)


def test_log_likelihoods_of_files_batches_and_large_data(draws, tmp_path):
    draws.save(tmp_path / "draws.nc", log_likelihood=True)
    again = gdp.load_draws(tmp_path / "draws.nc")
    whole = draws.log_likelihood()
    assert again.log_likelihood(POSTERIOR, (X, Y)) == pytest.approx(whole, rel=1e-6)
    twice = gdp.Draws(
        {k: np.stack([v, v]) for k, v in draws.theta.items()},
        *(np.stack([a, a]) for a in (draws.log_density, draws.accept_rate, draws.is_stuck)),
        2.0, {}, (POSTERIOR, (np.stack([X, X]), np.stack([Y, Y]))),
    )  # fmt: skip
    assert twice.log_likelihood().shape == (2, 4, 500, 40)
    assert twice.to_xarray(True)["log_likelihood"]["loss"].dims[0] == "dataset"


def test_draws_of_other_samplers_go_both_ways(draws):
    u = draws.unconstrained()
    target = POSTERIOR.unconstrained((X, Y), 2.0)
    assert u.shape == (4, 500, 3)
    for samples, is_unconstrained in ((draws.theta, False), (u, True)):
        back = gdp.as_draws(POSTERIOR, (X, Y), samples, 2.0, is_unconstrained)
        assert back.theta["slope"] == pytest.approx(draws.theta["slope"], abs=1e-5)
        gap = target.log_density(u[0, 3]) - target.log_density(u[2, 5])
        found = back.log_density[0, 3] - back.log_density[2, 5]
        assert found == pytest.approx(float(gap), abs=1e-3)
        assert back.warnings == ()
        assert "another library's" in back.summary()


@pytest.mark.parametrize(
    ("samples", "is_unconstrained", "message"),
    [
        ({"slope": np.zeros((4, 9, 2))}, False, "structure differs"),
        ({"slope": np.zeros((4, 9, 2)), "shift": np.zeros((4, 8))}, False, "all need the same"),
        ({"slope": np.zeros((4, 9, 3)), "shift": np.zeros((4, 9))}, False, "array of shape"),
        ({"slope": np.zeros((4, 9, 2)), "shift": np.full((4, 9), np.nan)}, False, "are NaN"),
        (np.zeros((4, 9, 2)), True, "unconstrained ones are"),
        ([np.zeros((9, 3)), np.zeros((8, 3))], True, r"2 chains differ in shape \(draws: 9, 8\)"),
        (
            {"slope": [np.zeros((9, 2)), np.zeros((8, 2))], "shift": np.zeros((2, 9))},
            False,
            r"2 chains differ in shape \(draws: 9, 8\).*cut them to the shortest",
        ),
    ],
)
def test_samples_that_do_not_fit_are_refused(samples, is_unconstrained, message):
    with pytest.raises(ValueError, match=message):
        gdp.as_draws(POSTERIOR, (X, Y), samples, 1.0, is_unconstrained)


@pytest.mark.trust
def test_separate_modes_are_seen():
    two = gdp.GibbsPosterior(
        lambda theta, z: (jnp.abs(theta) - z) ** 2, gdp.Flat(gdp.supports.real())
    )
    found = gdp.sample(two, 10.0 + np.zeros(20), num_samples=200, num_chains=8)
    assert any("R-hat" in w for w in found.warnings)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"gamma": -1.0}, "gamma: -1 is not"),
        ({"data": (X, Y[:-1])}, "different lengths"),
        ({"data": (X, np.full(40, np.nan))}, "NaN"),
        ({"init": {"slope": np.zeros(3), "shift": np.zeros(())}}, "theta: got an array of shape"),
        ({"num_chains": 1}, "num_chains"),
        ({"sampler": gdp.Grid(low=0.0, high=1.0)}, "sampler: a Grid sums over the posterior"),
    ],
)
def test_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        gdp.sample(**({"posterior": POSTERIOR, "data": (X, Y)} | changed))


def test_an_improper_posterior_is_refused():
    flat = gdp.GibbsPosterior(gdp.losses.squared, gdp.Flat(gdp.supports.real(2)))
    with pytest.raises(gdp.ImproperPosteriorError, match="improper"):
        gdp.sample(flat, (X[:1], Y[:1]), num_samples=8)
