"""What rows of a table cost: closed forms, which row is which, what is told and kept of it."""

import json

import flat
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from problems import gaussian_mean, private_mean

import gibbs_dp as gdp
from gibbs_dp import io
from gibbs_dp.engine.datasets import Stream, roots, training_set
from gibbs_dp.model.populations import Table
from gibbs_dp.problems.table import table as make_table

QUICK = {"num_information": 0, "progress": False, "exposure": True}
# One program for all tables of forty rows.
SAME = QUICK | {"n": 10, "num_ghosts": 16, "block_size": 32}
THETA = np.linspace(0.0, 1.0, 5, dtype=np.float32)
# Of theory's fixture at gamma 1, by the value of the row: enumerated.
KL = {0.0: 0.041792, 0.5: 0.027146, 1.0: 0.091198}
ADVANTAGE = {0.0: 0.079499, 0.5: 0.080135, 1.0: 0.148905}
Z = np.random.default_rng(0).normal(size=(40, 1)).astype(np.float32)
GAMMAS = [0.5, 2.0]


def within(frame, name, truth, limit=4.0):
    z = (frame[name] - truth) / frame[f"{name}_se"]
    assert z.abs().max() < limit, z.abs().max()


def audit(table, gammas, num_datasets, **more):
    """Gaussian means of 10 rows of 40; chains."""
    return flat.audit(
        gaussian_mean(1), table, gammas=gammas, num_datasets=num_datasets, **SAME | more
    )


@pytest.fixture(scope="module")
def report():
    return audit(Table(Z), GAMMAS, 1024)


@pytest.mark.trust
def test_rows_of_the_finite_fixture_cost_what_enumeration_says():
    rows = np.repeat([0.0, 0.5, 1.0], [5, 3, 2]).astype(np.float32)
    posterior = gdp.GibbsPosterior(lambda theta, z: (theta - z) ** 2, gdp.Flat(gdp.supports.real()))
    report = flat.audit(
        posterior, Table(rows), 4, 1.0, num_datasets=8192, kernel=gdp.Grid(THETA), **QUICK
    )
    found = report.exposure.sort_values("row")
    # 20 comparisons at 4 standard errors: a false alarm once in 800.
    within(found, "on_average_kl", [KL[z] for z in rows.tolist()])
    within(found, "advantage", [ADVANTAGE[z] for z in rows.tolist()])
    assert (found["on_average_kl_se"] / found["on_average_kl"]).max() < 0.04
    assert not found["tail_flag"].any()
    assert set(report.exposure["row"][:2]) == {8, 9}
    # Every row is drawn as often, so their mean is on-average KL: theory's table.
    assert found["on_average_kl"].mean() == pytest.approx(0.047280, abs=4 * 0.0003)


@pytest.mark.trust
def test_rows_of_a_gaussian_mean_cost_what_the_closed_form_says(report):
    centred, variance = Z[:, 0] - Z.mean(), Z.var()
    assert len(report.exposure) == 2 * len(Z)
    for gamma, row in zip(GAMMAS, report.rows, strict=True):
        found = report.exposure.query("gamma == @gamma").sort_values("row")
        # 80 comparisons at 4.5 standard errors: a false alarm once in 1,800.
        within(found, "on_average_kl", gamma * (centred**2 + variance) / (2 * 10), limit=4.5)
        assert found["on_average_kl"].mean() == pytest.approx(row["on_average_kl"], rel=0.02)
        assert (found["num_datasets"] - 512 * (1 - (39 / 40) ** 10)).abs().max() < 5 * 10


def test_the_list_is_in_the_order_of_the_half_that_is_not_reported(report):
    for _, frame in report.exposure.groupby("gamma"):
        assert (frame["ranked_by"].diff().dropna() <= 0).all()
        assert list(frame["rank"]) == list(range(1, len(Z) + 1))
        gap = frame["ranked_by"] - frame["on_average_kl"]
        assert (gap != 0).all()
        inside = (frame["on_average_kl_low"] <= frame["on_average_kl"]) & (
            frame["on_average_kl"] <= frame["on_average_kl_high"]
        )
        assert inside.all()


def test_the_largest_estimates_of_equal_rows_overstate_and_the_other_half_does_not():
    # All rows cost the same: those that rank first do so by chance.
    rows = np.tile(np.array([-1.0, 1.0], np.float32), 20)[:, None]
    frame, truth = audit(Table(rows), 1.0, 128).exposure, 2.0 / (2 * 10)
    top = frame.head(5)
    # What the halves have in common is the rows, which are all alike: 4 standard errors.
    halves = np.corrcoef(frame["ranked_by"], frame["on_average_kl"])[0, 1]
    assert abs(halves) < 4 / np.sqrt(len(frame) - 2)
    # Some 14 datasets a row, whose KL has a relative error of 7%: the largest of forty are 12% off.
    assert top["ranked_by"].mean() > 1.06 * truth
    # Rows of one dataset share its ghosts: no error below that of all of them together.
    error = top["on_average_kl_se"].mean()
    assert abs(top["on_average_kl"].mean() - truth) < 4 * error / np.sqrt(2)


TABLES = {
    "replace": Table(np.arange(30.0)),
    "split": Table(np.arange(30.0), replace=False),
    "weights": Table(np.arange(30.0), weights=np.arange(30.0)),
}


@pytest.mark.parametrize("kind", TABLES)
def test_the_rows_that_are_drawn_again_are_those_of_the_datasets(kind):
    table, key = TABLES[kind], jax.random.key(5)
    root = roots(key, Stream.MAIN)[0]
    for number in (0, 7):
        train = training_set(gaussian_mean(1), table, root, jnp.asarray(number), 6, 4)
        rows = table.draw_rows(jax.random.fold_in(root, number), 6, 4)
        np.testing.assert_array_equal(train, np.asarray(rows)[:6])


@pytest.mark.trust
def test_rows_of_a_split_table_meet_ghosts_of_other_rows():
    report = audit(Table(Z, replace=False), 1.0, 1024)
    z = Z[:, 0].astype(float)
    square = np.mean((z[:, None] - z) ** 2, axis=1) * 40 / 39
    # 40 comparisons at 4.5 standard errors: a false alarm once in 3,600.
    within(report.exposure.sort_values("row"), "on_average_kl", square / (2 * 10), limit=4.5)
    assert report.exposure["num_datasets"].sum() == 512 * 10


@pytest.mark.trust
def test_a_store_gives_the_same_rows(tmp_path):
    first = audit(Table(Z), GAMMAS, 96, store=tmp_path)
    again = audit(Table(Z), GAMMAS, 96, store=tmp_path)
    pd.testing.assert_frame_equal(again.exposure, first.exposure)
    assert again.rows == first.rows
    # A store's blocks are sampled, whatever could be summed.
    sampled = audit(Table(Z), GAMMAS, 1024, kernel=gdp.HMC())
    pd.testing.assert_frame_equal(
        audit(Table(Z), GAMMAS, 1024, store=tmp_path).exposure, sampled.exposure, rtol=1e-5
    )
    with pytest.raises(ValueError, match="exposure is by example there and None here"):
        audit(Table(Z), GAMMAS, 96, store=tmp_path, exposure=False)


def test_files_and_pages_hold_it(report, tmp_path):
    report.save(tmp_path / "a.nc")
    loaded = gdp.load_report(tmp_path / "a.nc")
    pd.testing.assert_frame_equal(loaded.exposure, report.exposure)
    assert loaded.to_json_rows() == report.to_json_rows()
    listed = json.loads(report.to_json_rows()[1])["exposure"]
    frame = report.exposure.query("gamma == 2.0")
    assert [row["row"] for row in listed] == list(frame["row"][:10])
    report.to_html(tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text()
    assert "Most exposed rows" in page
    assert "[sensitive-rows]" in page
    assert report.exposure_summary().count("most exposed rows at gamma") == 2
    figure = report.plot_exposure(gamma=0.5)
    (line,) = (a for a in figure.axes[0].lines if a.get_label().startswith("each row"))
    np.testing.assert_array_equal(
        line.get_ydata(), report.exposure.query("gamma == 0.5")["on_average_kl"]
    )
    with pytest.raises(ValueError, match=r"gamma: 3.0 is not in the report; it has 0.5, 2"):
        report.plot_exposure(gamma=3.0)


def test_a_file_with_other_tables_is_damaged(report, tmp_path):
    path = tmp_path / "a.nc"
    whole = report.to_xarray()
    for spoilt in (
        whole.drop_vars("advantage_per_row"),
        whole.assign(advantage_per_row=whole["advantage_per_row"].astype(int)),
        whole.drop_vars("row"),
    ):
        io.save_netcdf(spoilt, path)
        with pytest.raises(io.DamagedFileError):
            gdp.load_report(path)


def test_the_list_is_called_sensitive_and_only_where_it_is(report):
    assert any(w.endswith("[sensitive-rows]") for w in report.warnings)
    plain = gdp.Report(report.rows, {})
    with pytest.raises(ValueError, match="exposure: this report has no figures of rows"):
        _ = plain.exposure
    assert "exposure" not in json.loads(plain.to_json_rows()[0])


def test_few_holders_are_warned_of(report):
    assert not any(w.endswith(("[few-holders]", "[heavy-rows]")) for w in report.warnings)
    told = audit(Table(Z), 1.0, 32).warnings
    assert [w.split()[-1] for w in told] == ["[sensitive-rows]", "[few-holders]"]


@pytest.mark.trust
def test_heavy_rows_are_warned_of():
    rows = Z.copy()
    rows[7] = 30.0
    # Exposures are one-sided whatever on-average KL is estimated from.
    report = audit(Table(rows), 1.0, 512, estimator="one-sided", sampler=gdp.HMC())
    top = report.exposure.iloc[0]
    assert top["row"] == 7
    assert top["tail_flag"]
    truth = ((rows[7] - rows.mean()) ** 2 + rows.var()).item() / (2 * 10)
    assert top["on_average_kl"] + 4 * top["on_average_kl_se"] < truth  # 64 draws do not see it
    assert any(w.endswith("[heavy-rows]") for w in report.warnings)


def test_row_numbers_are_the_tables(tmp_path):
    table = Table(Z, row_numbers=np.arange(40) + 100)
    report = audit(table, 1.0, 32)
    assert sorted(report.exposure["row"]) == list(range(100, 140))
    assert table.with_data(Z[::-1]).row_numbers[0] == 100
    with pytest.raises(ValueError, match=r"Table\(row_numbers\): they must be whole numbers"):
        Table(Z, row_numbers=np.arange(40) + 0.5)
    with pytest.raises(ValueError, match=r"Table\(row_numbers\): shape \(3,\) for 40 rows"):
        Table(Z, row_numbers=np.arange(3))
    frame = pd.DataFrame({"x": [0.0, np.nan, 1.0, 2.0], "y": [1.0, 2.0, 0.0, 5.0]})
    kept = make_table(frame, "y", "squared", missing="drop").population
    assert kept.row_numbers.tolist() == [0, 2, 3]
    path = tmp_path / "t.csv"
    frame.to_csv(path, index=False)
    kept = make_table(path, "y", "squared", missing="drop").population
    assert kept.row_numbers.tolist() == [0, 2, 3]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"population": lambda key, n: jax.random.normal(key, (n, 1))}, "only rows of a table"),
        ({"posterior": private_mean()}, "a structured loss has no losses of single examples"),
        ({"group_size": 2}, "rows are replaced one by one, not 2 at once"),
    ],
)
def test_what_has_no_rows_is_refused(changed, message):
    asked = {"posterior": gaussian_mean(1), "population": Table(Z), "n": 10, "gammas": 1.0}
    with pytest.raises(ValueError, match=message):
        flat.audit(**asked | QUICK | changed)
