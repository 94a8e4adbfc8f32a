"""Routes against closed forms, brute force over laws, and the published check values."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri_exp

from gibbs_dp.information.divergences import (
    gaussian_hockey_stick,
    hockey_stick,
    kl_divergence,
    renyi_divergence,
)
from gibbs_dp.privacy.routes import BoundedRange, BoundedRatio, GaussianDP, epsilon_at

CHECKS = {  # eta: KL, Renyi(2), Renyi(8) or None, TV, as printed in the theory
    1.0: (0.123301561, 0.240229014, 0.635459399, 0.244918662),
    2.0: (0.474474647, 0.867561661, 1.590179584, 0.462117157),
}


@pytest.mark.parametrize("eta", CHECKS)
def test_published_check_values(eta):
    kl, renyi2, renyi8, tv = CHECKS[eta]
    route = BoundedRange(eta)
    assert route.kl(1) == pytest.approx(kl, abs=1e-9)
    assert route.renyi(2.0, 1) == pytest.approx(renyi2, abs=1e-9)
    assert route.renyi(8.0, 1) == pytest.approx(renyi8, abs=1e-9)
    assert route.tv(1) == pytest.approx(tv, abs=1e-9)
    assert route.pure(3) == 3 * eta
    assert route.zcdp(2) == eta**2 / 4


def two_points(low, high):
    """P and Q on two outcomes with log-ratios high and low, written out."""
    q = (1 - math.exp(low)) / (math.exp(high) - math.exp(low))
    p = q * math.exp(high)
    return np.array([p, 1 - p]), np.array([q, 1 - q])


def products(law, m):
    out = np.ones(1)
    for _ in range(m):
        out = np.outer(out, law).ravel()
    return out


@settings(max_examples=60, deadline=None)
@given(
    eta=st.floats(0.05, 6.0),
    position=st.floats(0.001, 0.999),
    eps=st.floats(0.0, 6.0),
    m=st.integers(1, 5),
)
def test_no_pair_of_that_range_exceeds_the_route(eta, position, eps, m):
    """By enumeration of the products of two-point laws anywhere in the allowed interval."""
    p, q = two_points(position * eta - eta, position * eta)
    route = BoundedRange(eta)
    joint_p, joint_q = products(p, m), products(q, m)
    slack = 1 + 1e-9
    stick = max(hockey_stick(joint_p, joint_q, math.exp(eps)), 0.0)
    assert stick <= route.delta(eps, m) * slack + 1e-14
    assert stick <= GaussianDP(route.gdp(m)).delta(eps, 1) * slack + 1e-9
    assert kl_divergence(joint_p, joint_q) <= route.kl(m) * slack + 1e-14
    for alpha in (1.5, 4.0, 30.0):
        divergence = renyi_divergence(joint_p, joint_q, alpha)
        assert divergence <= route.renyi(alpha, m) * slack + 1e-12
        assert divergence <= alpha * route.zcdp(m) * slack + 1e-12


@pytest.mark.parametrize(("eta", "eps", "m"), [(1.0, 0.3, 1), (1.0, 0.8, 4), (0.3, 0.5, 9)])
def test_the_range_route_is_attained(eta, eps, m):
    """Brute force over the position reaches the certified maximum: no slack is left."""
    best = 0.0
    for t in np.linspace(0.01, 0.99, 393) * eta:
        p, q = two_points(t - eta, t)
        k = np.arange(m + 1)
        choose = np.array([math.comb(m, int(i)) for i in k])
        top = choose * p[0] ** k * p[1] ** (m - k)
        bottom = choose * q[0] ** k * q[1] ** (m - k)
        best = max(best, float(np.maximum(top - math.exp(eps) * bottom, 0).sum()))
    assert BoundedRange(eta).delta(eps, m) == pytest.approx(best, rel=2e-4)
    assert BoundedRange(eta).delta(eps, m) >= best


def test_many_draws_beat_both_plain_compositions():
    """Known-wrong and known-loose forms: one draw's delta, m eta, and the zCDP conversion."""
    route, m, delta = BoundedRange(0.2), 30, 1e-6
    eps = epsilon_at(route, delta, m)
    rho = route.zcdp(m)
    assert eps < min(route.pure(m), rho + 2 * math.sqrt(rho * math.log(1 / delta)))
    assert eps > epsilon_at(route, delta, 1) * math.sqrt(m)


@pytest.mark.parametrize("eta", np.geomspace(1e-3, 200, 25))
def test_the_corner_in_the_middle_asks_for_the_largest_mu(eta):
    """Over a fine grid of positions, in logarithms of whichever tail is small."""
    t = eta * np.linspace(1e-4, 1 - 1e-4, 2001)
    log_width = np.log(-np.expm1(-eta))
    log_q, log_not_q = np.log(-np.expm1(t - eta)) - t, np.log(-np.expm1(-t))
    tails = {"p": (log_q + t, log_not_q + t - eta), "q": (log_q, log_not_q)}
    z = {}
    for name, (small, large) in tails.items():
        low = np.minimum(small - log_width, -1e-300)
        high = np.minimum(large - log_width, -1e-300)
        z[name] = np.where(low < math.log(0.5), ndtri_exp(low), -ndtri_exp(high))
    assert np.max(z["p"] - z["q"]) == pytest.approx(BoundedRange(float(eta)).gdp(1), rel=1e-9)


@settings(max_examples=40, deadline=None)
@given(eps0=st.floats(0.01, 4.0), eps=st.floats(0.0, 8.0), m=st.integers(1, 4))
def test_the_ratio_route_is_randomized_response(eps0, eps, m):
    p, q = two_points(-eps0, eps0)
    route = BoundedRatio(eps0)
    joint_p, joint_q = products(p, m), products(q, m)
    stick = max(hockey_stick(joint_p, joint_q, math.exp(eps)), 0.0)
    assert route.delta(eps, m) == pytest.approx(stick, abs=1e-13)
    assert route.kl(m) == pytest.approx(kl_divergence(joint_p, joint_q), rel=1e-9)
    assert route.renyi(3.0, m) == pytest.approx(renyi_divergence(joint_p, joint_q, 3.0), rel=1e-9)
    assert stick <= GaussianDP(route.gdp(m)).delta(eps, 1) + 1e-9
    assert route.zcdp(m) >= route.renyi(1.0 + 1e-6, m) / (1 + 1e-5)


@pytest.mark.parametrize("eps", [0.0, 0.5, 2.0])
def test_the_gaussian_route_is_two_gaussians(eps):
    m, mu = 4, 0.7
    route = GaussianDP(mu)
    exact = gaussian_hockey_stick(mu * math.sqrt(m), 1.0, 0.0, 1.0, math.exp(eps))
    assert route.delta(eps, m) == pytest.approx(exact, rel=1e-9)
    assert route.delta(0.0, m) == pytest.approx(route.tv(m), rel=1e-12)
    assert route.kl(m) == pytest.approx(m * mu**2 / 2)


@pytest.mark.parametrize("route", [BoundedRange(0.7), BoundedRatio(0.7), GaussianDP(0.7)])
@pytest.mark.parametrize("m", [1, 6])
@pytest.mark.parametrize("delta", [0.05, 1e-6])
def test_epsilon_inverts_delta_from_above(route, m, delta):
    eps = epsilon_at(route, delta, m)
    assert route.delta(eps, m) <= delta
    assert route.delta(eps * (1 - 1e-6), m) > delta * (1 - 1e-5)


def test_epsilon_at_refuses_an_impossible_delta():
    with pytest.raises(ValueError, match="delta must lie in"):
        epsilon_at(GaussianDP(1.0), 1.0, 1)
    assert epsilon_at(GaussianDP(1.0), 0.0, 1) == math.inf
