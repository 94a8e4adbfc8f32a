"""What guarantees allow attackers, against pairs of laws that attain them."""

import json
import math

import numpy as np
import pytest
from scipy import stats

from gibbs_dp.information.divergences import gaussian_hockey_stick
from gibbs_dp.privacy import largest_advantage, largest_tpr, load_guarantee
from gibbs_dp.privacy.attacks import as_replace_one
from gibbs_dp.privacy.guarantee import Guarantee, guarantee_from_dict
from gibbs_dp.privacy.routes import GaussianDP, epsilon_at

RATES = np.array([0.0, 1e-6, 0.01, 0.3, 0.9, 1.0])


def promise(epsilon=math.inf, delta=0.0, **currencies):
    return Guarantee("replace-one", "chain", 1, 1.0, epsilon, delta, **currencies)


def test_randomized_response_attains_pure_privacy():
    # One bit told truly with probability e^eps / (1 + e^eps): the ROC has one corner.
    eps = 0.7
    corner = 1 / (1 + math.exp(eps))
    roc = np.interp(RATES, [0, corner, 1], [0, 1 - corner, 1])
    for g in (promise(eps), promise(pure_epsilon=eps)):
        assert largest_tpr(g, RATES) == pytest.approx(roc, abs=1e-14)
        assert largest_advantage(g) == pytest.approx(1 - 2 * corner, abs=1e-14)


def test_leaky_randomized_response_attains_approximate_privacy():
    # With probability delta the data are told outright (Kairouz, Oh & Viswanath 2015).
    eps, delta = 0.7, 0.05
    corner = 1 / (1 + math.exp(eps))
    low, high = (1 - delta) * corner, (1 - delta) * (1 - corner) + delta
    roc = np.interp(RATES, [0, low, 1 - delta, 1], [delta, high, 1, 1])
    assert largest_tpr(promise(eps, delta), RATES) == pytest.approx(roc, abs=1e-14)
    assert largest_advantage(promise(eps, delta)) == pytest.approx(high - low, abs=1e-14)


def test_two_normals_attain_gaussian_privacy():
    mu = 1.3
    truth = stats.norm.sf(stats.norm.isf(RATES) - mu)
    assert largest_tpr(promise(gdp=mu), RATES) == pytest.approx(truth, abs=1e-14)
    tv = gaussian_hockey_stick([0.0], [[1.0]], [mu], [[1.0]], 1.0)
    assert largest_advantage(promise(gdp=mu)) == pytest.approx(tv, abs=1e-12)


@pytest.mark.parametrize("rho", [1e-4, 0.02, 0.5, 8.0])
def test_zcdp_allows_what_normals_of_that_rho_reach_and_not_much_more(rho):
    mu = math.sqrt(2 * rho)
    reached = stats.norm.sf(stats.norm.isf(RATES) - mu)
    allowed = largest_tpr(promise(zcdp=rho), RATES)
    assert (allowed >= reached - 1e-12).all()
    tv = 2 * stats.norm.cdf(mu / 2) - 1
    # Data processing loses at most this much here; Pinsker's is the bound of order 1.
    assert (
        tv <= largest_advantage(promise(zcdp=rho)) <= min(1.0, 1.3 * tv, math.sqrt(rho / 2) + 1e-3)
    )


def test_advantage_is_the_largest_gap_of_the_rates():
    fine = np.linspace(0, 1, 4001)
    for g in (
        promise(0.7, 0.05),
        promise(gdp=0.8),
        promise(zcdp=0.3),
        promise(renyi=((4.0, 0.5),)),
    ):
        gap = (largest_tpr(g, fine) - fine).max()
        assert largest_advantage(g) == pytest.approx(gap, abs=2e-4)
        assert largest_advantage(g) >= gap - 1e-12


def test_laws_near_two_normals_attain_both_distances():
    """An event loses a mass of T under one law and gains T under the other: T counts twice."""
    mu, far = 0.5, 0.01
    epsilon = epsilon_at(GaussianDP(mu), 1e-6, 1)
    exact = Guarantee("replace-one", "exact draw", 1, 1.0, epsilon, 1e-6, gdp=mu)
    rates = np.array([0.0, 0.01, 0.3, 0.9])
    truth = stats.norm.sf(stats.norm.isf(rates + far) - mu) + far
    near = exact.within_total_variation(far)
    assert largest_tpr(near, rates) == pytest.approx(truth, abs=1e-12)


def test_the_smallest_bound_counts_and_no_promise_is_no_bound():
    both = promise(epsilon_at(GaussianDP(0.1), 1e-6, 1), 1e-6, gdp=0.1)
    assert largest_advantage(both) == largest_advantage(promise(gdp=0.1))
    assert largest_advantage(promise()) == 1.0
    assert largest_tpr(promise(), [0.0, 0.5]).tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="fpr: rates must be"):
        largest_tpr(both, [1.5])


def test_replacing_is_removing_and_adding():
    g = Guarantee("add-remove", "chain", 1, 1.0, 0.4, 1e-6, 0.4, zcdp=0.04, gdp=0.3)
    twice = as_replace_one(g)
    assert (twice.adjacency, twice.epsilon, twice.pure_epsilon) == ("replace-one", 0.8, 0.8)
    assert twice.delta == pytest.approx((1 + math.exp(0.4)) * 1e-6)
    assert (twice.zcdp, twice.gdp) == (pytest.approx(0.16), 0.6)
    # Two normals that are mu apart from a third on both sides are 2 mu apart.
    assert largest_advantage(as_replace_one(promise(gdp=0.3))) == largest_advantage(
        promise(gdp=0.3)
    )
    void = Guarantee("add-remove", "chain", 1, 1.0, 2.0, 0.5)
    assert largest_advantage(as_replace_one(void)) == 1.0
    # (1 + e^100) 1e-27 is above one: nothing is left, however small the delta was.
    far = Guarantee("add-remove", "chain", 1, 1.0, 100.0, 1e-27)
    assert (as_replace_one(far).epsilon, as_replace_one(far).delta) == (math.inf, 0.0)
    near = Guarantee("add-remove", "chain", 1, 1.0, 100.0, 1e-50)
    assert as_replace_one(near).delta == pytest.approx((1 + math.exp(100.0)) * 1e-50)


def test_files(tmp_path):
    g = promise(1.0, 1e-6, zcdp=0.1, assumptions=("one", "two"), caveats=("three",))
    path = tmp_path / "release.json"
    wrapped = {"draws": [{"a": 1.0}], "kind": "guarantee", "charge": 3, **g.to_dict()}
    path.write_text(json.dumps(wrapped, indent=2))
    assert load_guarantee(path) == g
    path.write_text('{"kind": "draw", "a": 1.0}\n' + json.dumps(wrapped) + "\n")
    assert load_guarantee(path) == g
    path.write_text('{"epsilon": 1}')
    with pytest.raises(ValueError, match=r"guarantee: '.*release\.json' holds none; give"):
        load_guarantee(path)
    without = {k: v for k, v in g.to_dict().items() if k != "num_draws"}
    with pytest.raises(ValueError, match="guarantee: it has no 'num_draws'; give all of"):
        guarantee_from_dict(without)
    without = {k: v for k, v in g.to_dict().items() if k != "gamma"}
    with pytest.raises(ValueError, match="gamma: a guarantee of 'chain' has one; give it"):
        guarantee_from_dict(without)
    with pytest.raises(ValueError, match="guarantee: its 'epsilon' is 'much', which is no number"):
        guarantee_from_dict(g.to_dict() | {"epsilon": "much"})
