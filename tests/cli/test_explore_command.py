"""``gibbs-dp explore``: one page of saved reports."""

import json
import re

import explored
import pytest

import gibbs_dp as gdp


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, scale in (("a/audit", 0.02), ("b/audit", 0.03), ("b/other", 0.05)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        explored.make_report(scale=scale).save(tmp_path / f"{name}.nc")
    return tmp_path


def data_of(path):
    return json.loads(re.search(r'id="explorer-data">(.*)</script>', path.read_text("utf-8"))[1])


def test_a_saved_report_becomes_the_page_that_python_writes(run, here):
    ran = run("explore", "a/audit.nc", "--out", "new/page.html", "--title", "Mine")
    assert (ran.status, ran.out) == (0, "saved new/page.html\n")
    gdp.load_report("a/audit.nc").explore("own.html", title="Mine")
    found, own = data_of(here / "new" / "page.html"), data_of(here / "own.html")
    assert found["python"][0].splitlines()[1] == "report = gdp.load_report('a/audit.nc')"
    assert {**found, "python": 0} == {**own, "python": 0}
    assert run("explore", "b/audit.nc").out == "saved explore.html\n"


def test_files_of_one_name_are_told_apart_by_their_folders(run, here):
    ran = run("explore", "a/audit.nc", "--out", "page.html", "b/audit.nc", "b/other.nc")
    assert ran.status == 0
    found = data_of(here / "page.html")
    assert [report["name"] for report in found["reports"]] == ["a/audit.nc", "b/audit.nc", "other"]
    assert "'other': gdp.load_report('b/other.nc')" in found["python"][0]


WRONG = {
    (): "explore: no report is named; give audit.nc of an audit's --out.",
    ("b/othr.nc",): "explore: there is no file 'b/othr.nc'; did you mean 'b/other.nc'?",
    ("a/audit.nc", "a/audit.nc"): "explore: a report is named twice; name each once.",
    ("a/audit.nc", "--out", "a"): "--out: 'a' is no name of a page; let it end in .html.",
    ("a/audit.nc", "--out", "f.html"): "--out: 'f.html' is a folder; name a file in it.",
    ("draws.nc",): "path: 'draws.nc' is not a readable NetCDF file",
    ("a/audit.nc", "less.nc"): "reports: 'audit' and 'less' share no gamma",
}


@pytest.mark.parametrize("words", WRONG)
def test_a_slip_is_one_sentence(run, here, words):
    (here / "draws.nc").write_text("no report")
    (here / "f.html").mkdir()
    explored.make_report((1.0,)).save("less.nc")
    ran = run("explore", *words)
    assert ran.status == 2
    assert ran.error.startswith(WRONG[words])
    assert not (here / "explore.html").exists()
