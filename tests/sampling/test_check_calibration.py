"""Simulation-based calibration in one call, on posteriors whose law is known.

Every right case is refused below 1e-4 and there are ten of them: false alarms below 1 in 1,000.
"""

from collections import Counter
from dataclasses import dataclass, replace
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from html_pages import seen

import gibbs_dp as gdp
from gibbs_dp.sampling.calibration import LEVEL, _dependent, _ranks, band, p_value, steps, way_off

FALSE_ALARM = 1e-4
N = 5
POSTERIOR = gdp.GibbsPosterior(
    gdp.losses.half_squared_distance, dist.Normal(jnp.array([0.0, 1.0]), 1.0)
)


@dataclass(frozen=True)
class Conjugate(gdp.Sampler):
    """Exact draws of the posterior of normal data with prior N((0, 1), 1); or wrong ones."""

    inflation: float = 1.0
    is_prior: bool = False

    def draw(
        self, key, target, starts, schedule, num_chains, num_samples, scale=None, is_joint=False
    ):
        prior_mean = jnp.array([0.0, 1.0])
        n = 0 if self.is_prior else target.data.shape[0]
        mean = (prior_mean + n * target.data.mean(axis=0)) / (n + 1)
        noise = jax.random.normal(key, (num_chains, num_samples, 2)) * self.inflation
        return gdp.ChainDraws.of(target, mean + noise / jnp.sqrt(n + 1))


def simulate(key, theta, n):
    return theta + jax.random.normal(key, (n, 2))


def check(simulate=simulate, sampler=None, n=N, **more):
    sampler = Conjugate() if sampler is None else sampler
    few = {"num_samples": 100} | more
    return gdp.check_calibration(POSTERIOR, simulate, n, sampler=sampler, **few)


# The test of ranks, by itself.


def test_the_p_value_is_exact():
    """All 4^5 outcomes of five ranks on 0 to 3: P(p <= p of an outcome) is that p."""
    found = [p_value(np.array(ranks), 3) for ranks in product(range(4), repeat=5)]
    for p in set(found):
        assert np.mean(np.array(found) <= p + 1e-9) == pytest.approx(p, abs=1e-9)
    assert len(Counter(found)) > 5


@pytest.mark.parametrize("level", [0.01, 0.05, 0.3, 0.9])
def test_ranks_leave_the_band_where_the_p_value_is_small(level):
    low, high = band(5, 3, level)
    for ranks in product(range(4), repeat=5):
        counts = steps(np.array(ranks), 3)
        is_out = bool(((counts < low) | (counts > high)).any())
        assert is_out == (p_value(np.array(ranks), 3) <= level)


def test_ties_are_broken_by_chance():
    values = np.zeros((4000, 4, 2))  # the truth is zero, and so are three draws of the first
    values[:, 1:, 1] = [-1.0, 0.0, 1.0]
    ranks = _ranks(values, np.random.default_rng(0))
    # 4 binomial standard errors.
    share = np.bincount(ranks[:, 0], minlength=4) / 4000
    np.testing.assert_allclose(share, 0.25, atol=4 * (0.25 * 0.75 / 4000) ** 0.5)
    assert set(ranks[:, 1]) == {1, 2}
    assert ranks[:, 1].mean() == pytest.approx(1.5, abs=4 * 0.5 / 4000**0.5)


@pytest.mark.parametrize(
    ("power", "is_mirrored", "told"),
    [(3.0, False, "too large"), (3.0, True, "too small"), (1.0, False, "too narrow")],
)
def test_it_says_which_way_draws_are_off(power, is_mirrored, told):
    place = np.random.default_rng(1).uniform(size=500) ** power
    if power == 1.0:
        place = np.sin(np.pi * place / 2) ** 2  # at both ends
    ranks = np.minimum((place * 64).astype(int), 63)
    assert way_off(63 - ranks if is_mirrored else ranks, 64) == told


# Of posteriors.


@pytest.mark.trust(but="exact")
@pytest.mark.parametrize("sampler", [Conjugate(), None], ids=["exact", "default"])
def test_right_draws_have_uniform_ranks(sampler):
    found = gdp.check_calibration(POSTERIOR, simulate, N, sampler=sampler, num_samples=100)
    assert found.p > FALSE_ALARM
    assert found.names == ("theta[0]", "theta[1]", "total loss")
    assert found.ranks.shape == (256, 3)
    # R-hat of 100 draws a chain is above 1.01 in some dataset, however exact they are.
    assert {str(w).rpartition("[")[2] for w in found.warnings} <= {"r-hat]"}
    assert 0 <= found.ranks.min() < 5
    assert 58 < found.ranks.max() <= 63


OFF = {
    "too wide a simulator": {"simulate": lambda k, t, n: t + 1.5 * jax.random.normal(k, (n, 2))},
    "another centre": {"simulate": lambda k, t, n: t + 0.5 + jax.random.normal(k, (n, 2))},
    "narrow draws": {"sampler": Conjugate(inflation=0.7)},
}
TOLD = {"narrow draws": "too narrow", "another centre": "too large"}


@pytest.mark.parametrize("name", OFF)
def test_what_does_not_belong_together_is_caught(name):
    found = check(**OFF[name])
    assert found.p < 1e-6
    assert not found.is_uniform
    assert any(w.endswith("[ranks-not-uniform]") for w in found.warnings)
    if name in TOLD:
        assert set(found.to_dataframe()["draws_are"][["theta[0]", "theta[1]"]]) == {TOLD[name]}


def test_a_wrong_prior_is_caught():
    wide = gdp.GibbsPosterior(
        gdp.losses.half_squared_distance, dist.Normal(jnp.array([0.0, 1.0]), 3.0)
    )
    assert gdp.check_calibration(wide, simulate, 1, sampler=Conjugate(), num_samples=100).p < 1e-6


def test_only_the_loss_tells_draws_of_the_prior_from_those_of_the_posterior():
    found = check(sampler=Conjugate(is_prior=True))
    p = found.to_dataframe()["p_all"]
    assert p["total loss"] < 1e-6
    assert min(p["theta[0]"], p["theta[1]"]) > FALSE_ALARM


def test_a_simulator_without_jax_makes_the_same_ranks_one_by_one():
    calls = []

    def plain(key, theta, n):
        calls.append(1)
        noise = np.asarray(jax.random.normal(key, (n, 2)))
        return (np.asarray(theta) + noise).astype(np.float32)

    np.testing.assert_array_equal(check(plain).ranks, check().ranks)
    assert len(calls) >= 256


def line(x, y=None):
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    with numpyro.plate("rows", x.shape[0]):
        numpyro.sample("y", dist.Normal(slope * x, 0.5), obs=y)


@dataclass(frozen=True)
class Slope(gdp.Sampler):
    """Exact draws of the line's posterior."""

    def draw(
        self, key, target, starts, schedule, num_chains, num_samples, scale=None, is_joint=False
    ):
        x, y = target.data["x"], target.data["y"]
        precision = 1.0 + jnp.sum(x**2) / 0.25
        noise = jax.random.normal(key, (num_chains, num_samples, 1))
        mean = jnp.sum(x * y) / 0.25 / precision
        return gdp.ChainDraws.of(target, mean + noise / jnp.sqrt(precision))


X = np.linspace(-1.0, 2.0, 12)


@pytest.mark.trust(but="7")
@pytest.mark.parametrize("n", [None, 7])
def test_a_numpyro_model_simulates_itself(n):
    posterior = gdp.GibbsPosterior.from_numpyro(line, args=(X, np.zeros(12)))
    found = gdp.check_calibration(posterior, n=n, sampler=Slope(), num_samples=100)
    assert found.names == ("slope", "total loss")
    assert found.settings["n"] == (n or 12)
    assert found.p > FALSE_ALARM


def test_draws_that_are_worth_fewer_than_are_ranked_are_told_of():
    rows = [{"ess": ess} for _ in range(3) for ess in (400.0, 20.0)]
    (told,) = _dependent(rows, ["x", "y"], 63)
    assert told.startswith("the draws of a dataset are worth 20 independent ones")
    assert "(y; a mean over datasets), and 63 of them are ranked" in told
    assert not _dependent(rows, ["x", "y"], 20)
    assert _dependent([{"ess": float("nan")}], ["x"], 20)


FLAT = gdp.GibbsPosterior(gdp.losses.half_squared_distance, gdp.Flat(gdp.supports.real(2)))
FIXED = gdp.GibbsPosterior.from_numpyro(
    line, args=(X, np.zeros(12)), structured=True, examples=("x", "y")
)


def no_numbers(key, theta, n):
    return jnp.log(jax.random.normal(key, (n, 2)) - 50.0)


def test_wrong_calls_are_refused_in_a_sentence():
    rng = np.random.default_rng(0)
    for message, posterior, arguments, more in (
        ("prior is flat and cannot be drawn from", FLAT, (simulate, N), {}),
        ("n: give the number of examples", POSTERIOR, (simulate,), {}),
        ("simulate: give a function", POSTERIOR, (None, N), {}),
        ("made 5 examples, not n=6", POSTERIOR, (lambda k, t, n: simulate(k, t, 5), 6), {}),
        ("other data for the same key", POSTERIOR, (lambda *a: rng.normal(size=(N, 2)), N), {}),
        ("simulate: 10 values are NaN", POSTERIOR, (no_numbers, N), {}),
        ("num_datasets: must be an integer of at least 10", POSTERIOR, (simulate, N), {
            "num_datasets": 3
        }),
        ("there are 400 draws of a dataset, not 500", POSTERIOR, (simulate, N), {
            "num_ranked": 500, "num_samples": 100, "num_datasets": 10
        }),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            gdp.check_calibration(posterior, *arguments, **({"sampler": Conjugate()} | more))
    with pytest.raises(TypeError, match="no keyword 'num_dataset'; did you mean 'num_datasets'"):
        check(num_dataset=3)


def test_sites_that_the_prior_is_conditional_on_are_refused():
    def model(y):
        mean = numpyro.sample("mean", dist.Normal())
        numpyro.sample("earlier", dist.Normal(mean, 1.0), obs=2.0)
        with numpyro.plate("rows", y.shape[0]):
            numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)

    posterior = gdp.GibbsPosterior.from_numpyro(model, args=(np.zeros(4),))
    with pytest.raises(ValueError, match="conditional on what earlier observed"):
        gdp.check_calibration(posterior)


def test_a_model_with_places_has_as_many_examples_as_it_has():
    with pytest.raises(ValueError, match="places for 12 examples, not 7"):
        gdp.check_calibration(FIXED, n=7)


# The result.

RNG = np.random.default_rng(3)


def made(quantities, off=()):
    ranks = RNG.integers(0, 64, size=(256, quantities))
    for at in off:
        ranks[:, at] //= 2
    names = (*(f"x[{i}]$" for i in range(quantities - 1)), "total loss")
    return gdp.Calibration(ranks, names, 63, {"n": 3})


def test_the_table_says_what_is_off():
    found = made(5, off=(1, 3))
    frame = found.to_dataframe()
    assert list(frame.index[frame["p_all"] < LEVEL]) == ["x[1]$", "x[3]$"]
    assert list(frame["draws_are"]) == ["", "too large", "", "too large", ""]
    assert frame["mean_rank"]["x[1]$"] == pytest.approx(0.25, abs=0.04)
    assert frame["covered"]["x[0]$"] == pytest.approx(0.9, abs=4 * (0.09 / 256) ** 0.5)
    np.testing.assert_allclose(frame["p_all"], np.minimum(1.0, 5 * found.p_values))
    text = found.summary()
    assert text.startswith("256 datasets, 5 quantities, 63 draws ranked, p ")
    assert "ranks of 2 of 5 quantities are not uniform (x[1]$, x[3]$;" in text
    assert repr(found).startswith("Calibration(256 datasets")
    warned = replace(made(2), draws_warnings=("odd.",))
    assert warned.warnings == ("odd.",)


@pytest.mark.parametrize(("quantities", "panels"), [(1, 1), (5, 5), (40, 12)])
def test_the_picture_has_a_panel_for_each_of_the_worst(quantities, panels):
    figure = made(quantities, off=(quantities - 1,)).plot("Title")
    drawn = [axes for axes in figure.axes if axes.get_title(loc="left")]
    assert len(drawn) == panels
    assert drawn[-1].get_title(loc="left").startswith("total loss: p ")
    figure.draw_without_rendering()


def test_its_page_has_picture_warnings_and_settings(tmp_path):
    made(3, off=(0,)).to_html(tmp_path / "ranks.html", about=["a test."])
    page = seen((tmp_path / "ranks.html").read_text())
    assert page.verdict.startswith("Ranks are not uniform (1 warning below): p is")
    assert page.headings == [
        "Calibration by simulation",
        "Warnings: read these first",
        "What was checked",
        "Ranks",
        "What it does not promise",
        "Settings and versions",
    ]
    assert "svg" in page.tags


def test_datasets_that_overflow_are_no_fault_of_the_data():
    """A scale whose logarithm may be 100 makes infinities in single precision."""

    def model(x, y=None):
        size = numpyro.sample("size", dist.Normal(0.0, 100.0))
        with numpyro.plate("rows", len(x)):
            numpyro.sample("y", dist.Normal(0.0, jnp.exp(3.0 * size)), obs=y)

    posterior = gdp.GibbsPosterior.from_numpyro(model, args=(np.zeros(4), np.zeros(4)))
    with pytest.raises(ValueError, match=r"posterior: of 16 datasets simulated .* \d+ hold values"):
        gdp.check_calibration(posterior, num_datasets=16)
