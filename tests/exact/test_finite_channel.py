"""Finite channels: mechanisms with known figures, composition, infinite values."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from gibbs_dp.exact.finite_channel import FiniteChannel
from gibbs_dp.exact.laws import _most_over_laws
from gibbs_dp.exact.types import ordered_datasets
from gibbs_dp.information import bounds
from gibbs_dp.information import dependence as dep
from gibbs_dp.papers import channels
from gibbs_dp.papers.channels import (
    composed_privacy_curve,
    conditional_on_average_kl,
    fixed_output_on_average_kl,
)


def random_channel(rng, n=2, m=2, outputs=3):
    table = rng.dirichlet(np.full(outputs, 0.7), size=m**n)
    return FiniteChannel(table, rng.dirichlet(np.ones(m)), n)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_measures_agree_with_the_joint_law(seed):
    channel = random_channel(np.random.default_rng(seed), n=3)
    joint = channel.joint()
    flat = joint.reshape(channel.num_outputs, -1)
    pairs = [
        (channel.mutual_information(), dep.mutual_information(flat)),
        (channel.lautum_information(), dep.lautum_information(flat)),
        (channel.t_information(), dep.t_information(flat)),
        (channel.max_information_bits(), dep.max_information_bits(flat)),
        (
            channel.approx_max_information_bits(0.1),
            dep.approx_max_information_bits(flat, 0.1),
        ),
        (channel.erasure_mutual_information(), dep.erasure_mutual_information(joint)),
        (channel.erasure_t_information(), dep.erasure_t_information(joint)),
    ]
    for found, expected in pairs:
        assert found == pytest.approx(expected, abs=1e-11)
    individual = [channel.subset_information([i]) for i in range(3)]
    assert individual == pytest.approx(dep.individual_information(joint), abs=1e-12)
    # Orders that hold for any channel on independent examples.
    total = channel.mutual_information()
    assert sum(individual) <= total + 1e-12
    assert total <= channel.erasure_mutual_information() + 1e-12
    assert channel.erasure_mutual_information() <= 3 * channel.on_average_kl() + 1e-12
    # Lemma 9 holds for any algorithm when every example is replaced.
    replaced = channel.on_average_kl([0, 1, 2])
    assert replaced == pytest.approx(total + channel.lautum_information(), abs=1e-11)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_data_processing(seed):
    rng = np.random.default_rng(seed)
    channel = random_channel(rng)
    kernel = rng.dirichlet(np.ones(2), size=3)
    after = channel.post_process(kernel)
    for name in (
        "on_average_kl",
        "dp_epsilon",
        "kl_privacy",
        "tv_privacy",
        "mutual_information",
        "lautum_information",
        "t_information",
        "max_information_bits",
        "erasure_mutual_information",
        "erasure_t_information",
    ):
        assert getattr(after, name)() <= getattr(channel, name)() + 1e-12, name
    before_bits = channel.approx_max_information_bits(0.07)
    assert after.approx_max_information_bits(0.07) <= before_bits + 1e-12
    assert np.all(after.privacy_curve([0.0, 0.5]) <= channel.privacy_curve([0.0, 0.5]) + 1e-12)


def test_forbidden_hypotheses_are_infinite_losses():
    loss = np.array([[0.0, np.inf], [0.5, 0.5]])
    channel = channels.gibbs(channels.summed_loss(loss, 2), 2, 1.0, [0.5, 0.5], [0.5, 0.5])
    assert channel.dp_epsilon() == math.inf
    assert channel.on_average_kl() == math.inf
    assert channel.generalization_error(loss) == math.inf
    assert math.isfinite(channel.mutual_information())
    with pytest.raises(ValueError, match="no hypothesis"):
        channels.gibbs([[np.inf], [0.0]], 1, 1.0, [0.5, 0.5], [1.0])


def test_uniform_noise_is_not_pure_dp():
    count = ordered_datasets(3, 2).sum(axis=1)
    channel = channels.uniform_noise(count, 3, 2, [0.5, 0.5])
    assert channel.dp_epsilon() == math.inf
    curve = channel.privacy_curve([0.0, 1.0, 30.0])
    assert curve == pytest.approx([0.2, 0.2, 0.2], abs=1e-12)
    assert channel.renyi_curve([0.5])[0] == pytest.approx(-2 * math.log(0.8), abs=1e-12)
    assert channel.renyi_curve([1.5])[0] == math.inf


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.01, 0.3), st.floats(0.01, 0.3))
def test_exact_composition(seed, beta_a, beta_b):
    rng = np.random.default_rng(seed)
    first = random_channel(rng)
    kernel = rng.dirichlet(np.full(2, 0.7), size=(4, 3))
    both = first.then(kernel)
    # KL chain rule: adaptive on-average KL adds, exactly.
    second = conditional_on_average_kl(first, kernel)
    total = first.on_average_kl([0]) + second
    assert both.on_average_kl([0]) == pytest.approx(total, abs=1e-11)
    # Max-information: betas add, worst fixed output of the second.
    fixed = [FiniteChannel(kernel[:, w], first.data_probs, 2) for w in range(3)]
    bits = max(c.approx_max_information_bits(beta_b) for c in fixed)
    k = first.approx_max_information_bits(beta_a) + bits
    assert both.approx_max_information_bits(beta_a + beta_b) <= k + 1e-10
    # Mutual information: I(A, B; S) = I(A; S) + I(B; S | A).
    joint = both.joint().reshape(3, 2, -1)
    conditional = dep.conditional_mutual_information(np.moveaxis(joint, 0, 2))
    total = first.mutual_information() + conditional
    assert both.mutual_information() == pytest.approx(total, abs=1e-11)
    # Erasure information obeys the same chain rule, given the rest.
    erasure = both.erasure_mutual_information() - first.erasure_mutual_information()
    assert erasure >= -1e-12
    eps = first.dp_epsilon() + max(c.dp_epsilon() for c in fixed)
    assert both.dp_epsilon() <= eps + 1e-10


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_non_adaptive_composition_adds(seed):
    rng = np.random.default_rng(seed)
    first = random_channel(rng)
    second = FiniteChannel(rng.dirichlet(np.ones(2), size=4), first.data_probs, 2)
    both = first.then(second.probabilities)
    total = first.on_average_kl() + second.on_average_kl()
    assert both.on_average_kl() == pytest.approx(total, abs=1e-12)
    # Information is subadditive: the second release repeats part of the first.
    summed = first.mutual_information() + second.mutual_information()
    assert both.mutual_information() <= summed + 1e-12
    erasure = first.erasure_mutual_information() + second.erasure_mutual_information()
    assert both.erasure_mutual_information() <= erasure + 1e-12


def test_composition_lemma_counterexample():
    # Average over Z at every fixed theta is not enough: theta remembers Z.
    values = 20
    probs = np.full(values, 1 / values)
    keep = 0.5 * np.eye(values) + 0.5 / values
    first = FiniteChannel(keep, probs, 1)
    hit = np.where(np.eye(values, dtype=bool), 0.95, 0.05)
    kernel = np.stack([hit, 1 - hit], axis=2)
    eps_1 = first.on_average_kl()
    eps_2 = fixed_output_on_average_kl(first, kernel).max()
    truth = first.then(kernel).on_average_kl()
    assert (eps_1, eps_2, truth) == pytest.approx((1.446, 0.252, 2.831), abs=5e-4)
    assert truth > eps_1 + eps_2 + 1.1
    honest = conditional_on_average_kl(first, kernel)
    assert eps_1 + honest == pytest.approx(truth)


@pytest.mark.parametrize("k", [1, 10, 200])
def test_advanced_composition_against_the_optimal(k):
    eps, slack = 0.1, 1e-4
    p = np.array([math.exp(eps), 1.0]) / (1 + math.exp(eps))
    total, _ = bounds.advanced_composition(k, eps, delta_slack=slack)
    delta = composed_privacy_curve(p, p[::-1], k, [total])[0]
    assert delta <= slack
    basic = k * eps
    assert composed_privacy_curve(p, p[::-1], k, [basic])[0] == pytest.approx(0, abs=1e-12)
    # Below basic composition some delta is needed: eps adds for pure DP, no less.
    assert composed_privacy_curve(p, p[::-1], k, [0.99 * basic])[0] > 0


def test_composed_curve_is_the_channel_composed():
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.5, 0.3])
    single = FiniteChannel([p, q], [0.5, 0.5], 1)
    triple = single.then(single.probabilities).then(single.probabilities)
    curve = triple.privacy_curve([0.0, 0.7])
    forward = composed_privacy_curve(p, q, 3, [0.0, 0.7])
    backward = composed_privacy_curve(q, p, 3, [0.0, 0.7])
    assert np.maximum(forward, backward) == pytest.approx(curve, abs=1e-12)


# Max-information over all laws of the dataset: closed forms, and searches by SciPy.


def of_table(table):
    """A channel of one example; the law it comes with plays no part."""
    return FiniteChannel(table, np.full(len(table), 1 / len(table)), 1)


def under(table, law, beta):
    return dep.approx_max_information_bits((law[:, None] * table).T, beta)


@pytest.mark.parametrize("beta", [1e-4, 0.02, 0.2])
@pytest.mark.parametrize("r", [2, 3, 7])
@pytest.mark.parametrize("lie", [0.0, 0.4])
def test_max_information_over_laws_of_randomized_response(r, lie, beta):
    """All but one answer at its best: ``(r - 1) (M - t m)^2 / (4 t (M - m)) = beta``, if rare."""
    table = (1 - lie) * np.eye(r) + lie / r
    m, most = lie / r, 1 - lie + lie / r
    found = of_table(table).max_information_over_laws(beta)
    assert found.lower_bits == pytest.approx(found.upper_bits, abs=1e-6)
    assert under(table, found.law, beta) == pytest.approx(found.lower_bits, abs=1e-9)

    def excess(t):
        return (r - 1) * (most - t * m) ** 2 / (4 * t * (most - m)) - beta

    root = optimize.brentq(excess, 1e-3, most / m if m else r / beta)
    # The others at their best leave the last one beyond what it tells anything at.
    if 1 - (r - 1) * (m + most / root) / 2 >= most / root:
        assert found.upper_bits == pytest.approx(math.log2(root), abs=1e-6)
    elif lie == 0:  # all are told alike
        assert found.upper_bits == pytest.approx(math.log2(r * (1 - beta)), abs=1e-6)


@pytest.mark.parametrize("beta", [0.0, 0.01, 0.3, 0.8])
def test_max_information_over_laws_of_one_bit_is_that_of_two_datasets(beta):
    """A search along every pair of datasets; no law of all four has more."""
    table = np.array([[0.9, 0.1], [0.5, 0.5], [0.3, 0.7], [0.25, 0.75]])
    found = of_table(table).max_information_over_laws(beta)
    assert found.upper_bits - found.lower_bits == pytest.approx(0.0, abs=1e-6)
    best = math.log2(max(0.9 / 0.25, 0.75 / 0.1)) if beta == 0 else -math.inf
    for i, j in np.argwhere(~np.eye(4, dtype=bool)) if beta else ():
        pair = table[[i, j]]
        grid = np.linspace(1e-4, 1 - 1e-4, 2001)
        best = max(best, *(under(pair, np.array([x, 1 - x]), beta) for x in grid))
    assert found.upper_bits == pytest.approx(best, abs=1e-4)
    # Without the law that was found, which an upper bound that is too small would be raised to.
    alone = _most_over_laws(table.min(axis=0), table.max(axis=0), beta)
    assert alone / math.log(2) == pytest.approx(best, abs=1e-4)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.001, 0.05, 0.3, 0.7]))
def test_no_law_has_more_information_than_the_bound(seed, beta):
    rng = np.random.default_rng(seed)
    outputs = int(rng.integers(2, 5))
    table = rng.dirichlet(np.full(outputs, rng.choice([0.3, 1.0, 3.0])), 5)
    found = of_table(table).max_information_over_laws(beta)
    laws = [*rng.dirichlet(np.ones(5), 20), *rng.dirichlet(np.full(5, 0.2), 20)]
    start = max(laws, key=lambda law: under(table, law, beta))

    def minus(logits):
        law = np.exp(logits - logits.max())
        return -under(table, law / law.sum(), beta)

    search = optimize.minimize(minus, np.log(start + 1e-6), method="Nelder-Mead")
    assert max(-search.fun, *(under(table, law, beta) for law in laws)) <= found.upper_bits + 1e-9
    assert found.law.min() >= 0
    assert found.law.sum() == pytest.approx(1.0)
    assert under(table, found.law, beta) == pytest.approx(found.lower_bits, abs=1e-8)
    assert found.lower_bits >= -search.fun - 0.1  # what a search from one start finds, or nearly


def test_max_information_over_laws_does_not_see_the_law_of_the_table():
    rng = np.random.default_rng(3)
    table = rng.dirichlet(np.ones(3), 4)
    one, other = (FiniteChannel(table, p, 2).max_information_over_laws(0.05)
                  for p in ([0.5, 0.5], [0.999, 0.001]))  # fmt: skip
    assert one.upper_bits == other.upper_bits
    assert one.lower_bits == other.lower_bits
    constant = of_table(np.tile([0.2, 0.3, 0.5], (4, 1))).max_information_over_laws(0.1)
    assert constant.upper_bits == pytest.approx(math.log2(0.9))
    assert constant.lower_bits == pytest.approx(math.log2(0.9))
    assert of_table(np.eye(3)).max_information_over_laws(0.0).upper_bits == math.inf


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: of_table(np.eye(2)).max_information_over_laws(1.0), "beta must"),
        (lambda: FiniteChannel([[1.0]], [0.5, 0.5], 1), "probabilities must have shape"),
        (lambda: FiniteChannel([[0.9], [1.0]], [0.5, 0.5], 1), "rows that are laws"),
        (lambda: FiniteChannel([[1.0], [1.0]], [0.5, 0.5], 1).then([[1.0]]), "kernel must have"),
        (lambda: FiniteChannel([[1.0], [1.0]], [0.5, 0.5], 1).on_average_kl([1]), "positions"),
        (lambda: channels.summed_loss([[0.0, 1.0]], 30), "too large to enumerate"),
        (lambda: channels.uniform_noise([0.5, 1.0], 1, 1, [0.5, 0.5]), "vector of integers"),
    ],
)
def test_bad_input_is_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()
