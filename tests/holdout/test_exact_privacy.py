"""AboveThreshold, Sparse and report noisy max on a grid of neighbours, by numerical integration.

One function judges every mechanism; it passes the right ones, near their epsilon in the worst case,
and catches each known-wrong one.
"""

import itertools
import math

import numpy as np
import pytest
from sparse_laws import sparse_law

from gibbs_dp import holdout
from gibbs_dp.papers.reusable_holdout import sparse as exact_laws
from gibbs_dp.papers.reusable_holdout.sparse import (
    laplace_noise,
    no_noise,
    noisy_max_law,
    uniform_noise,
)
from gibbs_dp.privacy.mechanisms import ReportNoisyMax

EPS = 1.0
# Answers minus threshold, in units of the sensitivity, and all moves of neighbours.
GRID = (-1.0, 0.0, 1.0, 2.0)
MOVES = (-1.0, 0.0, 1.0)


def neighbours(length, moves=MOVES, grid=GRID):
    for values in itertools.product(grid, repeat=length):
        for shift in itertools.product(moves, repeat=length):
            if any(shift):
                yield values, tuple(v + s for v, s in zip(values, shift, strict=True))


def worst_loss(law, pairs):
    """Largest log ratio of a law (a dict or a vector) over neighbours, both ways."""
    cache, worst = {}, 0.0

    def vector(values):
        if values not in cache:
            found = law(values)
            cache[values] = np.array(list(found.values()) if isinstance(found, dict) else found)
        return cache[values]

    for values, other in pairs:
        p, q = vector(values), vector(other)
        assert p.sum() == pytest.approx(1, abs=1e-9)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.log(p / q)[(p > 1e-13) | (q > 1e-13)]
        worst = max(worst, float(np.abs(ratio).max()))
    return worst


def sparse(mechanism, **changes):
    settings = {
        "num_above": mechanism.num_above,
        "threshold_noise": laplace_noise(mechanism.sigma),
        "query_noise": laplace_noise(2 * mechanism.sigma),
    } | changes
    return lambda values: sparse_law(values, **settings)


@pytest.fixture(scope="module")
def one():
    return holdout.sparse_pure(EPS, 1, sensitivity=1.0, adjacency="replace-one")


@pytest.fixture(scope="module")
def two():
    return holdout.sparse_pure(EPS, 2, sensitivity=1.0, adjacency="replace-one")


def test_above_threshold_is_private_and_nearly_attains_it(one):
    assert worst_loss(sparse(one), neighbours(2)) <= EPS * (1 + 1e-9)
    # Many queries below, one above, far from the threshold: all of the budget is used.
    far = [((-9.0,) * 5 + (-9.0,), (-8.0,) * 5 + (-10.0,)), ((4.0,) * 6, (5.0,) * 5 + (3.0,))]
    spent = worst_loss(sparse(one), far)
    assert 0.9 * EPS < spent <= EPS * (1 + 1e-9)


@pytest.mark.parametrize(("is_redrawn", "near"), [(True, 0.9), (False, 0.65)])
def test_sparse_is_private_with_and_without_a_fresh_threshold(two, is_redrawn, near):
    law = sparse(two, is_redrawn=is_redrawn)
    # Rare answers: far above the threshold, all but the last of each round found below.
    pairs = [*neighbours(2), ((8.0,) * 12, ((9.0,) * 5 + (7.0,)) * 2)]
    assert near * EPS < worst_loss(law, pairs) <= EPS * (1 + 1e-9)


def test_sparse_rounds_compose_to_their_guarantee():
    mechanism = holdout.sparse_approximate(2.0, 1e-3, 3, sensitivity=1.0, adjacency="replace-one")
    law = sparse(mechanism)
    pairs = [((0.0,) * 4, (1.0,) * 4), ((2.0, -1.0, 2.0, -1.0), (1.0, 0.0, 1.0, 0.0))]
    for values, other in pairs:
        p, q = (np.array(list(law(v).values())) for v in (values, other))
        for a, b in ((p, q), (q, p)):
            assert np.maximum(a - math.exp(2.0) * b, 0).sum() <= 1e-3
    assert worst_loss(law, pairs) <= 3 * mechanism.round_epsilon


def test_wrong_sparse_vectors_are_caught(one, two):
    m = holdout.sparse_pure(EPS, 3, sensitivity=1.0, adjacency="replace-one")
    above = [((0.0,) * 6, (1.0, -1.0) * 3), ((4.0,) * 6, (5.0, 3.0) * 3)]
    assert worst_loss(sparse(one, query_noise=no_noise()), neighbours(2)) == math.inf
    not_scaled = sparse(m, query_noise=laplace_noise(4 / EPS), is_redrawn=False)
    assert worst_loss(not_scaled, [((-9.0,) * 3, (-8.0,) * 3), *above]) > 1.2 * EPS
    assert worst_loss(sparse(one, num_above=None), above) > 1.2 * EPS
    bounded = {"threshold_noise": uniform_noise(2.0), "query_noise": uniform_noise(4.0)}
    assert worst_loss(sparse(one, **bounded), [((5.0,), (6.0,))]) == math.inf


def test_releasing_the_compared_value_is_caught(one):
    noises = {
        "threshold_noise": laplace_noise(one.sigma),
        "query_noise": laplace_noise(2 * one.sigma),
    }
    # Below, below, ..., then a value that is itself small: the threshold must lie lower still.
    values, other = (0.0,) * 8, (1.0,) * 7 + (-1.0,)
    densities = [exact_laws.released_value_density(v, -4.0, **noises) for v in (values, other)]
    assert abs(math.log(densities[0] / densities[1])) > 1.2 * EPS


def test_noisy_max_needs_twice_the_noise_under_replace_one():
    replaced = ReportNoisyMax(1.0, EPS, adjacency="replace-one")
    added = ReportNoisyMax(1.0, EPS, adjacency="add-remove", is_monotone=True)
    grid = (0.0, 4.0)
    more = [((0.0, 1.0, 4.0), (1.0, 2.0, 3.0)), ((0.0, 0.0, 0.0), (1.0, 1.0, -1.0))]
    both_ways = [*neighbours(2, grid=grid), *more, ((0.0, 30.0), (1.0, 29.0))]
    one_way = [*neighbours(2, moves=(0.0, 1.0), grid=grid), ((0.0, 30.0), (0.0, 31.0))]

    def law(mechanism):
        return lambda values: noisy_max_law(values, laplace_noise(mechanism.scale))

    assert 0.9 * EPS < worst_loss(law(replaced), both_ways) <= EPS * (1 + 1e-9)
    assert 0.9 * EPS < worst_loss(law(added), one_way) <= EPS * (1 + 1e-9)
    assert worst_loss(law(added), both_ways) > 1.8 * EPS  # the add/remove scale, caught
    assert worst_loss(lambda v: noisy_max_law(v, uniform_noise(2.0)), both_ways) == math.inf


def test_noisy_max_has_its_exact_law():
    runs, values = 2000, np.array([0.5, -0.5, 2.0])
    top = ReportNoisyMax(1.0, EPS, adjacency="replace-one")
    share = np.mean([top.release(values) == 2 for _ in range(runs)])
    p = noisy_max_law(values.tolist(), laplace_noise(top.scale))[2]
    # 4.5 standard errors: false alarm 7e-6.
    assert abs(share - p) < 4.5 * math.sqrt(p * (1 - p) / runs)


def test_releases_have_the_exact_laws(one):
    runs, values = 1000, (-1.0, 1.0)
    counts = {(0, 0): 0, (0, 1): 0, (1,): 0}
    for _ in range(runs):
        run = one.start(0.0)
        said = []
        for value in values:
            said.append(int(run.is_above(value)))
            if run.num_left == 0:
                break
        counts[tuple(said)] += 1
    for answers, p in sparse(one)(values).items():
        # 4.5 standard errors: false alarm 2e-5 in all.
        assert abs(counts[answers] / runs - p) < 4.5 * math.sqrt(p * (1 - p) / runs)
    while run.num_left:
        run.is_above(50.0)
    with pytest.raises(holdout.SparseHaltedError, match="start another run"):
        run.is_above(50.0)
