"""Densities and running means of chosen subsets, against closed forms and each other."""

import numpy as np
import pytest
from scipy import stats

from gibbs_dp.papers.reusable_holdout import run
from gibbs_dp.papers.reusable_holdout.plot import plot_holdout
from gibbs_dp.papers.reusable_holdout.selection import shape_of

N, REPETITIONS = 1000, 400


@pytest.fixture(scope="module")
def found():
    return run.run_holdout("maxima", run.Sizes(n=N, repetitions=REPETITIONS))


def of(rows, choice):
    return [row for row in rows if row["choice"] == choice]


def test_densities_are_those_of_the_laws(found):
    groups, subsets, size = shape_of(N)
    for choice in {row["choice"] for row in found.rows}:
        own = of(found.more["density"], choice)
        width = own[1]["mean"] - own[0]["mean"]
        assert sum(row["density"] for row in own) * width == pytest.approx(1)
        bias = of(found.rows, choice)[0]["bias"]
        mean = sum(row["density"] * row["mean"] for row in own) * width
        assert mean == pytest.approx(bias, abs=width / 10)
    # The largest mean of a group, by its distribution function, which bins know exactly. 60 bins
    # of 4.5 standard errors: false alarm 4e-4; clipping moves a probability by less than 0.003.
    law = stats.norm(scale=size**-0.5)
    total = groups * REPETITIONS
    for row in of(found.more["density"], "largest mean"):
        low, high = row["mean"] - width / 2, row["mean"] + width / 2
        share = law.cdf(high) ** subsets - law.cdf(low) ** subsets
        error = np.sqrt(share * (1 - share) / total)
        assert abs(row["density"] * width - share) < 4.5 * error + 0.003
        exact = (law.cdf(high) ** subsets - law.cdf(low) ** subsets) / width
        assert row["largest"] == pytest.approx(exact, abs=0.02 * size)


def test_running_means_end_at_the_bias_and_do_not_approach_the_truth(found):
    groups, _, _ = shape_of(N)
    for choice in {row["choice"] for row in found.rows}:
        own = of(found.more["running"], choice)
        last, bias = own[-1], of(found.rows, choice)[0]
        assert last["groups"] == groups
        assert (last["running"], last["running_se"]) == (
            pytest.approx(bias["bias"]),
            pytest.approx(bias["bias_se"]),
        )
        assert all(row["low"] < row["running"] < row["high"] for row in own)
        # Groups are independent: one dataset's interval narrows as their number's root.
        ratio = (own[0]["high"] - own[0]["low"]) / (last["high"] - last["low"])
        assert ratio == pytest.approx(groups**0.5, rel=0.25)
    assert of(found.more["running"], "largest mean")[-1]["low"] > 0.3
    assert len(plot_holdout(found).axes) == 3
