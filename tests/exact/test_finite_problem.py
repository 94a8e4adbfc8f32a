"""Finite problems: the fixture, brute force over ordered datasets, and the exact theorems."""

import itertools
import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gibbs_dp.exact.finite_problem import FiniteProblem, StructuredProblem
from gibbs_dp.exact.notions import worst_group_divergence
from gibbs_dp.information import dependence as dep
from gibbs_dp.information.divergences import batched

THETA, VALUES = np.array([0.0, 0.25, 0.5, 0.75, 1.0]), np.array([0.0, 0.5, 1.0])
FIXTURE = FiniteProblem((THETA[:, None] - VALUES) ** 2, [0.5, 0.3, 0.2], np.full(5, 0.2))
REFERENCE = {
    "generalization_error": (0.014073, 0.047280, 0.067664),
    "on_average_kl": (0.002815, 0.047280, 0.202991),
    "mutual_information": (0.005602, 0.087049, 0.296546),
    "lautum_information": (0.005656, 0.102070, 0.515419),
    "dp_epsilon": (0.227667, 1.461101, 4.979909),
    "kl_privacy": (0.009300, 0.168831, 0.733047),
    "tv_privacy": (0.058253, 0.238713, 0.482354),
    "max_information_bits": (0.690485, 2.528142, 4.538967),
    "approx_max_information_bits": (-0.032157, 0.425413, 1.181061),
    "erasure_mutual_information": (0.005626, 0.093068, 0.371627),
    "erasure_t_information": (0.081040, 0.318892, 0.632675),
    "t_information": (0.036554, 0.147972, 0.289494),
}


@st.composite
def problems(draw, max_values=3, max_hypotheses=4):
    m = draw(st.integers(2, max_values))
    h = draw(st.integers(2, max_hypotheses))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    return FiniteProblem(
        rng.normal(size=(h, m)), rng.dirichlet(np.ones(m)), rng.dirichlet(np.ones(h))
    )


def brute_force(problem, gamma, n, beta):
    """Every quantity from its definition, one ordered dataset at a time."""
    loss, d, prior = problem.loss_matrix, problem.data_probs, problem.prior_probs
    m, h = d.size, prior.size
    law, probability = {}, {}
    for s in itertools.product(range(m), repeat=n):
        weight = prior * np.exp(-gamma * sum(loss[:, z] for z in s))
        law[s] = weight / weight.sum()
        probability[s] = math.prod(d[z] for z in s)
    risk = loss @ d
    out = dict.fromkeys(REFERENCE, 0.0)
    for s, p in law.items():
        empirical = sum(loss[:, z] for z in s) / n
        out["generalization_error"] += probability[s] * float(p @ (risk - empirical))
        for z in range(m):
            q = law[(z, *s[1:])]
            out["on_average_kl"] += probability[s] * d[z] * float(p @ np.log(p / q))
        for i, z in itertools.product(range(n), range(m)):
            q = law[(*s[:i], z, *s[i + 1 :])]
            out["dp_epsilon"] = max(out["dp_epsilon"], float(np.abs(np.log(p / q)).max()))
            out["kl_privacy"] = max(out["kl_privacy"], float(p @ np.log(p / q)))
            out["tv_privacy"] = max(out["tv_privacy"], 0.5 * float(np.abs(p - q).sum()))
    joint = np.zeros((h, *[m] * n))
    for s, p in law.items():
        joint[(slice(None), *s)] = probability[s] * p
    flat = joint.reshape(h, -1)
    out["mutual_information"] = dep.mutual_information(flat)
    out["lautum_information"] = dep.lautum_information(flat)
    out["t_information"] = dep.t_information(flat)
    out["max_information_bits"] = dep.max_information_bits(flat)
    out["approx_max_information_bits"] = dep.approx_max_information_bits(flat, beta)
    out["erasure_mutual_information"] = dep.erasure_mutual_information(joint)
    out["erasure_t_information"] = dep.erasure_t_information(joint)
    return out


@pytest.mark.parametrize(("column", "gamma"), [(0, 0.2), (1, 1.0), (2, 3.0)])
def test_fixture_to_six_digits(column, gamma):
    answer = FIXTURE.quantities(gamma=gamma, n=4, beta=0.05)
    assert list(answer) == list(REFERENCE)
    for name, row in REFERENCE.items():
        assert abs(answer[name] - row[column]) <= 0.5e-6 + 1e-12, name


@settings(max_examples=12, deadline=None)
@given(problems(), st.floats(0.05, 3.0), st.integers(1, 4), st.floats(0.001, 0.5))
def test_types_agree_with_ordered_datasets(problem, gamma, n, beta):
    by_types = problem.quantities(gamma, n, beta)
    for name, value in brute_force(problem, gamma, n, beta).items():
        assert by_types[name] == pytest.approx(value, rel=1e-11, abs=1e-12), name


def test_types_agree_with_ordered_datasets_at_six():
    problem = FiniteProblem([[0.3, -1.0], [0.9, 0.2], [-0.5, 1.1]], [0.35, 0.65], [0.5, 0.2, 0.3])
    by_types = problem.quantities(1.3, 6, 0.02)
    for name, value in brute_force(problem, 1.3, 6, 0.02).items():
        assert by_types[name] == pytest.approx(value, rel=1e-11, abs=1e-12), name


@settings(max_examples=25, deadline=None)
@given(problems(), st.floats(0.05, 3.0), st.integers(1, 6))
def test_exact_theorems_small(problem, gamma, n):
    answer = problem.quantities(gamma, n, 0.05)
    kl = answer["on_average_kl"]
    # Theorem 4.
    assert kl == pytest.approx(gamma * answer["generalization_error"], abs=1e-12)
    # Lemma 9.
    total = answer["mutual_information"] + answer["lautum_information"]
    assert total == pytest.approx(n * kl, abs=1e-12)
    # Lemma 6 and Corollary 7, every k, and Remark 1 for the same replacements.
    groups = problem.group_privacy(gamma, n)
    assert groups.on_average_kl == pytest.approx(groups.group_size * kl, abs=1e-12)
    for k in range(1, n + 1):
        gap = problem.expected_loss_gap(gamma, n, k)
        assert gamma * gap == pytest.approx(groups.on_average_kl[k - 1], abs=1e-12)
    assert groups.dp_epsilon[0] == pytest.approx(answer["dp_epsilon"], abs=1e-12)
    # Chain rule, erasure and individual-sample information, in their order.
    subset = problem.subset_information(gamma, n)
    erasure = answer["erasure_mutual_information"]
    assert n * (subset[n] - subset[n - 1]) == pytest.approx(erasure, abs=1e-12)
    assert subset[n] == pytest.approx(answer["mutual_information"], abs=1e-12)
    assert n * subset[1] <= subset[n] + 1e-12
    assert subset[n] <= erasure + 1e-12
    assert erasure <= n * kl + 1e-12
    steps = [
        problem.conditional_information(gamma, n, num_targets=1, num_known=k) for k in range(n)
    ]
    assert sum(steps) == pytest.approx(subset[n], abs=1e-12)
    assert all(a <= b + 1e-12 for a, b in itertools.pairwise(steps))
    assert erasure <= n * problem.average_removal_kl(gamma, n) + 1e-12


@pytest.mark.parametrize(
    ("n", "data_probs", "columns"), [(60, [0.5, 0.3, 0.2], [0, 1, 2]), (1000, [0.6, 0.4], [0, 2])]
)
def test_large_n_in_seconds_and_to_nine_digits(n, data_probs, columns):
    problem = FiniteProblem(FIXTURE.loss_matrix[:, columns], data_probs, np.full(5, 0.2))
    start = time.perf_counter()
    answer = problem.quantities(1.0, n, 0.05)
    groups = problem.group_privacy(1.0, n)
    assert time.perf_counter() - start < 20
    kl = answer["on_average_kl"]
    assert answer["generalization_error"] == pytest.approx(kl, rel=1e-9)
    total = answer["mutual_information"] + answer["lautum_information"]
    assert total == pytest.approx(n * kl, rel=1e-9)
    assert groups.on_average_kl == pytest.approx(groups.group_size * kl, rel=1e-9)


def test_tiny_gamma_keeps_its_digits():
    # eps_KL ~ gamma^2 / (1 + O(gamma)): down to 1e-14, where the plain sum has none left.
    reference = FIXTURE.on_average_kl(1e-3, 4) / 1e-6
    for gamma in (1e-5, 1e-7):
        assert FIXTURE.on_average_kl(gamma, 4) / gamma**2 == pytest.approx(reference, rel=3e-3)
        kl, gen = FIXTURE.on_average_kl(gamma, 4), FIXTURE.generalization_error(gamma, 4)
        assert kl == pytest.approx(gamma * gen, rel=1e-7)


def test_infinite_temperature_tells_nothing():
    answer = FIXTURE.quantities(0.0, 3, 0.1)
    for name, value in answer.items():
        expected = math.log2(0.9) if name == "approx_max_information_bits" else 0.0
        assert value == pytest.approx(expected, abs=1e-12), name


def test_a_sum_loss_is_a_structured_loss():
    structured = StructuredProblem(
        lambda counts: counts @ FIXTURE.loss_matrix.T, FIXTURE.data_probs, FIXTURE.prior_probs
    )
    summed, general = FIXTURE.quantities(1.0, 4, 0.05), structured.quantities(1.0, 4, 0.05)
    for name in REFERENCE:
        factor = 4 if name == "generalization_error" else 1  # totals, not means
        assert general[name] == pytest.approx(factor * summed[name], abs=1e-13)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.floats(0.1, 3.0))
def test_remark_one_for_any_structured_loss(seed, n, gamma):
    def any_loss(counts):
        weights = np.random.default_rng(seed).normal(size=(3, 4))
        return np.sin(3 * counts @ weights) + (counts**2) @ weights / 5

    problem = StructuredProblem(any_loss, [0.5, 0.2, 0.3], [0.1, 0.2, 0.3, 0.4])
    groups = problem.group_privacy(gamma, n).on_average_kl
    for k in range(1, n + 1):
        gap = problem.expected_loss_gap(gamma, n, k)
        assert groups[k - 1] == pytest.approx(gamma * gap, abs=1e-12)
    answer = problem.quantities(gamma, n, 0.1)
    total = answer["mutual_information"] + answer["lautum_information"]
    assert groups[n - 1] == pytest.approx(total, abs=1e-12)


def test_values_and_hypotheses_of_probability_zero():
    problem = FiniteProblem(
        np.column_stack([FIXTURE.loss_matrix, 9 * THETA]), [0.5, 0.3, 0.2, 0.0], np.full(5, 0.2)
    )
    plain, wider = FIXTURE.quantities(1.0, 3, 0.05), problem.quantities(1.0, 3, 0.05)
    for name in REFERENCE:
        if name in ("dp_epsilon", "kl_privacy", "tv_privacy"):
            assert wider[name] > plain[name]  # the worst case sees impossible examples
        else:
            assert wider[name] == pytest.approx(plain[name], abs=1e-13), name
    without = FiniteProblem(FIXTURE.loss_matrix[1:], FIXTURE.data_probs, np.full(4, 0.25))
    zeroed = FiniteProblem(FIXTURE.loss_matrix, FIXTURE.data_probs, [0, 0.25, 0.25, 0.25, 0.25])
    assert zeroed.quantities(1.0, 3, 0.05) == without.quantities(1.0, 3, 0.05)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: FiniteProblem(np.zeros((2, 3)), [0.5, 0.5], [0.5, 0.5]), "loss_matrix must have"),
        (lambda: FiniteProblem([[np.inf, 0.0]], [0.5, 0.5], [1.0]), "loss_matrix must be finite"),
        (lambda: FiniteProblem([[0.0, 0.0]], [0.5, 0.6], [1.0]), "data_probs must sum to 1"),
        (lambda: FIXTURE.quantities(-1.0, 4, 0.05), "gamma must be at least 0"),
        (lambda: FIXTURE.quantities(1.0, 0, 0.05), "n must be at least 1"),
        (lambda: FIXTURE.quantities(1.0, 4, 1.0), "beta must lie"),
        (lambda: FIXTURE.quantities(1.0, 10_000, 0.05), r"too large .* 750,225,015 types"),
        (
            lambda: worst_group_divergence(FIXTURE.table(1.0, 60), 30, batched.kl),
            r"too large to enumerate",
        ),
        (
            lambda: worst_group_divergence(FIXTURE.table(1.0, 4), 5, batched.kl),
            "group_size must be at most n = 4",
        ),
        (lambda: FIXTURE.dp_epsilon(1.0, 4, adjacency="swap"), "adjacency"),
    ],
)
def test_bad_input_is_named(call, words):
    # A wrong adjacency meets the runtime type checker before the library's own check.
    with pytest.raises((ValueError, TypeError), match=words):
        call()
