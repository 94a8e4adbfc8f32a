"""Do 95% intervals cover the truth 95% of the time? 200 repetitions on two closed-form problems.

With true coverage 0.95 the count of 200 lies in [180, 199] (90% to 99.5%) except with probability
4e-3 per check at most; a standard error 20% too small covers 88% and is caught.
"""

import numpy as np
import pytest
from problems import gaussian_examples, gaussian_mean, private_mean, truncated_normals

import gibbs_dp as gdp
from gibbs_dp.exact import closed_form

REPEATS, DATASETS = 200, 128


def gaussian_truth(gamma):
    exact = closed_form.gaussian_mean(gamma, 20, 2, 1.0, 1.0)
    return exact.on_average_kl, exact.generalization_error


def private_mean_truth(gamma):
    kl = closed_form.private_mean_on_average_kl(gamma, 20)
    return kl, kl / gamma


@pytest.mark.parametrize(
    ("posterior", "population", "gammas", "truth"),
    [
        (gaussian_mean(2, 1.0), gaussian_examples(2), [0.01, 1.0], gaussian_truth),
        (private_mean(), truncated_normals, [0.1, 100.0], private_mean_truth),
    ],
    ids=["gaussian-mean", "private-mean"],
)
def test_intervals_cover(posterior, population, gammas, truth):
    names = ("on_average_kl", "generalization_error")
    covered = np.zeros((len(gammas), len(names)))
    wanted = np.array([truth(gamma) for gamma in gammas])
    for seed in range(REPEATS):
        report = gdp.audit(
            posterior, population, 20, gammas, DATASETS, key=1000 + seed, progress=False
        )
        for j, name in enumerate(names):
            z = (report[name] - wanted[:, j]) / report[f"{name}_se"]
            covered[:, j] += np.abs(z) < 1.96
    assert (covered >= 0.90 * REPEATS).all(), covered
    assert (covered <= 0.995 * REPEATS).all(), covered
