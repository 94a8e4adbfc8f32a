"""Heavy tails: told from draws, and drawn right in coordinates in which they are light."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

import gibbs_dp as gdp
from gibbs_dp._cautions import names_of
from gibbs_dp.sampling.remedies import falls_as_a_power
from gibbs_dp.sampling.target import HEAVY, Stretch, fitted_stretch, reach


def of_student(freedom, dim):
    """Student's t as a loss of one row, under a flat prior."""

    def loss(theta, z):
        return 0.5 * (freedom + dim) * jnp.log1p(jnp.sum(theta**2) / freedom) + 0.0 * z

    return gdp.GibbsPosterior(loss, gdp.Flat(gdp.supports.real(dim))), jnp.zeros(1)


def assert_shares(values, law, ess):
    """Shares below true quantiles, within 4.5 errors (7e-6 each) of so many draws."""
    for p in (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99):
        error = 4.5 * np.sqrt(p * (1 - p) / ess)
        assert abs((values < law.ppf(p)).mean() - p) < error, p


@pytest.mark.trust(but="0")
@pytest.mark.parametrize("key", [0, 5, 8])
def test_cauchy_by_default(key):
    """Keys that were silently wrong: tails that no chain had been in, and R-hat below 1.01."""
    posterior, data = of_student(1.0, 1)
    draws = gdp.sample(posterior, data, key=key)
    assert not draws.warnings
    assert "AdaptiveHMC(heavy_tails=True)" in draws.notes[0]
    assert draws.to_dataframe()["ess"].min() > 1000
    assert_shares(draws.theta.ravel(), stats.t(1.0), 1000.0)


def test_students_t_in_five_coordinates():
    posterior, data = of_student(2.0, 5)
    draws = gdp.sample(posterior, data, sampler=gdp.AdaptiveHMC(heavy_tails=True), key=0)
    assert not draws.warnings
    for i in range(5):
        assert_shares(draws.theta[..., i].ravel(), stats.t(2.0), 500.0)


def test_who_asks_for_chains_alone_is_warned_and_told_what_helps():
    posterior, data = of_student(1.0, 1)
    draws = gdp.sample(posterior, data, sampler=gdp.HMC(), key=8)
    (warned,) = [str(w) for w in draws.warnings if "[heavy-tailed-draws]" in str(w)]
    assert "gdp.AdaptiveHMC(heavy_tails=True)" in warned


@pytest.mark.parametrize(
    ("law", "is_heavy"),
    [
        (stats.norm(), False),
        (stats.expon(), False),
        (stats.laplace(), False),
        (stats.t(3), False),
        (stats.t(1), True),
        (stats.lognorm(2.0), True),
    ],
)
def test_what_is_heavy(law, is_heavy):
    """Of independent draws of 20 coordinates; an exponential's 0.86 below the limit is 3 errors."""
    values = law.rvs((4, 1000, 20), random_state=np.random.default_rng(0))
    assert (reach(values) > HEAVY) == is_heavy


def test_few_effective_draws_show_no_tail():
    """Of 40 different ones the outermost hundredth may be anywhere."""
    values = stats.t(3).rvs((4, 10, 20), random_state=np.random.default_rng(0))
    assert reach(values) == 0.0
    assert reach(np.repeat(values, 100, axis=1)) <= HEAVY


@pytest.mark.parametrize("is_dense", [True, False])
def test_stretched_coordinates_are_a_bijection_of_this_volume(is_dense):
    rng = np.random.default_rng(1)
    w = np.stack([stats.t(1).rvs(2000, random_state=rng), rng.normal(size=2000)], axis=1)
    w = jnp.asarray(w @ np.array([[1.0, 0.5], [0.0, 1.0]]), jnp.float32)
    stretch = fitted_stretch(w, jnp.ones(2000), is_dense)
    assert stretch.is_heavy.tolist() == ([True, False] if is_dense else [True, True])
    y = jnp.array([[0.3, -1.2], [2.0, 1.0], [-3.0, 0.0]])
    found, log_det = jax.jit(jax.vmap(stretch.stretched))(y)
    np.testing.assert_allclose(jax.jit(jax.vmap(stretch.unstretched))(found), y, atol=2e-3)
    jacobian = jax.jit(jax.vmap(jax.jacfwd(lambda y: stretch.stretched(y)[0])))(y)
    volume = np.linalg.slogdet(np.asarray(jacobian, np.float64))[1]
    np.testing.assert_allclose(np.diff(volume), np.diff(log_det), rtol=1e-4)


def test_light_coordinates_have_finite_slopes_however_large():
    stretch = Stretch.none(2, True, jnp.zeros(()).dtype)
    slope = jax.grad(lambda y: stretch.stretched(y)[0].sum())(jnp.array([500.0, -500.0]))
    assert slope.tolist() == [1.0, 1.0]


@pytest.mark.trust
def test_a_place_that_chains_had_been_in_is_not_forgotten():
    """Half of the mass is in a peak of width 0.01: HMC's chains stay in it, others never come."""
    weights = np.log([0.5, 0.5]) - np.log([0.01, 1.0])

    def loss(theta, z):
        peak, hill = -0.5 * ((theta - 1.5) / 0.01) ** 2, -0.5 * theta**2
        prior = dist.Normal(0.0, 3.0).log_prob(theta)
        return prior - jnp.logaddexp(weights[0] + peak, weights[1] + hill) + 0.0 * z

    posterior = gdp.GibbsPosterior(loss, dist.Normal(0.0, 3.0))
    told = []
    for key in range(4):
        draws = gdp.sample(posterior, jnp.zeros(1), key=key)
        share = float((np.abs(draws.theta - 1.5) < 0.04).mean())
        assert 0.3 < share < 0.7 or names_of(draws.warnings)
        told.append(draws.notes[0])
    assert any("AdaptiveHMC() (several-modes)" in each for each in told)


@pytest.mark.trust
def test_a_ridge_that_bends_is_no_other_place():
    """Around a point of a ring the Gaussian of its curvature is long and straight."""
    posterior = gdp.GibbsPosterior(
        lambda theta, z: 200.0 * (jnp.linalg.norm(theta) - z) ** 2, dist.Normal(jnp.zeros(2), 1.0)
    )
    draws = gdp.sample(posterior, jnp.ones(1))
    assert "AdaptiveHMC() (nothing against it)" in draws.notes[0]
    assert not draws.warnings


# Tails of a low power, which draws do not tell from exponential ones.

T3 = stats.t(3)


@pytest.mark.parametrize(
    ("law", "prior", "expected"),
    [
        (T3, dist.StudentT(3.0), True),
        (stats.cauchy(), dist.Cauchy(), True),
        (stats.expon(), dist.StudentT(5.0), True),  # which costs another run alone
        (stats.norm(), dist.StudentT(3.0), False),
        (T3, dist.Normal(0.0, 100.0), False),
        (T3, dist.Laplace(0.0, 100.0), False),
        (T3, dist.StudentT(9.0), False),
        (stats.lognorm(1.0), dist.HalfCauchy(), False),  # chains move in its logarithm
        (T3, gdp.Flat(gdp.supports.real()), False),
    ],
)
def test_powers_are_seen_where_both_draws_and_prior_have_long_tails(law, prior, expected):
    values = law.ppf((np.arange(4000) + 0.5) / 4000)
    values = np.random.default_rng(0).permutation(values)
    whole = gdp.GibbsPosterior(gdp.losses.half_squared_distance, prior).prior
    assert falls_as_a_power(whole, values.reshape(4, -1)) is expected


@pytest.mark.trust
def test_tails_of_separated_classes_are_reached():
    """Plain chains passed with 2.6% and 4.2% of draws beyond the true 95% quantile.

    Of some 1,500 independent draws, a share of 5% is known to 0.6%: six standard errors.
    """
    x, y = np.array([-1.0, -0.5, 0.3, 0.8]), np.array([0.0, 0.0, 1.0, 1.0])
    at = np.sinh(np.linspace(-6.5, 6.5, 1601))
    a, b = at[:, None], at
    score = a + b * x[:, None, None]
    log_density = T3.logpdf(a / 2.5) + T3.logpdf(b / 2.5)
    log_density -= np.sum(np.logaddexp(0, score) - y[:, None, None] * score, axis=0)
    mass = np.exp(log_density - log_density.max()) * np.cosh(np.arcsinh(a)) * np.cosh(np.arcsinh(b))
    cumulative = np.cumsum(mass.sum(axis=0)) / mass.sum()
    limit = at[np.searchsorted(cumulative, 0.95)]

    def loss(theta, z):
        score = theta["a"] + theta["b"] * z[0]
        return jax.nn.softplus(score) - z[1] * score

    prior = {name: dist.StudentT(3.0, 0.0, 2.5) for name in "ab"}
    posterior = gdp.GibbsPosterior(loss, prior)
    for key in (0, 2):
        draws = gdp.sample(posterior, (x, y), 1.0, key=key)
        assert "heavy_tails=True" in draws.settings["kernel"]
        assert np.mean(draws.theta["b"] > limit) == pytest.approx(0.05, abs=0.035)


def test_data_that_decide_leave_plain_chains_alone():
    x = np.linspace(-1.0, 1.0, 60)
    posterior = gdp.GibbsPosterior(gdp.losses.squared, dist.StudentT(3.0, 0.0, 2.5).expand((1,)))
    draws = gdp.sample(posterior, (x[:, None], 0.3 * x), 1.0)
    assert draws.settings["kernel"].startswith("HMC")
    assert not draws.warnings
