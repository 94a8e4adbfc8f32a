"""An analyst who climbs: answered in full, held within the promise, and seen when she is not."""

import math

import numpy as np
import pytest
from scipy import stats

from gibbs_dp.holdout import plan_num_rows, plan_thresholdout
from gibbs_dp.papers.reusable_holdout import selection
from gibbs_dp.papers.reusable_holdout.data import Found
from gibbs_dp.papers.reusable_holdout.plot import plot_holdout


@pytest.fixture(scope="module")
def found():
    return selection.run_climb(repetitions=2, key=5)


def demonstrates(found):
    """Whether a gate let the analyst climb in full, kept its promise and told the truth."""
    plain, gated = selection.climb_summary(found)
    return (
        plain["kept"] == 0.0
        and gated["answered"] == 1.0
        and gated["votes_answered"] == selection.PHASES
        and gated["kept"] == 1.0
        and abs(gated["last_told_accuracy"] - 0.5) < 0.02
    )


def test_the_climb_is_answered_and_held_within_the_promise(found):
    assert demonstrates(found)
    plain, gated = selection.climb_summary(found)
    assert gated["promised_tau"] < plain["largest_error"]
    # Every vote overfits the training set, so that each costs a unit, and single attributes none.
    assert gated["budget_spent"] == gated["votes_answered"] == selection.PHASES
    # Votes of all attributes with their signs: each is right with sqrt(2/(pi n))/2 above 1/2.
    asked = selection.D * np.arange(1, selection.PHASES + 1) / selection.PHASES
    told = stats.norm.cdf(np.sqrt(2 * asked / (math.pi * found.n)))
    assert found.told[:, 0] == pytest.approx(np.tile(told, (2, 1)), abs=0.01)
    # The largest of all single answers' errors, on either: d deviations of 1/(2 sqrt(n)).
    expected = stats.norm.isf(1 / (2 * selection.D)) / (2 * math.sqrt(found.n))
    assert gated["largest_error"] == pytest.approx(expected, rel=0.25)
    assert selection.climb_rows(found)[-1]["told"] == found.told[-1, 1, -1]


@pytest.mark.trust
def test_a_gate_that_falls_silent_does_not_pass(found):
    silent = selection.run_climb(repetitions=2, key=5, gate=found.gate._replace(budget=1))
    assert not demonstrates(silent)
    gated = selection.climb_summary(silent)[1]
    # The first vote takes the only unit; after it nothing is answered.
    assert gated["votes_answered"] == 1
    assert gated["answered"] == pytest.approx((selection.D / 4 + 1) / (selection.D + 4))
    assert "last_told_accuracy" not in gated
    assert gated["last_told_accuracy_unanswered"] == 2
    rows = selection.climb_rows(silent)
    assert [("told" in r) for r in rows[-4:]] == [True, False, False, False]
    assert plot_holdout(Found("climb", rows, [])).axes


@pytest.mark.trust
def test_a_gate_that_lets_through_does_not_pass(found):
    """A threshold above every gap tells the training accuracy."""
    open_gate = found.gate._replace(threshold=0.6)
    loose = selection.run_climb(repetitions=2, key=5, gate=open_gate)
    assert not demonstrates(loose)
    assert selection.climb_summary(loose)[1]["last_told_accuracy"] > 0.8


def test_rows_and_budget_are_the_planners(found):
    queries = selection.D + selection.PHASES
    wanted = {"overfit": selection.OVERFIT, "beta": selection.BETA}
    assert found.n == plan_num_rows(queries, selection.TAU, budget=selection.PHASES, **wanted)
    plan = plan_thresholdout(found.n, queries, selection.TAU, **wanted)
    assert found.gate == (plan.threshold, plan.sigma, plan.budget)
    assert plan.budget == selection.PHASES
