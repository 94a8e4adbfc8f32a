"""Bounds on random laws and channels: those that the registry of identities does not evaluate."""

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gibbs_dp.exact.finite_channel import FiniteChannel
from gibbs_dp.exact.types import ordered_datasets
from gibbs_dp.information import bounds
from gibbs_dp.information import dependence as dep
from gibbs_dp.information import divergences as dv
from gibbs_dp.papers.bounds import (
    adaptive_event_tail,
    dp_max_information_bits_eighth,
    dp_max_information_bits_published,
    general_event_tail,
    generalization_from_dp,
    statistical_query_tail,
    statistical_query_tail_root,
)
from gibbs_dp.papers.channels import composed_privacy_curve

SEEDS = st.integers(0, 2**32 - 1)
EPS = st.floats(0.0, 2.0)
ROUNDING = 1e-11


def random_pair(rng, size=4):
    return rng.dirichlet(np.full(size, rng.choice([0.3, 3.0, 30.0])), size=2)


def worst_stick(p, q, eps):
    return max(dv.hockey_stick(p, q, math.exp(eps)), dv.hockey_stick(q, p, math.exp(eps)))


def random_channel(rng, n, outputs=3):
    """A channel on bits, anywhere between very private and not at all."""
    table = rng.dirichlet(np.ones(outputs), size=2**n) ** rng.choice([0.02, 0.2, 1.0])
    table /= table.sum(axis=1, keepdims=True)
    return FiniteChannel(table, rng.dirichlet(np.ones(2)), n)


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_relations_of_two_laws(seed):
    p, q = random_pair(np.random.default_rng(seed))
    kl, tv = dv.kl_divergence(p, q), dv.total_variation(p, q)
    assert tv <= bounds.total_variation_from_kl(kl) + ROUNDING


@settings(max_examples=40, deadline=None)
@given(SEEDS, EPS, EPS, st.floats(0.0, 0.2))
def test_composition_and_approximate_draws(seed, eps_1, eps_2, tau):
    rng = np.random.default_rng(seed)
    first, second = random_pair(rng), random_pair(rng)
    deltas = [worst_stick(*first, eps_1), worst_stick(*second, eps_2)]
    both = [np.kron(a, b) for a, b in zip(first, second, strict=True)]
    assert worst_stick(*both, eps_1 + eps_2) <= sum(deltas) + ROUNDING
    # Each law moved by at most tau.
    moved = [(1 - tau) * law + tau * rng.dirichlet(np.full(4, 0.1)) for law in first]
    eps, delta = bounds.approximate_draw(eps_1, deltas[0], total_variation=tau)
    assert worst_stick(*moved, eps) <= delta + ROUNDING


@settings(max_examples=25, deadline=None)
@given(SEEDS, st.integers(1, 30), st.floats(1e-6, 0.5), st.floats(1e-6, 2.0))
def test_advanced_composition(seed, releases, slack, each):
    p, q = random_pair(np.random.default_rng(seed), size=3)
    eps, delta = bounds.advanced_composition(
        releases, each, min(1.0, worst_stick(p, q, each)), delta_slack=slack
    )
    for a, b in ((p, q), (q, p)):
        assert composed_privacy_curve(a, b, releases, [eps])[0] <= delta + ROUNDING
    total = bounds.advanced_composition(releases, each, delta_slack=slack).epsilon
    solved = bounds.advanced_composition_inverse(releases, total, delta_slack=slack)
    assert math.isclose(solved, each, rel_tol=1e-9)


@settings(max_examples=30, deadline=None)
@given(SEEDS, EPS, st.integers(1, 4))
def test_generalization_and_selection(seed, eps, n):
    rng = np.random.default_rng(seed)
    channel = random_channel(rng, n)
    loss = rng.uniform(size=(3, 2))
    gap = abs(channel.generalization_error(loss))
    delta = min(1.0, float(channel.privacy_curve([eps])[0]))
    assert gap <= generalization_from_dp(eps, delta) + ROUNDING
    information = channel.mutual_information()
    # A loss in [0, 1] has sub-exponential moments for every b.
    for b in (0.01, 1.0, 100.0):
        limit = bounds.generalization_subexponential(information, n, sigma=0.5, b=b)
        assert gap <= limit + ROUNDING
    # Any statistics of the dataset in [0, 1], selected by the output.
    statistic = rng.uniform(size=(3, 2**n))
    joint = channel.joint().reshape(3, -1)
    bias = float((joint * statistic).sum() - joint.sum(axis=1) @ statistic @ joint.sum(axis=0))
    assert (
        abs(bias)
        <= bounds.generalization_from_mutual_information(information, 1, sigma=0.5) + ROUNDING
    )


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.integers(1, 6), st.floats(0.0, 0.9), st.floats(0.05, 1.0))
def test_events_chosen_after_looking(seed, n, beta, tau):
    rng = np.random.default_rng(seed)
    channel = random_channel(rng, n)
    joint = channel.joint().reshape(3, -1)
    law, output = joint.sum(axis=0), joint.sum(axis=1)
    eps = channel.dp_epsilon()
    # One set of datasets for each output.
    event = rng.uniform(size=(3, 2**n)) < rng.uniform(0.05, 0.6)
    truth, chance = float(joint[event].sum()), float(np.outer(output, law)[event].sum())
    bits = channel.approx_max_information_bits(beta)
    assert truth <= 2**bits * chance + beta + ROUNDING
    fixed = float((event @ law).max())
    if 1e-9 < fixed < 1:
        assert truth <= adaptive_event_tail(n, fixed_tail=fixed, epsilon=eps) + ROUNDING
        if eps <= math.sqrt(math.log(1 / fixed) / (2 * n)):
            assert truth <= general_event_tail(n, fixed_tail=fixed, epsilon=eps) + ROUNDING
    # A query for each output: its mean on the data is off by at least tau.
    query = rng.uniform(size=(3, 2))
    states = ordered_datasets(n, 2)
    off = np.abs(query[:, states].mean(axis=2) - (query @ channel.data_probs)[:, None]) >= tau
    tail = float(joint[off].sum())
    if eps <= tau**2:
        assert tail <= statistical_query_tail(n, tau, epsilon=eps) + ROUNDING
    if eps <= math.sqrt(max(0.0, tau**2 - math.log(2) / (2 * n))):
        assert tail <= statistical_query_tail_root(n, tau, epsilon=eps) + ROUNDING


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 8), st.floats(0.01, 1.0), st.floats(-2.0, 2.0), st.floats(0.01, 0.99))
def test_subgaussian_parameter(count, width, s, share):
    rng = np.random.default_rng(count)
    values = np.append(rng.uniform(size=count), [0.0, 1.0]) * width
    probs = np.append(rng.dirichlet(np.ones(count)) * (1 - share), [share / 3, 2 * share / 3])
    moment = math.log(probs @ np.exp(s * (values - probs @ values)))
    assert moment <= (s * bounds.subgaussian_parameter(0.0, width)) ** 2 / 2 + ROUNDING


@settings(max_examples=25, deadline=None)
@given(SEEDS, st.floats(0.01, 0.5))
def test_pure_dp_bounds_what_the_output_tells(seed, beta):
    channel = random_channel(np.random.default_rng(seed), 3)
    eps = channel.dp_epsilon()
    assert channel.erasure_mutual_information() <= 3 * bounds.kl_from_range(eps) + ROUNDING
    found = dep.approx_max_information_bits(channel.joint().reshape(3, -1), beta)
    for bound in (
        dp_max_information_bits_published,
        dp_max_information_bits_eighth,
        bounds.max_information_bits,
    ):
        assert found <= bound(3, eps, beta=beta) + ROUNDING
