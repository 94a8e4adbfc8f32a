"""Membership with the rest of the dataset unknown: reference values, definitions, simulation."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gibbs_dp import exact
from gibbs_dp.papers.on_average_kl.attackers import gaussian_mean_membership

THETA, VALUES = np.array([0.0, 0.25, 0.5, 0.75, 1.0]), np.array([0.0, 0.5, 1.0])
FIXTURE = exact.FiniteProblem((THETA[:, None] - VALUES) ** 2, [0.5, 0.3, 0.2], np.full(5, 0.2))
SIX = {"abs": 0.51e-6, "rel": 0.0}


@pytest.mark.parametrize(
    ("gamma", "advantage", "root", "auc"),
    [
        (0.2, 0.020127, 0.026407, 0.514592),
        (1.0, 0.076633, 0.100861, 0.554309),
        (3.0, 0.128835, 0.171543, 0.590521),
    ],
)
def test_fixture_table(gamma, advantage, root, auc):
    found = FIXTURE.membership(gamma, 4)
    assert found.advantage == pytest.approx(advantage, **SIX)
    assert math.sqrt(found.individual_information / 2) == pytest.approx(root, **SIX)
    assert found.attack_auc == pytest.approx(auc, **SIX)
    single = FIXTURE.individual_information(gamma, 4)
    assert found.individual_information == pytest.approx(single, rel=1e-12)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3))
def test_a_channel_by_its_joint_law(seed, n):
    rng = np.random.default_rng(seed)
    channel = exact.FiniteChannel(
        rng.dirichlet(np.ones(3), size=2**n), rng.dirichlet(np.ones(2)), n
    )
    position = int(rng.integers(n))
    others = tuple(j + 1 for j in range(n) if j != position)
    joint = channel.joint().sum(axis=others)
    product = np.outer(joint.sum(1), joint.sum(0))
    found = channel.membership(position)
    assert found.advantage == pytest.approx(np.abs(joint - product).sum() / 2, abs=1e-13)
    mean = (joint * np.log(joint / product)).sum()
    assert found.individual_information == pytest.approx(mean, abs=1e-12)
    mean = (product * np.log(product / joint)).sum()
    assert found.lautum_information == pytest.approx(mean, abs=1e-12)
    level = np.log(joint / product).ravel()
    wins = np.sign(np.round(level[:, None] - level, 11)) / 2 + 0.5
    assert found.attack_auc == pytest.approx(joint.ravel() @ wins @ product.ravel(), abs=1e-9)
    # The best event of all at a rate, as the chord of the ROC below it.
    events = np.array(list(itertools.product([0.0, 1.0], repeat=6)))
    for x, y in zip(events @ product.ravel(), events @ joint.ravel(), strict=True):
        assert y <= float(found.roc(min(x, 1.0))) + 1e-12


def test_gaussian_reference_values():
    found = gaussian_mean_membership(1.0, 30, 1, 1.0)
    n = 30
    information = 0.5 * math.log((1 / n + 1 / n) / ((n - 1) / n**2 + 1 / n))
    assert found.individual_information == pytest.approx(information, rel=1e-12)
    assert found.individual_information == pytest.approx(0.008404, **SIX)
    assert found.advantage == pytest.approx(0.041586, **SIX)
    assert gaussian_mean_membership(20.0, 30, 1, 1.0).advantage == pytest.approx(0.057948, **SIX)


def test_gaussian_by_drawing_datasets():
    # 200,000 draws: standard errors below; 4 of them, a false alarm in 15,000 for each figure.
    gamma, n, dim, v, t2, count = 2.0, 5, 2, 1.5, 0.8, 200_000
    rng = np.random.default_rng(20261123)
    z = rng.normal(scale=math.sqrt(v), size=(count, n, dim))
    precision = n * gamma + 1 / t2
    theta = gamma * z.sum(1) / precision + rng.normal(size=(count, dim)) / math.sqrt(precision)
    fresh = rng.normal(scale=math.sqrt(v), size=(count, dim))
    given = (n - 1) * gamma**2 * v / precision**2 + 1 / precision
    alone = n * gamma**2 * v / precision**2 + 1 / precision

    def log_ratio(example):
        near = ((theta - gamma * example / precision) ** 2).sum(1) / given
        far = (theta**2).sum(1) / alone
        return (far - near) / 2 + dim / 2 * math.log(alone / given)

    member, other = log_ratio(z[:, 0]), log_ratio(fresh)
    found = gaussian_mean_membership(gamma, n, dim, v, t2)
    for value, mean in ((found.individual_information, member), (found.lautum_information, -other)):
        assert abs(mean.mean() - value) < 4 * mean.std() / math.sqrt(count)
    share = (member > 0).mean() - (other > 0).mean()
    assert abs(share - found.advantage) < 4 * math.sqrt(0.5 / count)
    order = np.argsort(np.concatenate([member, other])).argsort()[:count]
    auc = (order.sum() - count * (count - 1) / 2) / count**2
    assert abs(auc - found.attack_auc) < 4 * math.sqrt(1 / (6 * count))
    level = np.quantile(other, 0.99)
    # The quantile's own error moves the rate by about its slope e^level.
    spread = math.sqrt(found.attack_tpr_1pct / count) + math.exp(level) * math.sqrt(0.01 / count)
    assert abs((member > level).mean() - found.attack_tpr_1pct) < 4 * spread


def test_refusals():
    with pytest.raises(ValueError, match=r"fpr must lie in \[0, 1\]"):
        FIXTURE.membership(1.0, 4).roc(2.0)
    with pytest.raises(ValueError, match="data_variance must be positive"):
        gaussian_mean_membership(1.0, 3, 1, 0.0)
