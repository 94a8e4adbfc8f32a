"""Sibson's information: reference values, the definition, its ends, and the bounds with it."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from gibbs_dp import exact
from gibbs_dp.information import bounds
from gibbs_dp.information import dependence as dep
from gibbs_dp.information import divergences as dv

THETA, VALUES = np.array([0.0, 0.25, 0.5, 0.75, 1.0]), np.array([0.0, 0.5, 1.0])
FIXTURE = exact.FiniteProblem((THETA[:, None] - VALUES) ** 2, [0.5, 0.3, 0.2], np.full(5, 0.2))
SEEDS = st.integers(0, 2**32 - 1)
SIX = {"abs": 0.51e-6, "rel": 0.0}


@pytest.mark.parametrize(
    ("gamma", "second", "eighth", "most"),
    [
        (0.2, 0.011113, 0.041642, 0.208701),
        (1.0, 0.155986, 0.369277, 0.630805),
        (3.0, 0.455580, 0.778106, 1.031130),
    ],
)
def test_fixture_table(gamma, second, eighth, most):
    table = FIXTURE.table(gamma, 4)
    assert table.alpha_mutual_information(2.0) == pytest.approx(second, **SIX)
    assert table.alpha_mutual_information(8.0) == pytest.approx(eighth, **SIX)
    # The last reference value is cut, not rounded: 1.0311308.
    assert table.maximal_leakage() == pytest.approx(most, abs=1.1e-6)
    assert table.alpha_mutual_information(math.inf) == table.maximal_leakage()
    assert table.alpha_mutual_information(1.0) == table.mutual_information()


@settings(max_examples=25, deadline=None)
@given(SEEDS, st.sampled_from([0.5, 1.5, 2.0, 8.0]))
def test_the_definition_and_the_best_law(seed, alpha):
    rng = np.random.default_rng(seed)
    joint = rng.dirichlet(np.ones(6)).reshape(2, 3)
    weight = joint.sum(0)
    laws = joint / weight
    inner = (weight * laws**alpha).sum(1) ** (1 / alpha)
    printed = alpha / (alpha - 1) * math.log(inner.sum())
    found = dep.alpha_mutual_information(joint, alpha)
    assert found == pytest.approx(printed, abs=1e-10)

    def divergence(log_odds):
        q = np.array([1, np.exp(log_odds[0])]) / (1 + np.exp(log_odds[0]))
        return dv.renyi_divergence(joint.ravel(), np.outer(q, weight).ravel(), alpha)

    least = minimize(divergence, [0.0], method="Nelder-Mead", options={"fatol": 1e-13}).fun
    assert found == pytest.approx(least, abs=1e-8)


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_orders_grow_and_processing_loses(seed):
    rng = np.random.default_rng(seed)
    joint = rng.dirichlet(np.full(12, 0.5)).reshape(4, 3)
    kernel = rng.dirichlet(np.ones(2), size=4).T
    orders = [0.3, 0.9, 1.0, 1.1, 3.0, 30.0, math.inf]
    values = [dep.alpha_mutual_information(joint, a) for a in orders]
    assert np.all(np.diff(values) > -1e-9)
    assert values[2] == pytest.approx(dep.mutual_information(joint))
    assert values[-1] <= dep.max_information_bits(joint) * math.log(2) + 1e-12
    for a, value in zip(orders, values, strict=True):
        assert dep.alpha_mutual_information(kernel @ joint, a) <= value + 1e-12


def test_leakage_by_support_alone():
    joint = np.array([[0.4, 0.1, 0.0], [0.1, 0.4, 0.0]])
    assert dep.maximal_leakage(joint) == pytest.approx(math.log(1.6))
    assert dep.maximal_leakage(joint * [1.0, 0.2, 1] / 0.6) == pytest.approx(math.log(1.6))
    independent = np.outer([0.3, 0.7], [0.2, 0.8])
    assert dep.maximal_leakage(independent) == pytest.approx(0.0, abs=1e-12)


@settings(max_examples=15, deadline=None)
@given(SEEDS, st.integers(1, 4))
def test_bounds_on_random_algorithms(seed, n):
    rng = np.random.default_rng(seed)
    channel = exact.FiniteChannel(
        rng.dirichlet(np.full(3, 0.3), size=2**n), rng.dirichlet(np.ones(2)), n
    )
    loss = rng.uniform(size=(3, 2))
    gap = abs(channel.generalization_error(loss))
    joint = channel.joint()
    found = channel.supersample_information(loss)
    each = [channel.membership(i).advantage for i in range(n)]
    limits = [
        bounds.generalization_from_mutual_information(
            channel.alpha_mutual_information(2.0), n, sigma=0.5
        ),
        bounds.generalization_from_cmi(found.evaluated, n),
        bounds.generalization_from_cmi(found.conditional_mutual_information, n),
        math.sqrt(2 * found.given_others),
        math.sqrt(channel.on_average_kl() / 2),
        bounds.generalization_from_t_information(each),
    ]
    assert gap <= min(limits) + 1e-12
    assert limits[2] <= limits[3] + 1e-12 <= limits[4] + 2e-12
    # The tail at every size of the gap that occurs.
    data = exact.ordered_datasets(n, 2)
    off = np.abs(loss @ channel.data_probs - loss[:, data].mean(axis=2).T)
    law = joint.reshape(3, -1).T
    for alpha in (2.0, math.inf):
        information = channel.alpha_mutual_information(alpha)
        for t in off.ravel():
            chance = law[off >= t - 1e-12].sum()
            limit = bounds.generalization_tail_from_alpha_information(
                float(t), information, n, alpha=alpha, sigma=0.5
            )
            assert chance <= limit + 1e-12


@settings(max_examples=10, deadline=None)
@given(SEEDS, st.integers(1, 2))
def test_risk_of_an_algorithm_that_fits_every_example(seed, n):
    # W is a set of values that contains the data, drawn at random; the loss is 0 inside it.
    rng = np.random.default_rng(seed)
    sets = np.array([[w >> v & 1 for v in range(3)] for w in range(8)], bool)
    data = exact.ordered_datasets(n, 3)
    fits = np.array([[row[list(s)].all() for row in sets] for s in data])
    table = fits * rng.uniform(0.01, 1.0, size=fits.shape)
    table /= table.sum(1, keepdims=True)
    channel = exact.FiniteChannel(table, rng.dirichlet(np.ones(3)), n)
    loss = 1.0 - sets
    cmi = channel.supersample_information(loss).conditional_mutual_information
    risk = channel.generalization_error(loss)
    assert risk <= cmi / (n * math.log(2)) + 1e-12


@pytest.mark.parametrize("alpha", [1.25, 2.0, math.inf])
def test_the_tail_as_printed(alpha):
    share = 1.0 if math.isinf(alpha) else (alpha - 1) / alpha
    printed = 2**share * math.exp(-share * (100 * 0.25**2 / (2 * 0.5**2) - 0.7))
    found = bounds.generalization_tail_from_alpha_information(
        0.25, 0.7, 100, alpha=alpha, sigma=0.5
    )
    assert found == pytest.approx(printed)


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_relations_of_two_laws(seed):
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.full(4, rng.choice([0.3, 3.0, 30.0])), size=2)
    kl, tv = dv.kl_divergence(p, q), dv.total_variation(p, q)
    assert tv <= math.sqrt(1 - math.exp(-kl)) + 1e-12
    area = float(dv.batched.auc(np.log(p), np.log(q)))
    assert 0.5 + tv / 2 - 1e-12 <= area <= 0.5 + tv - tv**2 / 2 + 1e-12
    middle = (p + q) / 2
    js = (dv.kl_divergence(p, middle) + dv.kl_divergence(q, middle)) / 2
    found = float(dv.batched.jensen_shannon(np.log(p), np.log(q)))
    assert found == pytest.approx(js, abs=1e-13)
    assert js <= (kl + dv.kl_divergence(q, p)) / 8 + 1e-12


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: dep.alpha_mutual_information([0.5, 0.5], 2.0),
            r"joint must have axes \[W, S\]",
        ),
        (
            lambda: dep.alpha_mutual_information(np.eye(2) / 2, -1.0),
            "alpha must be positive",
        ),
        (
            lambda: bounds.generalization_tail_from_alpha_information(
                0.1, 1.0, 5, alpha=1.0, sigma=0.5
            ),
            "alpha must be above 1",
        ),
        (lambda: bounds.generalization_from_t_information([1.5]), "t_information must be a vector"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()
