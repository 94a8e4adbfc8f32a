"""Noise of releases against exact laws, in whole numbers; what floating-point noise lacks is seen.

Statistical tests have fixed seeds, and reject a right sampler for one seed in a million.
"""

import ast
import math
from fractions import Fraction
from pathlib import Path

import jaxtyping
import numpy as np
import pytest
from scipy import stats

import gibbs_dp as gdp
from gibbs_dp import holdout
from gibbs_dp.papers import capacity
from gibbs_dp.privacy import noise
from gibbs_dp.privacy import noise as exact
from gibbs_dp.privacy.mechanisms import (
    ExponentialMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    ReportNoisyMax,
)
from gibbs_dp.privacy.noise import FINENESS, SeededNoise
from gibbs_dp.sklearn.location import draw_median
from gibbs_dp.sklearn.mechanisms import plan_direction
from gibbs_dp.sklearn.plan import Facts

LIMIT = 1e-6
HOUSE = Path(gdp.__file__).parent


@pytest.fixture(autouse=True)
def without_type_checks():
    """Thousands of draws: the checks of types would take most of the time."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def p_value(found, law):
    """Chi-square of whole numbers against ``{number: probability}``, rare ones pooled."""
    law = {k: p / sum(law.values()) for k, p in law.items()}
    assert set(found) <= set(law)
    common = [k for k, p in law.items() if p * len(found) >= 10]
    seen = np.array([found.count(k) for k in common] + [0.0])
    hoped = np.array([law[k] * len(found) for k in common] + [0.0])
    seen[-1], hoped[-1] = len(found) - seen.sum(), len(found) - hoped.sum()
    keep = hoped > 1e-9
    return stats.chisquare(seen[keep], hoped[keep] * seen.sum() / hoped[keep].sum()).pvalue


def integers(log_mass, reach=400):
    return {k: math.exp(log_mass(k)) for k in range(-reach, reach + 1)}


LAWS = {
    "coin exp(-3/7)": (
        lambda source: int(exact.is_exp(3, 7, source)),
        {0: 1 - math.exp(-3 / 7), 1: math.exp(-3 / 7)},
    ),
    "coin exp(-5/2)": (
        lambda source: int(exact.is_exp(5, 2, source)),
        {0: 1 - math.exp(-2.5), 1: math.exp(-2.5)},
    ),
    "Laplace 1/3": (
        lambda source: exact.discrete_laplace(1, 3, source),
        integers(lambda k: -3 * abs(k), 100),
    ),
    "Laplace 7/2": (
        lambda source: exact.discrete_laplace(7, 2, source),
        integers(lambda k: -abs(k) * 2 / 7),
    ),
    "Laplace 20": (
        lambda source: exact.discrete_laplace(20, 1, source),
        integers(lambda k: -abs(k) / 20, 700),
    ),
    "Gaussian 1/4": (
        lambda source: exact.discrete_gaussian(1, 4, source),
        integers(lambda k: -2 * k**2, 10),
    ),
    "Gaussian 9/2": (
        lambda source: exact.discrete_gaussian(9, 2, source),
        integers(lambda k: -(k**2) / 9, 60),
    ),
    "Gaussian 100": (
        lambda source: exact.discrete_gaussian(100, 1, source),
        integers(lambda k: -(k**2) / 200),
    ),
    "choice": (
        lambda source: exact.weighted_choice(
            np.array([3, 0, 1, 10**9]), np.array([0.0, -9.0, 1.0, 20.0]), Fraction(1), source
        ),
        {0: 3.0, 2: math.exp(-1), 3: 1e9 * math.exp(-20)},
    ),
    # Rounded real numbers: areas of the density around whole numbers.
    "one coordinate": (
        lambda source: exact.euclidean_noise(1, Fraction(2), source)[0],
        {k: np.diff(stats.laplace.cdf([(k - 0.5) / 2, (k + 0.5) / 2]))[0] for k in range(-99, 99)},
    ),
    "cube": (
        lambda source: exact.cube_noise(1, Fraction(2), source)[0],
        {k: np.diff(stats.laplace.cdf([(k - 0.5) / 2, (k + 0.5) / 2]))[0] for k in range(-99, 99)},
    ),
}


def drawn(draw, runs, seed):
    source = SeededNoise(seed)
    return [draw(source) for _ in range(runs)]


@pytest.mark.parametrize("name", LAWS)
def test_samplers_have_their_exact_laws(name):
    draw, law = LAWS[name]
    assert p_value(drawn(draw, 2000, 1), law) > LIMIT


def test_a_law_that_is_too_wide_is_seen():
    draw, _ = LAWS["Laplace 20"]
    wrong = integers(lambda k: -abs(k) / 25, 700)
    assert p_value(drawn(draw, 2000, 1), wrong) < LIMIT


@pytest.mark.parametrize("name", ["exponential", "normal"])
def test_real_numbers_have_their_laws_and_fair_further_digits(name):
    """Of a thousandth of the unit, far beyond the digits that the coins looked at."""
    make, law = {
        "exponential": (exact._exponential, stats.expon),
        "normal": (exact._half_normal, stats.halfnorm),
    }[name]
    source = SeededNoise(2)
    found = np.array([make(source).enclosure(60)[0] for _ in range(1500)], dtype=object)
    assert stats.kstest((found / 2**60).astype(float), law.cdf).pvalue > LIMIT
    late = [int(k) % 2**10 // 128 for k in found]
    assert stats.chisquare(np.bincount(late, minlength=8)).pvalue > LIMIT


def test_lengths_and_directions_of_several_coordinates():
    draws = np.array(drawn(lambda s: exact.euclidean_noise(3, Fraction(10**6), s), 500, 3))
    lengths = np.linalg.norm(draws / 1e6, axis=1)
    assert stats.kstest(lengths, stats.gamma(3).cdf).pvalue > LIMIT
    # One coordinate of a uniform direction in three dimensions is uniform (Archimedes).
    assert stats.kstest(draws[:, 0] / 1e6 / lengths, stats.uniform(-1, 2).cdf).pvalue > LIMIT
    cubes = np.array(drawn(lambda s: exact.cube_noise(3, Fraction(10**6), s), 500, 4)) / 1e6
    assert stats.kstest(np.abs(cubes).max(axis=1), stats.gamma(3).cdf).pvalue > LIMIT


# -- the tail has no gaps --------------------------------------------------------------------------


class Scripted(exact.Bits):
    """Every answer that a sampler's random bits may have, one after another."""

    def __init__(self):
        self.script, self.place = [], 0

    def below(self, end):
        if self.place == len(self.script):
            self.script.append([0, end])
        self.place += 1
        return self.script[self.place - 1][0]

    def bits(self, count):
        return self.below(2**count)

    def next(self):
        """Go on to the next answers; False where there are none left."""
        del self.script[self.place :]
        while self.script and self.script[-1][0] + 1 == self.script[-1][1]:
            self.script.pop()
        if not self.script:
            return False
        self.script[-1][0] += 1
        self.place = 0
        return True


class TooLongError(Exception):
    """A run that asked for more random numbers than the enumeration follows."""


def enumerated(draw, depth):
    """Probability of every outcome, from below: all runs of at most ``depth`` random numbers."""
    source, law = Scripted(), {}
    real = source.below

    def below(end):
        if source.place >= depth:
            raise TooLongError
        return real(end)

    source.below = below
    while True:
        try:
            outcome = draw(source)
        except TooLongError:
            outcome = None
        if outcome is not None:
            chance = Fraction(1)
            for _, end in source.script[: source.place]:
                chance /= end
            law[outcome] = law.get(outcome, 0) + chance
        if not source.next():
            return law


@pytest.mark.parametrize(("a", "b"), [(0, 1), (1, 1), (1, 2), (2, 3), (3, 2)])
def test_coins_by_enumeration_of_all_random_numbers(a, b):
    """What is not enumerated has a probability that the law's two sides leave room for."""
    law = enumerated(lambda source: exact.is_exp(a, b, source), 5)
    missing = float(1 - sum(law.values()))
    assert 0 <= math.exp(-a / b) - float(law.get(True, 0)) <= missing < 0.1


def test_a_laplace_number_by_enumeration():
    """Scale 2: runs of six random numbers reach so far, and no further than the law lets them."""
    law = enumerated(lambda source: exact.discrete_laplace(2, 1, source), 6)
    q = math.exp(-0.5)
    for k in range(-1, 2):
        hoped = (1 - q) / (1 + q) * q ** abs(k)
        assert 0 < float(law[k]) <= hoped
    assert float(sum(law.values())) > 0.2


def tail_of(place):
    """Places that noise from one 53-bit uniform reaches around ``place``, in steps of 2^-30."""
    u = (np.arange(2**12) + 0.5) * 2.0**-53  # its largest quantiles
    reached = np.unique(np.rint(-np.log(u) * FINENESS).astype(np.int64))
    return reached[(reached >= place) & (reached < place + 1000)]


def is_gapless(reached, place, count):
    return set(range(place, place + count)) <= {int(r) for r in reached}


def test_every_step_of_the_far_tail_is_reached():
    """33 scales out: digits that come after the whole part are uniform there as anywhere.

    The known-wrong noise, one uniform of 53 bits, reaches a handful of a thousand steps there.
    """
    place = 33 * FINENESS
    assert not is_gapless(tail_of(place), place, 1000)

    def far(step):
        """Noise whose exponential is 33 + step / 2^30, with the digits chosen."""
        fraction = exact._Uniform(SeededNoise(0))
        fraction._digits, fraction._count = step, 30
        return exact._Real(33, fraction)

    one = exact._Real(1, exact._Uniform(SeededNoise(1)))
    found = {
        abs(exact._rounded([far(step)], [one], True, Fraction(FINENESS), SeededNoise(5))[0])
        for step in range(1000)
    }
    # Rounding to the nearest: each step, or the one above.
    assert found <= set(range(place, place + 1001))
    assert len(found) > 600


@pytest.mark.parametrize("scale", [1, 5])
def test_the_tail_of_small_scales_is_met_and_has_its_chances(scale):
    """All whole numbers up to 3 scales, each as often as ``exp(-k / scale)`` says."""
    found = drawn(lambda s: abs(exact.discrete_laplace(scale, 1, s)), 3000, 6)
    assert set(range(3 * scale + 1)) <= set(found)
    beyond = np.mean(np.array(found) > 2 * scale)
    q = math.exp(-1 / scale)
    hoped = 2 * q ** (2 * scale + 1) / (1 + q)
    assert abs(beyond - hoped) < 5 * math.sqrt(hoped / 3000)  # 6e-7


# -- neighbours ------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [1e-4, 0.01, 1.0])
def test_privacy_loss_of_sums_by_exact_chances(epsilon):
    """Chances of every lattice point near and far, of two tables that differ in one row.

    The chance of a point is the area of a Laplace density over one step around it, the same for
    all tables but for a shift by whole steps; so that log-ratios are at most the shift over scale.
    """
    plan = plan_direction(Facts(3, 1, epsilon, 0.0), (0.0, 1.0))
    y = np.array([0.0, 1.0, 1.0])
    near = np.array([[1.0], [-1.0], [0.3]])
    far = np.array([[1.0], [1.0], [0.3]])  # the second row of largest effect
    totals = []
    for x in (near, far):
        source = SeededNoise(7)
        totals.append(round(float(plan.draw(x, y, source)[0, 0]) * FINENESS))
    shift = abs(totals[0] - totals[1])  # of the same noise
    assert shift == FINENESS
    rate = Fraction(plan.guarantee.gamma) / (FINENESS * noise.ROOM)
    assert shift * rate <= Fraction(epsilon)
    assert shift * rate > Fraction(epsilon) * (1 - Fraction(1, 10**9))


@pytest.mark.parametrize(
    "mechanism",
    [
        LaplaceMechanism(1.0, 0.1, adjacency="replace-one"),
        LaplaceMechanism(0.3, 0.7, adjacency="replace-one"),
        LaplaceMechanism(1e-9, 3.0, adjacency="add-remove"),
        LaplaceMechanism(1e-200, 1e-3, adjacency="add-remove"),
    ],
)
@pytest.mark.parametrize("value", [0.0, 0.1, -1e300, 5e-324])
def test_privacy_loss_of_laplace_releases_is_at_most_epsilon(mechanism, value):
    """In fractions: neither ``sensitivity / epsilon`` nor the values are rounded against it."""
    steps = noise._scale_in_steps(mechanism.scale)
    other = Fraction(value) + Fraction(mechanism.sensitivity)
    shift = abs(noise._steps(other) - noise._steps(value))
    loss = Fraction(shift, steps)  # of discrete Laplace laws, as far apart
    assert loss <= Fraction(mechanism.epsilon)
    assert loss > Fraction(mechanism.epsilon) * (1 - Fraction(1, 10**12))


@pytest.mark.parametrize(
    "values", [[0.1, 0.4, 0.4, 0.9], [0.0] * 4, [1.0] * 4, [0.5, 2**-31, 1, 0]]
)
def test_medians_of_neighbours_have_one_support_and_bounded_ratios(values):
    """Chances of all gaps in exact arithmetic, for any replacement of one row."""
    gamma = 0.3

    def log_chance(rows, places):
        """Up to a constant of the table: of a lattice point with so many values below it."""
        below = np.searchsorted(np.sort(noise.on_lattice(np.array(rows, float))), places, "left")
        total = -gamma * np.abs(below - 0.5 * len(rows))
        everywhere = np.arange(0, FINENESS + 1, 2**14)
        grid = np.searchsorted(np.sort(noise.on_lattice(np.array(rows, float))), everywhere, "left")
        return total - np.log(np.mean(np.exp(-gamma * np.abs(grid - 0.5 * len(rows)))))

    places = np.arange(0, FINENESS + 1, 2**16 + 1)
    for new in (0.0, 0.3, 1.0):
        other = [new, *values[1:]]
        gap = np.abs(log_chance(values, places) - log_chance(other, places))
        assert gap.max() <= 2 * gamma + 1e-9
    draws = [draw_median(np.array(values, float), gamma, SeededNoise(i)) for i in range(50)]
    assert all((d * FINENESS).is_integer() and 0 <= d <= 1 for d in draws)


def test_a_choice_reaches_what_doubles_cannot_weigh():
    """exp(-800) is 0 in doubles; a source that says so draws it all the same."""

    class Last(exact.Bits):
        def below(self, end):
            return end - 1

        def bits(self, count):
            return 0  # every coin falls for the proposal as soon as it can

    low, high = exact._Chance(Fraction(1), Fraction(800)).enclosure(1400)
    assert 0 < low <= high  # exp(-800) is 2^-1154
    assert low <= Fraction(2**1400) / Fraction(math.exp(400)) ** 2 * (1 + Fraction(1, 10**12))
    sizes, costs = np.ones(2, np.int64), np.array([0.0, 800.0])
    assert exact.weighted_choice(sizes, costs, Fraction(1), Last()) == 1


def test_noisy_numbers_are_compared_before_they_are_rounded():
    """1e16 + 0.3 rounds to 1e16: as a double the difference is lost, as a fraction it is not."""
    found = [noise.add_laplace(1e16, 0.1) - 10**16 for _ in range(20)]
    assert all(isinstance(f, Fraction) and 0 < abs(f) < 10 for f in found)


def test_sums_and_products_do_not_round():
    rows = np.random.default_rng(0).uniform(size=(1000, 3))
    one = rows.copy()
    one[0] = 1.0
    for a, b in zip(noise.exact_means(rows), noise.exact_means(one), strict=True):
        assert 0 <= b - a <= Fraction(1, 1000)
    matrix = np.array([[0.1, 1e16, -1e16]])
    assert noise.exact_product(matrix, np.ones(3)) == [Fraction(0.1)]


@pytest.mark.parametrize("value", [1.7e308, -1.7e308])
def test_results_beyond_doubles_are_the_largest_one(value):
    """They used to be errors, or infinite, for one table and not for its neighbour."""
    found = noise.laplace_release(np.full(20, value), 1e308)
    assert np.isfinite(found).all()


@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan, 1e-320])
def test_scales_that_make_no_noise_are_refused(scale):
    with pytest.raises(ValueError, match="scale"):
        noise.laplace_release(np.zeros(1), scale)


# -- one source ------------------------------------------------------------------------------------


def test_no_other_file_makes_noise_for_releases():
    """Random numbers in the rooms of releases: from `noise`, or of JAX with a key of it."""
    forbidden = {"opendp", "secrets", "random"}
    wrong = []
    for room in ("privacy", "holdout", "sklearn", "papers"):
        for path in (HOUSE / room).rglob("*.py"):
            tree = ast.parse(path.read_text())
            for node in ast.walk(tree):
                names = []
                if isinstance(node, ast.Import):
                    names = [alias.name for alias in node.names]
                elif isinstance(node, ast.ImportFrom) and not node.level:
                    names = [node.module or ""]
                wrong += [(path.name, n) for n in names if n.split(".")[0] in forbidden]
            if "urandom" in path.read_text() and path.name != "noise.py":
                wrong.append((path.name, "urandom"))
    # A ledger names its file by random bytes, which are no noise.
    assert set(wrong) == {("ledger_file.py", "urandom")}


@pytest.mark.parametrize(
    "release",
    [
        lambda: LaplaceMechanism(1, 1, adjacency="replace-one").release(np.zeros(3)),
        lambda: GaussianMechanism(1, 1, adjacency="replace-one").release(np.zeros(3)),
        lambda: ExponentialMechanism(1, 1, adjacency="replace-one").release(np.zeros(3)),
        lambda: ReportNoisyMax(1, 1, adjacency="replace-one").release(np.zeros(3)),
        lambda: holdout.Sparse(1.0, 1, 1.0, adjacency="replace-one").start(0.0).is_above(0.0),
        lambda: gdp.Thresholdout(np.zeros(4), np.ones(4), threshold=0.1, sigma=1.0, budget=1).query(
            lambda rows: rows
        ),
        lambda: capacity.MatrixMechanism(np.eye(2), np.eye(2), eps=1.0).release(np.zeros(2)),
    ],
)
def test_releases_work_in_a_core_installation(release, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "opendp.prelude", None)
    monkeypatch.setitem(__import__("sys").modules, "opendp", None)
    assert np.isfinite(np.asarray(release(), float)).all()


@pytest.mark.parametrize("utilities", [[], [np.nan, 1.0], [np.inf, 1.0]])
def test_utilities_without_a_law_are_refused(utilities):
    mechanism = ExponentialMechanism(1, 1, adjacency="replace-one")
    with pytest.raises(ValueError, match="utilities: "):
        mechanism.probabilities(np.array(utilities))
    with pytest.raises(ValueError, match="utilities: "):
        mechanism.release(np.array(utilities))
