"""What rows of a table cost: closed forms, which row is which, what is told and kept of it."""

import json

import jax
import numpy as np
import pandas as pd
import pytest
from problems import gaussian_mean, private_mean

import gibbs_dp as gdp
from gibbs_dp.engine.datasets import Stream, roots, training_set
from gibbs_dp.model.populations import Table

QUICK = {"num_information": 0, "progress": False, "exposure": True}
THETA = np.linspace(0.0, 1.0, 5, dtype=np.float32)
# Of theory's fixture at gamma 1, by the value of the row: enumerated.
KL = {0.0: 0.041792, 0.5: 0.027146, 1.0: 0.091198}
ADVANTAGE = {0.0: 0.079499, 0.5: 0.080135, 1.0: 0.148905}
Z = np.random.default_rng(0).normal(size=(40, 1)).astype(np.float32)
GAMMAS = [0.5, 2.0]


def within(frame, name, truth, limit=4.0):
    z = (frame[name] - truth) / frame[f"{name}_se"]
    assert z.abs().max() < limit, z.abs().max()


@pytest.fixture(scope="module")
def report():
    """Gaussian means of 20 rows of 40, with replacement; chains."""
    return gdp.audit(
        gaussian_mean(1), Table(Z), 20, GAMMAS, num_datasets=1024, num_ghosts=32, **QUICK
    )


def test_rows_of_the_finite_fixture_cost_what_enumeration_says():
    rows = np.repeat([0.0, 0.5, 1.0], [5, 3, 2]).astype(np.float32)
    posterior = gdp.GibbsPosterior(
        lambda theta, z: (theta - z) ** 2, gdp.Flat(gdp.supports.box(0.0, 1.0))
    )
    report = gdp.audit(
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


def test_rows_of_a_gaussian_mean_cost_what_the_closed_form_says(report):
    centred, variance = Z[:, 0] - Z.mean(), Z.var()
    assert len(report.exposure) == 2 * len(Z)
    for gamma, row in zip(GAMMAS, report.rows, strict=True):
        found = report.exposure.query("gamma == @gamma").sort_values("row")
        # 80 comparisons at 4.5 standard errors: a false alarm once in 1,800.
        within(found, "on_average_kl", gamma * (centred**2 + variance) / (2 * 20), limit=4.5)
        assert found["on_average_kl"].mean() == pytest.approx(row["on_average_kl"], rel=0.02)
        assert (found["num_datasets"] - 512 * (1 - (39 / 40) ** 20)).abs().max() < 5 * 11


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
    rows = np.tile(np.array([-1.0, 1.0], np.float32), 100)[:, None]
    report = gdp.audit(gaussian_mean(1), Table(rows), 10, 1.0, num_datasets=512, **QUICK)
    top, truth = report.exposure.head(20), 2.0 / (2 * 10)
    assert top["ranked_by"].mean() > 1.1 * truth
    error = np.sqrt(np.sum(top["on_average_kl_se"] ** 2)) / 20
    assert abs(top["on_average_kl"].mean() - truth) < 4 * error + 0.001


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
        train = training_set(gaussian_mean(1), table, root, np.int32(number), 6, 4)
        rows = table.draw_rows(jax.random.fold_in(root, number), 6, 4)
        np.testing.assert_array_equal(train, np.asarray(rows)[:6])


@pytest.mark.parametrize("options", [{"replace": False}, {"weights": np.linspace(0.0, 3.0, 40)}])
def test_other_ways_of_drawing_rows(options):
    report = gdp.audit(
        gaussian_mean(1), Table(Z, **options), 10, 1.0, num_datasets=1024, num_ghosts=16, **QUICK
    )
    weights = options.get("weights", np.ones(40))
    share, z = weights / weights.sum(), Z[:, 0].astype(float)
    fresh = [np.sum(share * (z - x) ** 2) for x in z]
    if "replace" in options:  # the fresh rows are others
        fresh = np.array(fresh) * 40 / 39
    found = report.exposure.sort_values("row")
    held = found["num_datasets"] > 30
    within(found[held], "on_average_kl", np.asarray(fresh)[held] / (2 * 10), limit=4.5)
    if "weights" in options:
        assert found["num_datasets"].iloc[0] == 0
        assert np.isnan(found["on_average_kl"].iloc[0])
        assert report.exposure["row"].iloc[-1] == 0


def test_a_store_gives_the_same_rows(tmp_path):
    asked = QUICK | {"num_datasets": 96, "block_size": 32, "num_ghosts": 8}
    first = gdp.audit(gaussian_mean(1), Table(Z), 10, [0.5, 1.0], store=tmp_path, **asked)
    again = gdp.audit(gaussian_mean(1), Table(Z), 10, [0.5, 1.0], store=tmp_path, **asked)
    pd.testing.assert_frame_equal(again.exposure, first.exposure)
    assert again.rows == first.rows
    with pytest.raises(ValueError, match="exposure is by example there and None here"):
        gdp.audit(
            gaussian_mean(1), Table(Z), 10, 1.0, store=tmp_path, **asked | {"exposure": False}
        )


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
        gdp.io.save_netcdf(spoilt, path)
        with pytest.raises(gdp.io.DamagedFileError):
            gdp.load_report(path)


def test_the_list_is_called_sensitive_and_only_where_it_is(report):
    assert any(w.endswith("[sensitive-rows]") for w in report.warnings)
    plain = gdp.Report(report.rows, {})
    with pytest.raises(ValueError, match="exposure: this report has no figures of rows"):
        _ = plain.exposure
    assert "exposure" not in json.loads(plain.to_json_rows()[0])


def test_few_holders_and_heavy_rows_are_warned_of():
    rows = np.concatenate([Z, Z, np.array([[40.0]], np.float32)])
    report = gdp.audit(gaussian_mean(1), Table(rows), 4, 1.0, num_datasets=128, **QUICK)
    told = [w for w in report.warnings if w.endswith("[few-holders]")]
    assert len(told) == 1
    report = gdp.audit(gaussian_mean(1), Table(rows), 10, 1.0, num_datasets=512, **QUICK)
    assert any("1 of 81 rows cost so much" in w for w in report.warnings)
    assert report.exposure["tail_flag"].tolist() == [True] + [False] * 80
    assert report.exposure["row"].iloc[0] == 80


def test_row_numbers_are_the_tables(tmp_path):
    table = Table(Z, row_numbers=np.arange(40) + 100)
    report = gdp.audit(gaussian_mean(1), table, 10, 1.0, num_datasets=32, **QUICK)
    assert sorted(report.exposure["row"]) == list(range(100, 140))
    assert table.with_data(Z[::-1]).row_numbers[0] == 100
    with pytest.raises(ValueError, match=r"Table\(row_numbers\): they must be whole numbers"):
        Table(Z, row_numbers=np.arange(40) + 0.5)
    with pytest.raises(ValueError, match=r"Table\(row_numbers\): shape \(3,\) for 40 rows"):
        Table(Z, row_numbers=np.arange(3))
    frame = pd.DataFrame({"x": [0.0, np.nan, 1.0, 2.0], "y": [1.0, 2.0, 0.0, 5.0]})
    kept = gdp.problems.table(frame, "y", "squared", missing="drop").population
    assert kept.row_numbers.tolist() == [0, 2, 3]
    path = tmp_path / "t.csv"
    frame.to_csv(path, index=False)
    kept = gdp.problems.table(path, "y", "squared", missing="drop").population
    assert kept.row_numbers.tolist() == [0, 2, 3]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"exposure": 1}, "exposure: must be True or False, got 1"),
        ({"population": lambda key, n: jax.random.normal(key, (n, 1))}, "only rows of a table"),
        ({"posterior": private_mean()}, "a structured loss has no losses of single examples"),
        ({"group_size": 2}, "rows are replaced one by one, not 2 at once"),
    ],
)
def test_what_has_no_rows_is_refused(changed, message):
    asked = {"posterior": gaussian_mean(1), "population": Table(Z), "n": 10, "gammas": 1.0}
    with pytest.raises(ValueError, match=message):
        gdp.audit(**asked | QUICK | changed)


def test_an_audit_without_it_computes_nothing_of_it():
    asked = {"num_information": 0, "progress": False, "num_datasets": 32}
    report = gdp.audit(gaussian_mean(1), Table(Z), 10, 1.0, **asked)
    assert report.row_tables == ()
    assert "exposure" not in report.settings
