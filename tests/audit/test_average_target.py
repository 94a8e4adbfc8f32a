"""Gamma for a target on-average KL, against the closed form of the Gaussian mean."""

import math

import numpy as np
import pytest
from problems import gaussian_examples, gaussian_mean

import gibbs_dp as gdp
from gibbs_dp.auditing.calibrate_by_audits import calibrate_on_average_kl
from gibbs_dp.auditing.report import Report


def exact_gamma(target, n):
    """Flat prior, variance 1, d = 1: eps_KL = gamma / n."""
    return target * n


@pytest.mark.trust
def test_the_gaussian_mean_within_its_error_bar():
    """Exact posteriors of 256 datasets: within 4 standard errors (false alarm 6e-5)."""
    m = 4
    found = gdp.calibrate(
        gaussian_mean(1),
        n=20,
        num_draws=m,
        on_average_kl=0.05,
        population=gaussian_examples(1),
        num_datasets=256,
        sampler=gdp.Grid(low=-3.0, high=3.0, num_points=301),
        progress=False,
        key=5,
    )
    truth = exact_gamma(0.05 / m, 20)
    assert abs(found.gamma - truth) < 4 * found.gamma_se
    assert 0.005 < found.gamma_se / found.gamma < 0.2
    assert found.on_average_kl == pytest.approx(0.05, rel=0.02)


def curve(power, noise=0.0):
    """A sweep whose estimates are c gamma^power, with declared errors of 3%."""
    rng = np.random.default_rng(0)

    def sweep(gammas):
        rows = []
        for g in gammas:
            value = 0.2 * g**power * math.exp(noise * rng.normal())
            rows.append(
                {"gamma": float(g), "on_average_kl": value, "on_average_kl_se": 0.03 * value}
            )
        return Report(tuple(rows), {})

    return sweep


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("goal", [1e-4, 0.03, 500.0])
def test_roots_and_error_bars_of_power_laws(power, goal):
    found = calibrate_on_average_kl(curve(power), goal)
    # Within a tenth of its own error, which is 3% of the KL.
    assert found.gamma == pytest.approx((goal / 0.2) ** (1 / power), rel=0.0031 / power)
    assert found.gamma_se / found.gamma == pytest.approx(0.03 / power, rel=1e-3)


def test_a_curve_that_never_gets_there_is_refused():
    def flat(gammas):
        rows = [
            {"gamma": float(g), "on_average_kl": 0.1 * g / (1 + g), "on_average_kl_se": 0.001}
            for g in gammas
        ]
        return Report(tuple(rows), {})

    with pytest.raises(ValueError, match="is not reached"):
        calibrate_on_average_kl(flat, 0.5)
    with pytest.raises(ValueError, match="target must be positive"):
        calibrate_on_average_kl(flat, -1.0)
    with pytest.raises(ValueError, match="do not settle"):
        calibrate_on_average_kl(curve(1.0, noise=0.5), 0.03)


def test_noise_does_not_tilt_the_error_bar():
    # Each gamma's estimate has noise of its own; near the root the noise is all there is.
    def noisy(gammas):
        rows = []
        for g in gammas:
            wobble = 1 + 0.01 * np.sin(1e4 * g)
            value = 0.2 * g * wobble
            rows.append(
                {"gamma": float(g), "on_average_kl": value, "on_average_kl_se": 0.03 * value}
            )
        return Report(tuple(rows), {})

    found = calibrate_on_average_kl(noisy, 0.03)
    assert found.gamma_se / found.gamma == pytest.approx(0.03, rel=0.2)
