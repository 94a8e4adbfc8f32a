"""Pareto smoothing: the numbers of ArviZ, shapes of known tails."""

import numpy as np
import pytest

from gibbs_dp.estimators.pareto import k_hat_limit, pareto_smooth


@pytest.mark.parametrize(("draws", "efficiency"), [(4000, 1.0), (1000, 0.4), (100, 1.0), (30, 1.0)])
def test_weights_and_shapes_are_those_of_arviz(draws, efficiency):
    arviz = pytest.importorskip("arviz", exc_type=ImportError)
    if not hasattr(arviz, "psislw"):
        pytest.skip("ArviZ 1.x has no public function for it")
    rng = np.random.default_rng(1)
    x = rng.standard_t(4, size=(60, draws)) * np.linspace(0.01, 3, 60)[:, None]
    x[3] = np.round(50 * x[3]) / 50  # ties in the tail
    x[5, : draws // 2] = x[5].max()  # all of the tail is tied
    x[7] *= 300
    weights, k_hat = arviz.psislw(x.copy(), efficiency)
    found = pareto_smooth(x, efficiency)
    assert np.array_equal(np.isinf(found.k_hat), np.isinf(k_hat))
    finite = np.isfinite(k_hat)
    assert finite.sum() > 50
    assert np.abs(found.k_hat[finite] - k_hat[finite]).max() < 1e-6
    normalized = np.exp(found.log_weights)
    normalized /= normalized.sum(axis=1, keepdims=True)
    # Among ties, one draw gets the larger weight or another.
    assert np.allclose(np.sort(normalized), np.sort(np.exp(weights)), rtol=1e-6, atol=1e-12)
    plain = np.delete(np.arange(60), [3, 5])
    assert np.allclose(normalized[plain], np.exp(weights[plain]), rtol=1e-6, atol=1e-12)


def test_shapes_of_known_tails():
    """``E^k`` of exponential logarithms is Pareto with shape ``k``, known to 0.1 by 190 draws."""
    rng = np.random.default_rng(2)
    for shape in (0.3, 0.7, 1.0):
        found = pareto_smooth(shape * rng.exponential(size=(200, 4000))).k_hat
        assert abs(found.mean() - shape) < 0.05
    assert pareto_smooth(rng.random((200, 4000))).k_hat.max() < 0.3


def test_equal_ratios_need_no_weights():
    found = pareto_smooth(np.full((2, 50), 3.0))
    assert (found.log_weights == 0).all()
    assert (found.k_hat == 0).all()
    assert k_hat_limit(100) == 0.5
