"""Conditional mutual information by supersamples: reference values and the definition."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gibbs_dp import exact
from gibbs_dp.information import dependence as dep
from gibbs_dp.papers import channels

THETA, VALUES = np.array([0.0, 0.25, 0.5, 0.75, 1.0]), np.array([0.0, 0.5, 1.0])
FIXTURE = exact.FiniteProblem((THETA[:, None] - VALUES) ** 2, [0.5, 0.3, 0.2], np.full(5, 0.2))
SIX = {"abs": 0.51e-6, "rel": 0.0}


@pytest.mark.parametrize(
    ("gamma", "cmi", "individual", "given_others"),
    [
        (0.2, 0.002806, 0.000700, 0.000703),
        (1.0, 0.044720, 0.010812, 0.011559),
        (3.0, 0.163150, 0.036348, 0.045658),
    ],
)
def test_fixture_table(gamma, cmi, individual, given_others):
    found = FIXTURE.supersample_information(gamma, 4)
    assert found.conditional_mutual_information == pytest.approx(cmi, **SIX)
    assert found.evaluated == pytest.approx(cmi, **SIX)
    assert found.individual == pytest.approx(individual, **SIX)
    assert found.given_others == pytest.approx(given_others, **SIX)


def by_definition(channel, loss):
    """Four informations from joint laws, one ordered supersample of n pairs at a time."""
    n, m = channel.n, channel.data_probs.size
    place = m ** np.arange(n - 1, -1, -1)
    total = np.zeros(4)
    for flat in itertools.product(range(m), repeat=2 * n):
        pairs = np.array(flat).reshape(n, 2)
        weight = channel.data_probs[pairs].prod()
        joint = np.zeros((channel.num_outputs, *[2] * n))
        for u in itertools.product((0, 1), repeat=n):
            row = int(pairs[np.arange(n), u] @ place)
            joint[(slice(None), *u)] = channel.probabilities[row] / 2**n
        seen = [tuple(np.round(loss[w][pairs], 9).ravel()) for w in range(channel.num_outputs)]
        kinds = sorted(set(seen))
        merged = np.array(
            [joint.reshape(len(seen), -1)[[s == kind for s in seen]].sum(0) for kind in kinds]
        )
        whole = dep.mutual_information(joint.reshape(len(seen), -1))
        single = dep.individual_information(joint).mean()
        rest = dep.erasure_mutual_information(joint) / n
        total += weight * np.array([whole, dep.mutual_information(merged), single, rest])
    return total


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3))
def test_channels_agree_with_the_definition(seed, n):
    rng = np.random.default_rng(seed)
    channel = exact.FiniteChannel(
        rng.dirichlet(np.ones(3), size=2**n), rng.dirichlet(np.ones(2)), n
    )
    loss = rng.integers(2, size=(3, 2)).astype(float)  # ties merge outputs
    found = channel.supersample_information(loss)
    assert tuple(found) == pytest.approx(by_definition(channel, loss), abs=1e-12)
    assert found.evaluated <= found.conditional_mutual_information + 1e-12


def test_types_agree_with_channels():
    n, gamma = 3, 1.3
    channel = channels.gibbs(
        channels.summed_loss(FIXTURE.loss_matrix, n),
        *(n, gamma, FIXTURE.data_probs, FIXTURE.prior_probs),
    )
    found = FIXTURE.supersample_information(gamma, n)
    assert tuple(found) == pytest.approx(
        tuple(channel.supersample_information(FIXTURE.loss_matrix)), rel=1e-10
    )


def test_the_last_of_the_four_is_the_mean_jensen_shannon_of_neighbours():
    pairs = FIXTURE.attacker(3.0, 4).pairs
    found = FIXTURE.supersample_information(3.0, 4).given_others
    assert found == pytest.approx(pairs.jensen_shannon(), rel=1e-12)


def test_a_memorised_dataset_tells_all_bits_that_matter():
    # W = S: two fair bits of a pair differ half of the time, and then U_i is known.
    channel = exact.FiniteChannel(np.eye(4), [0.5, 0.5], 2)
    blind = channel.supersample_information(np.zeros((4, 2)))
    assert blind.conditional_mutual_information == pytest.approx(math.log(2))
    assert blind.individual == pytest.approx(math.log(2) / 2)
    assert blind.given_others == pytest.approx(math.log(2) / 2)
    assert blind.evaluated == 0.0


def test_values_that_never_occur_do_not_count():
    wider = exact.FiniteProblem(
        np.column_stack([FIXTURE.loss_matrix, np.full(5, 9.0)]),
        [0.5, 0.3, 0.2, 0.0],
        np.full(5, 0.2),
    )
    assert tuple(wider.supersample_information(1.0, 3)) == pytest.approx(
        tuple(FIXTURE.supersample_information(1.0, 3)), rel=1e-10
    )


def test_refusals():
    channel = exact.FiniteChannel(np.eye(2), [0.5, 0.5], 1)
    with pytest.raises(ValueError, match=r"loss_matrix must have shape \[outputs, values\]"):
        channel.supersample_information(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="loss_matrix must be finite"):
        channel.supersample_information(np.full((2, 2), np.inf))
    with pytest.raises(ValueError, match="too large to enumerate"):
        FIXTURE.supersample_information(1.0, 14)
