"""A report survives being saved, printed, plotted and turned into other formats."""

import json
import os

import numpy as np
import pytest
import xarray as xr

import gibbs_dp as gdp
from gibbs_dp import io

ROWS = (
    {
        "gamma": 0.1, "n": 10, "group_size": 1, "num_datasets": 256, "on_average_kl": 1.5e-4,
        "on_average_kl_se": 2e-6, "on_average_kl_ghost": -1e-5, "on_average_kl_ghost_se": 3e-5,
        "excess_risk": 0.5, "excess_risk_se": 0.01, "dp_epsilon": float("inf"),
        "estimator": "one-sided", "tail_flag": False, "failed_datasets": 0,
    },
    {
        "gamma": 10.0, "n": 10, "group_size": 1, "num_datasets": 255, "on_average_kl": 1.5,
        "on_average_kl_se": 0.02, "dp_epsilon": 3.0, "estimator": "two-sided", "tail_flag": True,
        "failed_datasets": 1,
    },
)  # fmt: skip


@pytest.fixture
def report():
    return gdp.Report(ROWS, {"loss": "squared", "n": 10}, ("gamma=10: 1 failed.",), ("a note",))


def test_saved_and_loaded_report_is_the_same(report, tmp_path):
    path = tmp_path / "audit.nc"
    report.save(path)
    again = gdp.load_report(path)
    assert again.rows == report.rows
    assert (again.settings, again.warnings, again.notes) == (
        report.settings, report.warnings, report.notes,
    )  # fmt: skip
    assert list(tmp_path.iterdir()) == [path]  # no temporary file is left


def test_a_full_disk_keeps_the_old_file(report, tmp_path, monkeypatch):
    path = tmp_path / "audit.nc"
    report.save(path)
    before = path.read_bytes()

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        report.save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("content", [b"", b"not netcdf", None])
def test_unreadable_files_are_one_sentence(content, tmp_path):
    path = tmp_path / "broken.nc"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=r"^path: .*broken\.nc") as caught:
        gdp.load_report(path)
    assert "\n" not in str(caught.value)


def test_files_of_another_kind_are_refused(tmp_path):
    path = tmp_path / "other.nc"
    xr.Dataset({"a": ("x", [1.0])}).to_netcdf(path, engine="h5netcdf")
    with pytest.raises(ValueError, match="does not hold a gibbs_dp report"):
        gdp.load_report(path)


def test_reports_without_their_parts_are_damaged(report, tmp_path):
    path, whole = tmp_path / "damaged.nc", report.to_xarray()
    for broken in (whole.drop_vars("gamma"), whole.assign_attrs(settings="{")):
        io.save_netcdf(broken.assign_attrs(gibbs_dp_kind="report"), path)
        with pytest.raises(ValueError, match=r"^path: .*damaged\.nc' is a damaged report"):
            gdp.load_report(path)
    tree = xr.DataTree(children={"inner": xr.DataTree(whole)})
    tree.attrs = {**whole.attrs, "gibbs_dp_kind": "report"}
    tree.to_netcdf(path, engine="h5netcdf")
    with pytest.raises(ValueError, match="damaged report"):
        gdp.load_report(path)


def test_json_rows_have_inf_as_a_string_and_no_absent_values(report):
    first, second = map(json.loads, report.to_json_rows())
    assert first["dp_epsilon"] == "inf"
    assert "excess_risk" not in second
    assert second["on_average_kl"] == 1.5


def test_absent_columns_and_values(report):
    assert np.isnan(report["excess_risk"][1])
    with pytest.raises(KeyError, match="mutual_information"):
        report["mutual_information_lower"]
    assert len(report) == 2


def test_xarray_has_units_and_warnings(report):
    dataset = report.to_xarray()
    assert dataset["on_average_kl_se"].attrs["units"] == "nats"
    assert json.loads(dataset.attrs["warnings"]) == ["gamma=10: 1 failed."]
    assert dataset.sizes == {"gamma": 2}


def test_summary_shows_numbers_warnings_and_notes(report):
    text = str(report)
    assert "0.00015 ± 2e-06" in text
    assert "WARNING  gamma=10: 1 failed." in text
    assert text.splitlines()[-1] == "note     a note"


def legend_texts(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_plot_has_labels_logarithmic_axes_and_every_series(report):
    figure = report.plot()
    privacy, risk = figure.axes
    for axes, ylabel in ((privacy, "privacy (nats)"), (risk, "excess risk (units of the loss)")):
        assert axes.get_xscale() == "log"
        assert "gamma" in axes.get_xlabel()
        assert axes.get_ylabel() == ylabel
    assert privacy.get_yscale() == "log"
    assert legend_texts(privacy) == [
        "on-average KL (direct)",
        "gamma × generalization error",
        "DP epsilon (worst case)",
        "hollow: biased, as some datasets failed",
        "at the upper edge: infinite",
        "at the lower edge: estimate not above zero",
    ]
