"""Composition against dp-accounting."""

import builtins
import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting import pld
from scipy import stats
from scipy.optimize import brentq

import gibbs_dp as gdp
from gibbs_dp.information.bounds import delta_from_gdp
from gibbs_dp.privacy import GaussianMechanism, account, compose
from gibbs_dp.privacy.composition import composed_pure_dp, per_release_epsilon


def gaussian(mu, adjacency="add-remove"):
    return gdp.Guarantee(adjacency, "chain", 1, 1.0, math.inf, 0.0, gdp=mu)


def pure(eps, adjacency="replace-one"):
    return gdp.Guarantee(adjacency, "exact draw", 1, 1.0, eps, 0.0, pure_epsilon=eps)


def test_ten_gaussians_as_dp_accounting_has_them():
    """The published 7.5113, by a list of events, by ours, and by the closed form."""
    events = dp_accounting.ComposedDpEvent([dp_accounting.GaussianDpEvent(2.0)] * 10)
    theirs = pld.PLDAccountant().compose(events).get_epsilon(1e-5)
    ours = compose([gaussian(0.5)] * 10, delta=1e-5).epsilon
    assert theirs == pytest.approx(7.5113, abs=5e-5)
    assert ours == pytest.approx(theirs, rel=1e-6)
    assert delta_from_gdp(math.sqrt(10) / 2, ours) == pytest.approx(1e-5, rel=1e-3)


def test_pure_guarantees_compose_as_randomized_responses():
    """Binomial closed form of k randomized responses."""
    k, eps, delta = 12, 0.3, 1e-6
    found = compose([pure(eps)] * k, delta=delta).epsilon
    p = 1 / (1 + math.exp(-eps))
    j = np.arange(k + 1)
    mass = np.array([math.comb(k, int(i)) for i in j]) * p**j * (1 - p) ** (k - j)
    loss = (2 * j - k) * eps
    exact = float(np.sum(mass * np.maximum(0, 1 - np.exp(found - loss))))
    assert exact <= delta * (1 + 1e-9)
    slightly = float(np.sum(mass * np.maximum(0, 1 - np.exp(found - 2e-3 - loss))))
    assert slightly > delta
    assert found < k * eps
    assert compose([pure(eps)] * k, delta=0.0).epsilon == pytest.approx(k * eps)


def test_mixed_releases_take_the_best_route():
    both = [gaussian(0.3, "replace-one"), pure(0.2)]
    assert compose(both, delta=1e-6).epsilon < compose([both[0]], delta=1e-6).epsilon + 0.2 + 1e-9
    assert compose(both, delta=0.0).epsilon == math.inf


def test_a_large_delta_of_the_whole_has_a_caveat():
    small = [gaussian(0.5)] * 2
    assert compose(small, delta=1e-6).caveats == small[0].caveats
    (text,) = set(compose(small, delta=0.5).caveats) - set(small[0].caveats)
    assert text.startswith("delta = 0.5: a mechanism that publishes every record")


def test_renyi_curves_of_bounded_range_add():
    """A hundred bounded-range draws, adaptively: below the zCDP conversion, above one batch."""
    posterior = gdp.GibbsPosterior(gdp.losses.logistic, gdp.Flat(gdp.supports.l2_ball(2, 1.0)))
    given = {"gamma": 0.05, "n": 9, "adjacency": "replace-one", "domain": gdp.Domain(x_bound=1.0)}
    one = account(posterior, **given).guarantee()
    found = compose([one] * 100, delta=1e-6).epsilon
    rho = 100 * 0.1**2 / 8
    assert found < rho + 2 * math.sqrt(rho * math.log(1e6))
    assert found > account(posterior, num_draws=100, **given).epsilon(1e-6)


@pytest.mark.parametrize("k", [5, 20, 200])
def test_zero_concentrated_guarantees_add_as_such(k):
    """``rho + 2 sqrt(rho log 1/delta)`` (Bun & Steinke 2016, Proposition 1.3) is no better.

    Nor is the binomial closed form of pure DP alone, beside which bounded range halves the rate.
    """
    one = gdp.privacy.ExponentialMechanism(1.0, 1.0, adjacency="replace-one").guarantee
    assert (one.zcdp, one.renyi) == (0.125, ())
    found = compose([one] * k, delta=1e-5).epsilon
    rho = 0.125 * k
    assert found <= rho + 2 * math.sqrt(rho * math.log(1e5))
    assert found <= composed_pure_dp(k, 1.0, delta=1e-5) * (1 + 1e-3)
    # No order of the curve is better: the infimum of what dp-accounting makes of it.
    orders = 1 + np.geomspace(1e-3, 1e4, 4001)
    least, _ = dp_accounting.rdp.compute_epsilon(orders, rho * orders, 1e-5)
    if k > 5:  # where pairs are the better route
        assert least <= found <= least * 1.01
    mixed = compose([one] * k + [gaussian(0.5, "replace-one")] * k, delta=1e-5).epsilon
    least, _ = dp_accounting.rdp.compute_epsilon(orders, 2 * rho * orders, 1e-5)
    assert mixed <= least * 1.01


def test_deltas_add_up_as_for_mechanisms_that_reveal_everything_so_often():
    """Two that tell all with chance 1e-6 do so with 2e-6 - 1e-12 together: nothing holds below."""
    pair = gdp.Guarantee("replace-one", "exact draw", 1, 1.0, 0.5, 1e-6)
    assert compose([pair, pair], delta=1.9e-6).epsilon == math.inf
    assert compose([pair, pair], delta=2e-6).epsilon == pytest.approx(1.0, rel=1e-3)


def test_compose_refuses():
    with pytest.raises(ValueError, match="the list is empty"):
        compose([], delta=1e-5)
    with pytest.raises(ValueError, match="mix replace-one and add-remove"):
        compose([gaussian(1.0), pure(1.0)], delta=1e-5)
    with pytest.raises(ValueError, match="delta must lie in"):
        compose([pure(1.0)], delta=1.0)


def test_without_the_extra_one_line_names_it(monkeypatch):
    original = builtins.__import__

    def missing(name, *args, **kwargs):
        if name.startswith("dp_accounting"):
            raise ImportError(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr("importlib.import_module", missing)
    with pytest.raises(ValueError, match=r"pip install dp-accounting, .* 'privacy'"):
        compose([pure(1.0)], delta=1e-5)
    assert compose([pure(1.0)], delta=0.0).epsilon == 1.0  # adding needs no library


@pytest.mark.parametrize("delta", [1e-300, 1e-6, 0.5])
def test_releases_of_hundreds_of_nats_add_up(delta):
    assert compose([pure(1000.0)] * 3, delta=delta).epsilon == 3000.0
    assert composed_pure_dp(3, 800.0, delta=delta) == pytest.approx(2400.0, abs=40.0)


def test_gaussian_releases_are_one_gaussian():
    """``sqrt(sum mu^2)``-GDP, exactly: Dong, Roth & Su 2022, Corollary 3.3."""
    for each in ([1e-6] * 7, [0.3, 0.4], [20.0, 30.0]):
        mu = math.hypot(*each)
        exact = brentq(
            lambda e, mu=mu: (
                stats.norm.cdf(mu / 2 - e / mu)
                - math.exp(min(e + stats.norm.logcdf(-mu / 2 - e / mu), 0.0))
                - 1e-12
            ),
            0.0,
            mu**2 / 2 + 12 * mu,
        )
        found = compose([gaussian(m) for m in each], delta=1e-12).epsilon
        if mu < 15:
            assert found == pytest.approx(exact, rel=1e-6)
        else:  # Rényi's curve: no smaller, and not much larger
            assert exact <= found < 1.1 * exact


def test_a_delta_that_cannot_be_computed_with_is_pure_dp_or_refused():
    assert composed_pure_dp(3, 1.0, delta=1e-310) == 3.0
    assert per_release_epsilon(3, 3.0, delta=1e-310) == 1.0
    with pytest.raises(ValueError, match="delta: below 1e-280"):
        GaussianMechanism(1.0, 1.0, adjacency="replace-one").guarantee(1e-300)
