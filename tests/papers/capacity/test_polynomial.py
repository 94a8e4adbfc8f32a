"""Polynomial adversaries on the line: two routes each, and the order among degrees."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import minimize, minimize_scalar

from gibbs_dp.information.divergences import laplace_renyi
from gibbs_dp.papers import capacity
from gibbs_dp.papers.capacity.closed_forms import (
    gaussian_kl_of_shift,
    laplace_moments,
    product_renyi2,
    valid_gaussian,
)
from gibbs_dp.papers.capacity.polynomial import Line, gaussian_line, polynomial_kl, renyi_from_alpha
from gibbs_dp.papers.capacity.several import gaussian_renyi_of_polynomials, laplace_renyi_of_linear
from gibbs_dp.papers.capacity.verify import span_kl, span_renyi


def shifted(eps):
    return capacity.laplace_line(1.0, 1 / eps), capacity.laplace_line(0.0, 1 / eps)


def test_linear_kl_of_laplace():
    assert capacity.laplace_linear_kl(1.0) == pytest.approx(0.225987156, abs=1e-9)
    for eps in (1e-3, 0.1, 1.0, 7.0, 60.0):
        # Without quadrature: log E_Q e^{ax} = -log(1 - a^2/eps^2).
        best = minimize_scalar(
            lambda a, eps=eps: -a - math.log1p(-((a / eps) ** 2)),
            bounds=(0, eps),
            method="bounded",
            options={"xatol": 1e-12 * eps},
        )
        root = math.sqrt(1 + eps**2) - 1
        formula = root + math.log(1 - root**2 / eps**2)
        value = capacity.laplace_linear_kl(eps)
        assert value == pytest.approx(-best.fun, rel=1e-8)
        assert value == pytest.approx(formula, rel=1e-8)
        assert polynomial_kl(*shifted(eps), 1) == pytest.approx(value, rel=1e-8)


def test_gaussian_kl_is_linear():
    p, q = gaussian_line(1.0, 1.7), gaussian_line(0.0, 1.7)
    for degree in (1, 2, 4):
        assert polynomial_kl(p, q, degree) == pytest.approx(1 / (2 * 1.7**2), rel=1e-10)


def test_quadratic_kl_sees_a_change_of_width():
    # The log-ratio of two normal laws is a quadratic; a linear critic sees the means alone.
    p, q = gaussian_line(0.3, 0.8), gaussian_line(0.0, 1.0)
    whole = 0.5 * (0.8**2 + 0.3**2 - 1) - math.log(0.8)
    assert polynomial_kl(p, q, 2) == pytest.approx(whole, rel=1e-9)
    assert polynomial_kl(p, q, 1) == pytest.approx(0.3**2 / 2, rel=1e-9)


def test_polynomials_of_bounded_laws_reach_the_whole_kl():
    p = Line(lambda x: np.sin(3 * x), -1.0, 1.0)
    q = Line(lambda x: 0 * x, -1.0, 1.0)
    mass = quad(lambda x: math.exp(math.sin(3 * x)), -1, 1)[0]
    whole = quad(lambda x: math.exp(math.sin(3 * x)) / mass * math.sin(3 * x), -1, 1)[0]
    whole += math.log(2 / mass)
    found = [polynomial_kl(p, q, degree) for degree in (1, 3, 9)]
    assert found[0] < found[1] < found[2] == pytest.approx(whole, rel=1e-6)


@pytest.mark.parametrize("eps", [0.01, 1.0, 10.0])
@pytest.mark.parametrize("degree", [1, 2, 3, 5])
def test_order_two_by_linear_algebra(eps, degree):
    exact = product_renyi2(laplace_moments(2 * degree + 1), degree, eps)
    found = capacity.polynomial_renyi(*shifted(eps), 2.0, degree)
    assert found.renyi == pytest.approx(exact, rel=1e-6, abs=1e-13)
    # Newton, rather than a start that is already the solution.
    near = capacity.polynomial_renyi(*shifted(eps), 2.0 + 1e-9, degree)
    assert near.renyi == pytest.approx(exact, rel=1e-6, abs=1e-13)


def test_linear_renyi_by_a_scalar_search():
    # Independent of the nodes: E|x - c|^q by adaptive quadrature, one-dimensional search over c.
    alpha, eps = 3.0, 1.0
    q = alpha / (alpha - 1)

    def loss(c):
        left = quad(lambda x: 0.5 * math.exp(-abs(x)) * abs(x - c) ** q, -60, c, points=[0.0])[0]
        right = quad(lambda x: 0.5 * math.exp(-abs(x)) * abs(x - c) ** q, c, 60, points=[0.0])[0]
        return (left + right) ** (1 / q) / abs(1 - c)

    best = min(
        minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-9}).fun
        for bounds in ((-40, 0.9), (1.1, 40))
    )
    assert capacity.laplace_renyi_of_polynomials(eps, alpha) == pytest.approx(
        -q * math.log(best), abs=1e-7
    )


def test_the_dual_by_a_general_optimizer():
    # The smallest L^alpha norm of a density with P's moments, on a lattice.
    alpha, x = 3.0, np.linspace(-8, 9, 52)
    q = np.exp(-np.abs(x))
    p = np.exp(-np.abs(x - 1))
    q, p = q / q.sum(), p / p.sum()
    terms = np.stack([np.ones_like(x), x, x**2 / 4])
    target = terms @ p
    found = minimize(
        lambda w: float(q @ np.abs(w) ** alpha),
        p / q,
        jac=lambda w: alpha * q * np.abs(w) ** (alpha - 1) * np.sign(w),
        constraints={
            "type": "eq",
            "fun": lambda w: terms @ (q * w) - target,
            "jac": lambda w: terms * q,
        },
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-12},
    )
    dual = math.log(found.fun) / (alpha - 1)
    assert span_renyi(terms, p, q, alpha) == pytest.approx(dual, abs=1e-5)


def test_figure_values():
    values = {a: capacity.laplace_renyi_of_polynomials(1.0, a) for a in (2.9, 40.0, 1000.0)}
    assert values[2.9] == pytest.approx(0.415, abs=5e-4)
    assert values[1000.0] == pytest.approx(0.3825, abs=5e-4)
    for degree in (2, 3):
        later = [capacity.laplace_renyi_of_polynomials(1.0, a, degree) for a in (30.0, 40.0)]
        assert later[0] < later[1]


# A grid and not only random points: eps over three decades, alpha to 40.
GRID = [(e, a) for e in (0.01, 0.1, 0.5, 1.0, 3.0, 10.0) for a in (1.2, 2.0, 3.0, 8.0, 20.0, 40.0)]


def check_order(eps, alpha, degrees=(1, 2, 3)):
    free = laplace_renyi(0.0, 1.0, 1 / eps, alpha)
    found = [capacity.polynomial_renyi(*shifted(eps), alpha, degree) for degree in degrees]
    values = [critic.renyi for critic in found]
    # A certificate: the dual density of the critic has P's moments.
    assert max(critic.residual for critic in found) < 1e-7
    assert all(a <= b * (1 + 1e-12) for a, b in itertools.pairwise(values))
    assert values[-1] <= free * (1 + 1e-9)
    assert 0 < values[0] <= capacity.valid_laplace(eps, alpha) * (1 + 1e-9)
    noise = gaussian_renyi_of_polynomials(1 / eps, alpha)
    assert 0 < noise <= valid_gaussian(1 / eps, alpha) * (1 + 1e-9)


@pytest.mark.parametrize(("eps", "alpha"), GRID)
def test_rises_with_degree_below_unrestricted_and_valid(eps, alpha):
    check_order(eps, alpha)


@pytest.mark.trust
@settings(max_examples=25, deadline=None)
@given(st.floats(-2.0, 1.3), st.floats(0.1, 39.0))
def test_the_same_at_random_settings(log_eps, above):
    check_order(10**log_eps, 1 + above)


def test_small_losses_behave_like_alpha_eps_squared_over_four():
    eps = 1e-3
    for alpha in (2.0, 3.0):
        value = capacity.laplace_renyi_of_polynomials(eps, alpha)
        assert value == pytest.approx(alpha * eps**2 / 4, rel=0.01)


def test_alpha_and_renyi_convert():
    found = capacity.polynomial_renyi(*shifted(1.0), 3.0, 2)
    assert renyi_from_alpha(found.alpha_divergence, 3.0) == pytest.approx(found.renyi)
    # The critic's own scale of the alpha-divergence, by the definition with f*.
    x = np.linspace(-60, 60, 2_000_001)
    mass = 0.5 * np.exp(-np.abs(x)) * (x[1] - x[0])
    g = found.coefficients @ found.basis.values(x)
    q = 1.5
    h = g / (mass @ np.abs(g) ** q) ** 2 / 2  # E|g|^q = N^-q and the best scale is N^alpha
    size = (2 * np.abs(h)) ** q
    shifted_mass = 0.5 * np.exp(-np.abs(x - 1)) * (x[1] - x[0])
    value = shifted_mass @ h - mass @ (size / 3 + 1 / 6)
    assert value == pytest.approx(found.alpha_divergence, rel=1e-6)


def test_no_noise_is_infinite():
    assert capacity.laplace_linear_kl(math.inf) == math.inf
    assert gaussian_kl_of_shift(0.0) == math.inf
    assert capacity.laplace_renyi_of_polynomials(math.inf, 3.0) == math.inf
    assert gaussian_renyi_of_polynomials(0.0, 3.0) == math.inf
    assert laplace_renyi_of_linear(math.inf, 3.0, [1.0, 1.0]) == math.inf
    assert gaussian_kl_of_shift(0.0, [0.0]) == 0.0
    values = [capacity.laplace_linear_kl(eps) for eps in (1e2, 1e4, 1e6)]
    assert values[0] < values[1] < values[2] > 9e5
    point = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    x = np.array([[0.0, 1.0]])
    assert span_kl(x, *point) == math.inf
    assert span_renyi(np.vstack([np.ones(2), x]), *point, 3.0) == math.inf


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: capacity.polynomial_renyi(*shifted(1.0), 1.0, 1), "alpha must lie"),
        (lambda: capacity.polynomial_renyi(*shifted(1.0), 2.0, 0), "degree must be"),
        (lambda: polynomial_kl(*shifted(1.0), 0), "degree must be"),
        (lambda: capacity.laplace_linear_kl(-1.0), "eps must be positive"),
        (lambda: capacity.laplace_line(0.0, 0.0), "scale must be positive"),
        (lambda: capacity.printed_laplace(1.0, 1.0), "alpha must be above 1"),
        (lambda: laplace_renyi_of_linear(1.0, 1.5, [1.0, 1.0]), "alpha must lie"),
        (lambda: capacity.laplace_linear_kl(1.0, [math.nan]), "shift must be"),
        (
            lambda: polynomial_kl(*2 * [Line(lambda x: np.where(x < 0, np.nan, -x))], 1),
            "log_density must be",
        ),
    ],
)
def test_bad_input_is_named(call, named):
    with pytest.raises(ValueError, match=named):
        call()
