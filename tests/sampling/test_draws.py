"""gdp.sample and the draws it returns."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import gibbs_dp as gdp

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


def test_draws_match_the_conjugate_posterior(draws):
    mean, sd = exact(2.0)
    table = draws.to_dataframe()
    assert list(table.index) == ["shift", "slope[0]", "slope[1]"]
    error = sd / np.sqrt(table["ess"])  # |z| <= 4: false alarms 6e-5 each
    assert (np.abs(table["mean"] - mean) < 4 * error).all()
    assert (np.abs(table["sd"] / sd - 1) < 4 * np.sqrt(1 / table["ess"])).all()
    assert draws.warnings == ()


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


@pytest.mark.filterwarnings("ignore::FutureWarning")  # ArviZ announces its 1.0 on import
def test_arviz_reads_them(draws):
    data = draws.to_arviz()
    assert dict(data.posterior.sizes) == {"chain": 4, "draw": 500, "slope_dim_0": 2}


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
        ({"kernel": gdp.Grid(low=0.0, high=1.0)}, "kernel: a Grid sums over the posterior"),
    ],
)
def test_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        gdp.sample(**({"posterior": POSTERIOR, "data": (X, Y)} | changed))


def test_an_improper_posterior_is_refused():
    flat = gdp.GibbsPosterior(gdp.losses.squared, gdp.Flat(gdp.supports.real(2)))
    with pytest.raises(gdp.ImproperPosteriorError, match="improper"):
        gdp.sample(flat, (X[:1], Y[:1]), num_samples=8)
