"""Logarithms of mean ratios written out draw by draw against the form with arrays."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gibbs_dp.estimators import mean_ratio
from gibbs_dp.estimators.direct import log_mean_ratio


@pytest.mark.trust(but=["shape1-3.0", "shape4-1.0"])
@pytest.mark.parametrize(
    ("shape", "spread"),
    [((8, 4), 1e-3), ((8, 4), 3.0), ((2, 2), 1.0), ((3, 1), 1.0), ((1, 6), 1.0), ((5, 3), 1.0)],
)
def test_both_forms_agree(shape, spread, monkeypatch):
    # Single precision numbers of up to ten, added in another order: 1e-5 of the spread.
    delta = spread * jax.random.normal(jax.random.key(0), (*shape, 50)) + 3.0 * spread
    monkeypatch.setattr(mean_ratio, "log_mean_ratio", None)  # not what is called
    found = mean_ratio.log_mean_ratio_of_few(delta)
    np.testing.assert_allclose(found, log_mean_ratio(delta), rtol=1e-5, atol=1e-5 * spread)


def test_many_draws_are_not_written_out():
    delta = jax.random.normal(jax.random.key(1), (10, 10, 3))
    found = mean_ratio.log_mean_ratio_of_few(delta)
    assert jnp.array_equal(found, log_mean_ratio(delta))
