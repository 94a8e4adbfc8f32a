"""A quantity of the user's own: one class, and it is in rows, table, page, plot and file."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import gaussian_examples, gaussian_mean

import gibbs_dp as gdp
from gibbs_dp.engine.quantity import values_kind
from gibbs_dp.quantities.registry import check_own_means

# One program with a store and without.
ASKED = {"num_datasets": 64, "block_size": 32, "progress": False}


class MedianValues(NamedTuple):
    median: Any


@dataclass(frozen=True)
class MedianRisk(gdp.Quantity):
    """Median loss of draws on fresh examples."""

    name = "median_risk"
    Values = MedianValues
    columns = (
        gdp.Column(
            "median_risk",
            "Median over draws and fresh examples of the loss.",
            "loss",
            "median risk",
            gdp.Style("median risk", "#0072B2", "-", "o", "risk"),
        ),
    )

    def per_dataset(self, view):
        losses = view.losses.population  # [chains, draws, examples]
        weight = jnp.broadcast_to(view.draws.weight[..., None], losses.shape).ravel()
        order = jnp.argsort(losses, axis=None)
        below = jnp.cumsum(weight[order])
        return MedianValues(losses.ravel()[order[jnp.searchsorted(below, below[-1] / 2)]])

    def means(self, result):
        return {"median_risk": result.summary.values.median_risk.median}


def audit(*learn, **more):
    given = ASKED | {"learn": [gdp.OnAverageKL(), gdp.Risks(), *learn]} | more
    return gdp.audit(gaussian_mean(1), gaussian_examples(1), 20, [1.0, 4.0], **given)


@pytest.fixture(scope="module")
def report():
    return audit(MedianRisk())


def test_it_is_in_rows_with_an_error_and_the_others_are_as_without_it(report):
    # |theta - z|^2 / 2 of normals of variance 1 + 2 / n (data and draw): half that of a chi-square
    # with one degree of freedom, whose median is 0.4549.
    for gamma, value, se in zip(
        (1.0, 4.0), report["median_risk"], report["median_risk_se"], strict=True
    ):
        truth = 0.4549 / 2 * (1 + (1 + 1 / gamma) / 20)
        assert abs(value - truth) < 4 * se + 0.01
        assert 0 < se < 0.1
    plain = audit(sampler=gdp.HMC())  # as there are with a quantity of one's own
    for name in ("on_average_kl", "generalization_error", "excess_risk"):
        assert report[name] == pytest.approx(plain[name], rel=1e-4)


@pytest.mark.trust
def test_weighted_draws_have_the_same_median(report):
    """Summed over a lattice, where points far out have no weight; seven standard errors of each."""
    grid = gdp.Grid(low=-6.0, high=6.0, num_points=241)
    summed = audit(MedianRisk(), sampler=grid)["median_risk"]
    assert np.all(abs(summed - report["median_risk"]) < 7 * report["median_risk_se"])
    assert np.all(summed < 0.3)  # unweighted: beyond 4


def test_it_is_in_table_page_plot_and_file(report, tmp_path):
    assert "median risk" in report.summary().splitlines()[0]
    assert "median risk" in report._repr_html_()
    report.to_html(tmp_path / "audit.html")
    assert "Median over draws and fresh examples" in (tmp_path / "audit.html").read_text("utf-8")
    (axes,) = report.plot(panels="risk").axes
    assert "median risk" in axes.get_legend_handles_labels()[1]
    report.save(tmp_path / "audit.nc")
    again = gdp.load_report(tmp_path / "audit.nc")
    assert again.own_columns == report.own_columns
    assert str(again) == str(report)
    assert np.array_equal(again["median_risk"], report["median_risk"])


def test_a_file_whose_column_is_on_an_axis_of_another_unit_is_refused(report, tmp_path):
    style = replace(MedianRisk.columns[0].style, panel="privacy")
    wrong = replace(report, own_columns=(column(style=style),))
    wrong.save(tmp_path / "audit.nc")
    with pytest.raises(ValueError, match=r"damaged report .it draws 'median_risk' .loss. in"):
        gdp.load_report(tmp_path / "audit.nc")


def test_a_store_gives_it_back(tmp_path):
    first = audit(MedianRisk(), store=tmp_path)
    again = audit(MedianRisk(), store=tmp_path)
    assert again.own_columns == first.own_columns
    assert again.rows == first.rows


def column(**changed):
    return replace(MedianRisk.columns[0], **changed)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ((column(name="r_hat"),), "calls a column 'r_hat', which there is"),
        ((column(name="my column"),), "a name is letters, digits and _"),
        ((column(unit="nats"),), "draws 'median_risk' .nats. in the panel 'risk'"),
    ],
)
def test_columns_that_could_be_taken_for_others_are_refused(columns, said):
    class Mine(MedianRisk):
        pass

    Mine.columns = columns
    with pytest.raises(ValueError, match=f"learn: Mine .*{said}"):
        audit(Mine())


def test_a_column_that_is_never_a_number_is_missed_aloud(monkeypatch):
    """Not the other columns of the row, nor those that are left out of it by design."""

    real = MedianRisk.means

    def first_alone(quantity, result):
        values = real(quantity, result)["median_risk"]
        return {"median_risk": np.where(np.arange(values.size) < 1, values, np.nan)}

    monkeypatch.setattr(MedianRisk, "means", first_alone)  # a class of its own compiles again
    report = audit(MedianRisk())
    assert "median_risk" not in report.rows[0]
    (told,) = [text for text in report.warnings if "gamma=1:" in text and "[undefined]" in text]
    assert "median_risk, a column of your own, is finite on 1 of 64 datasets: left out." in told
    assert not any("undefined" in text for text in audit(sampler=gdp.HMC()).warnings)


@pytest.mark.parametrize("taken", ["mixing", "on_average_kl", "exposure"])
def test_a_name_of_the_librarys_is_refused(taken):
    class Mine(MedianRisk):
        name = taken

    with pytest.raises(ValueError, match=f"learn: Mine calls itself {taken!r}, as a quantity of"):
        audit(Mine())


def test_two_with_the_same_column_are_refused():
    class Other(MedianRisk):
        name = "other"

    with pytest.raises(ValueError, match="two of your quantities have a column 'median_risk'"):
        audit(MedianRisk(), Other())


class KeyValues(NamedTuple):
    apart: Any


def test_means_that_would_be_lost_or_replace_others_are_refused(monkeypatch):
    monkeypatch.setattr(MedianRisk, "means", lambda *_: None)
    with pytest.raises(ValueError, match=r"learn: MedianRisk.means returns None; return a dict"):
        audit(MedianRisk())
    numbers = np.arange(3.0)
    check_own_means(MedianRisk(), {"median_risk": numbers})
    with pytest.raises(ValueError, match=r"returns \['on_average_kl'\]; .*\['median_risk'\]"):
        check_own_means(MedianRisk(), {"on_average_kl": numbers})
    with pytest.raises(ValueError, match=r"returns 'median_risk' of shape \(\); return one number"):
        check_own_means(MedianRisk(), {"median_risk": 1.0})


def low_bits(key):
    """The lower halves of a key's words, as numbers that a float holds exactly."""
    return (jax.random.key_data(key) & 0xFFFF).astype(float)


@dataclass(frozen=True)
class SplitKeys(gdp.Sampler):
    """Normal draws, of which the first is what the chains' key splits into."""

    def draw(
        self, key, target, starts, schedule, num_chains, num_samples, scale=None, is_joint=False
    ):
        u = jax.vmap(low_bits)(jax.random.split(key)).ravel() / 2**16
        draws = jax.random.normal(key, (num_chains, num_samples, 4))
        return gdp.ChainDraws.of(target, draws.at[0, 0].set(u))


@dataclass(frozen=True)
class OwnKey(gdp.Quantity):
    """How far a pair's own key is from those that its chains were drawn with."""

    name = "own_key"
    Values = KeyValues

    def of_pair(self, pair):
        own = low_bits(pair.key) / 2**16
        return jnp.abs(pair.base.u[0, 0].reshape(2, 2) - own).sum(axis=1).min()

    def per_dataset(self, view):
        return KeyValues(view.pairs)

    def means(self, result):
        apart = result.summary.values.own_key.apart
        assert (apart > 0)[:, :2].all()
        return {}


@pytest.mark.trust
def test_a_pair_s_own_key_is_none_of_its_chains():
    """JAX's split of a key holds what folding in 0 and 1 gives."""
    learn = [gdp.OnAverageKL("two-sided"), OwnKey()]
    audit_of = gaussian_mean(4), gaussian_examples(4), 20, [1.0]
    gdp.audit(*audit_of, sampler=SplitKeys(), **ASKED | {"learn": learn})


def test_threads_that_ask_at_once_get_one_type():
    """Two types of one name would be two trees, which do not add up; without a lock always two."""
    interval = sys.getswitchinterval()
    start = threading.Barrier(8)

    def ask(quantities):
        start.wait()
        return values_kind(quantities)

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            for order in range(20):
                quantities = (gdp.OnAverageKL(), gdp.Attacker(num_datasets=order + 2))
                assert len({id(kind) for kind in pool.map(ask, [quantities] * 8)}) == 1
    finally:
        sys.setswitchinterval(interval)
