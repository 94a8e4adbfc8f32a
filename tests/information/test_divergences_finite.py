"""Divergences of finite laws against their definitions, and against each other."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gibbs_dp.information import divergences as dv
from gibbs_dp.information.divergences.finite import approximate_max_divergence


@st.composite
def law_pairs(draw, size=5):
    weights = st.lists(st.floats(0.01, 1.0), min_size=size, max_size=size)
    p, q = np.array(draw(weights)), np.array(draw(weights))
    return p / p.sum(), q / q.sum()


@settings(max_examples=40, deadline=None)
@given(law_pairs(), st.floats(0.05, 4.0))
def test_values_are_the_definitions(pair, alpha):
    p, q = pair
    ratio = p / q
    assert dv.kl_divergence(p, q) == pytest.approx(np.sum(p * np.log(ratio)), abs=1e-14)
    assert dv.total_variation(p, q) == pytest.approx(0.5 * np.abs(p - q).sum(), abs=1e-14)
    if abs(alpha - 1) > 1e-3:
        moment = np.sum(q * ratio**alpha)
        renyi = math.log(moment) / (alpha - 1)
        assert dv.renyi_divergence(p, q, alpha) == pytest.approx(renyi, abs=1e-10)
    assert dv.max_divergence(p, q) == pytest.approx(np.log(ratio).max(), abs=1e-14)


@settings(max_examples=40, deadline=None)
@given(law_pairs(), st.floats(0.2, 3.0), st.floats(0.001, 0.6))
def test_suprema_over_events_by_brute_force(pair, g, delta):
    p, q = pair
    best_gap, best_ratio = 0.0, -math.inf
    for event in itertools.product([False, True], repeat=p.size):
        mask = np.array(event)
        best_gap = max(best_gap, p[mask].sum() - g * q[mask].sum())
        if p[mask].sum() > delta:
            best_ratio = max(best_ratio, math.log((p[mask].sum() - delta) / q[mask].sum()))
    assert dv.hockey_stick(p, q, g) == pytest.approx(best_gap, abs=1e-13)
    assert approximate_max_divergence(p, q, delta) == pytest.approx(best_ratio, abs=1e-10)
    # (eps, delta)-DP two ways: the hockey stick at e^eps, and D_inf^delta <= eps.
    at_level = dv.hockey_stick(p, q, math.exp(best_ratio))
    assert at_level == pytest.approx(delta, abs=1e-10)


@settings(max_examples=30, deadline=None)
@given(law_pairs())
def test_orders_and_limits(pair):
    p, q = pair
    orders = [0.0, 0.5, 0.999999, 1.0, 1.000001, 2.0, 8.0, 200.0, math.inf]
    values = [dv.renyi_divergence(p, q, a) for a in orders]
    assert all(low <= high + 1e-8 for low, high in itertools.pairwise(values))
    assert values[2] == pytest.approx(values[4], abs=1e-4)
    assert approximate_max_divergence(p, q, 0.0) == dv.max_divergence(p, q)


@pytest.mark.parametrize("exponent", [-3, -6, -9])
def test_tiny_kl_keeps_its_digits(exponent):
    # KL(p + h d, p) = h^2/2 sum d^2/p + O(h^3); the plain sum loses everything at h = 1e-9.
    h = 10.0**exponent
    q, d = np.array([0.2, 0.3, 0.5]), np.array([0.1, -0.3, 0.2])
    p = q + h * d
    expected = 0.5 * np.sum((p - q) ** 2 / q)
    # p itself is rounded: its relative error in d is eps / h.
    assert dv.kl_divergence(p, q) == pytest.approx(expected, rel=10 * h + 1e-15 / h + 1e-12)


@pytest.mark.parametrize("delta", [0.5e-4, 0.5e-40, 0.5e-200])
def test_tiny_delta_keeps_its_events(delta):
    # The rare event has mass 2 delta: half of it is left, however small that is.
    p, q = [2 * delta, 1 - 2 * delta], [delta**1.5, 1 - delta**1.5]
    expected = math.log(delta) - 1.5 * math.log(delta)
    assert approximate_max_divergence(p, q, delta) == pytest.approx(expected, rel=1e-9)
    # Masses that sum to delta only up to rounding leave nothing.
    assert approximate_max_divergence([0.1, 0.2, 0.7], [1e-9, 1e-9, 1 - 2e-9], 0.3) < 1.0


def test_infinite_values_are_infinite():
    p, q = [0.5, 0.5, 0.0], [0.0, 0.5, 0.5]
    assert dv.kl_divergence(p, q) == math.inf
    assert dv.max_divergence(p, q) == math.inf
    assert dv.renyi_divergence(p, q, 2.0) == math.inf
    assert dv.renyi_divergence(p, q, 0.5) == pytest.approx(-2 * math.log(0.5))
    assert dv.renyi_divergence(p, q, 0.0) == pytest.approx(math.log(2))
    assert dv.total_variation(p, q) == 0.5
    assert dv.hockey_stick(p, q, 1e9) == 0.5
    assert approximate_max_divergence(p, q, 0.4) == math.inf
    # At delta equal to the escaped mass nothing infinite is left.
    assert approximate_max_divergence(p, q, 0.5) == pytest.approx(0.0, abs=1e-12)
    assert approximate_max_divergence([0.1, 0.2, 0.7], [0.0, 0.0, 1.0], 0.3) < 0
    assert dv.renyi_divergence([1.0, 0.0], [0.0, 1.0], 0.5) == math.inf


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: dv.kl_divergence([0.5, 0.4], [0.5, 0.5]), "p must sum to 1"),
        (lambda: dv.kl_divergence([0.5, 0.5], [1.0]), "same outcomes"),
        (lambda: dv.kl_divergence([1.5, -0.5], [0.5, 0.5]), "p must hold finite"),
        (lambda: dv.kl_divergence([[1.0]], [1.0]), "p must be a vector"),
        (lambda: dv.renyi_divergence([1.0], [1.0], -1.0), "alpha must be"),
        (lambda: dv.hockey_stick([1.0], [1.0], 0.0), "g must be"),
        (lambda: approximate_max_divergence([1.0], [1.0], 1.0), "delta must lie"),
    ],
)
def test_bad_input_is_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()
