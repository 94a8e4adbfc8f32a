"""Noisy sums of rows of few values: every adversary, every dataset, every output."""

import itertools
import math

import networkx as nx
import numpy as np
import pytest

from gibbs_dp.papers.bayesian_dp import (
    BayesianNetwork,
    DiscreteSum,
    GaussianField,
    MarkovChain,
    MarkovNetwork,
    bdp_epsilon,
    verify,
)
from gibbs_dp.papers.bayesian_dp.row_law import adversaries

THREE = [[0.5, 0.5, 0.0], [0.1, 0.8, 0.1], [0.0, 0.4, 0.6]]
SIZES = [[0.0, 0.7 + i] for i in range(4)]
CASES = {
    "chain": (MarkovChain([[0.8, 0.2], [0.3, 0.7]], 4), None),
    "values excluded": (MarkovChain(THREE, 3, [0.5, 0.5, 0.0]), [[0, 1, 3], [0, 0, -1], [2, 1, 5]]),
    "grid": (MarkovNetwork.ising(nx.grid_2d_graph(2, 2), -0.7, 0.3), SIZES),
    "collider": (
        BayesianNetwork(
            nx.DiGraph([(0, 2), (1, 2)]),
            {0: [0.3, 0.7], 1: [0.5, 0.5], 2: [[[0.9, 0.1], [0.2, 0.8]], [[0.4, 0.6], [0.7, 0.3]]]},
        ),
        [[0, 1], [0, -2], [0, 1.5]],
    ),
}  # fmt: skip


def by_hand(model, values, scale, row, known, outputs):
    """Largest log ratio over outputs, by a sum over datasets for each pair of values."""
    joint, worst = model.joint(), 0.0
    sizes = joint.shape
    numbers = [range(s) for s in sizes] if values is None else values
    for told in itertools.product(*(range(sizes[k]) for k in known)):
        densities = []
        for x in range(sizes[row]):
            density, mass = np.zeros(len(outputs)), 0.0
            for rows in itertools.product(*map(range, sizes)):
                if rows[row] == x and tuple(rows[k] for k in known) == told:
                    total = sum(numbers[i][v] for i, v in enumerate(rows))
                    density += joint[rows] * np.exp(-np.abs(outputs - total) / scale)
                    mass += joint[rows]
            if mass > 0:
                densities.append(np.log(density / mass))
        for a, b in itertools.permutations(densities, 2):
            worst = max(worst, float((a - b).max()))
    return worst


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("scale", [0.5, 3.0])
def test_leakage_is_what_enumeration_finds_over_all_outputs(name, scale):
    model, values = CASES[name]
    total = DiscreteSum(model, values)
    fine = np.linspace(-15, 20, 1401)  # with all values of the sum but those of the grid
    found = {}
    for row, known in adversaries(model.length):
        exact = total.leakage_to(scale, row, known)
        at_sums = by_hand(model, values, scale, row, sorted(known), total._sums[0])
        assert exact == pytest.approx(at_sums, abs=1e-9)
        assert by_hand(model, values, scale, row, sorted(known), fine) <= exact + 1e-9
        found[row, known] = exact
    worst = total.leakage(scale)
    assert worst.value == max(found.values()) == found[worst.row, worst.known]
    assert worst.value > 0.3


def test_independent_rows_are_dp_and_copies_are_one_row():
    fair = MarkovChain([[0.5, 0.5], [0.5, 0.5]], 4)
    assert DiscreteSum(fair).leakage(0.7).value == pytest.approx(1 / 0.7)
    assert DiscreteSum(fair).noise_scale(0.25) == pytest.approx(4.0)
    keep = np.eye(2)
    copies = BayesianNetwork(nx.path_graph(3, nx.DiGraph), {0: [0.3, 0.7], 1: keep, 2: keep})
    assert DiscreteSum(copies).leakage(0.7).value == pytest.approx(3 / 0.7)
    assert DiscreteSum(copies).noise_scale(0.5) == pytest.approx(6.0)
    assert DiscreteSum(copies, [[1, 1]] * 3).noise_scale(0.5) == 0.0


@pytest.mark.parametrize("name", CASES)
def test_the_noise_is_the_least_that_is_enough(name):
    total = DiscreteSum(*CASES[name])
    scale = total.noise_scale(0.8)
    assert total.leakage(scale).value == pytest.approx(0.8, rel=1e-9)
    assert total.leakage(scale * 0.99).value > 0.8


@pytest.mark.parametrize("scale", [0.3, 1.0, 5.0])
def test_lemma_2_bounds_the_sum(scale):
    chain = CASES["chain"][0]
    exact, bound = DiscreteSum(chain).leakage(scale).value, bdp_epsilon(1 / scale, chain, lemma=2)
    assert 1 / scale <= exact <= bound * (1 + 1e-9)


def test_little_noise_neither_overflows_nor_vanishes():
    total = DiscreteSum(CASES["chain"][0])
    far = [total.leakage(scale).value * scale for scale in (1e-3, 1e-5)]
    # Almost no noise: the sum's own ends, one value against three from there.
    assert far[0] == pytest.approx(1.0, rel=0.02)
    assert far[1] == pytest.approx(1.0, rel=2e-4)


def test_who_knows_least_need_not_learn_most():
    """Rows that attract each other as a Gaussian field would not do it (Yang et al. 2015)."""
    chain = MarkovChain([[0.8, 0.2], [0.2, 0.8]], 5)
    assert DiscreteSum(chain).leakage(2.0).known == frozenset()
    found = DiscreteSum(chain).leakage(0.5)
    assert found.known
    assert found.value > max(DiscreteSum(chain).leakage_to(0.5, i, []) for i in range(5)) + 0.08
    covariance = 0.6 ** np.abs(np.subtract.outer(np.arange(5), np.arange(5)))
    gaussian = GaussianField.from_covariance(covariance).every_adversary(np.ones(5))
    assert gaussian.known == frozenset()


def test_the_checks_of_verify_notice_a_leak_that_is_off(monkeypatch):
    assert all(record.holds for record in verify.sum_records())
    right = DiscreteSum.leakage_to
    monkeypatch.setattr(DiscreteSum, "leakage_to", lambda *a: 1.01 * right(*a))
    assert any(not record.holds for record in verify.sum_records())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: DiscreteSum(CASES["chain"][0], [[0, 1]]), "one for each value of each row"),
        (lambda: DiscreteSum(CASES["chain"][0], [[0, math.nan]] * 4), "values must be finite"),
        (lambda: DiscreteSum(CASES["chain"][0]).leakage(0.0), "scale must"),
        (lambda: DiscreteSum(CASES["chain"][0]).leakage_to(1.0, 1, [1]), "different rows"),
        (lambda: DiscreteSum(CASES["chain"][0]).leakage_to(1.0, 0, [4]), "different rows"),
        (lambda: DiscreteSum(CASES["chain"][0]).noise_scale(-1.0), "epsilon must"),
        (lambda: DiscreteSum(MarkovChain([[0.5, 0.5]] * 2, 11)).leakage(1.0), "at most 10"),
    ],
)
def test_bad_sums(call, message):
    with pytest.raises(ValueError, match=message):
        call()
