"""PAC-Bayes bounds against enumeration over binomial counts, where they are sharp."""

import math

import numpy as np
import pytest
from scipy import special, stats

from gibbs_dp.information.bounds import generalization as pac_bayes

N, DELTA = 50, 0.05
COUNTS = np.arange(N + 1)


def binary_kl(q, p):
    parts = [a * math.log(a / b) if a > 0 else 0.0 for a, b in ((q, p), (1 - q, 1 - p))]
    return sum(parts)


def fixture(gamma, scale=1.0, shift=0.0):
    """theory.md section 5 with counts (25, 15, 10): log C, KL, empirical risk; losses mapped."""
    theta, z = np.array([0, 0.25, 0.5, 0.75, 1.0]), np.repeat([0.0, 0.5, 1.0], [25, 15, 10])
    total = (shift + scale * (theta[:, None] - z) ** 2).sum(axis=1)
    log_c = float(special.logsumexp(-gamma * total)) - math.log(5)
    p = special.softmax(-gamma * total)
    return log_c, float(special.xlogy(p, 5 * p).sum()), float(p @ total) / N


def all_bounds(gamma, scale=1.0, shift=0.0):
    log_c, kl, risk = fixture(gamma, scale, shift)
    shared = {"delta": DELTA, "loss_range": (shift, shift + scale)}
    catoni = pac_bayes.catoni_bound(log_c, N, gamma=gamma, **shared)
    return np.array([catoni, pac_bayes.maurer_bound(risk, kl, N, **shared)])


def test_values_of_the_fixture():
    assert fixture(1.0) == pytest.approx((-9.303031, 0.944844, 0.167164), abs=6e-7)
    assert all_bounds(1.0) == pytest.approx([0.344963, 0.404653], abs=6e-7)


@pytest.mark.parametrize("shift", [0.0, -3.0, 2.0])
def test_a_range_is_a_change_of_units(shift):
    """loss' = shift + 4 loss with gamma / 4 is the same posterior, and the same bounds."""
    assert all_bounds(0.25, 4.0, shift) == pytest.approx(shift + 4 * all_bounds(1.0), rel=1e-12)


@pytest.mark.parametrize("risk", [0.05, 0.3, 0.8])
@pytest.mark.parametrize("gamma", [0.1, 1.0, 4.0])
def test_catoni_rests_on_a_moment_of_one(risk, gamma):
    """E exp(n F(R) - gamma k) = 1 for 0/1 losses: the bound at delta has F(bound) from the data."""
    law = stats.binom.pmf(COUNTS, N, risk)
    # n F(R) with F(R) = -log(1 - R (1 - e^-gamma)); the bound inverts n F = k gamma + log(1/delta).
    force = -N * math.log1p(-risk * -math.expm1(-gamma))
    assert law @ np.exp(force - gamma * COUNTS) == pytest.approx(1.0, rel=1e-12)
    for k in (3, 10):
        found = pac_bayes.catoni_bound(-gamma * k, N, gamma=gamma, delta=DELTA)
        if found < 1:
            inverted = -N * math.log1p(-found * -math.expm1(-gamma))
            assert inverted == pytest.approx(gamma * k - math.log(DELTA), rel=1e-12)


def test_maurer_rests_on_a_moment_below_twice_the_root():
    law = stats.binom.pmf(COUNTS, N, 0.3)
    moment = law @ np.exp([N * binary_kl(k / N, 0.3) for k in COUNTS])
    assert moment == pytest.approx(9.543127, abs=6e-7)
    for n in range(1, 60):
        k = np.arange(n + 1)
        terms = stats.binom.pmf(k, n, k / n)  # the moment, for any risk
        assert terms.sum() <= 2 * math.sqrt(n) + 1e-12


def test_one_hypothesis_covers_as_often_as_enumeration_says():
    """gamma = 1, R = .3: the 5% are needed, and spent in part."""
    law = stats.binom.pmf(COUNTS, N, 0.3)

    def coverage(delta):
        found = [pac_bayes.catoni_bound(-float(k), N, gamma=1.0, delta=delta) for k in COUNTS]
        return law @ (np.array(found) >= 0.3)

    assert coverage(DELTA) == pytest.approx(0.992736, abs=6e-7)
    assert coverage(1 - 1e-12) == pytest.approx(0.921149, abs=6e-7)


def chance_to_fail(factors, probs):
    """Of Catoni's bound with C times a random factor: one hypothesis, R = .3, exactly."""
    law = stats.binom.pmf(COUNTS, N, 0.3)
    found = [
        [
            pac_bayes.catoni_bound(-float(k) + math.log(f), N, gamma=1.0, delta=DELTA) < 0.3
            for f in factors
        ]
        for k in COUNTS
    ]
    return float(law @ np.array(found) @ probs)


def test_an_unbiased_normalizer_does_as_well_as_the_exact_one():
    """Whatever its noise: Markov's inequality is for the product. A biased one does not."""
    assert chance_to_fail([1.0], [1.0]) == pytest.approx(1 - 0.992736, abs=6e-7)
    most = 0.0
    for share in np.geomspace(1e-3, 0.9, 40):
        most = max(most, chance_to_fail([1e-300, 1 / share], [1 - share, share]))
    assert 0.007264 < most <= DELTA
    assert chance_to_fail([20.0], [1.0]) > DELTA  # of mean 20


@pytest.mark.parametrize("q", [0.0, 0.2, 0.97, 1.0])
@pytest.mark.parametrize("budget", [0.0, 0.01, 0.5, 40.0])
def test_the_largest_risk_is_where_the_divergence_is_spent(q, budget):
    p = pac_bayes.largest_with_binary_kl(q, budget)
    assert q <= p <= 1
    if 0 < q < p < 1 - 1e-9:
        assert binary_kl(q, p) == pytest.approx(budget, rel=1e-6)
    if q == 0:
        assert p == pytest.approx(-math.expm1(-budget), abs=1e-12)


def test_order_and_ends():
    """At most their weaker forms, a line (Alquier) and a root (McAllester), and the range."""
    for gamma in (0.01, 0.3, 3.0, 50.0):
        log_c, kl, risk = fixture(gamma)
        catoni, maurer = all_bounds(gamma)
        root = math.sqrt((kl + math.log(2 * math.sqrt(N) / DELTA)) / (2 * N))
        assert catoni <= min(1, -(log_c + math.log(DELTA)) / (N * gamma) + gamma / 8)
        assert maurer <= min(1, risk + root)
    assert pac_bayes.catoni_bound(-1e9, N, gamma=1.0, delta=DELTA) == 1.0


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: pac_bayes.catoni_bound(-1.0, N, gamma=0.0, delta=DELTA), "gamma must be positive"),
        (
            lambda: pac_bayes.catoni_bound(math.nan, N, gamma=1.0, delta=DELTA),
            "log_normalizer must",
        ),
        (lambda: pac_bayes.catoni_bound(-1.0, N, gamma=1.0, delta=0.0), "delta must lie in"),
        (lambda: pac_bayes.maurer_bound(2.0, 0.1, N, delta=DELTA), "empirical_risk must lie"),
        (lambda: pac_bayes.maurer_bound(0.2, -0.1, N, delta=DELTA), "kl must be at least 0"),
        (
            lambda: pac_bayes.maurer_bound(0.2, 0.1, N, delta=DELTA, loss_range=(0.0, math.inf)),
            "loss_range must be finite",
        ),
        (lambda: pac_bayes.largest_with_binary_kl(1.5, 0.1), "q must lie"),
    ],
)
def test_refusals(call, said):
    with pytest.raises(ValueError, match=said):
        call()
