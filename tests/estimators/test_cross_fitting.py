"""The least of several bounds, chosen and measured on different halves of the datasets.

Of 150 intervals that cover with probability 0.965, fewer than 90% do once in 6,000.
"""

import numpy as np
import pytest
from plain_tables import table_of
from scipy import stats

from gibbs_dp.estimators import (
    ContrastSums,
    average,
    constant,
    crossed,
    fold_of,
    halves,
    least_upper,
)
from gibbs_dp.estimators.mutual_information import (
    cross_fitted_gaussian,
    cross_fitted_mixture,
    fit_gaussian,
    looks_gaussian,
)
from gibbs_dp.estimators.table_sums import layout_of
from gibbs_dp.quantities.dataset_comparison import _Above

LEAST_COVERED = 0.90


def gaussian_bounds(rng, count, dim, ratio):
    """Bounds for ``theta | Z ~ N(m, 1)``, ``m ~ N(0, ratio)``: ``I = dim log(1 + ratio) / 2``."""
    mean = np.sqrt(ratio) * rng.normal(size=(count, dim))
    theta = mean[:, None, None] + rng.normal(size=(count, 8, 8, dim))
    own = -0.5 * ((theta - mean[:, None, None]) ** 2).sum(axis=-1) - 0.5 * dim * np.log(2 * np.pi)
    points = theta[:, :2, -1].reshape(2 * count, dim)
    table = points @ mean.T - 0.5 * (points**2).sum(axis=1)[:, None] - 0.5 * (mean**2).sum(axis=1)
    table -= 0.5 * dim * np.log(2 * np.pi)
    layout = layout_of(np.ones(count, bool))
    sums = ContrastSums(layout, 2)
    sums.add(table_of(layout, table, np.repeat(np.arange(count), 2)))
    marginal = cross_fitted_gaussian(theta.reshape(count, 64, dim)).reshape(own.shape)
    above = _Above(own - marginal)
    return sums.result(above.baseline()), sums.result(), above.bound()


@pytest.mark.trust
@pytest.mark.parametrize(("dim", "ratio"), [(1, 0.3), (3, 0.03)])
def test_bounds_of_gaussian_information_cover_it_at_128_datasets(dim, ratio):
    truth = dim / 2 * np.log1p(ratio)
    found = [gaussian_bounds(np.random.default_rng(s), 128, dim, ratio) for s in range(150)]
    lower = np.array([[c.lower.value, c.lower.se] for c, _, _ in found])
    pairs = [least_upper({"loo": c.upper, "gaussian": g}) for c, _, g in found]
    upper = np.array([[bound.value, bound.se] for _, bound in pairs])
    assert np.mean(truth >= lower[:, 0] - 1.96 * lower[:, 1]) >= LEAST_COVERED
    assert np.mean(truth <= upper[:, 0] + 1.96 * upper[:, 1]) >= LEAST_COVERED
    # Not below the truth on average, nor the lower one above it: 4 standard errors.
    for values, sign in ((upper[:, 0], 1.0), (lower[:, 0], -1.0)):
        seen = average(values - truth)
        assert sign * seen.value > -4 * seen.se
    # What all draws say takes noise away; without them a grid's bounds are as right.
    alone = np.array([[c.lower.value, c.lower.se] for _, c, _ in found])
    assert lower[:, 0].std() < 0.9 * alone[:, 0].std()
    seen = average(alone[:, 0] - truth)
    assert seen.value < 4 * seen.se


def test_the_least_of_equal_means_is_not_too_small():
    rng, fold = np.random.default_rng(0), fold_of(128)
    skewed = rng.exponential(size=(600, 3, 128))
    candidates = [{str(i): halves(v, fold) for i, v in enumerate(one)} for one in skewed]
    bounds = [least_upper(c)[1] for c in candidates]
    values, errors = (np.array([getattr(b, name) for b in bounds]) for name in ("value", "se"))
    assert abs(values.mean() - 1.0) < 4 * values.std() / np.sqrt(600)
    least = skewed.mean(axis=2).min(axis=1)
    assert abs(least.mean() - 1.0) > 10 * least.std() / np.sqrt(600)  # what it does not do
    # Plain standard errors of skewed numbers are too small where means are.
    covered = np.mean(values + 1.96 * errors >= 1.0)
    plain = [c["0"] for c in candidates]
    symmetric = np.mean([p.value + 1.96 * p.se >= 1.0 for p in plain])
    longer = np.mean([p.value + 1.96 * p.upper_se >= 1.0 for p in plain])
    assert covered > 0.91  # bounds that share no draws, and this skewed, are the worst case
    assert longer > max(0.95, symmetric)


def test_a_bound_without_error_is_taken_where_it_is_least():
    rng, fold = np.random.default_rng(0), fold_of(50)
    noisy = halves(rng.normal(2.0, 1.0, 50), fold)
    assert least_upper({"noisy": noisy, "exact": constant(1.0, 50)}) == (
        "exact",
        (1.0, 0.0, 50),
    )
    assert least_upper({"noisy": noisy, "exact": constant(9.0, 50)})[0] == "noisy"
    near = {"noisy": noisy, "exact": constant(0.5 * (noisy[0].limit + noisy[1].limit), 50)}
    name, bound = least_upper(near)
    assert name in {"noisy and exact", "exact and noisy"}
    assert 0 < bound.se < noisy.upper_se


def test_halves_are_means_and_errors_of_all():
    values = np.random.default_rng(1).normal(size=40)
    found = halves(values, fold_of(40))
    assert found.value == pytest.approx(values.mean())
    assert found.se == pytest.approx(values.std(ddof=1) / np.sqrt(40), rel=0.1)
    assert found.upper_se == pytest.approx(found.se, rel=0.3)
    assert halves(-np.exp(values), fold_of(40)).upper_se == halves(-np.exp(values), fold_of(40)).se


def test_errors_of_few_datasets_count_degrees_of_freedom():
    values = np.random.default_rng(2).normal(size=5)
    parts = values[::2].var(ddof=1) * 3 + values[1::2].var(ddof=1) * 2
    assert halves(values, fold_of(5)).se == pytest.approx(np.sqrt(parts) / 5)


def test_coefficients_of_control_variates_do_not_bias():
    # Fitted to the values they are used on, coefficients correlate with them.
    rng, fold = np.random.default_rng(2), fold_of(16)
    control = rng.normal(size=(4000, 16))
    values = control**2 - 0.5 * control + rng.normal(size=(4000, 16))
    means = [crossed(v, c, fold).mean() for v, c in zip(values, control, strict=True)]
    assert abs(np.mean(means) - 1.0) < 4 * np.std(means) / np.sqrt(4000)


# Variational upper bounds against Gaussian and two-mode truths.


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


@pytest.mark.parametrize("dim", [1, 4, 20])
def test_a_mixture_is_worth_its_while_where_draws_are_not_gaussian(dim):
    """Of 512 datasets of normal means one in 50 was taken for another law, of the others none."""
    rng = np.random.default_rng(7 + dim)
    plain = rng.normal(size=(512, 1, dim))
    turn = np.linalg.qr(rng.normal(size=(dim, dim)))[0]
    first = np.eye(dim)[0]
    two = (plain + 4.0 * rng.choice([-1.0, 1.0], size=(512, 1, 1)) * first) @ turn
    skewed = (plain * (1.0 - first) + 2.0 * rng.exponential(size=(512, 1, 1)) * first) @ turn
    rare = plain + 8.0 * (rng.uniform(size=(512, 1, 1)) < 0.05) * first
    means = plain, two, skewed, rare
    found = [looks_gaussian(m + 0.5 * rng.normal(size=(512, 16, dim))) for m in means]
    assert found == [True, False, False, False]
    few = plain[:100] + rng.normal(size=(100, 16, dim))
    assert not looks_gaussian(few)  # which do not tell


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
