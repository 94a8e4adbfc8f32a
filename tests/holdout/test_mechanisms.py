"""Mechanisms: composition against dp-accounting, noise against its law, and refusals."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from gibbs_dp import holdout
from gibbs_dp._extras import require
from gibbs_dp.papers.bayesian_dp.markov_chain import answerable_queries, counting_error
from gibbs_dp.privacy.composition import RULES, composed_pure_dp, per_release_epsilon
from gibbs_dp.privacy.mechanisms import (
    ExponentialMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    ReportNoisyMax,
    gaussian_for,
)


@pytest.mark.parametrize(
    ("k", "eps", "delta"), [(400, 0.01, 1e-6), (3800, 0.01, 1e-6), (5, 1.0, 0.1)]
)
def test_composition_agrees_with_dp_accounting(k, eps, delta):
    pld = require("dp_accounting.pld.privacy_loss_distribution")
    common = require("dp_accounting.pld.common")
    # The grid holds +-eps exactly, so that nothing is rounded up.
    one = pld.from_privacy_parameters(
        common.DifferentialPrivacyParameters(eps, 0.0), value_discretization_interval=eps
    )
    reference = one.self_compose(k).get_epsilon_for_delta(delta)
    found = composed_pure_dp(k, float(eps), delta=delta)
    assert found == pytest.approx(reference, rel=1e-6)
    assert found <= composed_pure_dp(k, float(eps), delta=delta, rule="advanced")


@pytest.mark.parametrize("rule", RULES)
def test_the_inverse_keeps_the_total_and_wastes_nothing(rule):
    each = per_release_epsilon(300, 2.0, delta=1e-5, rule=rule)
    total = composed_pure_dp(300, each, delta=1e-5, rule=rule)
    assert 2.0 * (1 - 1e-6) <= total <= 2.0 * (1 + 1e-12)


def test_noise_has_its_law():
    runs = 4000
    laplace = LaplaceMechanism(3.0, 1.5, adjacency="replace-one")
    gauss = GaussianMechanism(1.0, 2.0, adjacency="add-remove")
    for mechanism, law in (
        (laplace, stats.laplace(scale=2.0)),
        (gauss, stats.norm(scale=2.0)),
    ):
        # Kolmogorov-Smirnov, p below 1e-5: false alarm 2e-5 in all.
        assert stats.kstest(mechanism.release(np.zeros(runs)), law.cdf).pvalue > 1e-5


def test_the_exponential_mechanism_has_its_law_and_its_epsilon():
    mechanism = ExponentialMechanism(1.0, 1.0, adjacency="replace-one")
    utilities = np.array([0.0, 1.0, 3.0])
    p = mechanism.probabilities(utilities)
    assert p == pytest.approx(np.exp(utilities / 2) / np.exp(utilities / 2).sum())
    losses = [
        np.abs(np.log(mechanism.probabilities(utilities + np.array(shift)) / p)).max()
        for shift in itertools.product((-1.0, 0.0, 1.0), repeat=3)
    ]
    assert max(losses) <= 1.0
    runs = 2000
    share = np.bincount([mechanism.release(utilities) for _ in range(runs)], minlength=3) / runs
    # 4.5 standard errors of 3 cells: false alarm 2e-5.
    assert np.all(np.abs(share - p) < 4.5 * np.sqrt(p * (1 - p) / runs))


def test_the_zcdp_of_the_exponential_mechanism_is_nearly_attained():
    """Two choices whose utilities move apart: KL is its order 1, the largest of small epsilons."""
    mechanism = ExponentialMechanism(1.0, 0.1, adjacency="replace-one")
    p, q = (mechanism.probabilities(np.array(u)) for u in ([0.5, -0.5], [-0.5, 0.5]))
    kl = float(p @ np.log(p / q))
    assert kl <= mechanism.guarantee.zcdp <= 1.002 * kl


def test_gaussian_guarantees_agree_with_dp_accounting():
    found = gaussian_for(1.0, 1e-5, sensitivity=2.0, adjacency="replace-one")
    pld = require("dp_accounting.pld.privacy_loss_distribution")
    reference = pld.from_gaussian_mechanism(
        found.sigma, sensitivity=2.0, value_discretization_interval=1e-4
    ).get_epsilon_for_delta(1e-5)
    assert found.guarantee(1e-5).epsilon == pytest.approx(reference, abs=3e-4)
    assert found.guarantee(1e-5).epsilon == pytest.approx(1.0, rel=1e-6)


def test_counting_errors_against_simulation():
    runs, m, n = 20_000, 20, 500
    budget = {"epsilon": 1.0, "delta": 1e-6, "rule": "advanced"}
    each = per_release_epsilon(m, 1.0, delta=1e-6, rule="advanced")
    noise = np.abs(np.random.default_rng(0).laplace(0, 1 / (n * each), (runs, m)))
    for worst, found in ((False, noise.mean(axis=1)), (True, noise.max(axis=1))):
        exact = counting_error(m, n, worst=worst, **budget)
        assert abs(found.mean() - exact) < 4 * found.std() / math.sqrt(runs)  # 6e-5 each
    most = answerable_queries(100_000, **budget)
    ratio = [
        counting_error(k, 100_000, **budget) * math.sqrt(2) / (0.5 / math.sqrt(100_000))
        for k in (most, most + 1)
    ]
    assert ratio[0] <= 1 < ratio[1]
    assert answerable_queries(3, **budget) == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: LaplaceMechanism(0.0, 1.0, adjacency="replace-one"), "sensitivity must"),
        (
            lambda: ReportNoisyMax(1.0, 1.0, adjacency="replace-one", is_monotone=True),
            "moves values both ways",
        ),
        (lambda: holdout.Sparse(1.0, 0, 1.0, adjacency="replace-one"), "num_above must"),
        (lambda: holdout.Sparse(1.0, 1, 0.0, adjacency="replace-one"), "sigma must"),
        (lambda: composed_pure_dp(0, 0.1, delta=0.0), "num_releases must"),
        (lambda: per_release_epsilon(3, 0.0, delta=0.1), "total_epsilon must"),
        (
            lambda: LaplaceMechanism(1.0, 1.0, adjacency="replace-one").release(
                np.array([math.nan])
            ),
            "values must be finite",
        ),
        (
            lambda: holdout.sparse_pure(1.0, 1, sensitivity=1.0, adjacency="replace-one").start(
                math.inf
            ),
            "threshold must be finite",
        ),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
