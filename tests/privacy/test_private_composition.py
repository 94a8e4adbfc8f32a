"""Composition and privacy-loss distributions against dp-accounting and enumeration."""

import builtins
import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting import pld
from hypothesis import given, settings
from hypothesis import strategies as st

import gibbs_dp as gdp
from gibbs_dp.exact import FiniteProblem
from gibbs_dp.information.bounds import delta_from_gdp
from gibbs_dp.privacy import (
    account,
    compose,
    dominating_pair_pld,
    enumerated_pld,
    location_family_pld,
)


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


def test_renyi_curves_of_bounded_range_add():
    """A hundred bounded-range draws, adaptively: below the zCDP conversion, above one batch."""
    posterior = gdp.GibbsPosterior(gdp.losses.logistic, gdp.Flat(gdp.supports.l2_ball(2, 1.0)))
    given = {"gamma": 0.05, "n": 9, "adjacency": "replace-one", "domain": gdp.Domain(x_bound=1.0)}
    one = account(posterior, **given).guarantee()
    found = compose([one] * 100, delta=1e-6).epsilon
    rho = 100 * 0.1**2 / 8
    assert found < rho + 2 * math.sqrt(rho * math.log(1e6))
    assert found > account(posterior, num_draws=100, **given).epsilon(1e-6)


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


# -- privacy-loss distributions ---------------------------------------------------------------


@pytest.mark.parametrize("m", [1, 5])
def test_laplace_location_family(m):
    """The private mean at gamma = 10: dp-accounting's own Laplace mechanism."""
    ours = location_family_pld(lambda x: -10.0 * np.abs(x), shift=0.04).repeated(m)
    theirs = pld.privacy_loss_distribution.from_laplace_mechanism(
        parameter=0.1, sensitivity=0.04
    ).self_compose(m)
    for eps in (0.0, 0.2, 0.35):
        exact = theirs.get_delta_for_epsilon(eps)
        assert exact * (1 - 1e-4) <= ours.delta(eps) <= exact * 1.01 + m * 2e-4


def test_gaussian_location_family_is_pessimistic_and_close():
    sd, shift = 2.0, 1.0
    ours = location_family_pld(lambda x: -(x**2) / (2 * sd**2), shift=shift)
    for eps in (0.1, 0.5, 1.5):
        exact = delta_from_gdp(shift / sd, eps)
        assert exact <= ours.delta(eps) <= exact * 1.01 + 1e-6


def test_densities_that_have_no_dominating_shift_are_refused():
    with pytest.raises(ValueError, match="not log-concave"):
        location_family_pld(lambda x: -np.sqrt(np.abs(x)), shift=1.0)
    with pytest.raises(ValueError, match="does not decay"):
        location_family_pld(lambda x: 0.0 * x, shift=1.0)
    with pytest.raises(ValueError, match="shift must be positive"):
        location_family_pld(lambda x: -np.abs(x), shift=0.0)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**31), gamma=st.floats(0.2, 3.0))
def test_an_enumerated_pld_bounds_the_exact_curve_or_is_refused(seed, gamma):
    rng = np.random.default_rng(seed)
    problem = FiniteProblem(rng.uniform(0, 1, (3, 2)), [0.5, 0.5], rng.dirichlet(np.ones(3)))
    try:
        found = enumerated_pld(problem, gamma=gamma, n=2, adjacency="replace-one")
    except ValueError:  # no pair dominates: the case is tested below
        return
    epsilons = [0.0, 0.1, 0.4]
    exact = problem.privacy_curve(gamma, 2, epsilons, adjacency="replace-one")
    for eps, delta in zip(epsilons, exact, strict=True):
        assert delta <= found.delta(eps) + 1e-12
        assert found.delta(eps) <= delta + 3e-4


def test_a_single_pair_is_refused_and_would_have_been_wrong():
    """Two pairs, neither worst everywhere: the curve of either is below the other's somewhere."""
    first = np.log([0.6, 0.4]), np.log([0.4, 0.6])
    second = np.log([0.02, 0.98]), np.log([0.001, 0.999])
    with pytest.raises(ValueError, match="picked is no differential-privacy guarantee"):
        dominating_pair_pld([first], are_all_neighbours=False)
    alone = dominating_pair_pld([first, first[::-1]], are_all_neighbours=True)
    assert alone.delta(1.0) == 0.0
    assert 0.02 - math.e * 0.001 > 0.0  # what the second pair loses at eps = 1
    with pytest.raises(ValueError, match="no pair of datasets dominates"):
        dominating_pair_pld([first, first[::-1], second, second[::-1]], are_all_neighbours=True)
