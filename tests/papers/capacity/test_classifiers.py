"""Thresholds and lines as adversaries: splits by linear programs, divergences by every critic."""

import itertools
import math
from inspect import unwrap

import numpy as np
import pytest
from scipy import optimize
from scipy.stats import laplace

from gibbs_dp.information import divergences
from gibbs_dp.papers import capacity
from gibbs_dp.papers.capacity import CapacityBound, Classifiers, PolynomialMap
from gibbs_dp.papers.capacity import classifiers as module
from gibbs_dp.papers.capacity.bound import sequential
from gibbs_dp.papers.capacity.verify import separable_sets, span_kl, span_renyi

RNG = np.random.default_rng(0)
POINTS = {
    "random": RNG.normal(size=(7, 2)),
    "grid": np.array([[i, j] for i in range(3) for j in range(3)]) * 0.1,
    "equal ones": np.array([[0.0, 0.0], [1.0, 2.0], [0.0, 0.0], [1.0, 2.0], [3.0, 1.0]]),
    "on a line": np.outer(np.arange(6.0) - 2, [1.0, 0.5]),
    "far from zero": 1e8 + np.array([[0, 0], [1, 1], [2, 2], [3, 3.0000001], [0, 2]]),
    "one": np.zeros((1, 2)),
}


def as_set(splits):
    """Splits as sets of outcomes that do not hold the first one."""
    return {tuple((row ^ row[0]).astype(int)) for row in splits}


@pytest.mark.parametrize("name", POINTS)
def test_lines_separate_what_linear_programs_separate(name):
    x = POINTS[name]
    found = capacity.linear_splits(x)
    assert as_set(found) == as_set(separable_sets(x - x[0]))
    assert len(as_set(found)) == len(found)  # each once


@pytest.mark.parametrize("m", [2, 3, 12, 30])
def test_as_many_splits_as_cover_counts(m):
    """Without the complements, ``C(m - 1, 0) + C(m - 1, 1) + C(m - 1, 2)``."""
    x = np.random.default_rng(m).normal(size=(m, 2))
    assert len(capacity.linear_splits(x)) == sum(math.comb(m - 1, k) for k in range(3))


def test_sides_are_told_exactly():
    """Three points whose floating-point area is 0 and whose area is not have all four splits."""
    x = np.array([[0.1, 0.13], [0.2, 0.16], [0.5, 0.25]])
    (a, b), (c, d) = x[1] - x[0], x[2] - x[0]
    assert a * d - b * c == 0
    assert len(capacity.linear_splits(x)) == 4
    assert len(capacity.linear_splits(np.outer([1.0, 2.0, 9.0], [0.125, 0.375]))) == 3


def test_thresholds_are_every_way_to_cut_an_order():
    x = np.array([3.0, 1.0, 2.0, 1.0])
    cuts = [x > t for t in (0.0, 1.5, 2.5, 3.5)]
    found = capacity.threshold_splits(x)
    assert as_set(found) == as_set(np.array(cuts))
    assert len(found) == 3  # each once, though two outputs are equal
    assert not found[0].any()
    # Points on a line in the plane are split as by thresholds.
    line = np.outer(x, [0.5, 2.0])
    assert as_set(capacity.linear_splits(line)) == as_set(np.array(cuts))


@pytest.mark.parametrize("divergence", ["kl", "renyi", "alpha", "ipm"])
@pytest.mark.parametrize("seed", range(3))
def test_the_divergence_is_that_of_the_best_critic(divergence, seed):
    """Every split's critics ``a + b 1[x in A]``, by search or by their ends."""
    rng = np.random.default_rng(seed)
    x, (p, q), alpha = rng.normal(size=(5, 2)), rng.dirichlet(np.ones(5), 2), 2.5
    values = []
    for side in separable_sets(x):
        bit = side.astype(float)[None]
        if divergence == "ipm":
            values.append(abs(float(((2 * bit - 1) @ (p - q))[0])))
        elif divergence == "kl":
            values.append(span_kl(bit, p, q))
        elif divergence == "renyi":
            values.append(span_renyi(np.vstack([np.ones(5), bit]), p, q, alpha))
        else:

            def minus(c, bit=bit[0]):
                h = c[0] + c[1] * bit
                power = alpha / (alpha - 1)
                dual = ((alpha - 1) * np.abs(h)) ** power / alpha + 1 / (alpha * (alpha - 1))
                return float(q @ dual - p @ h)

            values.append(-optimize.minimize(minus, [0.5, 0.1], method="Nelder-Mead").fun)
    order = alpha if divergence in ("renyi", "alpha") else None
    found = module.classifier_divergence(capacity.linear_splits(x), p, q, divergence, order)
    assert found.value == pytest.approx(max(values), rel=1e-5)
    assert found.value > 0


def test_a_threshold_sees_all_where_the_likelihood_ratio_rises():
    """Laplace noise on a grid: all of total variation, and of KL what the bit has."""
    edges = np.linspace(-8, 9, 3401)
    mass = [np.diff(laplace(at).cdf(edges)) for at in (1.0, 0.0)]
    p, q = (m / m.sum() for m in mass)
    splits = capacity.threshold_splits(edges[1:])
    metric = capacity.classifier_divergence(splits, p, q, "ipm").value
    assert metric == pytest.approx(2 * divergences.total_variation(p, q), rel=1e-12)
    assert metric == pytest.approx(2 * (1 - math.exp(-0.5)), abs=1e-3)
    kl = capacity.classifier_divergence(splits, p, q).value
    assert capacity.laplace_linear_kl(1.0) < kl < capacity.laplace_unrestricted_kl(1.0)
    t = np.linspace(0, 1, 100001)
    tails = laplace(1.0).sf(t), laplace(0.0).sf(t)
    bits = [a * np.log(a / b) for a, b in (tails, (1 - tails[0], 1 - tails[1]))]
    assert kl == pytest.approx(float((bits[0] + bits[1]).max()), abs=1e-3)
    assert round(float((bits[0] + bits[1]).max()), 4) == 0.3297  # in docs/papers.md


def test_what_one_law_excludes_is_told_without_limit():
    splits = capacity.threshold_splits([0, 1])
    assert capacity.classifier_divergence(splits, [0.5, 0.5], [1.0, 0.0]).value == math.inf
    assert capacity.classifier_divergence(splits, [1.0, 0.0], [0.5, 0.5]).value == math.log(2)
    alone = capacity.threshold_splits([1, 1])
    assert capacity.classifier_divergence(alone, [0.5, 0.5], [1.0, 0.0]).value == 0.0


def test_classifiers_have_no_sums_and_no_squares():
    bound = CapacityBound(0.1, "kl", Classifiers())
    assert capacity.post_process(bound, PolynomialMap(1)).adversary == Classifiers()
    with pytest.raises(ValueError, match="one side of a threshold"):
        capacity.post_process(bound, PolynomialMap(2))
    with pytest.raises(ValueError, match="is not convex"):
        sequential([bound, bound])
    with pytest.raises(ValueError, match="convex"):
        capacity.ipm_from_kl(bound)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: capacity.threshold_splits([[0.0]]), "outputs must be finite numbers"),
        (lambda: capacity.threshold_splits([math.nan]), "outputs must be finite numbers"),
        (lambda: capacity.linear_splits([[0.0, 1.0, 2.0]]), "points must be"),
        (lambda: capacity.linear_splits(np.zeros((0, 2))), "points must be finite"),
        (lambda: module.classifier_divergence([[1]], [0.5, 0.5], [0.5, 0.5]), "splits must be"),
        (lambda: module.classifier_divergence([[1]], [1.0], [1.0], "renyi"), "alpha must be given"),
        (lambda: module.classifier_divergence([[1]], [1.0], [1.0], "kl", 2.0), "alpha must be"),
        (lambda: module.classifier_divergence([[1]], [1.0], [1.0], "alpha", 1.0), "above 1"),
        (
            lambda: unwrap(module.classifier_divergence)([[1]], [1.0], [1.0], "tv"),
            "divergence must",
        ),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.trust
def test_the_checks_of_verify_notice_a_missing_split(monkeypatch):
    from gibbs_dp.papers.capacity import verify

    assert all(r.holds for seed in range(3) for r in verify.classifier_records(seed))
    right = verify.linear_splits
    monkeypatch.setattr(verify, "linear_splits", lambda x: right(x)[: len(right(x)) // 2])
    found = [r for seed in range(3) for r in verify.classifier_records(seed) if not r.holds]
    assert any(r.name.startswith("lines: ") for r in found)


def test_separable_sets_are_those_of_an_order():
    """The independent truth itself, where it is known: ``m`` cuts of points on a line."""
    x = np.array([[0.0], [2.0], [1.0]])
    expected = {(0, 0, 0), (0, 1, 0), (0, 1, 1)}
    assert as_set(separable_sets(x)) == expected
    every = {(0, *rest) for rest in itertools.product((0, 1), repeat=2)}
    assert as_set(separable_sets(np.eye(3)[:, 1:])) == every
