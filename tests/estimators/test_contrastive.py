"""Information bounds of finite channels and Gaussian pairs, where the truth is known."""

import numpy as np
import pytest
from scipy.special import logsumexp

from gibbs_dp.estimators import ConsistencySums, ContrastSums, control_share
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
    sums = ContrastSums(count, draws)
    for start in range(0, count * draws, block or count * draws):
        rows = slice(start, start + (block or count * draws))
        sums.add(log_density[rows], owner[rows])
    return sums.result()


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
        assert getattr(one, name).value == pytest.approx(getattr(many, name).value, rel=1e-12)
        assert getattr(one, name).se == pytest.approx(getattr(many, name).se, rel=1e-12)


@pytest.mark.parametrize("separation", [0.1, 1.0, 3.0])
def test_lower_is_below_upper_and_below_its_ceiling(separation):
    # theta | Z_m ~ N(mu_m, 1), mu ~ N(0, separation^2): I = log(1 + separation^2) / 2 per axis.
    rng, count, dim = np.random.default_rng(1), 500, 6
    means = separation * rng.normal(size=(count, dim))
    draws = means + rng.normal(size=(count, dim))
    table = -0.5 * ((draws[:, None] - means[None]) ** 2).sum(axis=2)
    sums = ContrastSums(count, 1)
    sums.add(table, np.arange(count))
    found = sums.result()
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
        sums = ContrastSums(500, 1)
        sums.add(table, np.arange(500), swapped - table)
        found.append(sums.result().individual)
    z = [(f.value - truth) / f.se for f in found]
    assert abs(np.mean(z)) < 4 / np.sqrt(40) + 0.3  # bias of order 1 / M beside the noise
    assert np.std(z) < 1.5


def test_consistency_removes_the_noise_of_normalizers():
    # Small information, noise 0.3 in every log normalizer: s^2 / 2 = 0.045 of bias without.
    rng, count = np.random.default_rng(3), 800
    means = 0.1 * rng.normal(size=count)
    noise = 0.3 * rng.normal(size=count)
    draws = means + rng.normal(size=count)
    table = -0.5 * (draws[:, None] - means[None]) ** 2 - noise
    checks = ConsistencySums(count)
    for rows in (slice(0, 300), slice(300, None)):
        checks.add(table[rows])
    correction = checks.correction(np.full(count, 0.3))
    left = (noise + correction) - (noise + correction).mean()
    assert left.std() < 0.02
    truth = 0.5 * np.log1p(0.01)
    for fixed, limit in ((0.0, None), (correction, 4.0)):
        sums = ContrastSums(count, 1)
        sums.add(table - fixed, np.arange(count))
        lower = sums.result().lower
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
    checks = ConsistencySums(count)
    checks.add(table - logsumexp(table) * 0)
    assert np.abs(checks.correction(np.full(count, 0.1))).max() < 0.06
