"""Variational upper bounds against Gaussian and two-mode truths."""

import numpy as np
import pytest
from scipy import stats

from gibbs_dp.estimators.halves import fold_of
from gibbs_dp.estimators.variational import (
    cross_fitted_gaussian,
    cross_fitted_mixture,
    fit_gaussian,
)


def bound(points, own, marginal):
    return (own - marginal(points)).mean()


def gaussian_pairs(rng, separation, dim=2, datasets=600, draws=8):
    means = separation * rng.normal(size=(datasets, 1, dim))
    points = means + rng.normal(size=(datasets, draws, dim))
    return points, stats.norm.logpdf(points - means).sum(axis=-1)


def test_gaussian_marginals_are_tight_for_gaussians():
    points, own = gaussian_pairs(np.random.default_rng(0), 2.0)
    truth = 2 / 2 * np.log1p(4.0)
    per_dataset = (own - cross_fitted_gaussian(points)).mean(axis=1)
    error = per_dataset.std(ddof=1) / np.sqrt(600)
    # The fit on 300 datasets costs about (its 5 parameters) / (2 * 300) nats.
    assert -4 * error < per_dataset.mean() - truth < 4 * error + 5 / 300


def test_log_density_is_normalized():
    points = np.random.default_rng(1).normal(size=(500, 3)) @ np.array(
        [[2.0, 0.3, 0.0], [0.0, 1.0, 0.5], [0.0, 0.0, 0.1]]
    )
    fitted = fit_gaussian(points)
    wanted = stats.multivariate_normal(points.mean(axis=0), np.cov(points, rowvar=False))
    np.testing.assert_allclose(fitted.log_density(points), wanted.logpdf(points), rtol=1e-6)


@pytest.mark.trust(but="float32")
def test_a_mixture_is_tighter_for_two_modes(dtype):
    rng = np.random.default_rng(2)
    side = rng.choice([-5.0, 5.0], size=(600, 1, 1))
    points = side + rng.normal(size=(600, 8, 1))
    own = stats.norm.logpdf(points - side)[..., 0]
    gaussian = bound(points, own, cross_fitted_gaussian)
    mixture = bound(points, own, cross_fitted_mixture)
    assert abs(mixture - np.log(2)) < 0.05
    assert gaussian > mixture + 0.5


def test_a_fold_never_sees_its_own_draws():
    points, _ = gaussian_pairs(np.random.default_rng(3), 1.0, datasets=40)
    moved = points.copy()
    fold = fold_of(40)
    moved[fold == 0] += 100.0
    # Densities of fold 0 come from fold 1, which did not move: only the points did.
    unmoved = cross_fitted_gaussian(points)
    np.testing.assert_allclose(
        cross_fitted_gaussian(np.where(fold[:, None, None] == 1, moved, points))[fold == 1],
        unmoved[fold == 1],
    )
    assert not np.allclose(cross_fitted_gaussian(moved)[fold == 1], unmoved[fold == 1])
