"""Theorem 6 at a real size: closed forms by enumeration, simulations against both.

Statistical checks allow 4 standard errors: a two-sided false-alarm rate of 6e-5 each.
"""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import norm

from gibbs_dp.information import dependence
from gibbs_dp.papers.capacity import analysts as program
from gibbs_dp.papers.capacity.bound import query_hull_kl


def law_of_bits(means, sigma):
    """Probability of every sign vector, and the vectors."""
    bits = np.array(list(itertools.product([-1, 1], repeat=len(means))))
    return np.prod(norm.cdf(bits * np.asarray(means) / sigma), axis=1), bits


@pytest.mark.parametrize("sigma", [0.3, 1.0, 4.0])
def test_the_restricted_kl_by_enumeration(sigma):
    # Three examples, two attributes: every pair of neighbours, every mixture of evaluations.
    n, means = 3, [-1.0, -1 / 3, 1 / 3, 1.0]
    moves = [(a, b) for a in means for b in means if abs(a - b) <= 2 / n + 1e-9]
    points = np.array(list(itertools.product([-1, 1], repeat=2)))
    seen, whole = 0.0, 0.0
    for pair in itertools.combinations_with_replacement(moves, 2):
        (p, bits), (q, _) = (law_of_bits([m[k] for m in pair], sigma) for k in (0, 1))
        seen = max(seen, query_hull_kl(bits @ points.T / 2, p / p.sum(), q / q.sum()))
        whole = max(whole, float(p @ np.log(p / q)))
    assert program.linear_vote_kl(n, 2, sigma) == pytest.approx(seen, rel=1e-5)
    # Adaptive queries have more possible means, and so at least this.
    assert program.bits_kl(n, 2, sigma) >= whole * (1 - 1e-12)
    if sigma < 1:
        assert seen < 0.8 * whole


def test_the_kl_of_a_sign_by_brute_force():
    n, sigma, grid = 4, 0.7, np.arange(-4, 5) / 4
    best = 0.0
    for a, b in itertools.product(grid, grid):
        if abs(a - b) <= 2 / n:
            p, q = (norm.cdf([m / sigma, -m / sigma]) for m in (a, b))
            best = max(best, float(p @ np.log(p / q)))
    assert program.bits_kl(n, 10, sigma) == pytest.approx(10 * best, rel=1e-12)


def test_the_truth_of_the_linear_vote():
    n, sigma = 4, 0.6
    data = np.array(list(itertools.product([-1, 1], repeat=n)))
    plus = norm.cdf(data.mean(axis=1) / sigma)
    gap, found = program.linear_vote_truth(n, 3, sigma)
    assert gap == pytest.approx(np.mean(data.mean(axis=1) * (2 * plus - 1)), rel=1e-12)
    joint = np.column_stack([plus, 1 - plus]) / len(data)
    assert found == pytest.approx(3 * dependence.mutual_information(joint), rel=1e-10)


def climb(rng, n, num_queries, sigma):
    """One adaptive analyst, query by query."""
    votes = np.zeros(n)
    for _ in range(num_queries):
        sign = rng.choice([-1, 1], n)
        asked = np.where(np.abs(votes) <= math.sqrt(num_queries), sign, 0)
        votes += sign * (1 if asked.mean() + sigma * rng.normal() > 0 else -1)
    return np.sign(votes).mean()


@pytest.fixture(scope="module")
def rows():
    found = program.analyst_rows([0.25, 4.0], n=60, num_queries=64, num_datasets=200, key=1)
    return {(row["analyst"], row["noise"]): row for row in found}


def test_both_analysts_against_other_routes(rows):
    for noise in (0.25, 4.0):
        linear = rows["linear", noise]
        assert abs(linear["gap"] - linear["gap_exact"]) < 4 * linear["gap_se"]
    for noise in (0.25, 4.0):
        rng = np.random.default_rng(2)
        other = [climb(rng, 60, 64, noise / math.sqrt(60)) for _ in range(200)]
        adaptive = rows["adaptive", noise]
        se = math.hypot(np.std(other, ddof=1) / math.sqrt(200), adaptive["gap_se"])
        assert abs(np.mean(other) - adaptive["gap"]) < 4 * se
        # Weights chosen on the data fit it: far more than the linear vote.
        assert adaptive["gap"] > 4 * adaptive["gap_se"]


def test_bounds_hold_and_are_in_order(rows):
    for (analyst, _), row in rows.items():
        assert row["gap"] < min(row["hoeffding"], row["theorem_6"]) + 4 * row["gap_se"]
        assert row["theorem_6"] == pytest.approx(8 * math.sqrt(row["restricted_kl"]))
        assert row["restricted_kl"] <= row["unrestricted_kl"] * (1 + 1e-9)
        assert row["status"] == ("exact" if analyst == "linear" else "bound")
    # Little noise: the class sees a small part, and its bound alone says something.
    assert rows["linear", 0.25]["restricted_kl"] < 0.3 * rows["linear", 0.25]["unrestricted_kl"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"num_queries": 40}, "num_queries: must be a multiple of 32, got 40"),
        ({"noise": []}, "noise: must hold at least one number"),
        ({"noise": [0.0]}, "noise"),
        ({"num_datasets": 1}, "num_datasets"),
    ],
)
def test_bad_input_is_named(change, reason):
    given = {"noise": [1.0], "n": 10, "num_queries": 32, "num_datasets": 2, **change}
    with pytest.raises(ValueError, match=reason):
        program.analyst_rows(given.pop("noise"), **given)
