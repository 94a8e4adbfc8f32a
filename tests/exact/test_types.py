"""Types: counts, order, neighbours, probabilities, and the laws' helpers."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from gibbs_dp.exact.types import (
    enumerate_types,
    log_type_probabilities,
    num_types,
    ordered_datasets,
    type_index,
    with_one_more,
)


@pytest.mark.parametrize(("n", "m"), [(0, 3), (1, 1), (5, 2), (4, 3), (6, 4), (3, 6)])
def test_types_are_the_multisets(n, m):
    counts = enumerate_types(n, m)
    assert counts.shape == (num_types(n, m), m)
    assert np.all(counts.sum(axis=1) == n)
    assert len({tuple(row) for row in counts.tolist()}) == len(counts)
    assert type_index(counts).tolist() == list(range(len(counts)))


@pytest.mark.parametrize(("n", "m"), [(1, 2), (4, 3), (3, 4)])
def test_with_one_more_adds_one(n, m):
    index, bases, counts = with_one_more(n, m), enumerate_types(n - 1, m), enumerate_types(n, m)
    for base, a in itertools.product(range(len(bases)), range(m)):
        expected = bases[base].copy()
        expected[a] += 1
        assert counts[index[base, a]].tolist() == expected.tolist()


def test_probabilities_count_ordered_datasets():
    probs = np.array([0.2, 0.5, 0.3])
    mass = Counter()
    for s in ordered_datasets(4, 3):
        mass[tuple(np.bincount(s, minlength=3).tolist())] += math.prod(probs[s])
    counts = enumerate_types(4, 3)
    found = np.exp(log_type_probabilities(counts, probs))
    assert found == pytest.approx([mass[tuple(row)] for row in counts.tolist()], abs=1e-15)


def test_ordered_datasets_are_in_product_order():
    expected = [list(s) for s in itertools.product(range(3), repeat=3)]
    assert ordered_datasets(3, 3).tolist() == expected


def test_too_many_types_says_how_many():
    with pytest.raises(ValueError, match="too large to enumerate"):
        enumerate_types(300, 6)
