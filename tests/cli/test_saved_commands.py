"""Verbs on saved results, against what Python says of the same files; ``help``, its topics."""

import json
import shutil
import subprocess

import explored
import numpy as np
import pandas as pd
import pytest

import gibbs_dp as gdp
from gibbs_dp.cli.topics import glossary, topics
from gibbs_dp.quantities.registry import COLUMNS


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    explored.make_report().save(folder / "audit.nc")
    explored.make_report(scale=0.03, exposes=True).save(folder / "other.nc")
    posterior = gdp.GibbsPosterior(gdp.losses.squared, gdp.Flat(gdp.supports.box(-2.0, 2.0, 1)))
    theta = np.random.default_rng(0).uniform(-1.0, 1.0, (4, 100, 1))
    draws = gdp.as_draws(posterior, (np.ones((9, 1)), np.zeros(9)), theta, gamma=1.0)
    draws.save(folder / "draws.nc")
    (folder / "table.csv").write_text("a,b\n1,2\n")
    return folder


@pytest.fixture
def here(saved, tmp_path, monkeypatch):
    shutil.copytree(saved, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_result_is_shown_as_python_prints_it(run, here):
    assert run("show", "audit.nc").out == f"{gdp.load_report('audit.nc')}\n"
    full = gdp.load_report("audit.nc").summary(all=True)
    assert run("show", "--all", "audit.nc").out == f"{full}\n"
    rows = gdp.load_report("audit.nc").to_json_rows()
    assert run("show", "audit.nc", "--json").out.splitlines() == rows
    assert "most exposed rows" in run("show", "other.nc").out
    assert run("show", "draws.nc").out == f"{gdp.load_draws('draws.nc').summary()}\n"


def test_a_guarantee_is_shown_with_the_draws_of_its_release(run, here):
    promise = gdp.calibrate(
        gdp.GibbsPosterior(gdp.losses.logistic, gdp.Flat(gdp.supports.l2_ball(2, 1.0))),
        domain=gdp.Domain(x_bound=1.0),
        adjacency="replace-one",
        pure_epsilon=1.0,
        n=50,
    ).guarantee
    held = {"draws": [{"age": 0.25}], "model": "the mean of y is s", **promise.to_dict()}
    (here / "release.json").write_text(json.dumps(held))
    ran = run("show", "release.json")
    assert ran.out == f"age 0.25\nthe mean of y is s.\n{promise.summary()}\n"


@pytest.mark.trust
def test_a_picture_is_that_of_python_in_the_format_that_is_asked_for(run, here):
    assert run("plot", "audit.nc").out == "saved in .: audit.svg, audit.png\n"
    ran = run("plot", "audit.nc", "--format", "pdf", "--out", "new", "--panels", "privacy")
    assert ran.out == "saved new/audit.pdf\n"
    assert (here / "new" / "audit.pdf").read_bytes().startswith(b"%PDF")
    run("plot", "audit.nc", "--format", "svg", "--out", "log", "--scale", "log")
    run("plot", "audit.nc", "--format", "svg", "--out", "titled", "--title", "Mine $")
    pictures = {(here / name / "audit.svg").read_bytes() for name in (".", "log", "titled")}
    assert len(pictures) == 3


def test_audits_are_compared_as_in_python(run, here):
    names = {name: gdp.load_report(f"{name}.nc") for name in ("audit", "other")}
    found = gdp.compare(names)
    assert run("compare", "audit.nc", "other.nc").out == f"{found}\n"
    rows = run("compare", "audit.nc", "other.nc", "--json").rows
    assert [row["difference"] for row in rows] == list(found.table["difference"])


def test_exports_hold_every_column_or_the_summary_of_a_paper(run, here):
    report = gdp.load_report("audit.nc")
    assert run("export", "audit.nc", "--to", "csv", "--out", "new/a.csv").out == "saved new/a.csv\n"
    frame = pd.read_csv("new/a.csv", index_col="gamma")
    pd.testing.assert_frame_equal(frame, report.to_dataframe(), check_dtype=False)
    told = run("export", "audit.nc", "--to", "json").out.splitlines()
    assert told == report.to_json_rows()
    assert run("export", "audit.nc", "--to", "latex").out == report.to_latex() + "\n"
    assert "draws" in run("export", "draws.nc", "--to", "latex").error
    assert run("export", "audit.nc", "--out", "b.csv").out == "saved b.csv\n"  # as its name says
    assert (here / "b.csv").read_bytes() == (here / "new" / "a.csv").read_bytes()


def test_a_file_alone_says_what_may_be_done_with_it(run, here):
    lines = run("audit.nc").out.splitlines()
    assert lines[0] == "audit.nc is an audit:"
    verbs = [line.split()[1] for line in lines[1:]]
    assert verbs == ["show", "plot", "explore", "export", "compare"]
    assert "gibbs-dp audit table.csv --target COLUMN" in run("table.csv").out


WRONG = {
    ("show",): "show: no report is named",
    ("show", "audt.nc"): "show: there is no file 'audt.nc'; did you mean 'audit.nc'?",
    ("show", "audit.nc", "other.nc"): "show: give one file, not 2.",
    ("plot", "draws.nc"): "plot: 'draws.nc' is draws of a posterior, of which there is no picture.",
    ("compare", "audit.nc"): "compare: one report is named; give at least 2.",
    ("export", "audit.nc"): "--to: say for what: csv, json, latex or xlsx.",
    ("export", "audit.nc", "--to", "xlsx", "--out", "a.csv"): "--out: 'a.csv' is no name of xlsx",
    ("export", "audit.nc", "--to", "csv", "--out", "audit.nc"): "--out: 'audit.nc' is what is read",
    (
        "export",
        "audit.nc",
        "--to",
        "csv",
        "--out",
        "other.nc",
    ): "--out: 'other.nc' is no name of csv",
    ("export", "audit.nc", "--to", "csv", "--out", "a.tex"): "--out: 'a.tex' is no name of csv",
    ("export", "audit.nc", "--to", "csv", "--out", "/dev/null/a.csv"): "--out: cannot write",
    ("help", "advantag"): "help: there is nothing about 'advantag'; did you mean 'advantage'?",
}


@pytest.mark.parametrize("words", WRONG)
def test_mistakes_are_named(run, here, words):
    before = (here / "audit.nc").read_bytes()
    ran = run(*words)
    assert ran.status == 2
    assert ran.error.startswith(WRONG[words])
    assert (here / "audit.nc").read_bytes() == before


def test_every_column_warning_and_word_is_explained(run):
    found = topics()
    assert {name.replace("_", "-").lower() for name in COLUMNS} <= found.keys()
    assert COLUMNS["dp_epsilon"].meaning.split()[0] in run("help", "dp_epsilon").out
    told = " ".join(run("help", "[virial]").out.split())
    assert "What to do: Raise num_warmup" in told
    assert "Verdict on a row that has it: do not use." in told
    for words in (("odds", "in", "100"), ("odds",)):
        assert "50 + 50 on_average_tv" in run("help", *words).out
    assert run("help", "audit").out.startswith("usage: gibbs-dp audit")
    assert "commands:" in run("help").out


def test_words_of_the_glossary_have_no_markup():
    words = glossary()
    assert len(words) > 30
    for name, text in words.items():
        assert text, name
        assert not set("{}`$\\") & set(text), (name, text)


# Of one report, without a shell.


def test_a_sheet_has_numbers_and_no_formulas(tmp_path):
    openpyxl = pytest.importorskip("openpyxl", reason="openpyxl is not installed")
    report = explored.make_report(warnings=("=1+1 [virial]",))
    report.to_excel(tmp_path / "a.xlsx")
    sheet = openpyxl.load_workbook(tmp_path / "a.xlsx").active
    head, first, *_ = sheet.iter_rows(values_only=True)
    told = dict(zip(head, first, strict=True))
    assert told["on-average KL"] == report["on_average_kl"][0]
    assert told["on-average KL, standard error"] == report["on_average_kl_se"][0]
    assert told["odds in 100"] == 50 + 50 * report["on_average_tv"][0]
    assert told["95% low"] == report["on_average_kl_low"][0]
    assert told["verdict"] == "do not use"
    (mark,) = [cell for row in sheet for cell in row if str(cell.value).startswith("=1")]
    assert mark.data_type == "s"


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_the_latex_of_a_report_compiles(tmp_path):
    """With a title of signs that TeX reads, and every kind of number."""
    own = gdp.Column("mine", "Mine.", title=r"\input{x} 5% & $y$_#")
    row = {"gamma": 0.5, "mine": 2.0, "on_average_kl": 0.0067, "on_average_kl_se": 4e-5}
    rows = (row | {"dp_epsilon": 2.0}, row | {"gamma": 1e3, "dp_epsilon": float("inf")})
    text = gdp.Report(rows, {}, own_columns=(own,)).to_latex()
    packages = text.splitlines()[0].removeprefix("% ")
    (tmp_path / "t.tex").write_text(
        f"\\documentclass{{article}}\n{packages}\n\\begin{{document}}\n{text}\n\\end{{document}}\n"
    )
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "t.tex"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    if "siunitx.sty' not found" in done.stdout:
        pytest.skip("siunitx is not installed")
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Output written on t.pdf (1 page" in done.stdout


def test_a_latex_table_escapes_a_strangers_words_and_has_room_for_every_number():
    own = gdp.Column("mine", "Mine.", title=r"\input{x} 5% & $y$_#")
    rows = tuple(
        {"gamma": g, "mine": 2.0, "on_average_kl": kl, "on_average_kl_se": se, "dp_epsilon": e}
        for g, kl, se, e in ((0.5, 0.0067402, 4.2e-5, 2.0), (10.0, 12.3, 0.15, float("inf")))
    )
    lines = gdp.Report(rows, {}, own_columns=(own,)).to_latex().splitlines()
    assert lines[1].startswith(r"\begin{tabular}{S[table-format=2.1] S[table-format=2.5(2)] ")
    assert r"{\textbackslash{}input\{x\} 5\% \& \$y\$\_\#}" in lines[3]
    assert lines[5].startswith(r"0.5 & 0.00674(4) & 2 & ")
    assert lines[6].startswith(r"10 & 12.30(15) & {$\infty$} & ")
