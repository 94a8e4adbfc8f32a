"""Elementary functions to rounding, in both precisions."""

import jax.numpy as jnp
import numpy as np
import pytest

from gibbs_dp._jaxlib.precision import expm1_and_exp, horner, log1p_of_share, logaddexp


def test_exponential_minus_one_to_rounding(dtype):
    x = jnp.asarray(np.concatenate([np.linspace(-3, 3, 4001), np.linspace(-80, 80, 999)]), dtype)
    found, exponential = (np.asarray(a, np.float64) for a in expm1_and_exp(x))
    at = np.asarray(x, np.float64)
    eps = float(jnp.finfo(dtype).eps)
    np.testing.assert_allclose(found, np.expm1(at), rtol=5 * eps, atol=1e-300)
    np.testing.assert_allclose(exponential, np.exp(at), rtol=5 * eps)


def test_logarithm_of_one_plus_a_share_to_rounding(dtype):
    t = jnp.asarray(np.concatenate([np.linspace(0, 1, 4001), np.logspace(-30, 0, 400)]), dtype)
    found, eps = np.asarray(log1p_of_share(t), np.float64), float(jnp.finfo(dtype).eps)
    np.testing.assert_allclose(found, np.log1p(np.asarray(t, np.float64)), rtol=4 * eps)


def test_a_polynomial_is_that_of_numpy():
    coefficients, x = (0.3, -2.0, 0.0, 1.5), np.linspace(-2, 2, 9)
    found = horner(coefficients, jnp.asarray(x))
    assert np.asarray(found) == pytest.approx(np.polyval(coefficients, x), rel=1e-5, abs=1e-6)


def test_sums_of_exponentials_are_those_of_numpy_at_infinity_too(dtype):
    """Of two impossible terms the sum is impossible, and what is not a number stays so."""
    ends = np.array([-np.inf, -1e4, -80.0, -1.0, 0.0, 0.5, 80.0, 1e4, np.inf])
    a, b = (part.ravel() for part in np.meshgrid(ends, ends))
    found = np.asarray(logaddexp(jnp.asarray(a, dtype), jnp.asarray(b, dtype)), np.float64)
    eps = float(jnp.finfo(dtype).eps)
    np.testing.assert_allclose(found, np.logaddexp(a, b), rtol=4 * eps, atol=4 * eps)
    assert np.isnan(logaddexp(jnp.asarray(jnp.nan, dtype), jnp.asarray(1.0, dtype)))
