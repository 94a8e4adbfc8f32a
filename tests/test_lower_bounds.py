"""The attacker's arithmetic of the benchmarks, on pairs of laws whose epsilon is known."""

import importlib
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def bounds(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("lower_bounds")


def bits(rng, chance, count):
    return (rng.random((count, 1)) < chance).astype(float)


def test_the_bound_is_above_the_truth_no_more_often_than_it_says(bounds):
    """Randomized response, all of whose epsilon is one event's.

    Two bounds at 10% each: at most 20% of 200 experiments, which more than 59 exceed with a
    probability below 1e-3.
    """
    rng, epsilon = np.random.default_rng(0), 1.0
    chance = 1 / (1 + np.exp(-epsilon))
    found = np.array(
        [
            bounds.lower_bound(bits(rng, chance, 400), bits(rng, 1 - chance, 400), 0.0, 0.1)
            for _ in range(200)
        ]
    )
    assert (found > epsilon).sum() <= 59
    assert np.median(found) > 0.6 * epsilon  # it is a bound that says something


@pytest.mark.parametrize("is_swapped", [False, True])
def test_delta_is_taken_off_either_way_round(bounds, is_swapped):
    """A name that is shown with a chance of delta is no news at delta, and all the news at 0."""
    rng, delta = np.random.default_rng(1), 0.05
    pair = bits(rng, 0.9 * delta, 20_000), np.zeros((20_000, 1))
    pair = pair[::-1] if is_swapped else pair
    assert bounds.lower_bound(*pair, 0.0) > 3
    assert bounds.lower_bound(*pair, delta) == 0


def test_mu_of_two_normal_laws(bounds):
    """Below the truth at 1e-4 twice, and near it."""
    rng = np.random.default_rng(2)
    pair = rng.normal(size=(20_000, 1)), rng.normal(size=(20_000, 1)) + 1.0
    assert 0.85 < bounds.lower_bound(*pair, 0.0, 1e-4, in_mu=True) <= 1.0


def test_scores_that_flatter_what_they_were_fitted_to_are_not_chosen(bounds):
    """Outcomes that hardly ever come twice tell nothing by their counts; their sums do."""
    rng = np.random.default_rng(3)
    pair = [(rng.random((4000, 24)) < chance).astype(float) for chance in (0.4, 0.6)]
    scores = bounds.all_of(bounds.counted, bounds.straight)
    assert bounds.lower_bound(*pair, 0.0, scores=bounds.counted) < 0.1
    assert bounds.lower_bound(*pair, 0.0, scores=scores) > 2


def test_where_there_is_no_number_counts(bounds):
    """A number that is missing more often on one side, and has the same law where it is not.

    Expected: log 0.578/0.218 = 0.975, with a standard error of 0.048; 4 of them below.
    """
    rng = np.random.default_rng(4)
    runs = [rng.normal(size=(4000, 2)) for _ in range(2)]
    for found, chance in zip(runs, (0.2, 0.6), strict=True):
        found[rng.random(4000) < chance, 1] = np.nan
    assert 0.78 < bounds.lower_bound(*runs, 0.0) < np.log(3)
