"""The ladder of privacy notions: types against ordered channels, and the order among notions."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gibbs_dp.exact.finite_problem import FiniteProblem
from gibbs_dp.exact.notions import worst_group_divergence
from gibbs_dp.information.divergences import batched
from gibbs_dp.papers.channels import gibbs, summed_loss

REPLACE = {"adjacency": "replace-one"}
REMOVE = {"adjacency": "add-remove"}


def random_problem(seed, m=3, h=4):
    rng = np.random.default_rng(seed)
    problem = FiniteProblem(
        rng.normal(size=(h, m)), rng.dirichlet(np.ones(m)), rng.dirichlet(np.ones(h))
    )
    return problem, lambda n, gamma: gibbs(
        summed_loss(problem.loss_matrix, n), n, gamma, problem.data_probs, problem.prior_probs
    )


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.1, 2.0), st.integers(2, 3))
def test_types_agree_with_the_channel(seed, gamma, n):
    problem, channel_of = random_problem(seed)
    channel = channel_of(n, gamma)
    close = {"abs": 1e-11, "rel": 1e-9}
    epsilons, orders = [0.0, 0.3, 1.0], [0.5, 2.0, 16.0]
    assert problem.privacy_curve(gamma, n, epsilons, **REPLACE) == pytest.approx(
        channel.privacy_curve(epsilons), **close
    )
    assert problem.renyi_curve(gamma, n, orders, **REPLACE) == pytest.approx(
        channel.renyi_curve(orders), **close
    )
    assert problem.zcdp(gamma, n, **REPLACE) == pytest.approx(channel.zcdp(), rel=1e-6)
    assert problem.personalized_dp(gamma, n, **REPLACE) == pytest.approx(
        channel.personalized_dp(), **close
    )
    for omega in (0.0, 0.05, 0.4):
        assert problem.random_dp_epsilon(gamma, n, omega) == pytest.approx(
            channel.random_dp_epsilon(omega), **close
        )
    answer = problem.quantities(gamma, n, 0.1)
    assert answer["on_average_kl"] == pytest.approx(channel.on_average_kl(), **close)
    gen = channel.generalization_error(problem.loss_matrix)
    assert answer["generalization_error"] == pytest.approx(gen, **close)
    erasure = channel.erasure_mutual_information()
    assert answer["erasure_mutual_information"] == pytest.approx(erasure, **close)
    erasure_t = channel.erasure_t_information()
    assert answer["erasure_t_information"] == pytest.approx(erasure_t, **close)
    bits = channel.approx_max_information_bits(0.1)
    assert answer["approx_max_information_bits"] == pytest.approx(bits, **close)
    subset = problem.subset_information(gamma, n)
    for k in range(1, n + 1):
        assert subset[k] == pytest.approx(channel.subset_information(range(k)), **close)
        group = problem.group_privacy(gamma, n).on_average_kl[k - 1]
        assert group == pytest.approx(channel.on_average_kl(range(k)), **close)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.1, 3.0), st.integers(1, 5))
def test_every_notion_weakens_the_one_before(seed, gamma, n):
    problem, _ = random_problem(seed)
    eps = problem.dp_epsilon(gamma, n, **REPLACE)
    slack = 1e-11
    assert problem.personalized_dp(gamma, n, **REPLACE).max() == pytest.approx(eps, abs=slack)
    by_omega = [problem.random_dp_epsilon(gamma, n, w) for w in (0.0, 0.01, 0.1, 0.5)]
    assert by_omega[0] == pytest.approx(eps, abs=slack)
    assert all(a >= b - slack for a, b in itertools.pairwise(by_omega))
    curve = problem.privacy_curve(gamma, n, [0.0, eps / 2, eps], **REPLACE)
    tv = problem.tv_privacy(gamma, n, **REPLACE)
    assert curve[0] == pytest.approx(tv, abs=slack)
    assert curve[2] == pytest.approx(0.0, abs=slack)
    assert curve[0] >= curve[1] - slack
    renyi = problem.renyi_curve(gamma, n, [1.0, 2.0, 64.0, math.inf], **REPLACE)
    assert all(a <= b + slack for a, b in itertools.pairwise(renyi))
    assert renyi[-1] == pytest.approx(eps, abs=slack)
    kl = problem.kl_privacy(gamma, n, **REPLACE)
    assert renyi[0] == pytest.approx(kl, abs=slack)
    rho = problem.zcdp(gamma, n, **REPLACE)
    assert kl <= rho + slack
    assert rho <= eps**2 / 2 + slack  # Bun & Steinke 2016, Prop. 3.3
    assert renyi[1] <= 2 * rho * (1 + 1e-9) + slack
    assert problem.on_average_kl(gamma, n) <= kl + slack
    assert tv <= math.sqrt(kl / 2) + slack


def test_random_dp_counts_pairs():
    # One example of two values: loss 0 with probability 1/2 (ghost equal), else eps.
    problem = FiniteProblem([[0.0, 1.0], [1.0, 0.0]], [0.5, 0.5], [0.5, 0.5])
    eps = problem.dp_epsilon(1.0, 1, **REPLACE)
    assert problem.random_dp_epsilon(1.0, 1, 0.5) == 0.0
    assert problem.random_dp_epsilon(1.0, 1, 0.49) == pytest.approx(eps)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.1, 2.0), st.integers(1, 3))
def test_add_remove_by_brute_force(seed, gamma, n):
    problem, channel_of = random_problem(seed)
    larger = channel_of(n, gamma).probabilities.reshape(3, -1, 4)
    smaller = channel_of(n - 1, gamma).probabilities if n > 1 else problem.prior_probs[None, :]
    log_ratio = np.log(larger / smaller)  # dataset's first example removed
    eps = problem.dp_epsilon(gamma, n, **REMOVE)
    assert eps == pytest.approx(np.abs(log_ratio).max(), abs=1e-11)
    by_person = np.abs(log_ratio).max(axis=(1, 2))
    assert problem.personalized_dp(gamma, n, **REMOVE) == pytest.approx(by_person, abs=1e-11)
    kl = np.maximum((larger * log_ratio).sum(-1).max(), (-(smaller * log_ratio)).sum(-1).max())
    assert problem.kl_privacy(gamma, n, **REMOVE) == pytest.approx(kl, abs=1e-11)
    # Replacing is removing and adding.
    assert problem.dp_epsilon(gamma, n, **REPLACE) <= 2 * eps + 1e-11


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.1, 2.0))
def test_worst_groups_by_brute_force(seed, gamma):
    n = 3
    problem, channel_of = random_problem(seed, m=2, h=3)
    channel = channel_of(n, gamma)
    distance = (channel.datasets[:, None] != channel.datasets[None]).sum(-1)
    log_p, log_q = channel.log_laws[:, None], channel.log_laws[None]
    for k in (1, 2, 3):
        within = distance <= k
        for name, divergence in (
            ("dp_epsilon", batched.max_divergence),
            ("kl", batched.kl),
            ("tv", batched.total_variation),
        ):
            values = divergence(*np.broadcast_arrays(log_p, log_q))[within].max()
            if name == "dp_epsilon":
                found = problem.group_privacy(gamma, n).dp_epsilon[k - 1]
            else:
                found = worst_group_divergence(problem.table(gamma, n), k, divergence)
            assert found == pytest.approx(values, abs=1e-11)
    assert problem.group_privacy(gamma, n).dp_epsilon[2] <= 3 * channel.dp_epsilon() + 1e-11
