"""Dependent examples: laws by enumeration, Remark 1 for any joint law, the correlated mean."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gibbs_dp.exact.types import ordered_datasets
from gibbs_dp.information import divergences as dv
from gibbs_dp.papers import channels
from gibbs_dp.papers.on_average_kl import counterexamples
from gibbs_dp.papers.on_average_kl.closed_forms import correlated_mean, gaussian_mean


def test_markov_chain_law_by_hand():
    start, move = [0.7, 0.3], [[0.9, 0.1], [0.4, 0.6]]
    law = counterexamples.markov_chain_probs(start, move, 3)
    for states, found in zip(ordered_datasets(3, 2), law, strict=True):
        a, b, c = states
        assert found == pytest.approx(start[a] * move[a][b] * move[b][c], abs=1e-15)
    assert law.sum() == pytest.approx(1.0, abs=1e-15)
    # A chain that forgets its state draws independent examples.
    free = counterexamples.markov_chain_probs([0.7, 0.3], [[0.7, 0.3], [0.7, 0.3]], 2)
    assert free == pytest.approx(np.kron([0.7, 0.3], [0.7, 0.3]), abs=1e-15)


def brute_force(loss, gamma, law, prior):
    """``E KL`` and ``gamma E`` gap with every pair of datasets, one at a time."""
    posterior = np.exp(-gamma * loss) * prior
    posterior /= posterior.sum(axis=1, keepdims=True)
    kl = gap = 0.0
    for p, mine, seen in zip(law, posterior, loss, strict=True):
        for q, theirs, fresh in zip(law, posterior, loss, strict=True):
            kl += p * q * float(mine @ np.log(mine / theirs))
            gap += p * q * float(mine @ (fresh - seen))
    return kl, gamma * gap


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.floats(0.1, 3.0))
def test_remark_1_and_lemma_9_for_any_joint_law(seed, n, gamma):
    rng = np.random.default_rng(seed)
    law = rng.dirichlet(np.full(2**n, 0.5))  # no structure at all
    loss, prior = rng.normal(size=(2**n, 3)), rng.dirichlet(np.ones(3))
    records = counterexamples.dependent_identities(loss, gamma, law, prior)
    kl, gap = brute_force(loss, gamma, law, prior)
    assert records[0].left == pytest.approx(kl, abs=1e-12)
    assert records[0].right == pytest.approx(gap, abs=1e-12)
    for record in records:
        assert record.left == pytest.approx(record.right, abs=1e-12)


def test_independent_examples_are_a_chain_too():
    loss = channels.summed_loss([[0.0, 1.0], [0.4, 0.3], [1.0, 0.1]], 4)
    start, prior = [0.3, 0.7], [0.2, 0.3, 0.5]
    law = counterexamples.markov_chain_probs(start, [start, start], 4)
    whole = counterexamples.whole_dataset_gibbs(loss, 1.5, law, prior)
    plain = channels.gibbs(loss, 4, 1.5, start, prior)
    assert whole.on_average_kl() == pytest.approx(4 * plain.on_average_kl(), abs=1e-12)
    information = plain.mutual_information()
    assert whole.mutual_information() == pytest.approx(information, abs=1e-12)
    kl, gap = counterexamples.ghost_sides(loss, 1.5, law, prior, 4)
    assert (kl, gap) == pytest.approx((plain.on_average_kl(),) * 2, abs=1e-12)


def test_independent_ghosts_are_wrong_in_a_chain():
    loss = channels.summed_loss([[0.0, 1.0], [1.0, 0.0]], 3)
    law = counterexamples.markov_chain_probs([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], 3)
    kl, gap = counterexamples.ghost_sides(loss, 2.0, law, [0.5, 0.5], 3)
    assert gap > 5 * kl
    whole = counterexamples.whole_dataset_gibbs(loss, 2.0, law, [0.5, 0.5])
    # Lemma 6 is lost as well: the whole costs far more than three single ghosts.
    assert whole.on_average_kl() > 10 * kl


@pytest.mark.parametrize("prior_variance", [math.inf, 0.3])
def test_correlated_mean(prior_variance):
    n, gamma, dim = 6, 0.7, 3
    plain = gaussian_mean(gamma, n, dim, 1.8, prior_variance)
    same = correlated_mean(gamma, 1.8 * np.eye(n), dim, prior_variance)
    assert same.on_average_kl == pytest.approx(n * plain.on_average_kl, rel=1e-12)
    assert same[1:] == pytest.approx(plain[1:], rel=1e-12)


def test_correlated_mean_against_the_kl_of_its_posteriors():
    time = np.arange(5)
    covariance = 2 * np.exp(-(np.subtract.outer(time, time) ** 2) / 8)
    gamma, precision = 0.4, 5 * 0.4 + 1 / 0.6
    found = correlated_mean(gamma, covariance, 1, 0.6)
    # Means of two independent paths by Gauss-Hermite nodes; sensitivities, not the formula.
    nodes, weights = np.polynomial.hermite_e.hermegauss(12)
    deviation = math.sqrt(np.full(5, 0.2) @ covariance @ np.full(5, 0.2))
    centre, variance = 5 * gamma * deviation * nodes / precision, 1 / precision
    kl = sum(
        u * v * dv.gaussian_kl(a, variance, b, variance)
        for a, u in zip(centre, weights, strict=True)
        for b, v in zip(centre, weights, strict=True)
    )
    assert kl / weights.sum() ** 2 == pytest.approx(found.on_average_kl, rel=1e-10)
    # I: a Gaussian posterior mean of variance s^2 seen through noise 1/P.
    spread = weights @ centre**2 / weights.sum()
    assert found.mutual_information == pytest.approx(0.5 * math.log1p(spread * precision))
    assert found.mutual_information + found.lautum_information == pytest.approx(kl / 2 / math.pi)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: counterexamples.markov_chain_probs([0.5, 0.5], [[1.0]], 2),
            "transition must have",
        ),
        (
            lambda: counterexamples.markov_chain_probs([0.5, 0.5], [[0.9, 0.2], [0.5, 0.5]], 2),
            "transition must sum to 1",
        ),
        (
            lambda: counterexamples.markov_chain_probs([0.5, 0.5], np.eye(2), 40),
            "too large to enumerate",
        ),
        (lambda: correlated_mean(1.0, [[1.0, 0.2], [0.3, 1.0]]), "covariance must be a symmetric"),
        (lambda: correlated_mean(1.0, [[1.0, -2.0], [-2.0, 1.0]]), "variance of the mean"),
        (lambda: correlated_mean(1.0, np.eye(2), 1, 0.0), "prior_variance"),
    ],
)
def test_bad_input_is_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()
