"""Lipschitz critics against cumulative laws, closed forms, transport and brute force."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.optimize import linprog

from gibbs_dp.papers import capacity
from gibbs_dp.papers.capacity import Lipschitz
from gibbs_dp.papers.capacity.adversaries import AnyMap
from gibbs_dp.papers.capacity.closed_forms import gaussian_kl_of_shift
from gibbs_dp.papers.capacity.line import Line, gaussian_line
from gibbs_dp.papers.capacity.lipschitz_draws import _best_critic


def test_wasserstein_of_lines():
    for make, scale in itertools.product((capacity.laplace_line, gaussian_line), (0.1, 9.0)):
        # Noise of any size leaves the shift.
        found = capacity.lipschitz_ipm(make(1.5, scale), make(0.0, scale), Lipschitz(2.0))
        assert found.value == pytest.approx(3.0, rel=1e-10)
        assert found.is_guarantee
    wide = capacity.lipschitz_ipm(gaussian_line(0.0, 2.0), gaussian_line(0.0, 1.0))
    assert wide.value == pytest.approx(math.sqrt(2 / math.pi), rel=1e-10)
    mixed = capacity.lipschitz_ipm(gaussian_line(0.3, 2.0), capacity.laplace_line(0.0, 1.0))
    first, second = stats.norm(0.3, 2), stats.laplace
    exact = integrate.quad(lambda x: abs(first.cdf(x) - second.cdf(x)), -40, 40, limit=500)[0]
    assert mixed.value == pytest.approx(exact, rel=1e-5)


def test_a_bounded_support():
    # Densities 1 and 2 x on [0, 1]: int |x - x^2| dx = 1/6.
    flat = Line(np.zeros_like, 0.0, 1.0)
    rising = Line(np.log, 0.0, 1.0)
    assert capacity.lipschitz_ipm(rising, flat).value == pytest.approx(1 / 6, rel=1e-9)


@pytest.mark.parametrize("scale", [0.3, 3.0])
def test_bounded_critics_of_a_shift(scale):
    # p - q is odd about the middle and has one sign beyond it: the best critic is a clipped line.
    critics = Lipschitz(1.0, 2.0)
    for make, law in ((capacity.laplace_line, stats.laplace), (gaussian_line, stats.norm)):
        found = capacity.lipschitz_ipm(make(1.0, scale), make(0.0, scale), critics)

        def attained(x, law=law):
            return (law.pdf(x, 1, scale) - law.pdf(x, 0, scale)) * np.clip(x - 0.5, -1, 1)

        kinks = [-0.5, 0.0, 0.5, 1.0, 1.5]
        exact = integrate.quad(attained, -30 * scale, 30 * scale, points=kinks, limit=500)[0]
        assert found.value == pytest.approx(exact, rel=3e-5)
        assert found.value < 1


def random_atoms(seed, count=6):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, count)
    p, q = rng.dirichlet(np.ones(count), 2)
    return x, p, q


@pytest.mark.parametrize("seed", range(3))
def test_atoms_against_transport(seed):
    # Kantorovich: the smallest cost of moving P to Q at min(constant distance, oscillation).
    x, p, q = random_atoms(seed)
    order = np.argsort(x)
    for critics in (Lipschitz(0.7), Lipschitz(1.0, 0.8), Lipschitz(3.0, 2.0)):
        cost = np.minimum(critics.constant * np.abs(x[:, None] - x), critics.oscillation)
        rows = np.vstack([np.kron(np.eye(6), np.ones(6)), np.kron(np.ones(6), np.eye(6))])
        moved = linprog(cost.ravel(), A_eq=rows, b_eq=np.concatenate([p, q]), method="highs").fun
        found = _best_critic(x[order], (p - q)[order], critics)
        assert found == pytest.approx(moved, abs=1e-9)


def test_theorem_seven_is_false_without_a_limit_and_refused():
    # Unbounded critics of N(1, s^2) and N(0, s^2): the metric is 1, the KL at most 1/(2 s^2).
    sigma = 10.0
    metric = capacity.lipschitz_ipm(gaussian_line(1.0, sigma), gaussian_line(0.0, sigma))
    assert metric.value > 8 * math.sqrt(gaussian_kl_of_shift(sigma))
    seen = capacity.CapacityBound(1 / (2 * sigma**2), "kl", Lipschitz(1.0))
    with pytest.raises(ValueError, match=r"of range \[-1, 1\]"):
        capacity.ipm_from_kl(seen)


def test_draws_enclose_the_distance():
    # 64 pairs: 3 standard errors have a one-sided false-alarm rate of 1.3e-3 each.
    rng = np.random.default_rng(4)
    for shift, width in ((0.4, 1.0), (0.0, 1.5), (0.0, 1.0)):
        p, q = rng.normal(size=(64, 300)) * width + shift, rng.normal(size=(64, 200))
        laws = gaussian_line(shift, width), gaussian_line(0.0, 1.0)
        exact = capacity.lipschitz_ipm(*laws).value
        found = capacity.wasserstein_of_draws(p, q)
        assert found.upper.value > exact - 3 * found.upper_se
        assert found.lower.value < exact + 3 * found.lower_se
        assert found.upper.value - found.lower.value < 0.2
        # The spread of one pair's distance, from the pairs.
        one = [stats.wasserstein_distance(a, b) for a, b in zip(p, q, strict=True)]
        assert found.upper_se == pytest.approx(np.std(one, ddof=1) / 8, rel=1e-6)
        assert {found.upper.status, found.lower.status} == {"estimate"}
    # Equal laws: a critic fitted to one half attains 0 on the other on average.
    assert abs(found.lower.value) < 4 * found.lower_se


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: Lipschitz(0.0), "constant"),
        (lambda: Lipschitz(1.0, 0.0), "oscillation: must be positive"),
        (lambda: Lipschitz().before(AnyMap()), "mapping: how far"),
        (lambda: capacity.wasserstein_of_draws(np.ones((1, 9)), np.ones((1, 9))), "at least 2"),
        (lambda: capacity.wasserstein_of_draws(np.ones((2, 3)), np.ones((2, 9))), "4 draws a row"),
        (
            lambda: capacity.wasserstein_of_draws(np.full((2, 9), np.nan), np.ones((2, 9))),
            "draws_p must be finite",
        ),
    ],
)
def test_bad_input_is_named(call, reason):
    with pytest.raises(ValueError, match=reason):
        call()
