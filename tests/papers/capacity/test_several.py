"""Several dimensions and finite laws, each against another route."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.special import logsumexp
from scipy.stats import norm, qmc

from gibbs_dp.papers import capacity
from gibbs_dp.papers.capacity.closed_forms import (
    laplace_moments,
    monomials,
    printed_gaussian,
    printed_gaussian_several,
    product_renyi2,
    renyi2_from_moments,
    valid_gaussian,
)
from gibbs_dp.papers.capacity.polynomial import polynomial_kl
from gibbs_dp.papers.capacity.several import (
    gaussian_renyi_of_polynomials,
    laplace_renyi_of_linear,
)
from gibbs_dp.papers.capacity.verify import finite_class_kl, span_kl, span_renyi


@pytest.mark.parametrize("alpha", [2.01, 3.0, 8.0, 40.0])
@pytest.mark.parametrize("eps", [1e-3, 0.03, 0.2, 1.0, 5.0])
def test_the_fourier_norm_agrees_with_quadrature_in_one_dimension(eps, alpha):
    # Both sides of the change to a moment series, at eps of about 0.05.
    exact = capacity.laplace_renyi_of_polynomials(eps, alpha)
    assert laplace_renyi_of_linear(eps, alpha) == pytest.approx(exact, rel=3e-6)


def test_the_fourier_norm_at_order_two():
    shift = [0.3, -0.4, 1.2]
    near = laplace_renyi_of_linear(1.0, 2 + 1e-6, shift)
    assert near == pytest.approx(math.log1p(np.dot(shift, shift) / 2), rel=1e-5)
    moments = product_renyi2(laplace_moments(3), 1, shift)
    assert laplace_renyi_of_linear(1.0, 2.0, shift) == pytest.approx(moments, rel=1e-12)


def test_two_dimensions_against_a_product_rule():
    x, w = np.polynomial.laguerre.laggauss(40)
    nodes, mass = np.append(-x, x), np.append(w, w) / 2
    a, b = np.meshgrid(nodes, nodes, indexing="ij")
    weight = np.outer(mass, mass).ravel()
    shift, alpha, q = np.array([0.6, 0.8]), 3.0, 1.5
    found = laplace_renyi_of_linear(1.0, alpha, shift)
    # The best of many directions and offsets.
    best = 0.0
    for angle in np.linspace(0, np.pi / 2, 41):
        line = np.cos(angle) * a.ravel() + np.sin(angle) * b.ravel()
        along = np.cos(angle) * shift[0] + np.sin(angle) * shift[1]
        for offset in np.linspace(0.5, 3.0, 26):
            norm = float(weight @ np.abs(offset + line) ** q) ** (1 / q)
            best = max(best, (offset + along) / norm)
    assert q * math.log(best) == pytest.approx(found, rel=0.01)


def test_normal_noise_depends_on_the_length_alone():
    one = gaussian_renyi_of_polynomials(1.5, 2.0, 3, 1.0)
    several = product_renyi2(
        np.array([1.0, 0, 1, 0, 3, 0, 15]), 3, np.array([0.48, 0.64, 0.6]) / 1.5
    )
    assert several == pytest.approx(one, rel=1e-10)


def test_more_coordinates_show_more():
    shift = np.array([0.5, 0.5, 0.5])
    values = [laplace_renyi_of_linear(1.0, 5.0, shift[:k]) for k in (1, 2, 3)]
    assert values[0] < values[1] < values[2]
    # An adversary who sees fewer combinations sees less, all of them the same.
    some = laplace_renyi_of_linear(1.0, 5.0, shift, np.array([[1.0, 1.0, 0.0]]))
    whole = laplace_renyi_of_linear(
        1.0, 5.0, shift, np.array(np.random.default_rng(0).normal(size=(4, 3)))
    )
    assert some < values[2] == pytest.approx(whole, rel=1e-7)
    assert laplace_renyi_of_linear(1.0, 5.0, [1.0, -1.0], np.array([[1.0, 1.0]])) == 0.0


@pytest.mark.parametrize("alpha", [2.0, 3.0, 10.0, 40.0])
def test_valid_bounds_hold_in_several_dimensions(alpha):
    points = qmc.scale(qmc.Sobol(3, seed=0).random(8), [-2, -2, -2], [2, 2, 2])
    for shift in points:
        value = laplace_renyi_of_linear(0.7, alpha, shift)
        assert value <= capacity.valid_laplace(0.7, alpha, shift) * (1 + 1e-7)
        noise = gaussian_renyi_of_polynomials(0.7, alpha, 1, shift)
        assert noise <= valid_gaussian(0.7, alpha, shift) * (1 + 1e-9)
    for below in (1.2, 1.6):
        bound = capacity.valid_laplace(0.7, below, [1.0, 1.0])
        assert bound >= capacity.laplace_renyi_of_polynomials(0.7, below)


@pytest.mark.parametrize("alpha", [1.3, 2.0, 5.0])
def test_far_shifts_are_seen_by_the_noise_itself(alpha):
    """The critic ``f(x) = x`` has ``E_P f = shift``: what holds is above it, and hardly."""
    q, sigma, shift = alpha / (alpha - 1), 1.5, np.array([120.0, -160.0])
    moment = 2 * quad(lambda x: x**q * norm.pdf(x), 0, np.inf, epsabs=0, epsrel=1e-10)[0]
    seen = 200.0 / (sigma * moment ** (1 / q))
    bound = valid_gaussian(sigma, alpha, shift)
    assert q * math.log(seen) <= bound <= q * (math.log(seen) + 1 / seen)
    # At order 2 the best of all linear critics.
    if alpha == 2.0:
        assert math.log1p((200.0 / sigma) ** 2) <= bound


@pytest.mark.parametrize(
    ("sigma", "alpha", "printed"),
    [
        (1.0, 3.0, math.log(1 + 2 * math.pi) / 2),
        (2.0, 3.0, math.log(1 + math.pi / 4) / 2),
        (1.0, 5.0, math.log(1 + 4 * math.pi**2) / 4),
        ((2 * math.pi) ** 0.25, 2.0, math.log(2)),
    ],
)
def test_the_printed_bound_of_normal_noise(sigma, alpha, printed):
    """``log(1 + sqrt(2 pi)^{alpha-1} / sigma^alpha) / (alpha-1)``, worked out where it is short."""
    assert printed_gaussian(sigma, alpha) == pytest.approx(printed, rel=1e-12)
    # The form of several dimensions is the same in one.
    assert printed_gaussian_several(sigma, alpha, [1.0]) == pytest.approx(printed, rel=1e-12)


def test_the_linear_kl_of_several_coordinates_adds():
    shift = np.array([0.5, 2.0])
    x = [capacity.laplace_line(0.0, 1.0), capacity.laplace_line(0.0, 1.0)]
    parts = [
        polynomial_kl(capacity.laplace_line(v, 1.0), q, 1) for v, q in zip(shift, x, strict=True)
    ]
    assert capacity.laplace_linear_kl(1.0, shift) == pytest.approx(sum(parts), rel=1e-8)


def test_finite_laws_against_the_line():
    p, q = capacity.laplace_line(1.0, 1.0), capacity.laplace_line(0.0, 1.0)
    x, mass = q.rule([1.0 + 0j], 0.0)
    moved = mass * np.exp(np.abs(x) - np.abs(x - 1))
    laws = moved / moved.sum(), mass / mass.sum()
    terms = np.stack([np.ones_like(x), x / 3, (x / 3) ** 2])
    for alpha in (1.5, 2.0, 3.0, 8.0):
        exact = capacity.polynomial_renyi(p, q, alpha, 2).renyi
        assert span_renyi(terms, *laws, alpha) == pytest.approx(exact, abs=2e-4)
    assert span_kl(terms[1:], *laws) == pytest.approx(polynomial_kl(p, q, 2), rel=1e-8)


def test_all_functions_of_a_finite_law_see_everything():
    p, q = np.array([0.2, 0.5, 0.3]), np.array([0.6, 0.3, 0.1])
    whole = float(p @ np.log(p / q))
    assert span_kl(np.eye(3), p, q) == pytest.approx(whole, rel=1e-9)
    # Without extra constants the span still holds them: the f-dual form gives the same.
    assert span_kl(np.eye(3), p, q, has_constants=False) == pytest.approx(whole, rel=1e-9)
    for alpha in (1.5, 2.0, 4.0):
        renyi = math.log(float(p**alpha @ q ** (1 - alpha))) / (alpha - 1)
        assert span_renyi(np.eye(3), p, q, alpha) == pytest.approx(renyi, rel=1e-9)


def test_a_class_without_constants_sees_less_and_may_go_below_zero():
    p, q = np.array([0.2, 0.5, 0.3]), np.array([0.6, 0.3, 0.1])
    x = np.array([[-1.0, 0.0, 1.0]])
    with_constants = span_kl(x, p, q)
    without = span_kl(x, p, q, has_constants=False)
    by_grid = max(c * 0.1 - q @ np.exp(c * x[0] - 1) for c in np.linspace(-5, 5, 4001))
    assert without == pytest.approx(by_grid, abs=1e-5)
    assert without < 0 < with_constants
    assert finite_class_kl(np.zeros((1, 3)), p, q) == pytest.approx(-math.exp(-1))


def test_order_two_from_moments_refuses_nonsense():
    with pytest.raises(ValueError, match="gram_q must be positive"):
        renyi2_from_moments(np.ones(2), np.array([[1.0, 2.0], [2.0, 1.0]]))
    with pytest.raises(ValueError, match=r"gram_q must be \[2, 2\]"):
        renyi2_from_moments(np.ones(2), np.eye(3))
    with pytest.raises(ValueError, match="degree: polynomials"):
        monomials(100, 4)
    with pytest.raises(ValueError, match="noise_moments must hold"):
        product_renyi2(laplace_moments(3), 2, 1.0)
    with pytest.raises(ValueError, match="visible has 3 columns"):
        laplace_renyi_of_linear(1.0, 3.0, [1.0, 1.0], np.ones((1, 3)))
    with pytest.raises(ValueError, match="functions must be finite"):
        span_kl(np.full((1, 1), np.nan), np.array([1.0]), np.array([1.0]))


# KL of degree above 1 in several dimensions: against a dense law.


SHIFT = [0.6, 0.8]


def test_the_restricted_kl_adds():
    # Degree 2 with its mixed term, as a convex program on a dense product of two laws.
    x = np.linspace(-14, 14, 241)
    q = np.exp(-np.abs(x))
    p = [np.exp(-np.abs(x - v)) for v in SHIFT]
    q, p = q / q.sum(), [law / law.sum() for law in p]
    a, b = (v.ravel() for v in np.meshgrid(x, x, indexing="ij"))
    terms = np.stack([a, b, a * a / 4, a * b / 4, b * b / 4])
    log_q, target = np.log(np.outer(q, q).ravel()), terms @ np.outer(*p).ravel()

    def loss(c):
        exponent = log_q + c @ terms
        total = logsumexp(exponent)
        return total - c @ target, terms @ np.exp(exponent - total) - target

    both = -minimize(loss, np.zeros(5), jac=True, method="BFGS", options={"gtol": 1e-8}).fun
    exact = capacity.laplace_kl_of_polynomials(1.0, 2, SHIFT)
    assert both == pytest.approx(exact, rel=2e-3)  # the grid's own step
    parts = [capacity.laplace_kl_of_polynomials(1.0, 2, v) for v in SHIFT]
    assert exact == pytest.approx(sum(parts), rel=1e-12)
    linear = capacity.laplace_kl_of_polynomials(1.0, 1, SHIFT)
    assert linear == pytest.approx(capacity.laplace_linear_kl(1.0, SHIFT), rel=1e-8)
    assert linear < exact < capacity.laplace_unrestricted_kl(1.0, SHIFT)


def test_ends():
    assert capacity.laplace_kl_of_polynomials(math.inf, 2, SHIFT) == math.inf
    assert capacity.laplace_kl_of_polynomials(1.0, 2, 0.0) == 0.0
