"""``gibbs-dp audit``: what reaches it, what it prints and saves; ``--exposure``, ``--idata``."""

import json
import re
import shutil
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import gibbs_dp as gdp

SMALL = ("--n", "20", "--num-datasets", "32")


@pytest.fixture
def asked(monkeypatch):
    """Replaces the audit by one that records what it was asked for, and stops there."""
    found = {}

    def record(posterior, population, **settings):
        found.update(settings, posterior=posterior, dtype=jnp.zeros(()).dtype)
        raise ValueError("recorded.")

    monkeypatch.setattr("gibbs_dp.auditing.audit.audit", record)
    return found


@pytest.mark.trust
def test_json_holds_one_object_per_gamma_and_nothing_else_is_on_stdout(run, tmp_path):
    out = tmp_path / "new" / "one"
    ran = run("audit", "--gammas", 0.1, 1, "linear-regression", "--json", *SMALL, "--out", out)
    assert ran.status == 0
    assert [row["gamma"] for row in ran.rows] == [0.1, 1.0]
    assert all(row["dp_epsilon"] == "inf" for row in ran.rows)
    for row in ran.rows:
        gap = abs(row["on_average_kl"] - row["on_average_kl_ghost"])
        assert gap < 5 * np.hypot(row["on_average_kl_se"], row["on_average_kl_ghost_se"])

    report = gdp.load_report(out / "audit.nc")
    assert [json.loads(line) for line in report.to_json_rows()] == ran.rows
    assert report.settings["n"] == 20
    assert sorted(p.name for p in out.iterdir()) == ["audit.nc", "audit.png", "audit.svg"]
    assert (out / "audit.png").read_bytes().startswith(b"\x89PNG")
    picture = (out / "audit.svg").read_text()
    assert "linear-regression, n = 20" in picture
    assert len(picture) < 200_000


@pytest.mark.trust
def test_a_table_is_audited_without_naming_a_problem(run, tmp_path):
    rng = np.random.default_rng(0)
    x, noise = rng.normal(size=(2, 60))
    labels = np.where(x + noise > 0, "yes", "no")
    lines = [f"{a},{label}" for a, label in zip(x, labels, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["age,ill", *lines]))
    words = ("--target", "ill", "--gammas", 1, "--num-datasets", 32, "--out", tmp_path)
    ran = run("audit", "--data", tmp_path / "t.csv", *words)
    assert ran.status == 0
    lines = ran.out.splitlines()
    assert lines[0].split()[0] == "gamma"
    assert lines[-1] == f"saved in {tmp_path}: audit.nc, audit.svg, audit.png"
    report = gdp.load_report(tmp_path / "audit.nc")
    assert report["n"][0] == 30
    assert report["num_datasets"][0] == 32


@pytest.mark.parametrize(
    "words",
    [
        ("private-mean", "--theta-bound", "2", "--gammas", "0.1", "1", "--json"),
        ("--gammas", "0.1", "1", "private-mean", "--json", "--theta-bound", "2"),
        ("--json", "--theta-bound=2", "--gammas", "0.1", "1", "private-mean"),
    ],
)
def test_options_may_come_in_any_order(run, asked, words):
    assert run("audit", *words).error == "recorded."
    assert asked["gammas"] == [0.1, 1.0]
    assert asked["posterior"].prior.l2_bound() == 2


def learnt(asked):
    return {quantity.name: quantity for quantity in asked["learn"]}


def test_settings_reach_the_audit(run, asked):
    counts = {
        "n": 11,
        "num_datasets": 12,
        "num_ghosts": 13,
        "num_chains": 14,
        "num_warmup": 15,
        "num_samples": 16,
        "group_size": 2,
        "max_datasets": 300,
        "rel_error": 0.5,
        "estimator": "two-sided",
        "sigma": "empirical",
    }
    words = [w for k, v in counts.items() for w in ("--" + k.replace("_", "-"), v)]
    run("audit", "gaussian-mean", "--dim", 3, *words, "--seed", 7)
    assert (asked["n"], asked["num_datasets"], asked["rel_error"]) == (11, (12, 300), 0.5)
    assert learnt(asked)["on_average_kl"] == gdp.OnAverageKL(
        "two-sided", group_size=2, num_ghosts=13
    )
    assert asked["sampler"] == gdp.Chains(num_chains=14, num_warmup=15, num_samples=16)
    assert learnt(asked)["mutual_information"].sigma == "empirical"
    assert asked["key"] == 7
    assert asked["posterior"].dim == 3
    assert asked["progress"] is False
    assert asked["dtype"] == jnp.float32


def test_defaults_are_the_problems(run, asked):
    run("audit", "linear-regression")
    assert asked["gammas"] == (0.1, 1.0, 10.0, 100.0)
    assert asked["n"] == 100
    assert asked["domain"].x_bound == 1
    assert asked["sampler"] is None  # which leaves it to the audit
    assert learnt(asked) == {quantity.name: quantity for quantity in gdp.DEFAULT}


@pytest.mark.parametrize(
    ("words", "kernel"),
    [
        (("--sampler", "mala", "--step-size", "0.5"), gdp.MALA(step_size=0.5)),
        (("--num-leapfrog", "5", "--jitter", "0"), gdp.HMC(num_leapfrog=5, jitter=0.0)),
        (
            ("--sampler", "mala", "--num-inner", "2", "--target-accept", "0.7"),
            gdp.MALA(num_inner=2, target_accept=0.7),
        ),
        (
            ("--sampler", "sgld", "--clip", "1", "--sampling-rate", "0.1"),
            gdp.SGLD(clip=1.0, sampling_rate=0.1),
        ),
        (("--sampler", "ula", "--relative-step", "0.2"), gdp.ULA(relative_step=0.2)),
        (
            ("--sampler", "sgld", "--batch-size", "8", "--control-variate", "--num-steps", "9"),
            gdp.SGLD(num_steps=9, batch_size=8, control_variate=True),
        ),
    ],
)
def test_the_kernel_is_the_one_that_was_asked_for(run, asked, words, kernel):
    run("audit", "gaussian-mean", *words)
    assert asked["sampler"] == kernel


@pytest.mark.usefixtures("single_precision_afterwards")
def test_double_precision_on_request(run, asked):
    run("audit", "gaussian-mean", "--float64")
    assert asked["dtype"] == jnp.float64


def test_the_output_folder_is_proved_before_any_sampling(run, asked, tmp_path):
    (tmp_path / "file").touch()
    ran = run("audit", "gaussian-mean", "--out", tmp_path / "file")
    assert ran.error.startswith("--out: cannot write")
    assert not asked


@pytest.mark.trust
def test_rows_of_a_file_are_listed_and_saved(run, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=40)
    frame = pd.DataFrame({"x": x, "y": x + rng.normal(size=40)})
    frame.loc[[3, 20], "x"] = np.nan
    frame.loc[30, "y"] = 12.0
    path, out = tmp_path / "t.csv", tmp_path / "out"
    frame.to_csv(path, index=False)
    words = ("--data", path, "--target", "y", "--loss", "squared", "--missing", "drop", "--n", 10)
    words += ("--gammas", 0.1, "--num-datasets", 64, "--num-information", 0)
    ran = run("audit", *words, "--exposure", "--json", "--out", out)
    assert ran.status == 0
    (row,) = ran.rows
    assert len(row["exposure"]) == 10
    assert row["exposure"][0]["row"] == 30
    saved = pd.read_csv(out / "exposure.csv")
    assert sorted(saved["row"]) == sorted(set(range(40)) - {3, 20})
    assert list(saved["row"][:10]) == [found["row"] for found in row["exposure"]]
    names = {"audit.nc", "audit.png", "audit.svg", "exposure.csv", "exposure.png", "exposure.svg"}
    assert {p.name for p in out.iterdir()} == names


def test_what_is_no_table_is_refused(run):
    ran = run("audit", "gaussian-mean", "--exposure")
    assert ran.status == 2
    assert "exposure: only rows of a table can be told apart" in ran.err


# ``gibbs-dp audit --idata``.


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
