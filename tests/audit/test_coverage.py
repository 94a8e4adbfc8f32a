"""Do 95% intervals cover the truth 95% of the time? 200 repetitions on two closed-form problems.

With true coverage 0.95 the count of 200 lies in [180, 198] (90% to 99%) except with probability
4e-3 per check at most; a standard error 20% too small covers 88% and is caught.
"""

import numpy as np
import pytest
from problems import gaussian_examples, gaussian_mean, private_mean, truncated_normals

import gibbs_dp as gdp
from gibbs_dp.auditing import audit as auditing
from gibbs_dp.engine.sweep import run_sweep
from gibbs_dp.engine.view import is_believed
from gibbs_dp.estimators import average
from gibbs_dp.exact import closed_form

REPEATS, DATASETS = 200, 48


def gaussian_truth(gamma):
    exact = closed_form.gaussian_mean(gamma, 20, 2, 1.0, 1.0)
    return exact.on_average_kl, exact.generalization_error


def private_mean_truth(gamma):
    kl = closed_form.private_mean_on_average_kl(gamma, 20)
    return kl, kl / gamma


@pytest.mark.trust
@pytest.mark.parametrize(
    ("posterior", "population", "gammas", "truth"),
    [
        (gaussian_mean(2, 1.0), gaussian_examples(2), [0.01, 1.0], gaussian_truth),
        (private_mean(), truncated_normals, [0.1, 100.0], private_mean_truth),
    ],
    ids=["gaussian-mean", "private-mean"],
)
def test_intervals_cover(posterior, population, gammas, truth, monkeypatch):
    """Some 20 seconds for hundreds of repetitions: fewer would not tell 90% from 95%."""
    # One sweep over all datasets, cut into repetitions: datasets are independent, and what the
    # repetitions share (tuning and control variate) comes from pilots that are in none of them.
    found = []
    monkeypatch.setattr(auditing, "run_sweep", lambda *a: found.append(run_sweep(*a)) or found[0])
    gdp.audit(
        posterior,
        population,
        20,
        gammas,
        num_datasets=REPEATS * DATASETS,
        key=1000,
        learn=[*gdp.DEFAULT, gdp.MutualInformation(0)],
        progress=False,
    )
    for track, gamma in zip(found[0], gammas, strict=True):
        summary = track.summary()
        kept = is_believed(summary)
        assert (~kept).sum() <= 5  # of 9,600: a stuck chain, dropped and reported by an audit
        kl = track.leading_values(summary)
        for values, wanted in zip(
            (kl, summary.values.risks.generalization), truth(gamma), strict=True
        ):
            repeats = np.asarray(values, np.float64).reshape(REPEATS, DATASETS)
            estimates = [
                average(row, keep)
                for row, keep in zip(repeats, kept.reshape(REPEATS, DATASETS), strict=True)
            ]
            covered = sum(abs(e.value - wanted) < 1.96 * e.se for e in estimates)
            assert 0.90 * REPEATS <= covered <= 0.99 * REPEATS, (gamma, covered)


def test_errors_that_are_too_small_are_caught():
    """The check can fail: with 70% of the standard error the intervals do not cover."""
    rng = np.random.default_rng(0)
    estimates = [average(row) for row in rng.normal(size=(REPEATS, DATASETS))]
    covered = sum(abs(e.value) < 1.96 * 0.7 * e.se for e in estimates)
    assert covered < 0.90 * REPEATS
