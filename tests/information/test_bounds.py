"""Bounds: check values, agreement between forms, validity on random channels, bad input."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gibbs_dp.exact.finite_channel import FiniteChannel
from gibbs_dp.information import bounds
from gibbs_dp.information.bounds.differential_privacy import approximate_dp_bits_at
from gibbs_dp.papers.bounds import (
    adaptive_event_tail,
    advanced_composition_inverse_small_epsilon,
    dp_max_information_bits_eighth,
    dp_max_information_bits_published,
    general_event_tail,
    low_sensitivity_tail,
    statistical_query_tail,
    statistical_query_tail_root,
)


@pytest.mark.parametrize(
    ("eta", "kl", "renyi_2", "renyi_8", "tv"),
    [
        (1.0, 0.123301561, 0.240229014, 0.635459399, 0.244918662),
        (2.0, 0.474474647, 0.867561661, 1.590179584, 0.462117157),
    ],
)
def test_check_values_of_bounded_range(eta, kl, renyi_2, renyi_8, tv):
    assert bounds.kl_from_range(eta) == pytest.approx(kl, abs=1e-8)
    assert bounds.renyi_from_range(eta, 2.0) == pytest.approx(renyi_2, abs=1e-8)
    assert bounds.renyi_from_range(eta, 8.0) == pytest.approx(renyi_8, abs=1e-8)
    assert bounds.total_variation_from_range(eta) == pytest.approx(tv, abs=1e-8)


def test_kappa_is_smooth_and_below_its_quadratic():
    etas = np.array([1e-6, 0.0099999, 0.0100001, 0.1, 1.0, 10.0, 800.0])
    values = np.array([bounds.kl_from_range(float(e)) for e in etas])
    assert np.all(values <= etas**2 / 8)
    assert np.all(values < etas)
    assert values[1] == pytest.approx(values[2], rel=1e-4)
    assert values[2] == pytest.approx(etas[2] ** 2 / 8 - etas[2] ** 4 / 576, rel=1e-9)
    assert bounds.kl_from_range(0.0) == 0.0


def test_renyi_of_range_is_ordered():
    orders = [1.0, 1.0001, 2.0, 8.0, 64.0, 1e4, math.inf]
    for eta in (0.01, 1.0, 6.0):
        values = [bounds.renyi_from_range(eta, a) for a in orders]
        assert all(a <= b + 1e-12 for a, b in itertools.pairwise(values))
        assert values[1] == pytest.approx(values[0], rel=1e-3)
        rho = bounds.zcdp_from_range(eta)
        assert all(v <= a * rho * (1 + 1e-9) for v, a in zip(values[:-1], orders, strict=False))


def test_composition_check_value():
    slack = math.exp(-32)
    small = advanced_composition_inverse_small_epsilon(10_000, 1.0, delta_slack=slack)
    assert small == pytest.approx(1 / 800, rel=1e-9)
    full = bounds.advanced_composition_inverse(10_000, 1.0, delta_slack=slack)
    assert 1 / 10_000 < full < small
    total = bounds.advanced_composition(10_000, full, delta_slack=slack)
    assert total.epsilon == pytest.approx(1.0, abs=1e-12)
    assert bounds.advanced_composition(10, 0.1, 1e-3, delta_slack=1e-5).delta == 10 * 1e-3 + 1e-5


def test_subexponential_is_the_best_of_its_family():
    for information in (0.01, 0.4, 0.5, 0.6, 7.0):
        sigma, b, n = 1.3, 0.8, 2
        s = np.linspace(1e-5, 1 / b, 200_001)
        best = (information / (n * s) + sigma**2 * s / 2).min()
        bound = bounds.generalization_subexponential(information, n, sigma=sigma, b=b)
        assert bound == pytest.approx(best, rel=1e-8)
    # The two forms meet where they change.
    edge = n * sigma**2 / (2 * b**2)
    low, high = (
        bounds.generalization_subexponential(edge * f, n, sigma=sigma, b=b)
        for f in (1 - 1e-9, 1 + 1e-9)
    )
    assert low == pytest.approx(high, rel=1e-8)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.0, 1.0), st.floats(1e-3, 0.9), st.integers(1, 4))
def test_max_information_of_approximate_dp_holds(seed, eps, beta, n):
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(np.full(3, rng.choice([0.3, 3.0, 30.0])), size=2**n)
    channel = FiniteChannel(table, rng.dirichlet(np.ones(2)), n)
    delta = max(float(channel.privacy_curve([eps])[0]), 1e-12)
    if delta >= 1:
        return
    truth = channel.approx_max_information_bits(beta)
    assert truth <= bounds.max_information_bits(n, eps, delta, beta=beta) + 1e-9
    for margin, slack, azuma in itertools.product((0.1, 1.0), (0.05, 1.0), (0.01, 0.3)):
        bits, total = approximate_dp_bits_at(
            n, eps, delta, margin=margin, slack=slack, azuma_beta=azuma
        )
        if total < 1:
            assert channel.approx_max_information_bits(total) <= bits + 1e-9


@pytest.mark.parametrize("a", [0.05, 0.7, 3.0])
def test_the_mean_in_max_information_is_the_largest_kl_within_the_range(a):
    """Of two laws whose log ratio is within a everywhere: two outcomes are enough, on a grid."""
    given = {"margin": a / 2, "slack": 1.0}
    bits, _ = approximate_dp_bits_at(10, a / 2, 1e-9, azuma_beta=1 - 1e-16, **given)
    mean = (bits * math.log(2) - 1.0) / 10  # nothing is left of the deviation
    p = np.linspace(1e-4, 1 - 1e-4, 4001)[:, None]
    ends = (
        np.maximum(p * math.exp(-a), 1 - (1 - p) * math.exp(a)),
        np.minimum(p * math.exp(a), 1 - (1 - p) * math.exp(-a)),
    )
    q = np.clip(np.hstack(ends), 1e-300, 1 - 1e-16)
    largest = (p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))).max()
    assert largest <= mean * (1 + 1e-6)
    assert mean == pytest.approx(largest, rel=1e-3)


def test_the_deviation_in_max_information_is_that_of_azuma():
    """Steps within ``a`` of either side: more than ``t`` has chance ``exp(-t^2 / (2 n a^2))``."""
    n, a, beta = 50, 0.4, 0.01
    low, high = (
        approximate_dp_bits_at(n, a / 2, 1e-9, margin=a / 2, slack=1.0, azuma_beta=b)
        for b in (1 - 1e-16, beta)
    )
    t = (high[0] - low[0]) * math.log(2)
    assert math.exp(-(t**2) / (2 * n * a**2)) == pytest.approx(beta, rel=1e-6)


def test_approximate_dp_search_is_no_worse_than_any_choice():
    best = bounds.max_information_bits(100, 0.1, 1e-9, beta=0.05)
    for margin, slack in itertools.product((1e-4, 1e-3, 0.1), (1e-4, 1e-2, 1.0)):
        spent = approximate_dp_bits_at(100, 0.1, 1e-9, margin=margin, slack=slack, azuma_beta=1e-9)[
            1
        ]
        if spent < 0.05:
            bits, beta = approximate_dp_bits_at(
                100, 0.1, 1e-9, margin=margin, slack=slack, azuma_beta=0.05 - spent
            )
            assert beta <= 0.05 + 1e-8
            assert best <= bits * (1 + 1e-6)
    assert bounds.max_information_bits(100, 0.1, 1e-3, beta=0.05) == math.inf


def test_sharper_forms_are_sharper():
    for n, eps, beta in itertools.product((5, 500), (0.01, 0.5, 3.0), (1e-6, 0.1)):
        published = dp_max_information_bits_published(n, eps, beta=beta)
        sharp = dp_max_information_bits_eighth(n, eps, beta=beta)
        kappa = bounds.max_information_bits(n, eps, beta=beta)
        assert kappa <= sharp <= published
        assert kappa <= bounds.max_information_bits(n, eps)
    tail = adaptive_event_tail(1000, fixed_tail=1e-8, epsilon=0.05)
    assert tail <= general_event_tail(1000, fixed_tail=1e-8, epsilon=0.05)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: bounds.kl_from_range(-1.0), "eta must be at least 0"),
        (lambda: bounds.renyi_from_range(1.0, 0.5), "alpha must be at least 1"),
        (
            lambda: statistical_query_tail(10, 0.1, epsilon=0.02),
            "epsilon must be at most 0.01",
        ),
        (
            lambda: statistical_query_tail_root(10, 0.1, epsilon=0.01),
            "epsilon must be at most 0",
        ),
        (
            lambda: low_sensitivity_tail(100, 1.0, sensitivity=1.0, epsilon=0.0),
            "must be at least 10",
        ),
        (
            lambda: general_event_tail(10, fixed_tail=0.5, epsilon=1.0),
            "epsilon must be at most",
        ),
        (lambda: bounds.advanced_composition(3, 0.1, delta_slack=0.0), "delta_slack must lie"),
        (
            lambda: bounds.langevin_last_iterate_gdp(
                3, 1.0, gradient_sensitivity=1.0, gamma=1.0, strong_convexity=1.0, smoothness=2.0
            ),
            "step_size must be below",
        ),
        (lambda: bounds.generalization_from_individual_information([-1.0], sigma=1.0), "vector"),
    ],
)
def test_bad_input_is_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize("step_size", [0.5, 1.2, 1.9])
def test_last_iterate_of_more_losses_is_no_more_private(step_size):
    """Curvatures of 0.1 to 1 contain those of 1 alone, and those of 0.1 alone."""

    def mu(low, high):
        return bounds.langevin_last_iterate_gdp(
            20,
            step_size,
            gradient_sensitivity=1.0,
            gamma=1.0,
            strong_convexity=low,
            smoothness=high,
        )

    assert mu(0.1, 1.0) >= max(mu(1.0, 1.0), mu(0.1, 0.1)) * (1 - 1e-12)
