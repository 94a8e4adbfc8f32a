"""Thermodynamic integration against closed forms."""

import numpy as np
import pytest

from gibbs_dp.estimators import integrate_mean_loss

GAMMAS = np.array([0.1, 0.5, 2.0, 10.0])


def test_exact_for_gaussian_posteriors_under_a_flat_prior():
    # C(gamma) = exp(-a gamma) (2 pi / (c gamma))^(d / 2), one row a dataset.
    a, d = np.array([[3.0], [0.0], [-1.0]]), np.array([[1], [5], [20]])
    found = integrate_mean_loss(GAMMAS, a + d / (2 * GAMMAS), d / (2 * GAMMAS**2))
    truth = -a * np.diff(GAMMAS) - d / 2 * np.diff(np.log(GAMMAS))
    np.testing.assert_allclose(found.value, truth, rtol=1e-10, atol=1e-10)
    assert found.quadrature_error.max() < 1e-9


def conjugate(gammas, n=20.0, t=1.0):
    """Loss n theta^2 / 2 under a N(0, t^2) prior: mean and variance of the loss, log C."""
    precision = n * gammas + 1 / t**2
    return n / (2 * precision), n**2 / (2 * precision**2), -0.5 * np.log(precision * t**2)


@pytest.mark.parametrize("spacing", [1.3, 2.0, 5.0])
def test_the_quadrature_error_covers_what_a_proper_prior_costs(spacing):
    gammas = 0.01 * spacing ** np.arange(6)
    mean, variance, log_normalizer = conjugate(gammas)
    found = integrate_mean_loss(gammas, mean[None], variance[None])
    error = np.abs(found.value[0] - np.diff(log_normalizer))
    assert (error <= found.quadrature_error[0]).all()
    if spacing < 2:
        assert error.max() < 1e-4


def test_an_interval_from_zero_uses_powers_of_gamma():
    gammas = np.array([0.0, 0.005, 0.01])
    mean, variance, log_normalizer = conjugate(gammas)
    found = integrate_mean_loss(gammas, mean[None], variance[None])
    np.testing.assert_allclose(found.value[0], np.diff(log_normalizer), atol=1e-5)
