"""`gibbs-dp capacity`: figures, maps and the selection experiment; sampling is tested elsewhere."""

import json
import math
from functools import partial

import numpy as np
import pytest
from scipy import stats

from gibbs_dp.cli.main import main
from gibbs_dp.exact import FiniteChannel
from gibbs_dp.papers import capacity, channels
from gibbs_dp.papers.capacity import figures as program
from gibbs_dp.papers.capacity.analysts import analyst_rows
from gibbs_dp.papers.capacity.bound import query_hull_kl
from gibbs_dp.papers.capacity.closed_forms import product_renyi2
from gibbs_dp.papers.capacity.figures import (
    curve_rows,
    gaussian_curve_rows,
    map_rows,
    matrix_rows,
    restricted_kl,
    selection_problem,
    selection_rows,
)
from gibbs_dp.papers.capacity.on_average import OnAverageCapacity


def test_figure_one():
    rows = {row["alpha"]: row for row in curve_rows([2.0, 3.0, 3.5, 40.0])}
    assert rows[2.0]["degree_1"] == pytest.approx(math.log(1.5), rel=1e-9)
    for row in rows.values():
        assert row["degree_1"] < row["degree_2"] < row["degree_3"] < row["unrestricted"]
        assert row["degree_1"] < row["valid"] <= row["unrestricted"]
    # The printed bound crosses the unrestricted value between 3 and 3.5.
    assert rows[3.0]["printed_no_guarantee"] > rows[3.0]["unrestricted"]
    assert rows[3.5]["printed_no_guarantee"] < rows[3.5]["unrestricted"]


def test_figure_one_for_normal_noise():
    rows = {row["alpha"]: row for row in gaussian_curve_rows([4 / 3, 2.0, 40.0], 0.5)}
    # Order 2 by a linear solve of moments, shift 2 in standard deviations.
    moments = np.array([1.0, 0, 1, 0, 3, 0, 15])  # of a standard normal law
    for degree in (1, 2, 3):
        solved = product_renyi2(moments[: 2 * degree + 1], degree, 2.0)
        assert rows[2.0][f"degree_{degree}"] == pytest.approx(solved, rel=1e-9)
    # Order 4/3 of a linear critic 1 + c (x - 1): the fourth moment of a normal law.
    c = np.linspace(0, 2, 200_001)
    norm = (1 - 2 * c) ** 4 + 6 * (1 - 2 * c) ** 2 * c**2 + 3 * c**4
    assert rows[4 / 3]["degree_1"] == pytest.approx(-math.log(norm.min()), rel=1e-8)
    for alpha, row in rows.items():
        assert row["unrestricted"] == pytest.approx(2 * alpha, rel=1e-12)
        assert row["degree_1"] < row["degree_2"] < row["degree_3"] < row["unrestricted"]
        assert row["degree_1"] <= row["valid"] <= row["unrestricted"]


def test_maps_and_matrix_rows():
    rows = map_rows([0.1, 1.0], [3.0])
    assert [row["verdict"] for row in rows if row["row"] == "laplace"] == ["fails", "vacuous"]
    for row in matrix_rows(3, 0.5, [2.0]):
        assert row["release"] <= row["simulation"] * (1 + 1e-6) <= row["valid"] * (1 + 1e-5)


def test_what_a_linear_adversary_sees_of_the_private_mean():
    law = stats.truncnorm(-2, 2)
    z = law.rvs((2, 20_000), random_state=1)
    values = [capacity.laplace_linear_kl(1.0, e) for e in np.abs(z[0] - z[1])]
    se = np.std(values, ddof=1) / math.sqrt(20_000)
    # |z| <= 4: a false-alarm rate of 6e-5.
    assert abs(np.mean(values) - program.private_mean_linear_kl(100.0, 100)) < 4 * se


def test_the_selected_query():
    for row in selection_rows([0.05, 0.5, 3.0]):
        assert 0 < row["gap"] <= row["mutual_information"]
        assert row["gap"] <= row["hoeffding"] <= row["theorem_6"]
        assert row["gap"] <= row["bounded_range"]
    with pytest.raises(ValueError, match="gammas: must be positive"):
        selection_rows([0.0])


def test_the_selection_by_enumeration_of_datasets():
    problem, queries = selection_problem()
    table = channels.summed_loss(-queries, 2)
    channel = channels.gibbs(table, 2, 0.7, np.full(3, 1 / 3), np.full(12, 1 / 12))
    assert isinstance(channel, FiniteChannel)
    gap = channel.generalization_error(-queries)
    exact = problem.quantities(gamma=0.7, n=2, beta=0.05)["generalization_error"]
    assert exact == pytest.approx(gap, rel=1e-9)
    # Adjacent ordered datasets {a, b} -> {a, c}, one by one.
    laws = {}
    for a in range(3):
        for b in range(3):
            score = np.exp(0.7 * (queries[:, a] + queries[:, b]))
            laws[a, b] = score / score.sum()
    largest = max(
        query_hull_kl(queries, laws[a, b], laws[a, c])
        for a in range(3)
        for b in range(3)
        for c in range(3)
        if b != c
    )
    assert restricted_kl(queries, 0.7, 2) == pytest.approx(largest, rel=1e-6)


@pytest.fixture
def quick(monkeypatch):
    """Posteriors' numbers without sampling, and short grids."""

    def made_up(posterior, population, n, gammas, *, num_datasets, key, say):
        say("made up")
        grid = tuple(float(g) for g in gammas)
        full = np.full((len(grid), num_datasets), 0.2) + np.linspace(0, 0.01, num_datasets)
        classes = (capacity.Polynomial(1), capacity.TwoLayerReLU(4))
        seen = np.stack([0.6 * full, 0.9 * full], axis=-1)
        kept = np.ones(full.shape, bool)
        return OnAverageCapacity(grid, n, classes, seen, full, kept, ("a warning",))

    monkeypatch.setattr(capacity, "on_average_capacity_kl", made_up)
    monkeypatch.setattr(program, "curve_rows", lambda: curve_rows([2.0, 3.0]))
    monkeypatch.setattr(program, "gaussian_curve_rows", lambda: gaussian_curve_rows([2.0, 3.0]))
    monkeypatch.setattr(program, "map_rows", lambda: map_rows([0.2], [3.0]))
    monkeypatch.setattr(program, "matrix_rows", lambda: matrix_rows(2, 0.5, [2.0]))
    monkeypatch.setattr(program, "selection_rows", lambda: selection_rows([0.1, 1.0], n=2))
    few = partial(analyst_rows, [2.0, 8.0], n=50, num_queries=32, num_datasets=4)
    monkeypatch.setattr(program, "analyst_rows", few)
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "")


@pytest.mark.trust
def test_command(quick, capsys, tmp_path):
    assert main(["capacity", "--json", "--num-datasets", "4", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr()
    rows = [json.loads(line) for line in printed.out.splitlines()]
    assert {row["kind"] for row in rows} == {
        "curve",
        "gaussian_curve",
        "printed",
        "matrix",
        "selection",
        "analyst",
        "posterior",
    }
    shares = {row["share"] for row in rows if row["kind"] == "posterior"}
    assert {round(share, 9) for share in shares} == {0.6, 0.9}
    # Nothing printed is called a bound without its label.
    assert all("printed" not in row for row in rows)
    exact = [row for row in rows if "capacity_kl_exact" in row]
    assert {row["panel"] for row in exact} == {"private mean"}
    assert all(row["capacity_kl_exact"] < row["on_average_kl_exact"] for row in exact)
    assert "warning: private mean, a warning" in printed.err
    for name in ("figure1", "figure1_gaussian", "posterior", "selection", "analyst"):
        assert (tmp_path / f"capacity_{name}.png").read_bytes().startswith(b"\x89PNG")
    assert len((tmp_path / "capacity_posterior.csv").read_text().splitlines()) == 19


def test_command_in_words(quick, capsys):
    assert main(["capacity", "--quiet", "--gammas", "1", "2"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert "printed_no_guarantee" in printed.out
    assert "two-layer ReLU, width 4" in printed.out


@pytest.mark.parametrize(
    "bad",
    [["--gammas", "0"], ["--num-datasets", "1"], ["--seed", "x"], ["--degree", "2"]],
)
def test_command_refuses_nonsense(capsys, monkeypatch, bad):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "")
    assert main(["capacity", "--quiet", *bad]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
