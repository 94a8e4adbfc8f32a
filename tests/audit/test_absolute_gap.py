"""Both sides of the mean absolute gap between a draw's training loss and its risk."""

import jax
import numpy as np
import pytest

import gibbs_dp as gdp

N, GAMMA = 20, 0.1
MEAN = gdp.GibbsPosterior(gdp.losses.half_squared_distance, gdp.Flat(gdp.supports.real(1)))


def standard(key, n):
    return jax.random.normal(key, (n, 1))


def truth():
    """By draws of the closed form: ``R - R_hat = (1 - mean z^2) / 2 + theta * mean z``."""
    rng = np.random.default_rng(11)
    mean = rng.normal(size=4_000_000) / np.sqrt(N)
    square = mean**2 + rng.chisquare(N - 1, size=mean.size) / N
    theta = mean + rng.normal(size=mean.size) / np.sqrt(N * GAMMA)
    return np.abs(0.5 * (1.0 - square) + theta * mean).mean()


@pytest.mark.trust(but="chains")
@pytest.mark.parametrize(
    ("sampler", "num_ghosts", "apart"),
    [(gdp.HMC(), 2 * N, 2.0), (None, 16 * N, 1.12)],
    ids=["chains", "as chosen"],
)
def test_the_truth_is_between_and_many_fresh_examples_tell_it(sampler, num_ghosts, apart):
    row = gdp.audit(
        MEAN,
        standard,
        N,
        GAMMA,
        num_datasets=4096,
        sampler=sampler,
        learn=[gdp.OnAverageKL(num_ghosts=num_ghosts), gdp.Risks(), gdp.AbsoluteGap()],
        key=5,
        progress=False,
    ).rows[0]
    exact = truth()
    lower, upper = row["absolute_gap_lower"], row["absolute_gap_upper"]
    # Four standard errors: a false alarm in 16,000 on either side.
    assert lower - 4.0 * row["absolute_gap_lower_se"] < exact
    assert exact < upper + 4.0 * row["absolute_gap_upper_se"]
    assert 1.0 < upper / lower < apart
    assert row["generalization_error"] < 0.7 * lower  # whose signs cancel


def test_where_halves_tell_of_each_other_it_is_refused():
    whole = gdp.GibbsPosterior(
        total_loss=lambda theta, z: (theta - z.mean()) ** 2, prior=gdp.Flat(gdp.supports.real(1))
    )
    settings = {"num_datasets": 64, "learn": [gdp.AbsoluteGap()], "progress": False}
    with pytest.raises(ValueError, match="total_loss: AbsoluteGap needs losses of single"):
        gdp.audit(whole, standard, N, GAMMA, **settings)
    chain = gdp.populations.Dependent(standard)
    whole = [gdp.OnAverageKL(group_size=N), *settings.pop("learn")]
    with pytest.raises(ValueError, match="population: AbsoluteGap needs fresh examples"):
        gdp.audit(MEAN, chain, N, GAMMA, learn=whole, **settings)
