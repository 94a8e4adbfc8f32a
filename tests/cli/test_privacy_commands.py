"""calibrate, release and ledger, as a new user runs them."""

import json

import numpy as np
import pandas as pd
import pytest

import gibbs_dp as gdp
from gibbs_dp.auditing import calibrate as calibrate_module

LINEAR = ("calibrate", "linear-regression", "--theta-bound", 2)
REPLACE = ("--adjacency", "replace-one")
BOTH = ("--accept", "exact-draw", "float-arithmetic")


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    x = rng.normal(size=60)
    pd.DataFrame({"x": x, "word": ["a"] * 60, "y": np.where(x > 0, "up", "down")}).to_csv("t.csv")
    return tmp_path


def test_calibrate_inverts_the_accountant(run):
    ran = run(*LINEAR, *REPLACE, "--pure-epsilon", 1, "--n", 50, "--json")
    assert ran.status == 0
    (row,) = ran.rows
    assert row["gamma"] == pytest.approx(1 / 32, rel=1e-12)
    assert row["mechanism"] == "exact draw"
    back = run(*LINEAR, *REPLACE, "--zcdp", row["zcdp"], "--n", 50, "--json").rows[0]
    assert back["gamma"] == pytest.approx(row["gamma"], rel=1e-6)
    text = run(*LINEAR, *REPLACE, "--epsilon", 1, "--delta", 1e-6, "--num-draws", 3).out
    assert "3 exact draws" in text
    assert "range R between neighbours      32" in text


@pytest.mark.trust
def test_calibrate_a_chain_and_save(run, tmp_path):
    words = ("calibrate", "logistic-regression", "--dim", 2, "--x-bound", 1, "--chain")
    target = ("--epsilon", 1, "--delta", 1e-6, "--max-steps", 8)
    ran = run(*words, *target, *REPLACE, "--json", "--out", tmp_path)
    (row,) = ran.rows
    assert row["mechanism"] == "chain"
    assert row["epsilon"] == pytest.approx(1.0, rel=1e-6)
    assert json.loads((tmp_path / "calibration.json").read_text()) == row


def test_calibrate_on_average(run, monkeypatch):
    """The command's part of it: the sweep is replaced by the closed form eps_KL = gamma / n."""

    def closed_form(posterior, population, n, gammas, **settings):
        learn = [*gdp.DEFAULT, gdp.MutualInformation(0)]
        wanted = {"num_datasets": 256, "learn": learn, "progress": False}
        assert wanted.items() <= settings.items()
        rows = [
            {"gamma": float(g), "on_average_kl": g / n, "on_average_kl_se": 0.05 * g / n}
            for g in gammas
        ]
        return gdp.Report(tuple(rows), {})

    monkeypatch.setattr(calibrate_module, "audit", closed_form)
    words = ("calibrate", "gaussian-mean", "--n", 10, "--on-average-kl", 0.1, "--num-draws", 2)
    (row,) = run(*words, "--num-datasets", 256, "--json").rows
    assert row["gamma"] == pytest.approx(0.5, rel=5e-3)
    assert row["gamma_se"] == pytest.approx(0.025, rel=1e-2)
    assert (row["purpose"], row["num_draws"]) == ("on_average_kl", 2)
    assert row["value"] == pytest.approx(0.1, rel=5e-3)
    assert "on-average KL of 2 draw(s) there: 0.1" in run(*words, "--num-datasets", 256).out


def test_ledger_and_release(run, files):
    make = ("ledger", "create", "--ledger", "b.ledger", *REPLACE, "--epsilon", 1, "--delta", 1e-6)
    assert run(*make).status == 0
    words = ("release", "--data", "t.csv", "--target", "y", "--label", "down", "up", *REPLACE)
    bounds = ("--range", "x", -2, 2, "--prior-scale", 1, "--ledger", "b.ledger")
    target = ("--epsilon", 0.75, "--delta", 5e-7)
    ran = run(*words, *bounds, *target, "--json", "--out", "o")
    assert ran.status == 0, ran.err
    draw, model, promise = ran.rows
    assert model["rules"]["x"] == "(x + 2) / 4, moved into [0, 1]"
    assert set(draw) == {"kind", "intercept", "x"}
    assert (promise["epsilon"], promise["mechanism"]) == (0.75, "proven draw")
    assert promise["charge"] == 1
    assert json.loads((files / "o" / "release.json").read_text())["draws"][0]["x"] == draw["x"]
    again = run(*words, *bounds, *target)
    assert (again.status, again.out) == (2, "")
    assert "0.25 of 1.0 is left; nothing was recorded" in again.error
    head, charge = run("ledger", "show", "--ledger", "b.ledger", "--json").rows
    assert head["left"] == {"epsilon": 0.25, "delta": 5e-7}
    assert charge["epsilon"] == 0.75
    assert "left 0.25" in run("ledger", "--ledger", "b.ledger", "show").out
    assert len(gdp.Ledger("b.ledger").charges()) == 1


RELEASE = (
    *("release", "--data", "t.csv", "--target", "y", "--label", "down", "up", *REPLACE),
    *("--range", "x", -2, 2, "--ledger", "l"),
)
CASES = {
    "no adjacency": ((*LINEAR, "--pure-epsilon", 1), "--adjacency: give replace-one"),
    "no target": ((*LINEAR, *REPLACE), "give exactly one of pure_epsilon"),
    "negative": ((*LINEAR, *REPLACE, "--pure-epsilon", -1), "pure_epsilon must be positive"),
    "delta": ((*LINEAR, *REPLACE, "--epsilon", 1, "--delta", 1), "delta must lie in"),
    "unbounded": (
        ("calibrate", "linear-regression", *REPLACE, "--pure-epsilon", 1),
        "give the prior a bounded support",
    ),
    "undeclared": (
        ("calibrate", "logistic-regression", *REPLACE, "--pure-epsilon", 1),
        "--x-bound: no bounds on the examples are declared",
    ),
    "one label": (
        (*LINEAR, *REPLACE, "--zcdp", 1, "--y-range", 0),
        "--y-range: give it as",
    ),
    "foreign": ((*LINEAR, *REPLACE, "--zcdp", 1, "--max-steps", 3), "--max-steps: it belongs to"),
    "chain target": ((*LINEAR, *REPLACE, "--zcdp", 1, "--chain"), "--chain: its target is"),
    "no action": (("ledger", "--ledger", "l"), "give an action, show or create."),
    "no file": (("ledger", "show"), "--ledger: name the file"),
    "missing ledger": (("ledger", "show", "--ledger", "none"), "there is no file 'none'"),
    "budget of show": (("ledger", "show", "--ledger", "l", "--zcdp", 1), "--zcdp: it belongs to"),
    "no budget": (("ledger", "create", "--ledger", "l", *REPLACE), "budget: give one of epsilon"),
    "no neighbours": (("ledger", "create", "--ledger", "l", "--zcdp", 1), "--adjacency: give"),
    "release nothing": (("release",), "--data: name the CSV file to release a model of."),
    "no prior": ((*RELEASE, "--zcdp", 1), "--theta-ball: give it or --prior-scale"),
    "no ledger yet": (
        (*RELEASE, "--pure-epsilon", 1, "--theta-ball", 1, *BOTH),
        "there is no file 'l'",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_one_line(run, files, case):
    words, message = CASES[case]
    ran = run(*words)
    assert (ran.status, ran.out) == (2, "")
    assert message in ran.error


def test_release_asks_for_the_opt_in(run, files):
    run("ledger", "create", "--ledger", "l", *REPLACE, "--epsilon", 5)
    ran = run(*RELEASE, "--pure-epsilon", 1, "--theta-ball", 1)
    assert "accept: the guarantee is idealized" in ran.error
    assert gdp.Ledger("l").charges() == ()


def test_calibrate_for_a_purpose(run, monkeypatch):
    """The command's part of it: TV = gamma / 100, and a risk that is least at gamma = 2."""

    def closed_form(posterior, population, n, gammas, **settings):
        rows, each = [], []
        for g in gammas:
            tv = {"on_average_tv": g / 100, "on_average_tv_se": 1e-3 * g}
            rows.append({"gamma": float(g), "population_risk": 1.0, **tv})
            bend = 1 + np.log(g / 2) ** 2 + 0.1 * np.linspace(-1, 1, 9) * np.log(g)
            each.append({"population_risk": bend})
        return gdp.Report(tuple(rows), {}, per_dataset=tuple(each))

    monkeypatch.setattr(calibrate_module, "audit", closed_form)
    words = ("calibrate", "gaussian-mean", "--n", 10)
    (row,) = run(*words, "--attack-advantage", 0.02, "--num-datasets", 256, "--json").rows
    assert row["gamma"] == pytest.approx(2.0, rel=0.02)
    assert row["purpose"] == "attack_advantage"
    (row,) = run(*words, "--lowest", "population_risk", "--json").rows
    assert row["gamma"] == pytest.approx(2.0, rel=1e-3)
    assert row["gamma_low"] < 2 < row["gamma_high"]
    assert "gamma = 2" in run(*words, "--lowest", "population_risk").out
    refused = run(*words, "--num-datasets", 5, "--pure-epsilon", 1)
    assert refused.status == 2
