"""Acceptance by a few rows: as likely as by all of them, by digits as by doubles, and cheaper."""

import math

import numpy as np
import pytest
from scipy import stats

from gibbs_dp.model.losses import Huber, Logistic, SoftmaxCrossEntropy
from gibbs_dp.privacy import proximal_acceptance
from gibbs_dp.privacy.noise import SeededNoise
from gibbs_dp.privacy.proximal import QuadraticPrior, plan_proximal
from gibbs_dp.privacy.proximal_acceptance import (
    Acceptance,
    SecondStep,
    ThinnedAcceptance,
    TotalLoss,
)
from gibbs_dp.privacy.proximal_sampler import ProximalSampler

CURVATURE = {"logistic": 0.25, "huber": 1.0, "softmax": 0.5}
LOSSES = {"logistic": Logistic(), "huber": Huber(0.5), "softmax": SoftmaxCrossEntropy(3)}


def run_of(name, rows=300, dim=3, claimed=1.0):
    """Make a sampler on all of space; ``claimed`` times the curvature that it should be told."""
    rng, loss = np.random.default_rng(4), LOSSES[name]
    x = rng.normal(size=(rows, dim))
    x /= np.maximum(1.0, np.linalg.norm(x, axis=1))[:, None]
    y = np.floor(3 * rng.random(rows)) if name == "softmax" else (rng.random(rows) < 0.4) * 1.0
    size = dim * (3 if name == "softmax" else 1)
    prior = QuadraticPrior(np.ones(size), np.zeros(size), np.zeros(size), np.array([np.inf]))
    gamma = 30 / rows
    smoothness = gamma * rows * CURVATURE[name] * claimed
    plan = plan_proximal(prior, smoothness=smoothness, farthest=3.0, total_variation=1e-3)
    return ProximalSampler(prior, TotalLoss(loss, gamma, x, y, 1.0), plan, SeededNoise(1))


def step_of(run, off=0.6):
    """A second step whose anchor is not near the minimum, so that many proposals fall."""
    y = np.full(run.prior.dim, 0.2)
    tangent = run.total.tangent(y + off / math.sqrt(run.prior.dim))
    stiff = run.prior.precision + run.pull
    law = run._law((run.pull * y - tangent.gradient) / stiff, stiff**-0.5)
    return SecondStep(run.prior, run.plan, run.source, run.total, y, tangent, law)


@pytest.mark.trust(but=["logistic-3", "huber-3"])
@pytest.mark.parametrize(("name", "dim"), [*((name, 3) for name in LOSSES), ("logistic", 60)])
def test_a_few_rows_accept_as_often_as_all(name, dim):
    """8 proposals, each put to 600 tests, against ``exp(-E)``; a false alarm has 8e-6."""
    run = run_of(name, dim=dim)
    step = step_of(run)
    few, every = ThinnedAcceptance(step), Acceptance(step)
    z, chances = step.tangent.point, []
    for _ in range(8):
        point = run._inside(step.law)
        move = point.values - z
        values = run.total.values(run.total.predict(point.values))
        above = values.sum() - every.value[0] - step.tangent.gradient @ move
        chances.append(math.exp(-above))
        count = sum(few.accepts(point) for _ in range(600))
        assert stats.binomtest(count, 600, chances[-1]).pvalue > 1e-6
    assert min(chances) < 0.5
    assert max(chances) > 0.1


@pytest.mark.trust
def test_dropped_hits_are_caught(monkeypatch):
    """Rows of one half alone: the test above sees it."""
    real = proximal_acceptance.whole_numbers
    monkeypatch.setattr(
        proximal_acceptance, "whole_numbers", lambda end, *rest: real(end // 2, *rest)
    )
    run = run_of("huber")
    run.total.x[:150] *= 0.1  # rows that come up bend less
    step = step_of(run)
    few, every = ThinnedAcceptance(step), Acceptance(step)
    point = run._inside(step.law)
    counts = [sum(test.accepts(point) for _ in range(800)) for test in (few, every)]
    assert stats.fisher_exact([counts, [800 - c for c in counts]]).pvalue < 1e-6


def test_losses_that_bend_more_than_is_said_are_refused():
    """An eighth of the curvature: a row is above its tangent by more than its rate."""
    run = run_of("huber", claimed=1 / 8)
    step = step_of(run)
    test = ThinnedAcceptance(step)

    def accept_many():
        for _ in range(500):
            test.accepts(run._inside(step.law))

    with pytest.raises(ValueError, match="bends more than its constants say"):
        accept_many()


def test_losses_that_bend_as_much_as_is_said_are_not(monkeypatch):
    """Half squared distances: no row is below its bound, and a false alarm has 4e-6."""
    monkeypatch.setitem(LOSSES, "huber", Huber(50.0))
    run = run_of("huber", dim=1)
    run.total.x[:] = 1.0
    step = step_of(run)
    test, chances = ThinnedAcceptance(step), []
    for _ in range(4):
        point = run._inside(step.law)
        move = float(point.values[0] - step.tangent.point[0])
        chances.append(math.exp(-0.5 * 30 * move**2))
        count = sum(test.accepts(point) for _ in range(300))
        assert stats.binomtest(count, 300, chances[-1]).pvalue > 1e-6
    assert min(chances) < 0.9


def test_rows_looked_at_do_not_grow_with_their_number(monkeypatch):
    """Some ``M |x - z|^2 / 2``; and the choice is the thinned test where that is a small part."""
    looked_at = []
    real = ThinnedAcceptance._is_hit

    def counted(self, point, which, *rest):
        looked_at.append(len(which))
        return real(self, point, which, *rest)

    monkeypatch.setattr(ThinnedAcceptance, "_is_hit", counted)
    found = []
    for rows in (4_000, 100_000):
        run = run_of("logistic", rows=rows)
        assert isinstance(step_of(run).acceptance(), ThinnedAcceptance)
        looked_at.clear()
        for _ in range(20):
            run._move(np.full(3, 0.2))
        found.append(np.sum(looked_at) / run.num_proposals)
    assert max(found) < 100
    assert found[1] < 1.5 * found[0]
    assert type(step_of(run_of("logistic", rows=1_000)).acceptance()) is Acceptance


@pytest.mark.parametrize("name", LOSSES)
def test_blocks_of_rows_add_up(monkeypatch, name):
    total = run_of(name, rows=1000).total
    theta = np.linspace(-1, 1, total.x.shape[1] * total.num_scores)
    whole = total.tangent(theta)
    monkeypatch.setattr(proximal_acceptance, "BLOCK", 7 * total.x.shape[1])
    blocks = total.tangent(theta)
    for one, other in zip(whole, blocks, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
    ends = [theta + 1e-5 * e for e in np.eye(len(theta))]
    slopes = np.array([total.tangent(end).gradient for end in ends]) - whole.gradient
    monkeypatch.setattr(proximal_acceptance, "ROWS_A_PARAMETER", 10**6)
    if name != "huber":  # whose curvature jumps
        np.testing.assert_allclose(slopes / 1e-5, total.hessian(whole), rtol=1e-3, atol=1e-3)
