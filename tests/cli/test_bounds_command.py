"""Declared bounds of ``gibbs-dp audit``: the worst case of a table, beside its average."""

from pathlib import Path

import numpy as np
import pytest

import gibbs_dp as gdp
from gibbs_dp.model.populations import Table

FEW = ("--n", 20, "--num-datasets", 32, "--num-information", 0, "--num-warmup", 20)
COUNTS = (*FEW, "--num-samples", 8)
ILL = ("--data", "t.csv", "--target", "ill")


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(4)
    rows = [
        f"{x:.3f},{'yn'[int(i)]}"
        for x, i in zip(rng.normal(size=50), rng.random(50) < 0.5, strict=True)
    ]
    Path("t.csv").write_text("\n".join(["x,ill", "9.5,y", *rows]))


@pytest.mark.trust
def test_a_table_has_the_epsilon_that_calibrate_inverts(run, table):
    """The gamma that calibrate finds for an epsilon has that epsilon in the audit."""
    bounds = ("--x-bound", 1.5, "--theta-ball", 2)
    for adjacency in ("replace-one", "add-remove"):
        near = ("--adjacency", adjacency)
        ran = run("calibrate", "table", *ILL, *bounds, *near, "--pure-epsilon", 3, "--json")
        gamma = ran.rows[0]["gamma"]
        ran = run("audit", *ILL, *bounds, *near, *COUNTS, "--gammas", gamma, "--json")
        assert ran.rows[0]["dp_epsilon"] == pytest.approx(3.0, rel=1e-9)
        assert "[outside-domain]" not in ran.err
    text = run("audit", *ILL, *bounds, *near, *COUNTS, "--gammas", gamma).out
    assert "one exact draw and add-remove neighbours on the declared domain" in text


def test_rows_are_moved_and_the_units_of_bounds_are_told(run, table, monkeypatch):
    seen = {}

    def fake(posterior, population, **given):
        seen.update(population=population, **given)
        raise ValueError("seen")

    monkeypatch.setattr("gibbs_dp.auditing.audit.audit", fake)
    words = ("--x-bound", 2, "--y-range", -1, 1, "--theta-ball", 3, "--loss", "squared")
    Path("t.csv").write_text(Path("t.csv").read_text().replace(",y", ",5").replace(",n", ",6"))
    from gibbs_dp.cli.main import main

    told = []
    monkeypatch.setattr("gibbs_dp.cli.output.log", lambda text, quiet=False: told.append(text))
    assert main([*map(str, ("audit", *ILL, *words, *COUNTS))]) == 2
    x, y = map(np.asarray, seen["population"].data)
    assert seen["domain"] == gdp.Domain(x_bound=2.0, y_range=(-1.0, 1.0))
    assert np.linalg.norm(x, axis=1).max() == pytest.approx(2.0, rel=1e-5)
    assert not seen["domain"].is_outside((x, y)).any()
    assert y.max() <= 1.0
    moved = next(text for text in told if "outside the declared bounds" in text)
    plain = gdp.problems.build_problem("table", data="t.csv", target="ill", loss="squared")
    outside = int(seen["domain"].is_outside(plain.population.data).sum())
    assert moved.startswith(f"{outside} of 51 rows were outside")
    assert outside > 0
    assert any(text.startswith("the bounds are of the rows as they are fitted") for text in told)


def test_rows_keep_their_weights_and_groups():
    data = np.arange(6.0)
    weighted = Table(data, weights=np.arange(1.0, 7.0))
    moved = weighted.with_data(np.minimum(data, 2.0))
    assert moved.weights is weighted.weights
    grouped = Table(data, replace=False, groups=[0, 0, 1, 1, 2, 2])
    moved = grouped.with_data(data + 1)
    assert not moved.replace
    assert moved.is_dependent
    assert moved._group_sizes == grouped._group_sizes
    with pytest.raises(ValueError, match="data: 5 rows for 6; give one for each"):
        grouped.with_data(data[:5])


CASES = {
    "ball of a matrix": (
        (*ILL, "--loss", "softmax", "--theta-ball", 1),
        "--theta-ball: it is for one vector of parameters, and these are (2, 2).",
    ),
    "ball": ((*ILL, "--theta-ball", -1), "--theta-ball: must be positive, got -1."),
    "bound": ((*ILL, "--x-bound", -1), "Domain(x_bound) must be at least 0, got -1.0."),
    "range": ((*ILL, "--y-range", 1, 0), "Domain(y_range) must be (low, high), got (1.0, 0.0)."),
    "adjacency": (
        (*ILL, "--adjacency", "near"),
        "--adjacency: invalid choice: 'near' (choose from ",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_bounds_that_make_no_sense(run, table, case):
    words, message = CASES[case]
    ran = run("audit", *words)
    assert (ran.status, ran.out) == (2, "")
    assert message in ran.error.replace("'replace-one'", "")


def test_help_shows_how_to_audit_a_table(run):
    text = run("audit", "--help").out
    assert "--data FILE" in text
    assert "gibbs-dp audit --data patients.csv --target ill" in text
    own = run("audit", "--data", "t.csv", "--help").out
    for flag in ("--sep", "--decimal", "--encoding", "--na-values", "--date COLUMN DAY"):
        assert flag in own
    assert {"--x-bound", "--y-range", "--theta-ball", "--adjacency"} <= set(own.split())
