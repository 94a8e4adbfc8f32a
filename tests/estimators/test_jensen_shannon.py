"""Jensen-Shannon divergence from draws of one side, against quadrature and sums."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from gibbs_dp.estimators.jensen_shannon import mean_jensen_shannon, of_pairs


def divergence(mu):
    """Of two unit normals at distance mu."""

    def integrand(x):
        return stats.norm.pdf(x) * (np.log(2.0) - np.logaddexp(0.0, mu * x - 0.5 * mu**2))

    return integrate.quad(integrand, -12.0, 12.0 + mu)[0]


@pytest.mark.parametrize(("kl", "share"), [(1e-4, 0.0), (0.05, 0.0), (0.5, 0.01)])
def test_draws_of_one_side_tell_the_divergence(kl, share):
    # Four standard errors: 6e-5 a case; what is left of the bias is of third order.
    mu, weight = (2.0 * kl) ** 0.5, jnp.full((8, 8), 1 / 8)
    draws = np.random.default_rng(0).standard_normal((20_000, 8, 8, 1)).astype(np.float32)
    found = np.asarray(jax.jit(jax.vmap(lambda d: of_pairs(-mu * d, weight)))(draws))
    error = found.std() / found.size**0.5
    assert abs(found.mean() - divergence(mu)) < 4 * error + share * divergence(mu)


def test_chains_that_share_their_noise_are_allowed_for():
    mu, weight = 0.3, jnp.full((8, 8), 1 / 8)
    rng = np.random.default_rng(1)
    steps = rng.standard_normal((20_000, 1, 8, 1))
    own = rng.standard_normal((20_000, 8, 8, 1))
    draws = (0.6**0.5 * steps + 0.4**0.5 * own).astype(np.float32)
    found = np.asarray(jax.jit(jax.vmap(lambda d: of_pairs(-mu * d, weight)))(draws))
    error = found.std() / found.size**0.5
    truth = divergence(mu)
    assert abs(found.mean() - truth) < 4 * error + 0.02 * truth  # 9% without the correction


def test_exact_sums_over_points():
    rng = np.random.default_rng(2)
    losses, gamma = rng.normal(size=(6, 5)), 1.3
    weight = np.exp(-gamma * losses[:, :3].sum(1))
    weight /= weight.sum()
    values = []
    for i in range(3):
        for j in (3, 4):
            other = weight * np.exp(gamma * (losses[:, i] - losses[:, j]))
            other /= other.sum()
            values.append(np.sum(weight * np.log(2 * weight / (weight + other))))
    found = mean_jensen_shannon(
        jnp.asarray(losses[None, :, :3]),
        jnp.asarray(losses[None, :, 3:]),
        jnp.asarray(weight[None]),
        jnp.asarray(gamma),
    )
    assert np.isclose(float(found), np.mean(values), rtol=1e-4)
