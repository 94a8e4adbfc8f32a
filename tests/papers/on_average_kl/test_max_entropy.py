"""Gibbs posteriors minimize their objective; a law or a bound that is off is caught."""

import jax
import numpy as np
import pytest

from gibbs_dp.papers.notions import notions
from gibbs_dp.papers.on_average_kl import verify
from gibbs_dp.papers.on_average_kl import verify_sampled as sampled
from gibbs_dp.papers.verify.check import Z_LIMIT
from gibbs_dp.problems.regression import logistic_regression
from gibbs_dp.sampling.sample import sample


def failures(records):
    return {record.name for record in records if not record.holds}


def test_the_objective_is_least_at_the_posterior():
    found = verify.max_entropy_checks()
    assert not failures(found)
    assert len({check.case for check in found}) == 7
    # Laws that are far away are among the others: the statement is not one of zeros.
    assert min(c.left for c in found if c.name.startswith("any other law")) > 1e-3


@pytest.mark.parametrize("factor", [0.999, 1.001])
def test_an_objective_of_another_temperature_is_caught(monkeypatch, factor):
    right = verify.objective
    monkeypatch.setattr(verify, "objective", lambda gamma, *rest: right(factor * gamma, *rest))
    found = failures(verify.finite_records(verify.fixture(), 1.0, 3, seed=0))
    assert "any other law: KL(q || posterior) above -log C" in found
    assert "the least found by search = -log C" in found


def test_groups_of_approximate_dp_are_checked_by_hockey_sticks(monkeypatch):
    found = notions.approximate_group_records()
    assert not failures(found)
    assert len(found) == 4
    # Near enough to the bound for a bound without its factor to fail.
    assert all(record.left > 0.8 * record.right for record in found if record.relation == "<=")
    monkeypatch.setattr(notions, "group_delta", lambda epsilon, delta, k: k * delta)
    assert len(failures(notions.approximate_group_records())) == 3


@pytest.mark.trust
@pytest.mark.parametrize(("gamma", "is_least"), [(1.0, True), (1.5, False)])
def test_sampled_draws_cannot_be_moved_downhill_unless_of_another_temperature(gamma, is_least):
    """16 maps, one-sided at 4 standard errors: false alarms below 1 in 1,000."""
    problem = logistic_regression(dim=sampled.MOVED_DIM)
    data, _ = problem.population.sample(jax.random.key(1), sampled.MOVED_N, 1)
    counts = {"num_chains": sampled.NUM_CHAINS, "num_samples": sampled.NUM_SAMPLES}
    draws = sample(problem.posterior, data, gamma=gamma, key=2, num_warmup=64, **counts)
    found = sampled.changes(problem.posterior, data, 1.0, np.asarray(draws.theta))
    assert (min(x.value / x.se for x in found) > -Z_LIMIT) == is_least
    assert max(x.value / x.se for x in found) > Z_LIMIT
