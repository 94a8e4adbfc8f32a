"""A report survives being saved, printed and turned into other formats; notebooks show it."""

import json
import os
import re
from html.parser import HTMLParser

import numpy as np
import pytest
import xarray as xr

import gibbs_dp as gdp
from gibbs_dp import io
from gibbs_dp.auditing.calibrate_by_audits import AverageCalibration, CurvePoint
from gibbs_dp.quantities.registry import COLUMNS
from gibbs_dp.results.table import MOST_LINES

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


def test_a_column_that_no_row_knows_is_kept(tmp_path):
    rows = [row | {"on_average_renyi_8_se": np.nan} for row in ROWS]
    report = gdp.Report(tuple(rows), {"loss": "squared", "n": 10})
    report.save(tmp_path / "audit.nc")
    again = gdp.load_report(tmp_path / "audit.nc")
    assert again.columns == report.columns
    assert np.isnan(again["on_average_renyi_8_se"]).all()


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
    assert "0.000150(2)" in text
    assert "WARNING  gamma=10: 1 failed." in text
    assert text.splitlines()[-2] == "note     a note"


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


ROW = {"n": 200, "group_size": 1, "num_datasets": 1024, "failed_datasets": 0}


def make_row(gamma, **more):
    return {"gamma": gamma, **ROW, "on_average_kl": gamma, "on_average_kl_se": 0.01 * gamma, **more}


def make_report(gammas, loss="logistic", warnings=(), notes=(), **more):
    settings = {"loss": loss, "n": 200}
    return gdp.Report(tuple(make_row(g, **more) for g in gammas), settings, warnings, notes)


class Seen(HTMLParser):
    """Tags, texts of cells and tooltips of a piece of HTML; every tag must be closed."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.cells, self.tooltips, self.items, self.open = [], [], {}, [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.open.append((tag, dict(attributes)))
        if tag == "tr":
            self.cells.append([])
        if tag == "li":
            self.items.append("")

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        tags = [tag for tag, _ in self.open]
        if tags[-1] in ("td", "th"):
            self.cells[-1].append(data)
            if "title" in self.open[-1][1]:
                self.tooltips[data] = self.open[-1][1]["title"]
        if "li" in tags:
            self.items[-1] += data


def test_repr_is_one_short_line():
    report = make_report([0.1, 1.0, 10.0], warnings=("a", "b"))
    expected = "Report(logistic, n=200, gammas 0.1 .. 10 (3), 1,024 datasets, 2 warnings)"
    assert repr(report) == expected
    assert repr(make_report([2.0])) == "Report(logistic, n=200, gamma 2, 1,024 datasets)"
    assert repr(gdp.Report((), {})) == "Report(no gammas)"
    adaptive = gdp.Report((make_row(1.0), make_row(2.0) | {"num_datasets": 4096}), {"n": 200})
    assert repr(adaptive) == "Report(n=200, gammas 1 .. 2 (2), 1,024 to 4,096 datasets)"


def test_repr_of_a_strangers_report_has_no_control_characters_and_an_end():
    shown = repr(make_report([1.0], loss="\x1b[2J\n" + "x" * 10_000))
    assert shown.isprintable()
    assert len(shown) < 120


def test_summary_of_a_strangers_report_has_no_control_characters():
    evil = "\x1b[2J\x07\nWARNING  of a stranger"
    text = make_report([1.0], evil, (evil,), (evil,), generalization_error=evil).summary()
    lines = text.splitlines()
    assert all(line.isprintable() for line in lines)
    assert [line.split()[0] for line in lines] == ["gamma", "1", "WARNING", "note", "more"]
    assert "[2J" in lines[1]


def test_html_has_the_printed_columns_values_with_errors_and_meanings():
    report = make_report(
        [0.5, 1.0], "logistic", ("one failed.",), ("a note.",), dp_epsilon=float("inf")
    )
    seen = Seen(report._repr_html_())
    head, first, _ = seen.cells
    assert head == ["gamma", "on-average KL", "worst case", "verdict"]
    assert first == ["0.5", "0.500(5)", "inf", "look"]
    assert set(seen.tooltips) == set(head)
    assert COLUMNS["dp_epsilon"].meaning in seen.tooltips["worst case"]
    assert seen.tooltips["on-average KL"].startswith("on_average_kl (nats): ")
    assert seen.items[:2] == ["WARNING one failed.", "note: a note."]
    assert "<strong>WARNING</strong>" in report._repr_html_()


def test_html_takes_the_pages_colours_and_scrolls_by_itself():
    text = make_report([1.0])._repr_html_()
    colours = set(re.findall(r"(?<![-\w])(?:color|background)\s*:\s*([^;\"]+)", text))
    assert colours == {"inherit", "transparent"}
    assert "overflow-x:auto" in text
    assert "text-align:right" in text


def test_html_of_a_strangers_report_runs_nothing():
    evil = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'>"
    seen = Seen(make_report([1.0], evil, (evil,), (evil,), estimator=evil)._repr_html_())
    assert not {"script", "img"} & set(seen.tags)
    assert seen.items[:2] == [f"WARNING {evil}", f"note: {evil}"]
    reports = {evil: make_report([1.0]), "b" + evil: make_report([1.0], evil)}
    seen = Seen(gdp.compare(reports)._repr_html_())
    assert not {"script", "img"} & set(seen.tags)


def test_long_reports_are_cut():
    gammas = np.geomspace(1e-3, 10.0, 5000).tolist()
    report = make_report(gammas, warnings=tuple(f"w{i}" for i in range(5000)))
    text = report._repr_html_()
    assert len(text) < 60_000
    assert "… and 4,960 more gammas" in text
    seen = Seen(text)
    assert len(seen.cells) == MOST_LINES + 1
    assert seen.items[-1] == "… and 4,961 more"  # warnings, and what other columns there are


@pytest.mark.parametrize("count", [2, 6])
def test_comparison(count):
    reports = {f"r{i}": make_report([0.5, 1.0], notes=("n",)) for i in range(count)}
    found = gdp.compare(reports)
    differences = 2 * (count - 1)
    others = "r1" if count == 2 else "r1, r2, r3 and 2 more"
    assert repr(found) == f"Comparison({others} with r0, 2 gammas, {differences} differences)"
    seen = Seen(found._repr_html_())
    assert len(seen.cells) == differences + 1
    assert seen.cells[1][:3] == ["0.5", "on_average_kl", "r1"]
    assert seen.cells[0][4] == "of r0"
    assert "standard error" in seen.tooltips["difference"]
    assert str(found).count("independent") == differences


def test_help_explains_every_column_on_lines_that_a_terminal_shows():
    told = gdp.Report.__doc__.partition("\nColumns\n-------\n")[2]
    lines = told.splitlines()
    assert max(map(len, lines)) <= 96
    assert [line.partition(" ")[0] for line in lines if line[0] != " "] == list(COLUMNS)
    words = " ".join(told.split())
    assert all(column.meaning in words for column in COLUMNS.values())
    assert "\nParameters\n----------\nrows\n    One dict" in gdp.Report.__doc__


def test_the_calibration_of_an_average_is_called_no_guarantee():
    report = make_report([2.0])
    curve = (CurvePoint(1.0, 0.25, 0.01), CurvePoint(2.0, 0.5, 0.01))
    known = ("on_average_kl", 2.0, 0.05, 1.9, 2.1, 0.5, 0.01)
    found = AverageCalibration(*known, curve, ("<odd>",), report, num_draws=3)
    head = "gamma=2 ± 0.05, on-average KL of 3 draws 0.5 ± 0.01 nats"
    assert repr(found) == f"AverageCalibration({head}, 1 warning)"
    seen = Seen(found._repr_html_())
    assert seen.items[0] == "WARNING <odd>"
    assert "no guarantee for any person" in seen.items[1]
    assert seen.cells[-1][0] == "2"
