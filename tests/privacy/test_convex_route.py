"""Gaussian DP of convex potentials on bounded sets, against exact laws on an interval."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats
from scipy.special import ndtri_exp

import gibbs_dp as gdp
from gibbs_dp.information import bounds
from gibbs_dp.privacy import account

GRID = 20_001


def hockey_stick(first, second, theta, epsilon):
    laws = []
    for potential in (first, second):
        density = np.exp(potential.min() - potential)
        laws.append(density / np.trapezoid(density, theta))
    return np.trapezoid(np.maximum(laws[0] - math.exp(epsilon) * laws[1], 0.0), theta)


def test_no_exact_law_on_an_interval_exceeds_the_bound():
    """300 pairs of convex potentials, tilted ones among them, at four epsilons, both orders."""
    rng = np.random.default_rng(11)
    largest = 0.0
    for _ in range(300):
        diameter, pull = rng.choice([0.5, 1.0, 4.0]), math.exp(rng.uniform(-2, 4))
        m = rng.choice([0.0, 0.1, 1.0, 10.0])
        theta = np.linspace(-diameter / 2, diameter / 2, GRID)
        base = rng.uniform(-1, 1) * pull * theta - rng.choice([0.0, 0.5]) * pull * theta
        moved = base + pull * theta * rng.choice([-1, 1])
        potentials = [f + m * theta**2 / 2 for f in (base, moved)]
        mu = bounds.bounded_convex_gdp(1.0, lipschitz=pull, diameter=diameter, strong_convexity=m)
        for epsilon in (0.0, 0.3, 1.0, 3.0):
            claimed = bounds.delta_from_gdp(mu, epsilon)
            for pair in (potentials, potentials[::-1]):
                found = hockey_stick(*pair, theta, epsilon)
                assert found <= claimed + 1e-7
                largest = max(largest, found / claimed if claimed > 1e-6 else 0.0)
    assert largest > 0.9  # the bound says something


def test_a_smaller_bound_is_caught():
    """Steep exponentials need 99% of it."""
    slope = 4000.0
    log_miss = math.log(2) - np.logaddexp(0.0, slope / 4)
    needed = -2 * ndtri_exp(log_miss - math.log(2))
    claimed = bounds.bounded_convex_gdp(1.0, lipschitz=slope, diameter=1.0)
    assert 0.99 * claimed < needed <= claimed


def test_both_forms_meet_where_the_set_stops_mattering():
    for m, diameter in [(1.0, 2.0), (0.3, 5.0)]:
        edge = m * diameter
        inside = bounds.bounded_convex_gdp(
            1.0, lipschitz=edge * (1 + 1e-9), diameter=diameter, strong_convexity=m
        )
        outside = bounds.strongly_convex_gdp(1.0, lipschitz=edge, strong_convexity=m)
        assert inside == pytest.approx(outside, rel=1e-6)


@pytest.mark.parametrize(
    ("prior", "diameter"),
    [
        (gdp.Flat(gdp.supports.l2_ball(3, 2.0)), 4.0),
        (gdp.Flat(gdp.supports.box(-1.0, 2.0, 4)), 6.0),
        (gdp.Flat(gdp.supports.simplex(3)), math.sqrt(2)),
        (dist.Normal(jnp.zeros(2), 1.0), math.inf),
        (gdp.priors.normal_in_ball(2, radius=1.5, scale=1.0), 3.0),
    ],
)
def test_diameters(prior, diameter):
    posterior = gdp.GibbsPosterior(lambda theta, z: jnp.sum(theta) * z, prior)
    assert posterior.prior.diameter() == pytest.approx(diameter)


def test_the_route_takes_over_from_bounded_range():
    """mu = sqrt(2 gamma G D) on a flat ball: less than bounded range's from gamma R of about 7."""
    prior = gdp.Flat(gdp.supports.l2_ball(2, 1.0))
    domain = gdp.Domain(x_bound=1.0, y_range=(-0.5, 0.5))
    for gamma, name in [(1.0, "bounded range"), (20.0, "convex")]:
        found = account(
            gdp.GibbsPosterior(gdp.losses.linear, prior),
            gamma=gamma,
            n=10,
            adjacency="replace-one",
            domain=domain,
        )
        assert found.best(lambda route: route.gdp(1))[1].name == name
    assert found.gdp() == pytest.approx(math.sqrt(2 * 20.0 * 1.0 * 2.0))
    bounded_range = next(r for r in found.routes if r.name == "bounded range")
    assert bounded_range.gdp(1) > found.gdp()


def test_a_linear_loss_is_the_gaussian_mechanism():
    """N(gamma s^2 sum y x, s^2): mu = gamma s X, and the posterior's law is that Gaussian."""
    posterior = gdp.GibbsPosterior(gdp.losses.linear, dist.Normal(jnp.zeros(2), 0.5).to_event(1))
    domain = gdp.Domain(x_bound=3.0, y_range=(-0.5, 0.5))
    found = account(posterior, gamma=0.7, n=5, adjacency="replace-one", domain=domain)
    assert found.gdp() == pytest.approx(0.7 * 0.5 * 3.0)
    x = jnp.array([[1.0, 2.0], [0.5, -1.0], [2.0, 0.0]])
    y = jnp.array([0.5, -0.5, 0.5])
    mean = 0.7 * 0.25 * np.asarray(y @ x)
    points = np.random.default_rng(0).normal(size=(5, 2))
    ours = [float(posterior.log_density(jnp.asarray(p), (x, y), 0.7)) for p in points]
    exact = stats.multivariate_normal(mean, 0.25 * np.eye(2)).logpdf(points)
    np.testing.assert_allclose(np.diff(ours), np.diff(exact), rtol=2e-5)


@pytest.mark.parametrize(
    ("dim", "radius", "scale"),
    [(1, 1.0, 2.0), (3, 2.0, 0.8), (20, 1.0, 0.5), (60, 1.0, 1.0), (400, 8.0, 1.0)],
)
def test_a_gaussian_in_a_ball_is_one(dim, radius, scale):
    """Lengths against rejection from the Gaussian: KS at a false-alarm rate of 1e-4."""
    law = gdp.priors.normal_in_ball(dim, radius=radius, scale=scale)
    draws = np.asarray(law.sample(jax.random.key(1), (4000,)), np.float64)
    lengths = np.linalg.norm(draws, axis=1)
    assert lengths.max() < radius

    def law_of_length(r):
        tail = stats.chi2(dim).logcdf
        return np.exp(tail((r / scale) ** 2) - tail((radius / scale) ** 2))

    assert stats.kstest(lengths, law_of_length).pvalue > 1e-4
    assert np.all(np.abs(draws.mean(axis=0)) < 4.5 * draws.std(axis=0) / math.sqrt(4000))
    if dim == 1:
        grid = np.linspace(-radius, radius, 4001)[1:-1, None]
        total = np.trapezoid(np.exp(np.asarray(law.log_prob(jnp.asarray(grid)))), grid[:, 0])
        assert total == pytest.approx(1.0, abs=2e-3)
    posterior = gdp.GibbsPosterior(gdp.losses.logistic, law)
    assert posterior.prior.curvature() == pytest.approx((scale**-2, scale**-2))
    assert np.isfinite(float(law.log_prob(jnp.zeros(dim))))
    for bad in ({"radius": 0.0, "scale": 1.0}, {"radius": 1.0, "scale": math.nan}):
        with pytest.raises(ValueError, match="must be positive and finite"):
            gdp.priors.normal_in_ball(dim, **bad)
