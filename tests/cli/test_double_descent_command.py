import numpy as np
import pandas as pd
import pytest

import gibbs_dp as gdp
from gibbs_dp.papers.on_average_kl import double_descent as experiment


@pytest.fixture
def asked(monkeypatch):
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
def test_every_number_of_features_is_audited_beside_its_closed_form(run, asked, tmp_path):
    words = ("--num-features", 6, 3, "--gammas", 0.5, 2, "--n", 5, "--num-references", 200)
    more = ("--activation", "relu", "--num-datasets", 7, "--json", "--out", tmp_path)
    ran = run("double-descent", *words, *more)
    assert ran.status == 0
    assert [(row["num_features"], row["gamma"]) for row in ran.rows] == [
        (3, 0.5), (3, 2.0), (6, 0.5), (6, 2.0)
    ]  # fmt: skip
    assert [a[:2] for a in asked] == [(3, "relu"), (6, "relu")]
    assert all(a[2]["n"] == 5 and a[2]["num_datasets"] == 7 for a in asked)
    for row in ran.rows:  # Theorem 4 of the closed forms
        gap = row["gamma"] * (row["population_risk_exact"] - row["empirical_risk_exact"])
        assert gap == pytest.approx(row["on_average_kl_exact"], rel=0.25)
        assert 0 < row["on_average_kl_exact_se"] < 0.2 * row["on_average_kl_exact"]
    assert (tmp_path / "double_descent.png").read_bytes().startswith(b"\x89PNG")
    saved = pd.read_csv(tmp_path / "double_descent.csv")
    np.testing.assert_array_equal(saved["num_features"], [3, 3, 6, 6])


@pytest.mark.trust
def test_the_table_is_readable_and_bad_input_one_line(run, asked):
    ran = run("double-descent", "--num-features", 2, "--gammas", 1, "--num-references", 20)
    assert ran.out.splitlines()[0].split()[:3] == ["num_features", "gamma", "on_average_kl"]
    assert run("double-descent", "--gammas", 0).error.startswith("gammas: the closed form needs")
