"""The ratio of normalizers from draws of two posteriors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, special

from gibbs_dp.estimators import log_normalizer_ratio


def gaussian_pair(rng, mu, count):
    """``delta``, shifted, at draws of N(0, 1) and of N(mu, 1): C'/C = e^(mu^2/2+3)."""
    constant = 3.0

    def delta(x):
        return -mu * x - constant

    draws = rng.normal(size=count), mu + rng.normal(size=count)
    return [jnp.asarray(delta(x)) for x in draws], mu**2 / 2 + constant


@pytest.mark.parametrize("mu", [0.01, 1.0, 5.0])
def test_it_is_the_ratio_of_a_gaussian_pair(mu, float64):
    # Of 200 pairs of 64 draws the mean is within 4 standard errors (6 false alarms in 100,000).
    rng = np.random.default_rng(3)
    pairs, truth = zip(*(gaussian_pair(rng, mu, 64) for _ in range(200)), strict=True)
    found = jax.jit(jax.vmap(log_normalizer_ratio))(*map(jnp.stack, zip(*pairs, strict=True)))
    errors = np.asarray(found) - np.array(truth)
    assert abs(np.mean(errors)) < 4 * np.std(errors) / len(errors) ** 0.5
    assert np.std(errors) < 0.6 * mu


@pytest.mark.parametrize("mu", [0.01, 5.0, 60.0])
def test_it_solves_bennetts_equation_however_far_apart_the_laws(mu, float64):
    (delta, other), _ = gaussian_pair(np.random.default_rng(0), mu, 40)

    def excess(ratio):
        forward = special.expit(-(np.asarray(delta) + ratio))
        return forward.mean() - special.expit(np.asarray(other) + ratio).mean()

    found = float(log_normalizer_ratio(delta, other))
    truth = optimize.brentq(excess, -1e5, 1e5, xtol=1e-12)
    # Where the laws do not meet, the equation is flat between them.
    assert found == pytest.approx(truth, abs=1e-6) or abs(excess(found)) < 1e-12
