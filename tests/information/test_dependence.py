"""Measures of dependence on random joint laws: definitions, inequalities, data processing."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gibbs_dp.information import dependence as dep


@st.composite
def joints(draw, shape=(3, 2)):
    size = math.prod(shape)
    weights = draw(st.lists(st.floats(0.01, 1.0), min_size=size, max_size=size))
    table = np.array(weights).reshape(shape)
    return table / table.sum()


@settings(max_examples=30, deadline=None)
@given(joints())
def test_values_are_the_definitions(joint):
    product = np.outer(joint.sum(1), joint.sum(0))
    log_ratio = np.log(joint / product)
    assert dep.mutual_information(joint) == pytest.approx(np.sum(joint * log_ratio), abs=1e-14)
    assert dep.lautum_information(joint) == pytest.approx(-np.sum(product * log_ratio), abs=1e-14)
    assert dep.t_information(joint) == pytest.approx(0.5 * np.abs(joint - product).sum(), abs=1e-14)
    assert dep.max_information_bits(joint) == pytest.approx(np.log2(np.e) * log_ratio.max())
    nats = dep.max_information_bits(joint) * math.log(2)
    assert dep.mutual_information(joint) <= nats + 1e-14
    for measure in (dep.mutual_information, dep.lautum_information, dep.t_information):
        assert measure(joint.T) == pytest.approx(measure(joint), abs=1e-13)


@settings(max_examples=30, deadline=None)
@given(joints(), st.floats(0.001, 0.9))
def test_approx_max_information_by_search_over_all_events(joint, beta):
    product = np.outer(joint.sum(1), joint.sum(0)).ravel()
    flat, best = joint.ravel(), -math.inf
    for event in itertools.product([False, True], repeat=flat.size):
        mask = np.array(event)
        if flat[mask].sum() > beta + 1e-12:
            best = max(best, math.log2((flat[mask].sum() - beta) / product[mask].sum()))
    assert dep.approx_max_information_bits(joint, beta) == pytest.approx(best, abs=1e-9)


@settings(max_examples=20, deadline=None)
@given(joints((3, 2, 2)))
def test_erasure_individual_and_conditional(joint):
    erasure = dep.erasure_mutual_information(joint)
    # Axes [W, z1, z2]: given z2, and given z1.
    by_hand = dep.conditional_mutual_information(joint) + dep.conditional_mutual_information(
        joint.swapaxes(1, 2)
    )
    assert erasure == pytest.approx(by_hand, abs=1e-13)
    by_hand_t = dep.conditional_t_information(joint) + dep.conditional_t_information(
        joint.swapaxes(1, 2)
    )
    assert dep.erasure_t_information(joint) == pytest.approx(by_hand_t, abs=1e-13)
    # Chain rule: I(W; z1, z2) = I(W; z2) + I(W; z1 | z2), whatever the law.
    whole = dep.mutual_information(joint.reshape(3, 4))
    chained = dep.individual_information(joint)[1] + dep.conditional_mutual_information(joint)
    assert whole == pytest.approx(chained, abs=1e-13)


def test_conditional_forms_average_over_the_condition():
    rng = np.random.default_rng(0)
    parts = rng.dirichlet(np.ones(6), size=2).reshape(2, 3, 2)
    weight = np.array([0.3, 0.7])
    joint = np.moveaxis(parts * weight[:, None, None], 0, 2)
    pairs = [
        (dep.conditional_mutual_information, dep.mutual_information),
        (dep.conditional_t_information, dep.t_information),
    ]
    for conditional, plain in pairs:
        expected = weight @ [plain(part) for part in parts]
        assert conditional(joint) == pytest.approx(expected, abs=1e-12)


def test_infinite_lautum_and_bad_shapes():
    assert dep.lautum_information(np.eye(2) / 2) == math.inf
    assert dep.max_information_bits(np.eye(2) / 2) == pytest.approx(1.0)
    for measure in (dep.mutual_information, dep.conditional_t_information):
        with pytest.raises(ValueError, match="joint must have axes"):
            measure([1.0])
    with pytest.raises(ValueError, match="beta must lie"):
        dep.approx_max_information_bits(np.eye(2) / 2, 1.0)
