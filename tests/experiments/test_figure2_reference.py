import numpy as np
import pytest
from scipy import stats

from gibbs_dp.experiments.figure2_reference import linear_regression_kl, private_mean_kl

# theory.md, Figure 2a.
PRIVATE_MEAN = {0.1: 7.7325e-07, 1: 7.68858e-05, 10: 0.00727199, 100: 0.461411, 1000: 9.12594}
# Figure 2b with theta in [-2, 2], from gamma = 1 on as with theta on the line.
REGRESSION = {0.001: 1.1115e-6, 0.01: 5.3636e-5, 0.1: 6.7228e-4, 1: 6.716e-3, 10: 0.06679}


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


@pytest.mark.parametrize("gamma", REGRESSION)
def test_linear_regression(gamma):
    found = linear_regression_kl(float(gamma), 100, 2.0, num_datasets=8_000)
    # The table's own error is 0.45%.
    assert abs(found.value - REGRESSION[gamma]) < 4 * np.hypot(found.se, 0.0045 * REGRESSION[gamma])


def test_linear_regression_far_from_the_walls_is_a_kl_of_gaussians():
    rng = np.random.default_rng(0)
    x, noise = rng.uniform(-1, 1, (2, 500, 101))
    y = x + noise
    a, b = (x[:, :-1] ** 2).sum(1), (x * y)[:, :-1].sum(1)
    c, d = (x[:, 1:] ** 2).sum(1), (x * y)[:, 1:].sum(1)
    gamma, ratio, shift = 10.0, c / a, d / c - b / a
    kl = 0.5 * (ratio - 1 - np.log(ratio)) + gamma * c * shift**2
    found = linear_regression_kl(gamma, 100, 1e3, num_datasets=500)
    assert found.value == pytest.approx(kl.mean(), rel=1e-9)
