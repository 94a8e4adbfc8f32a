"""Degree above 1 in several dimensions: against moments, one dimension, and a dense law."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp

from gibbs_dp.papers import capacity

SHIFT = [0.6, 0.8]


@pytest.mark.parametrize(("degree", "shift"), [(2, SHIFT), (3, SHIFT), (2, [0.5, 0.4, 0.7])])
def test_order_two_is_a_solve_of_moments(degree, shift):
    found = capacity.laplace_renyi_of_degree(1.3, 2.0, degree, shift)
    exact = capacity.product_renyi2(
        capacity.laplace_moments(2 * degree + 1), degree, 1.3 * np.array(shift)
    )
    assert found.renyi == pytest.approx(exact, rel=1e-5)
    assert abs(found.renyi - exact) <= 2 * found.error + 1e-9


@pytest.mark.parametrize("alpha", [3.0, 5.0])
def test_linear_critics_by_the_fourier_norm(alpha):
    found = capacity.laplace_renyi_of_degree(1.0, alpha, 1, SHIFT)
    assert found.renyi == pytest.approx(
        capacity.laplace_renyi_of_linear(1.0, alpha, SHIFT), rel=2e-5
    )
    assert found.error < 1e-4


@pytest.mark.parametrize(("degree", "alpha"), [(2, 1.5), (3, 3.0), (2, 5.0)])
def test_a_coordinate_that_hardly_moves_leaves_one_dimension(degree, alpha):
    found = capacity.laplace_renyi_of_degree(1.0, alpha, degree, [1.0, 1e-6])
    exact = capacity.laplace_renyi_of_polynomials(1.0, alpha, degree)
    assert found.renyi == pytest.approx(exact, abs=5e-5)
    # Left out altogether it is exact.
    still = capacity.laplace_renyi_of_degree(1.0, alpha, degree, [1.0, 0.0])
    assert still == (pytest.approx(exact, rel=1e-12), 0.0)


def fourth_power(shift):
    """Order 4/3, where q = 4: moments of polynomials of degree 2, by a Laguerre product rule."""
    x, w = np.polynomial.laguerre.laggauss(12)
    x, w = np.concatenate([-x, x]), np.concatenate([w, w]) / 2
    a, b = (v.ravel() for v in np.meshgrid(x, x))
    weight = np.outer(w, w).ravel()
    terms = np.stack([np.ones_like(a), a, b, a * a, a * b, b * b])
    s, t = shift
    mean = np.array([1, s, t, 2 + s * s, s * t, 2 + t * t])

    def loss(c):
        c = np.append(c, 0.0)
        c = c + mean * (1 - mean @ c) / (mean @ mean)
        return math.log(weight @ (c @ terms) ** 4)

    # The condition E_P[g] = 1 is met by a projection along the means.
    return -minimize(loss, np.zeros(5), method="BFGS", options={"gtol": 1e-9}).fun


def test_order_four_thirds_by_moments():
    found = capacity.laplace_renyi_of_degree(1.0, 4 / 3, 2, SHIFT)
    assert found.renyi == pytest.approx(fourth_power(SHIFT), rel=1e-6)


def test_more_terms_and_more_coordinates_show_more():
    whole = capacity.laplace_unrestricted_renyi(1.0, 3.0, SHIFT)
    values = [capacity.laplace_renyi_of_degree(1.0, 3.0, k, SHIFT).renyi for k in (1, 2, 3)]
    alone = capacity.laplace_renyi_of_degree(1.0, 3.0, 2, SHIFT[:1]).renyi
    assert values[0] < values[1] < values[2] < whole
    assert alone < values[1]


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
    assert capacity.laplace_renyi_of_degree(1.0, 3.0, 2, [0.0, 0.0]) == (0.0, 0.0)
    assert capacity.laplace_renyi_of_degree(math.inf, 3.0, 2, SHIFT).renyi == math.inf
    assert capacity.laplace_kl_of_polynomials(math.inf, 2, SHIFT) == math.inf
    assert capacity.laplace_kl_of_polynomials(1.0, 2, 0.0) == 0.0


@pytest.mark.parametrize(
    ("alpha", "degree", "shift", "reason"),
    [
        (30.0, 2, SHIFT, "alpha must lie in"),
        (3.0, 7, SHIFT, "degree must be at most 6"),
        (3.0, 0, SHIFT, "degree"),
        (3.0, 2, [1.0] * 4, "shift has 4 coordinates that move"),
    ],
)
def test_bad_input_is_named(alpha, degree, shift, reason):
    with pytest.raises(ValueError, match=reason):
        capacity.laplace_renyi_of_degree(1.0, alpha, degree, shift)
