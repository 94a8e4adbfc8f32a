"""The registry of theorems: all hold on random problems, and a false one is caught."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gibbs_dp import exact
from gibbs_dp.papers.on_average_kl import counterexamples, verify
from gibbs_dp.papers.verify.check import counterexample, equality, inequality


@settings(max_examples=15, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(2, 3),
    st.integers(2, 5),
    st.floats(0.02, 4.0),
    st.integers(1, 6),
    st.floats(1e-5, 0.95),
)
def test_everything_holds_on_random_problems(seed, values, hypotheses, gamma, n, beta):
    rng = np.random.default_rng(seed)
    problem = exact.FiniteProblem(
        rng.normal(size=(hypotheses, values)) * rng.choice([0.2, 1.0, 3.0]),
        rng.dirichlet(np.ones(values)),
        rng.dirichlet(np.ones(hypotheses)),
    )
    records = verify.verify_problem(problem, gamma, n, beta)
    assert len(records) > 40
    failed = [record for record in records if not record.holds]
    assert not failed


def test_a_structured_loss_breaks_only_what_needs_a_sum():
    problem = exact.StructuredProblem(
        lambda counts: np.column_stack([0 * counts[:, 1], 3.0 * counts[:, 1] ** 2]),
        [0.5, 0.5],
        [0.5, 0.5],
    )
    records = verify.structured_identities(problem, 1.0, 4)
    assert all(record.holds for record in records)
    assert all(r.holds for r in verify.dependence_inequalities(problem, 1.0, 4, 0.1))


def test_counterexamples_stand():
    records = counterexamples.all_counterexamples()
    assert all(record.holds for record in records)
    wrong = records[0]
    assert wrong.relation == "not <="
    assert (wrong.left, wrong.right) == pytest.approx((2.831, 1.446 + 0.252), abs=1e-3)


def test_records_can_fail():
    assert not equality("", "", 1.0, 1.0 + 1e-8).holds
    assert equality("", "", 1.0, 1.0 + 1e-10).holds
    assert equality("", "", np.inf, np.inf).holds
    assert not equality("", "", np.inf, 1.0).holds
    assert not equality("", "", np.nan, np.nan).holds
    assert not inequality("", "", 1.0 + 1e-8, 1.0).holds
    assert not inequality("", "", np.nan, 1.0).holds
    assert inequality("", "", np.inf, np.inf).holds
    assert not counterexample("", "", 1.0, 1.0).holds


def test_a_wrong_gamma_is_caught():
    # The same identities with the losses doubled behind gamma's back must fail.
    class Doubled(exact.FiniteProblem):
        def total_loss(self, counts):
            return 2 * super().total_loss(counts)

    problem = Doubled([[0.0, 1.0], [1.0, 0.0]], [0.3, 0.7], [0.5, 0.5])
    records = verify.gibbs_identities(problem, 1.0, 3)
    assert not records[0].holds
    assert not records[1].holds


@pytest.mark.parametrize("beta", [0.0, 0.01, 0.2, 0.6])
def test_the_tail_of_the_log_ratio_bounds_max_information(beta, monkeypatch):
    """What is above the quantile has probability ``beta`` at most, and what reaches it more."""
    joint = np.random.default_rng(3).dirichlet(np.ones(12)).reshape(3, 4)
    ratio = joint / (joint.sum(axis=1, keepdims=True) * joint.sum(axis=0))
    limit = 2 ** verify.tail_bits(joint, beta)
    assert joint[ratio > limit * (1 + 1e-9)].sum() <= beta < joint[ratio > limit * (1 - 1e-9)].sum()
    assert verify.tail_record(joint, beta).holds
    assert all(record.holds for record in verify.nearly_tight_tail())
    right = verify.tail_bits
    monkeypatch.setattr(verify, "tail_bits", lambda joint, beta: right(joint, beta) + 0.01)
    assert not any(record.holds for record in verify.nearly_tight_tail())
