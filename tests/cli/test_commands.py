"""The program without a command, and its smaller commands."""

import shlex

import numpy as np
import pandas as pd
import pytest

import gibbs_dp as gdp
from gibbs_dp.cli import COMMANDS, load
from gibbs_dp.cli.main import EXAMPLES, main
from gibbs_dp.papers.on_average_kl import double_descent as experiment
from gibbs_dp.papers.on_average_kl import figure2


class ParsedError(Exception):
    """Parsing is over."""


def test_without_arguments_it_shows_three_examples_then_the_commands(capsys):
    assert main([]) == 0
    bare = capsys.readouterr().out
    assert main(["--help"]) == 0
    assert capsys.readouterr().out == bare
    examples, commands = bare.partition("examples:\n")[2].split("commands:\n")
    assert len(EXAMPLES) == 3
    assert all(f"\n  gibbs-dp {words}\n" in examples for _, words in EXAMPLES)
    assert all(f"\n  {name} " in "\n" + commands for name in COMMANDS)
    assert max(map(len, bare.splitlines())) <= 90


@pytest.mark.parametrize("words", [words for _, words in EXAMPLES])
def test_examples_are_understood_as_printed(words, monkeypatch):
    def stop(parsed):
        raise ParsedError

    command, *rest = shlex.split(words)
    function, _ = load(command)
    monkeypatch.setattr(f"gibbs_dp.cli.{COMMANDS[command].module}.start_session", stop)
    with pytest.raises(ParsedError):
        function(rest)


def test_the_quick_example_runs_as_printed(run):
    words = next(words for _, words in EXAMPLES if words.startswith("calibrate"))
    ran = run(*shlex.split(words))
    assert ran.status == 0
    assert ran.out.startswith("gamma = ")


def test_version_and_help(run, capsys):
    assert run("--version").out.strip() == f"gibbs-dp {gdp.__version__}"
    assert "audit" in run("--help").out
    assert "linear-regression" in run("audit", "--help").out
    helped = run("audit", "gaussian-mean", "--help").out
    assert "--data-scale" in helped
    assert "--theta-bound" not in helped


@pytest.mark.trust
def test_figure2_prints_z_scores_and_saves_both_panels(run, tmp_path):
    words = ("figure2", "--num-datasets", 256, "--gammas", 1, 10, "--out", tmp_path)
    ran = run(*words, "--json")
    assert ran.status == 0
    assert [row["gamma"] for row in ran.rows] == [1, 10, 1, 10]
    assert {row["panel"] for row in ran.rows} == {"private mean", "linear regression"}
    assert max(abs(row["z"]) for row in ran.rows) < 5
    assert max(abs(row["z_excess_risk"]) for row in ran.rows if "z_excess_risk" in row) < 5
    names = {
        "figure2.png",
        "figure2.svg",
        "figure2_private_mean.nc",
        "figure2_linear_regression.nc",
    }
    assert {p.name for p in tmp_path.iterdir()} == names
    panel = gdp.load_report(tmp_path / "figure2_private_mean.nc")
    np.testing.assert_allclose(panel["dp_epsilon"], 4 * panel["gamma"] / 100)


def test_figure2_has_two_gammas_a_decade_and_refuses_other_panels():
    for gammas in figure2.GAMMAS.values():
        ratios = np.diff(np.log10(gammas))
        assert (ratios > 0.45).all()
        assert (ratios < 0.55).all()
    message = "gammas: panels are 'private mean' and 'linear regression'; .* got .'a'"
    with pytest.raises(ValueError, match=message):
        figure2.figure2(gammas={"a": (1.0,)})


@pytest.mark.trust
def test_sample_writes_draws_and_prints_diagnostics(run, tmp_path):
    words = ("sample", "gaussian-mean", "--dim", 2, "--gamma", 1, "--n", 50, "--num-samples", 100)
    ran = run(*words, "--json", "--out", tmp_path)
    assert ran.status == 0
    assert [row["parameter"] for row in ran.rows] == ["theta[0]", "theta[1]"]
    draws = gdp.load_draws(tmp_path / "draws.nc")
    assert draws.theta.shape == (4, 100, 2)
    means = [row["mean"] for row in ran.rows]
    np.testing.assert_allclose(draws.theta.mean(axis=(0, 1)), means, rtol=1e-5)
    sd = [row["sd"] for row in ran.rows]
    np.testing.assert_allclose(sd, 50**-0.5, rtol=0.25)


@pytest.mark.trust
def test_sample_takes_all_rows_of_a_table(run, tmp_path):
    pytest.importorskip("sklearn")
    ran = run("sample", "breast-cancer", "--gamma", 0.1, "--num-samples", 50, "--out", tmp_path)
    assert ran.status == 0
    assert "r_hat" in ran.out
    assert gdp.load_draws(tmp_path / "draws.nc").settings["rows"] == 569


def test_sample_says_which_column_a_coordinate_is_of(run, tmp_path):
    rows = [f"{k % 7},{'abc'[k % 3]},{k % 5}" for k in range(60)]
    (tmp_path / "t.csv").write_text("\n".join(["age,town,y", *rows]) + "\n")
    names = ["intercept", "age", "town=b", "town=c"]
    words = ("sample", "--data", tmp_path / "t.csv", "--target", "y", "--gamma", 1)
    ran = run(*words, "--num-samples", 100, "--json", "--out", tmp_path)
    assert [row["column"] for row in ran.rows] == names
    (note,) = gdp.load_draws(tmp_path / "draws.nc").notes
    assert note == f"theta's coordinates, in order: {', '.join(names)}."


@pytest.fixture
def audits(monkeypatch):
    """Replaces the audits by a fixed answer; `tests/problems` has real ones."""
    found = []

    def answer(posterior, population, *, gammas, **settings):
        found.append((posterior.dim, population.function.activation, settings))
        names = ("on_average_kl", "empirical_risk", "population_risk")
        numbers = {name + end: 1.0 for name in names for end in ("", "_se")}
        rows = tuple({"gamma": gamma, **numbers} for gamma in gammas)
        return gdp.Report(rows, {}, ("gamma=1: take care.",))

    monkeypatch.setattr(experiment, "audit", answer)
    return found


@pytest.mark.trust
def test_every_number_of_features_is_audited_beside_its_closed_form(run, audits, tmp_path):
    words = ("--num-features", 6, 3, "--gammas", 0.5, 2, "--n", 5, "--num-references", 200)
    more = ("--activation", "relu", "--num-datasets", 7, "--json", "--out", tmp_path)
    ran = run("double-descent", *words, *more)
    assert ran.status == 0
    assert [(row["num_features"], row["gamma"]) for row in ran.rows] == [
        (3, 0.5), (3, 2.0), (6, 0.5), (6, 2.0)
    ]  # fmt: skip
    assert [a[:2] for a in audits] == [(3, "relu"), (6, "relu")]
    assert all(a[2]["n"] == 5 and a[2]["num_datasets"] == 7 for a in audits)
    for row in ran.rows:  # Theorem 4 of the closed forms
        gap = row["gamma"] * (row["population_risk_exact"] - row["empirical_risk_exact"])
        assert gap == pytest.approx(row["on_average_kl_exact"], rel=0.25)
        assert 0 < row["on_average_kl_exact_se"] < 0.2 * row["on_average_kl_exact"]
    assert (tmp_path / "double_descent.png").read_bytes().startswith(b"\x89PNG")
    saved = pd.read_csv(tmp_path / "double_descent.csv")
    np.testing.assert_array_equal(saved["num_features"], [3, 3, 6, 6])


@pytest.mark.trust
def test_the_table_is_readable_and_bad_input_one_line(run, audits):
    ran = run("double-descent", "--num-features", 2, "--gammas", 1, "--num-references", 20)
    assert ran.out.splitlines()[0].split()[:3] == ["num_features", "gamma", "on_average_kl"]
    assert run("double-descent", "--gammas", 0).error.startswith("gammas: the closed form needs")
