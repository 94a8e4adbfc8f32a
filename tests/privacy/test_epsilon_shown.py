"""Lower bounds on epsilon, from mechanisms whose epsilon is known."""

import numpy as np
import pytest
from scipy import optimize, stats

from gibbs_dp.exact import FiniteProblem
from gibbs_dp.privacy import GaussianMechanism, epsilon_of_one_run, epsilon_shown
from gibbs_dp.privacy.attacks import chance_of_guesses, least_mass
from gibbs_dp.privacy.routes import GaussianDP, epsilon_at

CONFIDENCE, DELTA = 0.9, 1e-2
EXPERIMENTS = [40, pytest.param(1000, marks=pytest.mark.trust)]


def most_above(repeats):
    """Return a count of bounds above the truth that is exceeded with a probability below 1e-5."""
    return stats.binom.isf(1e-5, repeats, 1 - CONFIDENCE)


PROBLEM = FiniteProblem(
    [[0.0, 1.0], [1.0, 0.0], [0.3, 0.5], [0.6, 0.4]], [0.5, 0.5], [0.25, 0.25, 0.25, 0.25]
)


def gaussian(rng, size, mu=1.0):
    return mu + rng.normal(size=size), rng.normal(size=size)


def laplace(rng, size):
    return 1.0 + rng.laplace(size=size), rng.laplace(size=size)


def finite(rng, size):
    """Draw the best test's score at the worst pair of a finite problem."""
    worst = max(
        PROBLEM.neighbours(0.5, 3, adjacency="replace-one"),
        key=lambda pair: np.abs(pair.log_p - pair.log_q).max(),
    )
    gap = np.abs(worst.log_p - worst.log_q).max(axis=1)
    laws = [np.exp(law[np.argmax(gap)]) for law in (worst.log_p, worst.log_q)]
    ratio = np.log(laws[0] / laws[1])
    return tuple(rng.choice(ratio, size=size, p=law / law.sum()) for law in laws)


# Law, delta, epsilon, and the share of it that half of the bounds exceed.
TRUTHS = {
    "gaussian": (gaussian, DELTA, epsilon_at(GaussianDP(1.0), DELTA, 1), 0.5),
    "laplace": (laplace, 0.0, 1.0, 0.7),
    "finite": (finite, 0.0, PROBLEM.dp_epsilon(0.5, 3, adjacency="replace-one"), 0.4),
}


@pytest.mark.parametrize("repeats", EXPERIMENTS)
@pytest.mark.parametrize("name", TRUTHS)
def test_many_runs_are_above_the_truth_no_more_often_than_they_say(name, repeats):
    draw, delta, truth, share = TRUTHS[name]
    runs = zip(*draw(np.random.default_rng(1), (repeats, 2000)), strict=True)
    found = [epsilon_shown(a, b, delta, confidence=CONFIDENCE) for a, b in runs]
    epsilon, mu = (np.array([getattr(one, key) for one in found]) for key in ("epsilon", "mu"))
    assert (epsilon > truth).sum() <= most_above(repeats)
    assert np.median(epsilon) > share * truth  # and they say something
    if name == "gaussian":
        assert (mu > 1.0).sum() <= most_above(repeats)
        assert np.median(mu) > 0.85
        # Of Gaussian laws the fit is the closer bound, as is claimed of it.
        fitted = np.array([one.gaussian_epsilon for one in found])
        assert (fitted > truth).sum() <= most_above(repeats)
        assert np.median(fitted) > np.median(epsilon)


def test_what_chooses_must_not_count():
    """Thresholds chosen on the runs that count are above the truth of nothing, again and again."""
    rng = np.random.default_rng(2)
    same = [gaussian(rng, 100, mu=0.0) for _ in range(300)]
    cheats = [epsilon_shown(a, b, confidence=0.5, choosing=(a, b)).epsilon > 0 for a, b in same]
    honest = [epsilon_shown(a, b, confidence=0.5).epsilon > 0 for a, b in same]
    assert np.mean(cheats) > 0.5 > np.mean(honest) + 4 * np.sqrt(0.25 / 300)


def test_each_probability_has_half_of_the_error():
    """Of scores 0 and 1 the events are one and its complement: SciPy's limits of both."""
    first, second = np.repeat([1.0, 0.0], [80, 20]), np.repeat([1.0, 0.0], [30, 70])
    found = epsilon_shown(first, second, confidence=0.9, choosing=(first, second))

    def limits(more, fewer):
        likely = stats.binomtest(more, 100, alternative="greater")
        rare = stats.binomtest(fewer, 100, alternative="less")
        return likely.proportion_ci(0.95).low, rare.proportion_ci(0.95).high

    low, high = zip(limits(80, 30), limits(70, 20), strict=True)
    assert found.epsilon == pytest.approx(np.log(np.divide(low, high)).max())
    assert found.mu == pytest.approx((stats.norm.ppf(low) - stats.norm.ppf(high)).max())


def test_direction_and_order_do_not_matter():
    a, b = laplace(np.random.default_rng(3), 4000)
    bounds = {round(epsilon_shown(*pair).epsilon, 1) for pair in ((a, b), (b, a), (-a, -b))}
    assert max(bounds) <= 1.0
    assert min(bounds) > 0.6
    assert epsilon_shown(np.zeros(9), np.zeros(9)).gaussian_epsilon == 0.0


def coins_and_scores(rng, name, shape):
    """Coins, and scores of a mechanism that answers each with noise: epsilon of one coin is 1."""
    coins = rng.random(shape) < 0.5
    if name == "gaussian":
        return coins, coins + rng.normal(size=shape)
    if name == "laplace":
        return coins, coins + rng.laplace(size=shape)
    return coins, coins ^ (rng.random(shape) > 1 / (1 + np.exp(-1.0)))


ONE_RUN = {
    "randomized response": (0.0, 1.0, 0.6),
    "laplace": (0.0, 1.0, 0.3),
    "gaussian": (1e-5, epsilon_at(GaussianDP(1.0), 1e-5, 1), 0.1),
}


@pytest.mark.trust(but="randomized response-40")
@pytest.mark.parametrize("repeats", EXPERIMENTS)
@pytest.mark.parametrize("name", ONE_RUN)
def test_one_run_is_above_the_truth_no_more_often_than_it_says(name, repeats):
    delta, truth, share = ONE_RUN[name]
    rng = np.random.default_rng(4)
    coins, scores = coins_and_scores(rng, name, (repeats, 500))
    found = [
        epsilon_of_one_run(s, c, delta, confidence=CONFIDENCE)
        for s, c in zip(scores, coins, strict=True)
    ]
    epsilon, mu, fitted = (
        np.array([getattr(one, key) for one in found])
        for key in ("epsilon", "mu", "gaussian_epsilon")
    )
    assert (epsilon > truth).sum() <= most_above(repeats)
    assert np.median(epsilon) > share * truth
    if name == "gaussian":
        assert (mu > 1.0).sum() <= most_above(repeats)
        # What 500 coins show at best, as a solver finds it too; and more than epsilons do.
        assert np.median(mu) > 0.45
        assert np.median(fitted) > 1.2 * np.median(epsilon)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.0), (2.0, 0.0), (1.0, 1e-3)])
def test_right_guesses_are_no_more_probable_than_is_said(epsilon, delta):
    """Randomized response that says all with a probability of delta is ``(epsilon, delta)``-DP.

    Right guesses of ``m`` coins are binomial of a share of ``delta + (1 - delta) / (1 + e^-eps)``.
    """
    m, share = 200, delta + (1 - delta) / (1 + np.exp(-epsilon))
    for right in range(m + 1):
        truth = stats.binom.sf(right - 1, m, share)
        claimed = chance_of_guesses(m, m, right, epsilon, delta)
        assert truth <= claimed * (1 + 1e-12)
        if delta == 0:  # attained
            assert claimed == pytest.approx(truth)


def test_several_numbers_of_guesses_are_paid_for():
    """Scores that know nothing show an epsilon with chance 0.4 at most; 1e-5 a false alarm."""
    rng, repeats = np.random.default_rng(10), 400
    shown = sum(
        epsilon_of_one_run(rng.normal(size=64), rng.integers(0, 2, 64), confidence=0.6).epsilon > 0
        for _ in range(repeats)
    )
    assert shown <= stats.binom.isf(1e-5, repeats, 0.4)


def test_the_published_numbers():
    """Steinke, Nasr & Jagielski 2023, Appendix D: 75 of 100 guesses right, of 1,000 canaries."""
    assert chance_of_guesses(1000, 100, 75, 0.673, 1e-4) == pytest.approx(0.05, abs=1e-4)
    coins = np.repeat([1, 0], 500)
    coins[-25:] = 1  # 25 wrong of the 50 lowest
    found = epsilon_of_one_run(np.arange(1000.0)[::-1], coins, 1e-4, num_guesses=100)
    assert (found.num_guesses, found.num_right) == (100, 75)
    assert found.epsilon == pytest.approx(0.673, abs=5e-4)


def most_mass_above(count, guesses, right, mu):
    """Largest tail that the inequalities of Gaussian DP allow, by a solver that knows no order."""
    numbers = np.arange(guesses + 1)

    def slack(p):
        found = []
        for low in range(1, guesses + 1):
            hit = (numbers * p)[low:].sum() / count
            missed = ((guesses - numbers) * p)[low - 1 :].sum() / count
            found.append(stats.norm.cdf(stats.norm.ppf(max(missed, 1e-300)) + mu) - hit)
        return np.array(found)

    start = stats.binom.pmf(numbers, guesses, 0.5)
    solved = optimize.minimize(
        lambda p: -p[right:].sum(),
        start,
        bounds=[(0, 1)] * (guesses + 1),
        constraints=[
            {"type": "ineq", "fun": slack},
            {"type": "eq", "fun": lambda p: p.sum() - 1},
        ],
        options={"ftol": 1e-12, "maxiter": 500},
    )
    assert solved.success
    return -solved.fun


@pytest.mark.parametrize(("count", "guesses"), [(1, 1), (3, 3), (6, 6), (20, 6)])
@pytest.mark.parametrize("mu", [0.3, 1.0, 2.0])
def test_the_least_mass_is_what_a_solver_finds(count, guesses, mu):
    """The programme is concave, so that any solver ends at its largest value."""
    for right in range(guesses // 2 + 1, guesses + 1):
        tail = most_mass_above(count, guesses, right, mu)
        assert least_mass(count, guesses, right, tail, mu) == pytest.approx(1.0, abs=1e-4)
        assert least_mass(count, guesses, right, tail * 1.01, mu) > 1
        assert least_mass(count, guesses, right, tail, mu * 0.95) > 1.0005 or tail > 0.999


def test_coins_that_are_told_by_gaussians_of_their_own_fulfil_the_inequalities():
    for m, mu in ((50, 0.5), (400, 1.0), (400, 3.0)):
        share = stats.norm.cdf(mu / 2)
        for right in range(int(m * share) - 10, m):
            truth = stats.binom.sf(right - 1, m, share)
            assert least_mass(m, m, right, truth, mu) <= 1 + 1e-9


@pytest.mark.parametrize("delta", [0.0, 1e-4, 1e-2])
def test_what_is_refuted_is_an_interval(delta):
    """Smaller epsilons than the bound are refuted too: the probability rises up to it."""
    for right in (60, 75, 95, 100):
        chances = np.array(
            [chance_of_guesses(500, 100, right, e, delta) for e in np.linspace(0, 8, 200)]
        )
        below = np.flatnonzero(chances >= 0.05)
        assert below.size
        assert (np.diff(chances[: below[0] + 1]) >= 0).all()


def test_dp_of_a_mechanism_of_the_library_is_not_refuted():
    mechanism = GaussianMechanism(1.0, 2.0, adjacency="replace-one")
    rng = np.random.default_rng(6)
    shown = epsilon_shown(*gaussian(rng, 20_000, mu=mechanism.mu), DELTA, confidence=0.9999)
    assert 0 < shown.epsilon <= mechanism.guarantee(DELTA).epsilon
    assert stats.norm.cdf(shown.mu) <= stats.norm.cdf(mechanism.mu)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (([0, 1, 2], [0, 1, 2, 3]), "first: give a vector of at least 4"),
        (([0, 1, 2, 3], [0, 1, 2, np.nan]), "second: give"),
        (([0, 1, 2, 3], [0, 1, 2, 3], 1.0), "delta must lie"),
    ],
)
def test_bad_scores(arguments, text):
    with pytest.raises(ValueError, match=text):
        epsilon_shown(*arguments)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"coins": [0, 1, 2, 1]}, "coins: give 0 or 1 for each of the 4"),
        ({"coins": [0, 1, 1]}, "got 3 values"),
        ({"num_guesses": 9}, "there are 4 canaries, got 9"),
        ({"confidence": 0.3}, "confidence: must be in"),
    ],
)
def test_bad_coins(settings, text):
    with pytest.raises(ValueError, match=text):
        epsilon_of_one_run(np.arange(4.0), **({"coins": [0, 1, 0, 1]} | settings))
