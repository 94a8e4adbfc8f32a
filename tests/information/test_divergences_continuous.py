"""Gaussian and Laplace closed forms against quadrature of their densities, and sampling."""

import math
from functools import partial

import numpy as np
import pytest
from quadratures import divergence_by_quadrature, quadrature_law

from gibbs_dp.information import divergences as dv
from gibbs_dp.information.divergences.continuous import (
    gaussian_max_divergence,
    quadratic_tail,
)


def normal(mean, variance):
    return lambda x: -((x - mean) ** 2) / (2 * variance) - 0.5 * math.log(variance)


def laplace(location, scale):
    return lambda x: -np.abs(x - location) / scale


MEASURES = [
    (dv.kl_divergence, dv.gaussian_kl, dv.laplace_kl, ()),
    (dv.renyi_divergence, dv.gaussian_renyi, dv.laplace_renyi, (0.5,)),
    (dv.renyi_divergence, dv.gaussian_renyi, dv.laplace_renyi, (1.3,)),
    (dv.hockey_stick, dv.gaussian_hockey_stick, None, (1.0,)),
    (dv.hockey_stick, dv.gaussian_hockey_stick, None, (1.4,)),
    (dv.hockey_stick, dv.gaussian_hockey_stick, None, (0.3,)),
]


@pytest.mark.parametrize("moments", [(0.7, 0.8, 0.0, 1.0), (-0.5, 1.3, 0.4, 1.0)])
@pytest.mark.parametrize(("finite", "closed", "_", "parameter"), MEASURES)
def test_gaussian_against_quadrature(finite, closed, _, parameter, moments):
    mp, vp, mq, vq = moments
    measure = partial(lambda f, a, p, q: f(p, q, *a), finite, parameter)
    by_quadrature = divergence_by_quadrature(
        measure, normal(mp, vp), normal(mq, vq), -20.0, 20.0, rtol=1e-6
    )
    assert closed(mp, vp, mq, vq, *parameter) == pytest.approx(by_quadrature, rel=1e-4)


@pytest.mark.parametrize(("finite", "_", "closed", "parameter"), MEASURES[:3])
def test_laplace_against_quadrature(finite, _, closed, parameter):
    a, a_, b = 0.3, 1.2, 0.6
    measure = partial(lambda f, args, p, q: f(p, q, *args), finite, parameter)
    by_quadrature = divergence_by_quadrature(
        measure, laplace(a, b), laplace(a_, b), -30.0, 30.0, breakpoints=(a, a_), rtol=1e-6
    )
    assert closed(a, a_, b, *parameter) == pytest.approx(by_quadrature, rel=2e-5)


def test_laplace_unequal_scales():
    by_quadrature = divergence_by_quadrature(
        dv.kl_divergence, laplace(0.3, 0.5), laplace(1.0, 0.9), -40.0, 40.0, breakpoints=(0.3, 1.0)
    )
    assert dv.laplace_kl(0.3, 1.0, 0.5, 0.9) == pytest.approx(by_quadrature, rel=1e-8)


def test_laplace_kl_is_continuous_where_the_series_takes_over():
    for d in (0.00999999, 0.01000001):
        exact = float(np.longdouble(d) + np.expm1(-np.longdouble(d)))
        assert dv.laplace_kl(0.0, d, 1.0) == pytest.approx(exact, rel=1e-12)
    assert dv.laplace_kl(0.0, 1e-9, 1.0) == pytest.approx(5e-19, rel=1e-8)


def test_multivariate_gaussians_add_over_independent_coordinates():
    rng = np.random.default_rng(0)
    rotation = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    m_p, m_q = np.array([0.3, -0.2, 0.5]), np.array([0.0, 0.4, 0.1])
    v_p, v_q = np.array([0.5, 1.2, 0.9]), np.array([1.0, 1.5, 0.7])
    args = (
        rotation @ m_p,
        rotation @ np.diag(v_p) @ rotation.T,
        rotation @ m_q,
        rotation @ np.diag(v_q) @ rotation.T,
    )
    parts = list(zip(m_p, v_p, m_q, v_q, strict=True))
    assert dv.gaussian_kl(*args) == pytest.approx(sum(dv.gaussian_kl(*p) for p in parts))
    for alpha in (0.3, 1.5):
        total = sum(dv.gaussian_renyi(*p, alpha) for p in parts)
        assert dv.gaussian_renyi(*args, alpha) == pytest.approx(total)
    assert dv.gaussian_renyi(*args, 50.0) == math.inf  # the third coordinate of Q is narrower
    assert gaussian_max_divergence(*args) == math.inf


@pytest.mark.parametrize(("mean", "variance"), [(0.3, 0.5), (2.0, 0.9), (0.0, 0.2)])
def test_max_divergence_is_the_largest_log_ratio(mean, variance):
    x = np.linspace(-40.0, 40.0, 400_001)
    largest = np.max(normal(mean, variance)(x) - normal(0.0, 1.0)(x))
    assert gaussian_max_divergence(mean, variance, 0.0, 1.0) == pytest.approx(largest, rel=1e-6)


def test_multivariate_hockey_stick_against_sampling():
    rng = np.random.default_rng(1)
    m_p, m_q = np.array([0.5, -0.3]), np.zeros(2)
    c_p, c_q = np.array([[0.6, 0.2], [0.2, 1.4]]), np.eye(2)
    num = 400_000
    x = rng.multivariate_normal(m_p, c_p, num)
    y = rng.multivariate_normal(m_q, c_q, num)

    def log_ratio(v):
        d = v - m_p
        first = -0.5 * np.einsum("ni,ij,nj->n", d, np.linalg.inv(c_p), d)
        return first - 0.5 * np.log(np.linalg.det(c_p)) + 0.5 * np.sum(v * v, axis=1)

    for g in (1.0, 1.7):
        p_event = log_ratio(x) > math.log(g)
        q_event = log_ratio(y) > math.log(g)
        sampled = p_event.mean() - g * q_event.mean()
        error = math.sqrt(p_event.var() / num + g * g * q_event.var() / num)
        assert abs(dv.gaussian_hockey_stick(m_p, c_p, m_q, c_q, g) - sampled) < 4 * error
    # One coordinate that agrees changes nothing: the planar inversion meets the closed form.
    flat = dv.gaussian_hockey_stick(0.5, 0.6, 0.0, 1.0, 1.3)
    plane = dv.gaussian_hockey_stick([0.5, 0.0], np.diag([0.6, 1.0]), [0.0, 0.0], np.eye(2), 1.3)
    assert plane == pytest.approx(flat, abs=1e-8)


def test_quadratic_tail_of_chi_square():
    for level in (0.1, 2.0, 30.0):
        value = quadratic_tail(np.ones(2), np.zeros(2), 0.0, level)
        assert value == pytest.approx(math.exp(-level / 2), abs=1e-9)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: dv.gaussian_kl([0.0, 1.0], 1.0, 0.0, 1.0), "mean_p and covariance_p"),
        (lambda: dv.gaussian_kl(0.0, -1.0, 0.0, 1.0), "covariance_p must be positive"),
        (
            lambda: dv.gaussian_kl([0.0, 0.0], [[1.0, 2.0], [0.0, 1.0]], [0.0, 0.0], np.eye(2)),
            "sym",
        ),
        (lambda: dv.gaussian_kl(0.0, 1.0, [0.0, 0.0], np.eye(2)), "same dimension"),
        (lambda: dv.laplace_kl(0.0, 1.0, 0.0), "scale must be positive"),
        (lambda: quadrature_law(lambda x: x, 1.0, 0.0), "lower must be below"),
        (lambda: quadrature_law(lambda x: x * np.nan, 0.0, 1.0), "log_density must be"),
    ],
)
def test_bad_input_is_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_an_integral_that_does_not_settle_says_so():
    with pytest.raises(ValueError, match="did not settle"):
        divergence_by_quadrature(
            dv.total_variation,
            lambda x: np.where(x < 1 / math.pi, 0.0, -np.inf),
            lambda x: 0 * x,
            0.0,
            1.0,
            rtol=1e-14,
            max_panels=64,
        )
