"""Sparse vector's variants: laws against simulation, losses against all neighbours of a grid."""

import itertools
import json
import math

import jaxtyping
import numpy as np
import pytest
from sparse_laws import sparse_law

import gibbs_dp as gdp
from gibbs_dp.cli.main import main
from gibbs_dp.information.divergences import hockey_stick
from gibbs_dp.papers.reusable_holdout import run as holdout
from gibbs_dp.papers.reusable_holdout import sparse
from gibbs_dp.papers.reusable_holdout.plot import plot_holdout
from gibbs_dp.papers.reusable_holdout.sparse import worst_loss

C = 2


@pytest.fixture(autouse=True)
def without_type_checks():
    """Thousands of integrals: the checks of types would take most of the time."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def variants(sensitivity=1.0):
    found = sparse.sparse_variants(1.0, C, sensitivity=sensitivity)
    return {variant.name: variant for variant in found}


def draws(rng, variant, values, runs):
    """Answers of runs of a variant, written out with NumPy: -1 after it stopped."""
    scale = variant.threshold_noise.scale
    said = np.full((runs, len(values)), -1)
    for run in said:
        threshold, left = rng.laplace(0, scale), variant.num_above or math.inf
        for i, value in enumerate(values):
            above = value + rng.laplace(0, variant.query_noise.scale) > threshold
            run[i] = above
            left -= above
            if above and variant.is_redrawn:
                threshold = rng.laplace(0, scale)
            if left == 0:
                break
    return said


@pytest.mark.parametrize(
    "name", ["as published", "threshold not redrawn", "query noise not scaled with c"]
)
def test_probabilities_are_those_of_simulated_runs(name):
    variant, runs = variants()[name], 20_000
    values = (1.0, 4.0, -2.0)
    said = draws(np.random.default_rng(1), variant, values, runs)
    for answers in ((0, 0, 0), (1, 0, 1), (0, 1, 0), (1, 1)):
        p = sparse.sparse_probability(
            values,
            answers,
            threshold_noise=variant.threshold_noise,
            query_noise=variant.query_noise,
            is_redrawn=variant.is_redrawn,
        )
        padded = [*answers, *[-1] * (3 - len(answers))]
        share = (said == padded).all(axis=1).mean()
        # 12 comparisons at 4.5 standard errors: false alarm 8e-5.
        assert abs(share - p) < 4.5 * math.sqrt(p * (1 - p) / runs)


def test_long_sequences_are_those_of_the_law():
    noises = {
        "threshold_noise": sparse.laplace_noise(2.0),
        "query_noise": sparse.laplace_noise(4.0),
    }
    values = (0.5, -1.0, 0.5, 2.0)
    for redrawn in (True, False):
        law = sparse_law(values, num_above=2, **noises, is_redrawn=redrawn)
        assert sum(law.values()) == pytest.approx(1, abs=1e-12)
    # Two of 30 equal queries before the last: the number above given the threshold is binomial.
    t = np.linspace(-80, 80, 400_001)
    below = np.where(t < 0, 0.5 * np.exp(t / 4), 1 - 0.5 * np.exp(-t / 4))
    weight = np.exp(-np.abs(t) / 2) / 4
    by_hand = np.trapezoid(weight * below**27 * (1 - below) ** 2, t)
    answers = (0,) * 12 + (1,) + (0,) * 15 + (1,)
    found = sparse.sparse_probability([0.0] * 29, answers, **noises, is_redrawn=False)
    assert found == pytest.approx(by_hand, rel=1e-6)


def test_no_neighbours_of_a_grid_beat_what_is_proven():
    """Every pair of two queries with three values, moved by nothing or the sensitivity."""
    s = 2.5
    for name in ("as published", "threshold not redrawn", "query noise not scaled with c"):
        variant = variants(s)[name]
        laws = {
            values: sparse_law(
                values,
                num_above=C,
                threshold_noise=variant.threshold_noise,
                query_noise=variant.query_noise,
                is_redrawn=variant.is_redrawn,
            )
            for values in itertools.product((-2 * s, -s, 0.0, s, 8 * s, 9 * s), repeat=2)
        }
        pairs = [
            (p, q)
            for (values, p), (other, q) in itertools.combinations(laws.items(), 2)
            if np.abs(np.subtract(values, other)).max() <= s
        ]
        worst = max(abs(math.log(p[a] / q[a])) for p, q in pairs for a in p)
        assert len(pairs) > 50
        assert 0.2 * variant.proven_epsilon < worst <= variant.proven_epsilon * (1 + 1e-9)


def test_losses_reach_what_is_proven_and_the_unbounded_ones_grow():
    found = {name: worst_loss(variant, 48).value for name, variant in variants().items()}
    assert found["as published"] == pytest.approx(1.0, rel=1e-3)
    assert found["threshold not redrawn"] == pytest.approx((1 + C) / (2 * C), rel=1e-3)
    assert found["query noise not scaled with c"] == pytest.approx((1 + C) / 2, rel=1e-3)
    assert found["no noise scaled with c"] == pytest.approx(C, rel=1e-3)
    assert found["no query noise"] == found["uniform noise"] == math.inf
    for name in ("no stop after c", "releases the compared value"):
        twice = worst_loss(variants()[name], 96).value
        assert twice == pytest.approx(2 * found[name], rel=1e-3)
        assert found[name] > 5


def test_what_attains_a_loss_is_a_pair_of_neighbours():
    for variant in variants(2.5).values():
        loss = worst_loss(variant, 8, sensitivity=2.5)
        moves = np.abs(np.subtract(loss.values, loss.other))
        assert moves.max() == pytest.approx(2.5)
        assert sum(loss.answers) <= (variant.num_above or 8)


def test_too_little_noise_is_caught(monkeypatch):
    right = sparse.sparse_pure
    monkeypatch.setattr(sparse, "sparse_pure", lambda eps, *a, **k: right(1.05 * eps, *a, **k))
    rows = sparse.variant_rows(1.0, C, rounds=(16,))
    assert rows[0]["verdict"] == "not private"


def test_a_round_has_its_law():
    mechanism = gdp.holdout.Sparse(2.0, 3, 5.0, adjacency="replace-one")
    p, q = sparse.round_laws(mechanism, -1.0, 2.0, block=3)
    for found, values in ((p, (-1.0, -1.0, 2.0)), (q, (1.0, 1.0, 0.0))):
        law = sparse_law(
            values,
            num_above=1,
            threshold_noise=sparse.laplace_noise(5.0),
            query_noise=sparse.laplace_noise(10.0),
        )
        early = law[(1,)] + law[(0, 1)]
        assert found == pytest.approx([early, law[(0, 0, 1)], law[(0, 0, 0)]], abs=1e-12)


def test_measured_epsilon_is_that_of_all_rounds_together():
    mechanism, delta = gdp.holdout.Sparse(1.0, 2, 1.5, adjacency="replace-one"), 0.02
    epsilon = sparse.measured_epsilon(mechanism, delta)
    deltas = []
    for first, last in sparse.LEVELS:
        pair = sparse.round_laws(mechanism, 1.5 * first, 1.5 * last)
        p, q = (np.outer(one, one).ravel() for one in pair)
        deltas += [hockey_stick(a, b, math.exp(epsilon)) for a, b in ((p, q), (q, p))]
    assert max(deltas) >= delta * (1 - 1e-4)
    assert any(d == pytest.approx(delta, rel=1e-4) for d in deltas)
    assert 0 < epsilon < mechanism.guarantee(delta).epsilon


def test_the_printed_noise_is_not_enough_for_large_epsilon():
    rows = sparse.approximate_rows([1.0, 20.0])
    by = {(row["sigma_from"], row["claimed_epsilon"]): row for row in rows}
    for row in rows:
        assert 0 < row["measured_epsilon"] < row["proven_epsilon"]
    for epsilon in (1.0, 20.0):
        assert by["accountant", epsilon]["proven_epsilon"] == pytest.approx(epsilon, rel=1e-6)
    # sigma by hand, and what advanced composition, with the term that is dropped, needs.
    printed = by["printed", 20.0]
    assert printed["sigma"] == pytest.approx(2 * math.sqrt(200 * math.log(1e6)) / 20)
    assert printed["verdict"] == "open"
    assert printed["sigma"] < by["accountant", 20.0]["sigma"]
    assert by["printed", 1.0]["verdict"] == "private"
    assert by["printed", 1.0]["sigma"] > by["accountant", 1.0]["sigma"]


def test_the_command_and_the_pictures(capsys, tmp_path):
    assert main(["holdout", "sparse", "--json", "--quiet", "--out", str(tmp_path)]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["verdict"] for row in rows} == {"private", "not private", "open"}
    bare = [row for row in rows if row["variant"] == "no query noise"]
    assert bare[-1]["loss"] == "inf"
    assert (tmp_path / "holdout_sparse.png").exists()
    two = sparse.approximate_rows([1.0, 20.0])
    assert len(plot_holdout(holdout.Found("sparse-approximate", two, two)).axes) == 2
    assert main(["holdout", "sparse", "--n", "10", "--quiet"]) == 2
    assert "has no such size" in capsys.readouterr().err
