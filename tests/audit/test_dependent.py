"""Dependent examples: only whole datasets may be replaced (Remark 1)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import gaussian_mean

import gibbs_dp as gdp

N, RHO, GAMMA = 10, 0.8, 0.1


def autoregression(key, n):
    """A stationary Gaussian chain with unit variance and correlation RHO."""
    first, rest = jax.random.split(key)
    noise = jax.random.normal(rest, (n - 1,)) * np.sqrt(1 - RHO**2)

    def step(x, e):
        return RHO * x + e, RHO * x + e

    start = jax.random.normal(first)
    _, later = jax.lax.scan(step, start, noise)
    return jnp.append(start, later)[:, None]


def test_replacing_the_whole_dataset_matches_the_closed_form():
    # Posterior N(mean(z), 1/(n gamma)): E KL of two independent datasets is n gamma Var(mean(z)).
    report = gdp.audit(
        gaussian_mean(1), gdp.populations.Dependent(autoregression), N, [GAMMA], 1024,
        group_size=N, progress=False,
    )  # fmt: skip
    lags = np.abs(np.subtract.outer(np.arange(N), np.arange(N)))
    truth = N * GAMMA * (RHO**lags).mean()
    for name in ("on_average_kl", "on_average_kl_ghost"):  # |z| <= 4: false alarms 6e-5
        assert abs(report[name][0] - truth) < 4 * report[f"{name}_se"][0]
    # Independent examples would give a quarter of it: the dependence is really there.
    assert truth > 3 * GAMMA


@pytest.mark.parametrize("group_size", [1, 3])
def test_independent_ghosts_are_refused(group_size):
    with pytest.raises(ValueError, match=r"group_size: .*dependent.*group_size=n \(10\)"):
        gdp.audit(
            gaussian_mean(1), gdp.populations.Dependent(autoregression), N, [GAMMA],
            group_size=group_size, progress=False,
        )  # fmt: skip
