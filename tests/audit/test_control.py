"""The control variate's coefficient: best on average, never worse, and free of visible bias."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gibbs_dp.quantities.kl_estimators import (
    LEAST_DATASETS,
    TwoSided,
    TwoSidedValues,
    control_coefficient,
    fitted_gap,
    shares_of_others,
)
from gibbs_dp.quantities.on_average_kl import pairs_worth


def fitted(gap, control, kept=None):
    """Fit where blocks have subtracted the control variate whole."""
    kept = np.ones(gap.size, bool) if kept is None else kept
    return fitted_gap(gap - control, control, kept)


def variance(coefficient, gap, control):
    return np.var(gap - coefficient * control)


@given(st.integers(0, 2**32 - 1), st.floats(-1.0, 2.0))
def test_no_other_coefficient_leaves_less_variance(seed, slope):
    rng = np.random.default_rng(seed)
    control = rng.normal(size=50)
    gap = 0.3 + slope * control + rng.normal(size=50)
    found = control_coefficient(gap, control)
    least = min(variance(c, gap, control) for c in np.linspace(0.0, 1.0, 201))
    assert variance(found, gap, control) <= least * (1 + 1e-9)


def test_what_is_given_back_is_what_does_not_help():
    rng = np.random.default_rng(0)
    control = rng.normal(size=4000)
    gap = 0.3 + 0.25 * control + 0.1 * rng.normal(size=4000)
    found = fitted(gap, control)
    assert found.std() == pytest.approx(0.1, rel=0.05)
    np.testing.assert_allclose(fitted(3.0 * gap, 3.0 * control), 3.0 * found, rtol=1e-12)
    # Datasets that failed have no say.
    gap[:100], kept = 1e6 * control[:100], np.arange(4000) >= 100
    assert fitted(gap, control, kept)[kept].std() < 0.11
    assert fitted(gap, control)[kept].std() > 0.5


def test_means_are_unbiased_and_errors_cover():
    # 2,000 repetitions of 64 datasets: the mean of their means is within 4 standard errors (false
    # alarm 6e-5), and 95% intervals cover at least 93% (z = 4.1 below 95%).
    rng = np.random.default_rng(1)
    control = rng.exponential(size=(2000, 64)) - 1.0  # skewed: the fit's bias is third order
    gap = 0.3 + 0.4 * control + 0.2 * (rng.exponential(size=control.shape) - 1.0)
    found = [fitted(g, c) for g, c in zip(gap, control, strict=True)]
    means = np.array([x.mean() for x in found])
    errors = np.array([x.std(ddof=1) / 8 for x in found])
    assert abs(means.mean() - 0.3) < 4 * means.std() / np.sqrt(2000)
    assert np.mean(np.abs(means - 0.3) < 1.96 * errors) > 0.93


@pytest.mark.parametrize("control", [np.zeros(100), np.arange(LEAST_DATASETS - 1.0), np.zeros(0)])
def test_without_a_fit_blocks_keep_what_they_say(control):
    gap = 0.3 + 0.5 * control
    plain = gap - control
    assert fitted_gap(plain, control, np.ones(gap.size, bool)) is plain


def fit_pairs(value, control, kept=None):
    """Two-sided estimates of datasets after the fit."""
    kept = np.ones(value.size, bool) if kept is None else kept
    spread = np.zeros((value.size, 3))
    return TwoSided().fitted(TwoSidedValues(value, control, spread), kept).mean


def test_every_dataset_has_the_coefficient_of_all_others():
    rng = np.random.default_rng(2)
    control = rng.normal(size=20)
    value = 1.0 + 0.7 * control + rng.normal(size=20)
    found = shares_of_others(value, control)
    for m in range(20):
        rest = np.arange(20) != m
        slope, _ = np.polyfit(control[rest], value[rest], 1)
        assert found[m] == pytest.approx(np.clip(slope, 0.0, 2.0), rel=1e-9)
    assert not shares_of_others(value[:7], control[:7]).any()
    assert not shares_of_others(value, np.zeros(20)).any()


def test_a_dataset_has_no_say_in_its_own_coefficient_and_means_are_unbiased():
    # The value also follows the control variate's square, of which one fit for all is biased and
    # this one is not. 10,000 repetitions of 16 datasets, within 4 standard errors: false alarm
    # 6e-5.
    rng = np.random.default_rng(3)
    control = rng.exponential(size=(10000, 16)) - 1.0
    value = 5.0 + 0.5 * control + 0.1 * control**2  # of mean 5.1
    means, plain = [], []
    for v, c in zip(value, control, strict=True):
        means.append(fit_pairs(v, c).mean())
        plain.append(v.mean() - np.polyfit(c, v, 1)[0] * c.mean())
    error = np.std(means) / np.sqrt(len(means))
    assert abs(np.mean(means) - 5.1) < 4 * error
    assert np.mean(plain) < 5.1 - 8 * error


def test_datasets_that_failed_or_are_not_finite_have_no_say():
    rng = np.random.default_rng(4)
    control = rng.normal(size=400)
    value = 3.0 + control + 0.1 * rng.normal(size=400)
    value[0], control[1], value[2] = np.nan, np.inf, 1e9
    kept = np.arange(400) != 2
    found = fit_pairs(value, control, kept)
    assert found[3:].std() < 0.12
    assert np.isnan(found[0])
    assert (found[1], found[2]) == (value[1], value[2])


@pytest.mark.parametrize(
    ("within", "between", "worth"), [(3.5, 1.0, 4), (0.2, 1.0, 1), (9.0, 0.01, 8)]
)
def test_pairs_are_worth_the_variance_they_add(within, between, worth):
    # Estimates of 8 pairs each, a part of which their half variances explain; without that part
    # the pairs' own variance is ``within`` and the datasets' ``between``.
    rng = np.random.default_rng(5)
    proxy = 3.0 * rng.normal(size=(20000, 8))
    own = np.sqrt(within) * rng.normal(size=proxy.shape)
    value = 7.0 + np.sqrt(between) * rng.normal(size=(proxy.shape[0], 1)) + own + 0.8 * proxy
    a, b = (x - x.mean(axis=1, keepdims=True) for x in (value, proxy))
    spread = np.stack([(x * y).sum(axis=1) / 7 for x, y in ((a, a), (a, b), (b, b))], axis=1)
    found = TwoSidedValues(value.mean(axis=1), proxy.mean(axis=1), spread)
    assert pairs_worth(found, 8) == worth
    few = TwoSidedValues(*(part[:5] for part in found))
    assert pairs_worth(few, 8) == 8
