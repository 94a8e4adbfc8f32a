"""Intervals of means: against Student's, against Hall's transformation, and their coverage."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gibbs_dp.estimators import average, control_share, mean_interval, students
from gibbs_dp.estimators.average import _untransformed, average_of_products


def test_error_is_over_datasets_and_in_float64():
    values = (1e6 + np.arange(1000)).astype(np.float32)
    found = average(values)
    assert found.value == values.astype(np.float64).mean()
    assert np.isclose(found.se, np.arange(1000).std(ddof=1) / np.sqrt(1000), rtol=1e-6)


def test_dropped_datasets_do_not_count():
    found = average(np.array([1.0, np.nan, 3.0]), np.array([True, False, True]))
    assert (found.value, found.num_datasets) == (2.0, 2)


def test_too_few_datasets_have_no_error():
    assert np.isnan(average(np.array([1.0])).se)
    assert np.isnan(average(np.array([])).value)


def test_without_skewness_it_is_students():
    values = np.array([-3.0, -1.0, 0.0, 1.0, 3.0]) + 7.0
    low, high = stats.t.interval(0.9, 4, loc=7.0, scale=stats.sem(values))
    assert mean_interval(values, 0.9)[:2] == pytest.approx((low, high))


@given(st.floats(-8.0, 8.0), st.floats(-4.0, 4.0), st.integers(2, 5000))
def test_the_inverse_of_halls_transformation(skewness, t, count):
    a = skewness / (3 * math.sqrt(count))
    b = skewness / (6 * math.sqrt(count))
    transformed = t + a * t**2 + a**2 * t**3 / 3 + b
    assert _untransformed(transformed, skewness, count) == pytest.approx(t, abs=1e-4)


@given(st.integers(0, 2**32 - 1))
def test_mirrored_values_have_the_mirrored_interval_and_no_end_is_nearer_than_students(seed):
    values = np.random.default_rng(seed).lognormal(size=30)
    low, high, skewness = mean_interval(values)
    assert mean_interval(-values) == pytest.approx((-high, -low, -skewness))
    half = stats.t.ppf(0.975, 29) * stats.sem(values)
    assert low <= values.mean() - half * (1 - 1e-9)
    assert high >= values.mean() + half * (1 - 1e-9)


# The coverage of 4,000 intervals lies within 0.0125 of its own with a false-alarm rate of 3e-3 at
# most; the limits are wider by that. 1.96 standard errors cover 0.87 and 0.88 of the last two.
@pytest.mark.parametrize(
    ("draw", "mean"),
    [
        (lambda rng, size: rng.normal(size=size), 0.0),
        (lambda rng, size: rng.exponential(size=size), 1.0),
        (lambda rng, size: rng.poisson(0.2, size=size), 0.2),
        (lambda rng, size: rng.normal(size=size) ** 4, 3.0),
        (lambda rng, size: rng.lognormal(sigma=1.5, size=size), math.exp(1.125)),
    ],
    ids=["normal", "exponential", "poisson", "fourth-power", "lognormal"],
)
def test_coverage_at_128(draw, mean):
    samples = np.asarray(draw(np.random.default_rng(0), (4000, 128)), float)
    covered = [low <= mean <= high for low, high, _ in map(mean_interval, samples)]
    assert 0.93 - 0.0125 <= np.mean(covered) <= 0.97 + 0.0125


def test_an_error_is_students_without_skewness_and_longer_with_heavy_tails():
    values = np.array([-1.0, 1.0] * 20) + 7.0  # as light as tails can be
    found = average_of_products(values)
    assert found.se == pytest.approx(stats.t.ppf(0.975, 39) * stats.sem(values) / 1.96)
    heavy = np.concatenate([values, [-20.0, 34.0]])
    kurtosis = stats.kurtosis(heavy, fisher=False)
    longer = stats.t.ppf(0.975, 2 * 42 / (kurtosis - 1)) / 1.96
    assert average_of_products(heavy).se == pytest.approx(longer * stats.sem(heavy))
    _, high, _ = mean_interval(skewed := np.random.default_rng(0).lognormal(size=40))
    assert average_of_products(skewed).se >= (high - skewed.mean()) / 1.96 > average(skewed).se
    assert average_of_products(np.ones(5)) == (1.0, 0.0, 5)
    assert np.isnan(average_of_products(np.ones(1)).se)


def test_constant_and_bad_values():
    assert mean_interval(np.ones(5)) == (1.0, 1.0, 0.0)
    with pytest.raises(ValueError, match="values: an interval needs at least two"):
        mean_interval(np.ones(1))
    with pytest.raises(ValueError, match="level: must be between 0 and 1"):
        mean_interval(np.arange(3.0), 1.0)


def test_a_control_whose_mean_is_not_zero_is_not_used():
    """It would move what it corrects: off by 16 standard errors here."""
    noise = np.random.default_rng(11).normal(size=1000)
    tame = np.zeros(5)
    assert control_share(-noise, noise, tame) > 0.99
    assert control_share(-noise, noise + 0.5, tame) == 0.0


def test_errors_of_few_datasets_are_no_alarm():
    """Normal numbers: a mean lies beyond the limit as often as four known errors, 6 in 100,000.

    Of 300,000 for each size, 19 are expected, and 45 or more by chance in 1 of 10 million. Errors
    taken for known ones would have been 1.6% of them with 8 datasets, 4,700.
    """
    rng = np.random.default_rng(20)
    for num_datasets in (2, 3, 8, 30):
        values = rng.standard_normal((300_000, num_datasets))
        z = values.mean(axis=1) * math.sqrt(num_datasets) / values.std(axis=1, ddof=1)
        assert 1 <= np.sum(np.abs(z) > students(4.0, num_datasets)) < 45
    assert students(4.0, 1) == students(4.0, 0) == math.inf
    assert students(4.0, 100_000) == pytest.approx(4.0, abs=1e-3)
