"""The control variate's coefficient: best on average, never worse, and free of visible bias."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gibbs_dp.audit.control import LEAST_DATASETS, control_coefficient, fit_control
from gibbs_dp.audit.plan import Summary


def summary(gap, control, factor=3.0):
    """What blocks say: the control variate subtracted whole."""
    blank = Summary(*(None,) * len(Summary._fields))
    plain = np.asarray(gap - control)
    return blank._replace(
        generalization=plain, control=control, kl_ghost=factor * plain, kl_control=factor * control
    )


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
    found = fit_control(summary(gap, control))
    assert found.generalization.std() == pytest.approx(0.1, rel=0.05)
    np.testing.assert_allclose(found.kl_ghost, 3.0 * found.generalization, rtol=1e-12)
    # Datasets that failed have no say.
    gap[:100], kept = 1e6 * control[:100], np.arange(4000) >= 100
    assert fit_control(summary(gap, control), kept).generalization[kept].std() < 0.11
    assert fit_control(summary(gap, control)).generalization[kept].std() > 0.5


def test_means_are_unbiased_and_errors_cover():
    # 2,000 repetitions of 64 datasets: the mean of their means is within 4 standard errors (false
    # alarm 6e-5), and 95% intervals cover at least 93% (z = 4.1 below 95%).
    rng = np.random.default_rng(1)
    control = rng.exponential(size=(2000, 64)) - 1.0  # skewed: the fit's bias is third order
    gap = 0.3 + 0.4 * control + 0.2 * (rng.exponential(size=control.shape) - 1.0)
    fitted = [fit_control(summary(g, c)).generalization for g, c in zip(gap, control, strict=True)]
    means = np.array([x.mean() for x in fitted])
    errors = np.array([x.std(ddof=1) / 8 for x in fitted])
    assert abs(means.mean() - 0.3) < 4 * means.std() / np.sqrt(2000)
    assert np.mean(np.abs(means - 0.3) < 1.96 * errors) > 0.93


@pytest.mark.parametrize("control", [np.zeros(100), np.arange(LEAST_DATASETS - 1.0), np.zeros(0)])
def test_without_a_fit_blocks_keep_what_they_say(control):
    gap = 0.3 + 0.5 * control
    plain = summary(gap, control)
    assert fit_control(plain) is plain
