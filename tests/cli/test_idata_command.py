"""``gibbs-dp audit --idata``."""

import re
import shutil
from pathlib import Path

import pytest

import gibbs_dp as gdp

PYMC = Path(__file__).parents[1] / "one_dataset" / "pymc.nc"


@pytest.fixture
def fit(tmp_path):
    return shutil.copy(PYMC, tmp_path / "fit.nc")


def test_it_prints_what_python_does_and_saves_a_report_and_a_picture(run, fit, tmp_path):
    report = gdp.audit_inference_data(PYMC, gamma=1.0)
    ran = run("audit", "--idata", fit)
    assert (ran.status, ran.err) == (0, "")
    assert ran.out == report.summary() + "\n"
    out = tmp_path / "new"
    ran = run("audit", "--var-names", "y", "--json", "--idata", fit, "--out", out)
    assert ran.status == 0
    (row,) = ran.rows
    assert row["on_average_kl"] == report["on_average_kl"]
    assert row["variables"] == ["y"]
    assert row["warnings"] == []
    saved = gdp.load_one_dataset_report(out / "one_dataset.nc")
    assert saved.averages == report.averages
    names = ["one_dataset.nc", "one_dataset.png", "one_dataset.svg"]
    assert sorted(p.name for p in out.iterdir()) == names


def test_groups_and_gamma_are_passed_on(run, fit):
    (row,) = run("audit", "--idata", fit, "--group", "person", "--gamma", 0.5, "--json").rows
    assert (row["unit"], row["gamma"], row["n"]) == ("group", 0.5, 12)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--gammas", 1), "--gammas: --idata reads a posterior that was sampled, and has no such"),
        (("--num-warmup", 1), "--num-warmup: --idata reads .*it has --var-names, --group, --gamma"),
        (("--dim", 3), "--dim: --idata reads a posterior that was sampled"),
        (("--seed", 3), "--seed: --idata reads a posterior that was sampled"),
        (("--var-name", "y"), "there is no option --var-name here; did you mean --var-names"),
        (("--var-names", "z"), "var_names: there is no 'z' in log_likelihood; it has y"),
        (("--group", "school"), "group: 'school' is no dimension of the examples of 'y' .person."),
        (("--examples", "same"), "--examples: .*'same'"),
        (("--gamma", "-1"), "gamma: must be a positive number, got -1.0"),
    ],
)
def test_what_does_not_belong_is_refused_in_a_line(run, fit, words, message):
    ran = run("audit", "--idata", fit, *words)
    assert ran.status == 2
    assert re.search(message, ran.error), ran.error


def test_files_and_problems_are_not_mixed(run, fit, tmp_path):
    ran = run("audit", "linear-regression", "--idata", fit)
    assert "--idata: give a file or a problem (linear-regression), not both." in ran.error
    ran = run("audit", "--idata", tmp_path / "none.nc")
    assert ran.error.startswith("path: there is no file")
    ran = run("audit", "linear-regression", "--var-names", "y")
    assert ran.error.startswith("there is no option --var-names")
    assert "--idata: give it as --idata FILE" in run("audit", "--idata").error


def test_its_help_has_an_example(run):
    ran = run("audit", "--idata", "--help")
    assert ran.status == 0
    assert "gibbs-dp audit --idata fit.nc --var-names y --out results" in ran.out
    assert "--num-warmup" not in ran.out
    assert "--idata FILE" in run("audit", "--help").out
