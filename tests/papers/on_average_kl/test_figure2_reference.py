import numpy as np
import pytest
from scipy import stats

from gibbs_dp.papers.on_average_kl.figure2 import (
    linear_regression_figure2b_exact,
    linear_regression_reference,
    private_mean_kl,
)

# theory.md, Figure 2a.
PRIVATE_MEAN = {0.1: 7.7325e-07, 1: 7.68858e-05, 10: 0.00727199, 100: 0.461411, 1000: 9.12594}


@pytest.mark.parametrize("gamma", PRIVATE_MEAN)
def test_private_mean(gamma):
    assert private_mean_kl(float(gamma), 100).value == pytest.approx(PRIVATE_MEAN[gamma], rel=1e-5)


def test_private_mean_against_simulation():
    rng = np.random.default_rng(0)
    z = stats.truncnorm.rvs(-2, 2, size=(2, 400_000), random_state=rng)
    scaled = 3.0 * np.abs(z[0] - z[1])
    values = scaled + np.exp(-scaled) - 1
    z_score = (private_mean_kl(300.0, 100).value - values.mean()) / (values.std() / 400_000**0.5)
    assert abs(z_score) < 4


def test_linear_regression_far_from_the_walls_is_that_on_the_line():
    for gamma in (1.0, 10.0, 100.0):
        found = linear_regression_reference(gamma, 100, 6.0)
        exact = linear_regression_figure2b_exact(gamma, 100)
        assert found.value == pytest.approx(exact.on_average_kl, rel=1e-10)
        assert found.excess_risk == pytest.approx(exact.excess_risk, rel=1e-10)
        assert found.se < 1e-9 * found.value
