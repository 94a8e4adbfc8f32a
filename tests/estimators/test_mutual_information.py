"""Information bounds of finite channels and Gaussian pairs, where the truth is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from plain_sums import PlainConsistency, PlainContrast
from plain_tables import contrast_of, correction_of, table_of
from scipy import stats

from gibbs_dp.estimators import (
    ConsistencySums,
    ContrastSums,
    average,
    control_share,
    mutual_information,
    table_sums,
)
from gibbs_dp.estimators.mutual_information import cross_fitted_gaussian
from gibbs_dp.estimators.table_sums import Swaps, layout_of
from gibbs_dp.information import dependence

# A channel of 4 inputs and 3 outputs; datasets are inputs, drawn from P.
P = np.array([0.4, 0.3, 0.2, 0.1])
CHANNEL = np.array([[0.6, 0.3, 0.1], [0.2, 0.6, 0.2], [0.3, 0.3, 0.4], [0.1, 0.1, 0.8]])
JOINT = (P[:, None] * CHANNEL)[:, :]


def contrast(rng, count=400, draws=2, block=None, noise=0.0):
    inputs = rng.choice(4, size=count, p=P)
    table = np.log(CHANNEL[inputs]) + noise * rng.normal(size=(count, 1))
    outputs = np.array([rng.choice(3, size=draws, p=CHANNEL[x]) for x in inputs]).ravel()
    owner = np.repeat(np.arange(count), draws)
    log_density = table[:, outputs].T
    return contrast_of(log_density, owner, draws, block=block)


@pytest.mark.trust
def test_intervals_cover_the_truth_of_a_finite_channel():
    # 95% intervals of 300 repetitions: 90% to 99% but for a probability of 1e-4 a check.
    information = dependence.mutual_information(JOINT)
    total = information + dependence.lautum_information(JOINT)
    found = [contrast(np.random.default_rng(seed)) for seed in range(300)]
    for name, truth in (("lower", information), ("upper", information), ("symmetrized", total)):
        values = [getattr(f, name) for f in found]
        covered = np.mean([abs(v.value - truth) < 1.96 * v.se for v in values])
        assert 0.90 <= covered <= 0.99, (name, covered)


def test_blocks_change_nothing():
    one, many = contrast(np.random.default_rng(0)), contrast(np.random.default_rng(0), block=60)
    for name in ("lower", "upper", "symmetrized"):
        assert getattr(one, name).value == pytest.approx(getattr(many, name).value, rel=1e-6)
        assert getattr(one, name).se == pytest.approx(getattr(many, name).se, rel=1e-5)


@pytest.mark.parametrize("separation", [0.1, 1.0, 3.0])
def test_lower_is_below_upper_and_below_its_ceiling(separation):
    # theta | Z_m ~ N(mu_m, 1), mu ~ N(0, separation^2): I = log(1 + separation^2) / 2 per axis.
    rng, count, dim = np.random.default_rng(1), 500, 6
    means = separation * rng.normal(size=(count, dim))
    draws = means + rng.normal(size=(count, dim))
    table = -0.5 * ((draws[:, None] - means[None]) ** 2).sum(axis=2)
    found = contrast_of(table, np.arange(count))
    truth = dim / 2 * np.log1p(separation**2)
    assert found.lower.value <= np.log(count)
    assert found.lower.value - 3 * found.lower.se <= truth <= found.upper.value + 3 * found.upper.se


def test_heavy_tailed_control_variates_are_left_out():
    rng = np.random.default_rng(2)
    tame, wild = 0.1 * rng.normal(size=4000), 4.0 * rng.normal(size=4000)
    values = -tame + 0.01 * rng.normal(size=4000)
    assert control_share(values, np.expm1(tame), tame) > 0.9
    assert control_share(-wild, np.expm1(wild), wild) == 0.0


def test_ratios_that_were_never_drawn_where_they_are_large_are_left_out():
    # Nine posteriors in ten sit on the first of two candidates, the others on the second: the
    # ratio of the mean to a dataset's own is 0.9 or 0.1 at every draw, and 10^6 at none.
    own = np.where(np.arange(4000) % 10 < 9, 0.9, 0.1)
    assert control_share(-np.log(own), own - 1.0, np.log(own)) == 0.0


def test_information_about_one_example_of_a_finite_channel():
    # Z = (a, b) of two fair bits; theta | Z has P(1) = CURVE[a, b]. I(theta; a) by enumeration.
    curve = np.array([[0.2, 0.4], [0.5, 0.9]])
    joint = np.array([[(1 - curve[a]).mean() / 2, curve[a].mean() / 2] for a in (0, 1)])
    truth = dependence.mutual_information(joint)
    found = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        a, b = rng.integers(0, 2, size=(2, 500))
        theta = (rng.random(500) < curve[a, b]).astype(int)

        def density(first, second, value):
            p = curve[first, second]
            return np.log(np.where(value == 1, p, 1 - p))

        table = density(a[None], b[None], theta[:, None])
        swapped = density(a[:, None], b[None], theta[:, None])
        found.append(contrast_of(table, np.arange(500), 1, swapped - table).individual)
    z = [(f.value - truth) / f.se for f in found]
    assert abs(np.mean(z)) < 4 / np.sqrt(40) + 0.3  # bias of order 1 / M beside the noise
    assert np.std(z) < 1.5


def mean_of_counts(rng, gamma, count=128, draws=2, n=20):
    """Densities of draws around means of standardized Poisson numbers, and a swap's effect."""
    z = (rng.poisson(0.2, (count, n)) - 0.2) / 0.2**0.5
    mean, owner, spread = z.mean(axis=1), np.repeat(np.arange(count), draws), (n * gamma) ** -0.5
    theta = (mean[owner] + spread * rng.normal(size=owner.size))[:, None]
    moved = mean + (z[owner, :1] - z[:, 0]) / n
    table, swapped = (-0.5 * ((theta - m) / spread) ** 2 for m in (mean, moved))
    return table, owner, swapped - table


@pytest.mark.trust
def test_intervals_of_individual_information_cover_it(monkeypatch):
    # By sums over counts and integration over the draw. Of 600 intervals 95% cover it, of plain
    # errors 87%: either side of 91% but for a probability of 1e-3 each.
    truth, seen = 0.007166563104851136, []

    def both(values):
        seen.append((average(values), average_of_products(values)))
        return seen[-1][1]

    average_of_products = mutual_information.average_of_products
    monkeypatch.setattr(mutual_information, "average_of_products", both)
    rng = np.random.default_rng(2026)
    for _ in range(600):
        table, owner, swap = mean_of_counts(rng, 0.4)
        contrast_of(table, owner, 2, swap)
    value, se = np.array([[a[:2] for a in pair] for pair in seen]).transpose(2, 1, 0)
    assert (se[1] >= se[0]).all()
    plain, wide = np.mean(np.abs(value - truth) <= 1.96 * se, axis=1)
    assert plain < 0.91 < wide < 0.99


def test_a_draw_that_no_dataset_explains_after_a_swap_does_not_decide():
    # Its ratio is e^40, and its half of the datasets is corrected as the other half says.
    table, owner, swap = mean_of_counts(np.random.default_rng(0), 0.4)
    plain = contrast_of(table, owner, 2, swap).individual
    swap[5] -= 40.0
    swap[5, owner[5]] = 0.0
    assert abs(contrast_of(table, owner, 2, swap).individual.value - plain.value) < 0.3


def test_consistency_removes_the_noise_of_normalizers():
    # Small information, noise 0.3 in every log normalizer: s^2 / 2 = 0.045 of bias without.
    rng, count = np.random.default_rng(3), 800
    means = 0.1 * rng.normal(size=count)
    noise = 0.3 * rng.normal(size=count)
    draws = means + rng.normal(size=count)
    table = -0.5 * (draws[:, None] - means[None]) ** 2 - noise
    correction = correction_of(table, np.full(count, 0.3), block=300)
    left = (noise + correction) - (noise + correction).mean()
    assert left.std() < 0.02
    truth = 0.5 * np.log1p(0.01)
    for fixed, limit in ((0.0, None), (correction, 4.0)):
        lower = contrast_of(table - fixed, np.arange(count)).lower
        if limit is None:
            assert abs(lower.value - truth) > 4 * lower.se  # the bias is really there
        else:
            assert abs(lower.value - truth) < limit * lower.se


def test_consistency_leaves_distant_posteriors_alone():
    # Posteriors that never meet say nothing about each other: bridging is kept.
    rng, count = np.random.default_rng(4), 100
    means = 50.0 * np.arange(count)
    noise = 0.1 * rng.normal(size=count)
    draws = means + rng.normal(size=count)
    table = -0.5 * (draws[:, None] - means[None]) ** 2 - noise
    assert np.abs(correction_of(table, np.full(count, 0.1))).max() < 0.06


# Log densities of datasets that say little, much, and hundreds of nats: standard deviation of the
# means, coordinates, size of a swap's effect.
CASES = {"small": (0.005, 2, 1e-3), "large": (1.0, 3, 0.5), "hundreds": (6.0, 10, 3.0)}


@pytest.mark.parametrize("case", CASES)
def test_programs_match_double_precision(case):
    # Inputs are the same single precision numbers; differences (6e-8 each) and sums over a
    # thousand of them round. Five digits stay, and of what is mostly noise three of the noise's.
    spread, dim, effect = CASES[case]
    rng, count = np.random.default_rng(5), 333
    means = spread * rng.normal(size=(count, dim))
    owner = np.repeat(np.arange(count), 2)
    draws = means[owner] + rng.normal(size=(2 * count, dim))
    table = draws @ means.T - 0.5 * (means**2).sum(axis=1) + 0.1 * spread * rng.normal(size=count)
    table = table.astype(np.float32).astype(float)
    # No swap for the draw's own dataset.
    swap = effect * rng.normal(size=(2 * count, 1)) * rng.normal(size=count)
    swap[np.arange(2 * count), owner] = 0.0
    swap = swap.astype(np.float32).astype(float)
    se = np.full(count, 0.3)
    checks, plain = PlainConsistency(count), PlainContrast(count, 2)
    checks.add(table)
    wanted = checks.correction(se)
    near = 3e-6 * min(spread, 1.0)
    np.testing.assert_allclose(correction_of(table, se), wanted, rtol=1e-4, atol=near)
    plain.add(table, owner, swap)
    found, truth = contrast_of(table, owner, 2, swap), plain.result()
    for name in ("lower", "upper", "symmetrized", "individual"):
        mine, theirs = getattr(found, name), getattr(truth, name)
        near = 1e-5 * abs(theirs.value) + 1e-3 * theirs.se + 1e-10
        assert mine.value == pytest.approx(theirs.value, abs=near), name
        # A lower bound at its ceiling, the log of the datasets, has no error but rounding.
        assert mine.se == pytest.approx(theirs.se, rel=1e-4, abs=1e-7), name


def test_failed_datasets_and_padding_are_left_out():
    rng, count = np.random.default_rng(6), 101
    means, good = rng.normal(size=(count, 2)), rng.random(count) < 0.7
    draws = np.repeat(means, 2, axis=0) + rng.normal(size=(2 * count, 2))
    owner = np.repeat(np.arange(count), 2)
    table = draws @ means.T - 0.5 * (means**2).sum(axis=1)
    layout, is_draw = layout_of(good), good[owner]
    place = np.cumsum(good) - 1  # among the good ones
    broken = np.where(is_draw[:, None], table[:, good], np.nan)
    whole = table_of(layout, broken, np.where(is_draw, place[owner], 0), is_draw)
    losses = jnp.where(layout.is_used, whole.losses, jnp.nan)
    sums, checks = ContrastSums(layout, 2), ConsistencySums(layout)
    sums.add(whole._replace(losses=losses))
    checks.add(whole._replace(losses=losses))
    few = table[is_draw][:, good]
    wanted = contrast_of(few, place[owner[is_draw]], 2)
    for name in ("lower", "upper", "symmetrized"):
        assert getattr(sums.result(), name).value == pytest.approx(getattr(wanted, name).value)
        assert getattr(sums.result(), name).se == pytest.approx(getattr(wanted, name).se)
    se = np.full(good.sum(), 0.3)
    np.testing.assert_allclose(checks.correction(se), correction_of(few, se), rtol=1e-5, atol=1e-7)


@pytest.mark.trust
def test_chunks_of_rows_change_nothing(monkeypatch):
    rng = np.random.default_rng(7)
    table, owner = rng.normal(size=(64, 32)), np.repeat(np.arange(32), 2)
    layout = layout_of(np.ones(32, bool))
    whole = table_of(layout, table, owner)
    swaps = Swaps(jnp.asarray(rng.normal(size=(64, 32))), jnp.asarray(rng.normal(size=(32, 32))))
    one = table_sums._contrast_sums(whole, swaps), table_sums._consistency_sums(whole)
    monkeypatch.setattr(table_sums, "CACHED_ENTRIES", 16 * 32)
    many = table_sums._contrast_sums(whole, swaps), table_sums._consistency_sums(whole)
    assert many[0].columns.shape[0] == many[1].shape[0] == 4
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(many), strict=True):
        a, b = (x.sum(axis=0) if x.ndim == 3 and x.shape[-1] == 32 else x for x in (a, b))
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_fitted_gaussians_have_the_densities_of_scipy():
    """Mean and covariance of the other half's draws; a density that is off bounds nothing."""
    points = np.random.default_rng(7).normal(size=(40, 3, 2)) @ np.array([[2.0, 0.5], [0.0, 0.3]])
    found = cross_fitted_gaussian(points)
    for half in (0, 1):
        fitted = points[1 - half :: 2].reshape(-1, 2)
        law = stats.multivariate_normal(fitted.mean(axis=0), np.cov(fitted.T))
        np.testing.assert_allclose(found[half::2], law.logpdf(points[half::2]), rtol=1e-6)
