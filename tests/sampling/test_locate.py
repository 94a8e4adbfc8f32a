"""Where chains start when some mode searches end where the density is no finite number."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import gibbs_dp as gdp
from gibbs_dp.sampling.laplace import locate
from gibbs_dp.sampling.target import Target

DATA = jnp.linspace(-0.5, 1.1, 40)


def overflowing(theta, z):
    """Half a squared distance, and more than float32 holds where any theta < -2.5."""
    return jnp.sum(0.5 * (z - theta) ** 2 + (jnp.minimum(theta, 0.0) / 2.0) ** 400)


@pytest.mark.parametrize("dim", [1, 520])  # Newton's method; Adam
def test_starts_that_overflow_take_the_best_mode(dim):
    posterior = gdp.GibbsPosterior(overflowing, dist.Normal(jnp.zeros(dim), 1.0).to_event(1))
    target = Target(posterior, DATA, jnp.asarray(1.0))
    inside, outside = jnp.full(dim, 0.5), jnp.full(dim, -3.0)
    found = jax.jit(lambda s: locate(target, s))(jnp.stack([outside, inside, 2 * outside]))
    mode = 40 * 0.3 / 41
    assert found.centers == pytest.approx(np.full((3, dim), mode), abs=0.03)
    assert found.gaps[1] == 0
    assert not np.isfinite(found.gaps[::2]).any()


@pytest.mark.trust
def test_draws_are_right_although_starts_overflow():
    # 4 of 20 starts overflow with these keys. Each mean by 4.5 errors: once in 30,000 runs.
    posterior = gdp.GibbsPosterior(overflowing, dist.Normal(jnp.zeros(1), 3.0).to_event(1))
    precision = 40 + 1 / 9
    for key in range(5):
        draws = gdp.sample(posterior, DATA, key=key)
        error = 4.5 / np.sqrt(precision * draws.to_dataframe()["ess"].iloc[0])
        assert abs(draws.theta.mean() - 40 * 0.3 / precision) < error
        assert not draws.warnings
