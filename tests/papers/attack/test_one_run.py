"""One run of a posterior whose law of every coin is known."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import gibbs_dp as gdp
from gibbs_dp.papers.attack import attack
from gibbs_dp.papers.attack.attack import attack_in_one_run
from gibbs_dp.privacy.attacks import epsilon_of_one_run
from gibbs_dp.privacy.routes import GaussianDP, epsilon_at

COUNT, GAMMA, SIZE, DELTA = 200, 8.0, 5.0, 1e-5


@pytest.fixture(scope="module")
def gaussian():
    """The mean of canaries each in a direction of its own."""
    posterior = gdp.GibbsPosterior(
        gdp.losses.half_squared_distance, gdp.Flat(gdp.supports.real(COUNT))
    )
    far = SIZE * jnp.eye(COUNT)
    return posterior, (far, -far)


@pytest.mark.trust
@pytest.mark.parametrize("num_draws", [1, 4])
def test_as_many_coins_are_guessed_as_can_be(gaussian, num_draws):
    """Draws are ``N(mean, I / (gamma n))``, so that each coin is told by Gaussians mu apart."""
    mu = 2 * SIZE * (num_draws * GAMMA / COUNT) ** 0.5
    settings = {"delta": DELTA, "num_draws": num_draws, "key": 3}
    found = attack_in_one_run(*gaussian, GAMMA, num_guesses=COUNT, **settings)
    right = stats.norm.cdf(mu / 2)
    # The numbers of 1 and 0 are not 100 each, which costs guesses: 2% and 4 standard errors.
    error = (right * (1 - right) / COUNT) ** 0.5
    assert -4 * error - 0.02 - 4 * 0.5 / COUNT**0.5 < found.num_right / COUNT - right < 4 * error
    assert 0 < found.epsilon < epsilon_at(GaussianDP(mu), DELTA, 1)
    chosen = attack_in_one_run(*gaussian, GAMMA, **settings)
    assert 0.1 < chosen.epsilon < epsilon_at(GaussianDP(mu), DELTA, 1)


def test_scores_are_centred_and_have_their_law(monkeypatch):
    """More is lost by ``2 SIZE theta_i``, whose mean without knowledge of the coins is 0."""
    count, gamma = 64, 32.0
    seen = []

    def spy(scores, coins, *rest, **named):
        seen.append((scores, coins))
        return epsilon_of_one_run(scores, coins, *rest, **named)

    monkeypatch.setattr(attack, "epsilon_of_one_run", spy)
    posterior = gdp.GibbsPosterior(
        gdp.losses.half_squared_distance, gdp.Flat(gdp.supports.real(count))
    )
    far = SIZE * jnp.eye(count)
    attack_in_one_run(posterior, (far, -far), gamma, key=4)
    ((scores, coins),) = seen
    # theta_i is normal with mean +-SIZE / n and variance 1 / (gamma n), independent of the others.
    mean = 2 * SIZE**2 / count * np.where(coins, 1.0, -1.0)
    z = (scores - mean) * (gamma * count) ** 0.5 / (2 * SIZE)
    # The shadows' 2,000 draws add 5e-4 to a variance of 1. False alarms: 1e-4 and 6e-5.
    low, high = stats.chi2.ppf([5e-5, 1 - 5e-5], count)
    assert low < z @ z < high
    assert abs(z.mean()) < 4 / count**0.5


def test_what_is_refused(gaussian):
    posterior, (first, second) = gaussian
    with pytest.raises(ValueError, match="canaries: give two sets"):
        attack_in_one_run(posterior, first, 1.0)
    with pytest.raises(ValueError, match="canaries: both sets must have the same shapes"):
        attack_in_one_run(posterior, (first, second[1:]), 1.0)
    structured = gdp.GibbsPosterior(
        total_loss=lambda theta, data: jnp.sum(data) * theta[0],
        prior=gdp.Flat(gdp.supports.real(1)),
    )
    with pytest.raises(ValueError, match="posterior: a structured loss"):
        attack_in_one_run(structured, (np.zeros(3), np.ones(3)), 1.0)
