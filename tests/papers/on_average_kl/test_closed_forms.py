"""Closed forms against quadrature, direct formulas, sampling, and the theorems."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from quadratures import divergence_by_quadrature
from scipy.special import betaln, digamma
from scipy.stats import binom, truncnorm

from gibbs_dp.information.divergences import gaussian_kl, kl_divergence, laplace_kl
from gibbs_dp.papers.on_average_kl.closed_forms import (
    beta_bernoulli,
    gaussian_mean,
    laplace_mechanism_information,
    linear_regression_fixed_design,
    linear_regression_kl,
    linear_regression_posterior,
    private_mean,
    private_mean_dp_epsilon,
    private_mean_excess_risk,
    private_mean_on_average_kl,
)
from gibbs_dp.papers.on_average_kl.figure2 import (
    linear_regression_figure2b,
    linear_regression_figure2b_exact,
)


@settings(max_examples=20, deadline=None)
@given(
    st.floats(0.05, 5.0), st.integers(1, 50), st.floats(0.1, 3.0), st.sampled_from([0.5, math.inf])
)
def test_gaussian_mean_identities(gamma, n, variance, prior):
    answer = gaussian_mean(gamma, n, 3, variance, prior)
    assert answer.on_average_kl == pytest.approx(gamma * answer.generalization_error)
    total = answer.mutual_information + answer.lautum_information
    assert total == pytest.approx(n * answer.on_average_kl, rel=1e-12)
    assert answer.lautum_information >= 0
    one = gaussian_mean(gamma, n, 1, variance, prior)
    assert np.array(answer) == pytest.approx(3 * np.array(one))
    # E KL of two posteriors: means differ by gamma (z - z') / P.
    precision = n * gamma + 1 / prior
    expected = 0.5 * precision * 2 * variance * (gamma / precision) ** 2
    assert one.on_average_kl == pytest.approx(expected)
    # W = a zbar + noise is jointly Gaussian with the data: I from the correlation.
    signal = (n * gamma / precision) ** 2 * variance / n
    correlation2 = signal / (signal + 1 / precision)
    assert one.mutual_information == pytest.approx(-0.5 * math.log1p(-correlation2))


def test_gaussian_mean_flat_prior():
    assert gaussian_mean(0.7, 20, 2, 1.5).on_average_kl == pytest.approx(0.7 * 1.5 * 2 / 20)


def test_linear_regression_posterior_by_quadrature():
    x, y = np.array([[0.5], [-1.0], [2.0]]), np.array([0.3, -0.7, 1.0])
    other_y = np.array([0.3, 1.1, 1.0])

    def potential(responses):
        def log_density(theta):
            residual = responses[:, None] - x * theta
            return -0.8 * (residual**2).sum(axis=0) - 0.5 * 0.3 * theta**2

        return log_density

    by_quadrature = divergence_by_quadrature(
        kl_divergence, potential(y), potential(other_y), -math.inf, math.inf
    )
    closed = linear_regression_kl(x, y, x, other_y, 0.8, 0.3)
    assert closed == pytest.approx(by_quadrature, rel=1e-8)


def test_linear_regression_fixed_design_against_sampling_and_theorems():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(6, 2))
    gamma, noise, tau = 0.6, 0.5, 0.8
    answer = linear_regression_fixed_design(x, gamma, noise, tau)
    total = answer.mutual_information + answer.lautum_information
    assert total == pytest.approx(6 * answer.on_average_kl)
    assert answer.on_average_kl == pytest.approx(gamma * answer.generalization_error)
    num, theta = 4000, np.array([1.0, -0.5])
    kls = np.empty(num)
    for t in range(num):
        y = x @ theta + math.sqrt(noise) * rng.normal(size=6)
        other = y.copy()
        i = t % 6
        other[i] = x[i] @ theta + math.sqrt(noise) * rng.normal()
        p = linear_regression_posterior(x, y, gamma, tau)
        q = linear_regression_posterior(x, other, gamma, tau)
        gap = p.mean - q.mean
        kls[t] = 0.5 * gap @ p.precision @ gap
    error = kls.std(ddof=1) / math.sqrt(num)
    assert abs(kls.mean() - answer.on_average_kl) < 4 * error
    # I(W; y) of a Gaussian channel, by entropies.
    precision = linear_regression_posterior(x, np.zeros(6), gamma, tau).precision
    covariance = np.linalg.inv(precision)
    gain = 2 * gamma * covariance @ x.T
    marginal = covariance + noise * gain @ gain.T
    entropy_gap = 0.5 * (np.linalg.slogdet(marginal)[1] - np.linalg.slogdet(covariance)[1])
    assert answer.mutual_information == pytest.approx(entropy_gap)


def test_linear_regression_one_dimension_is_the_gaussian_mean():
    # x = 1: loss (y - theta)^2 is twice |theta - y|^2 / 2.
    regression = linear_regression_fixed_design(np.ones((7, 1)), 0.4, 1.3, 0.6)
    mean = gaussian_mean(0.8, 7, 1, 1.3, 1 / 0.6)
    assert regression.on_average_kl == pytest.approx(mean.on_average_kl)
    assert regression.generalization_error == pytest.approx(2 * mean.generalization_error)
    assert regression.mutual_information == pytest.approx(mean.mutual_information)
    assert regression.lautum_information == pytest.approx(mean.lautum_information)


def beta_kl(a, b, other_a, other_b):
    """KL divergence of two Beta laws."""
    found = betaln(other_a, other_b) - betaln(a, b)
    found += (a - other_a) * digamma(a) + (b - other_b) * digamma(b)
    return found + (other_a - a + other_b - b) * digamma(a + b)


@settings(max_examples=10, deadline=None)
@given(st.floats(0.1, 3.0), st.integers(1, 20), st.floats(0.05, 0.95), st.floats(0.3, 3.0))
def test_beta_bernoulli_identities(gamma, n, probability, prior):
    answer = beta_bernoulli(gamma, n, probability, prior, 0.7)
    assert answer.on_average_kl == pytest.approx(gamma * answer.generalization_error, abs=1e-13)
    total = answer.mutual_information + answer.lautum_information
    assert total == pytest.approx(n * answer.on_average_kl, rel=1e-9)
    # By the definition: KL of Betas, one toss replaced.
    direct = 0.0
    for k in range(n):
        pair = (
            (prior + gamma * (k + 1), 0.7 + gamma * (n - 1 - k)),
            (prior + gamma * k, 0.7 + gamma * (n - k)),
        )
        both = beta_kl(*pair[0], *pair[1]) + beta_kl(*pair[1], *pair[0])
        direct += binom.pmf(k, n - 1, probability) * probability * (1 - probability) * both
    assert answer.on_average_kl == pytest.approx(direct, abs=1e-12)


def test_beta_kl_by_quadrature():
    by_quadrature = divergence_by_quadrature(
        kl_divergence,
        lambda t: 1.5 * np.log(t) + 0.8 * np.log1p(-t),
        lambda t: 0.5 * np.log(t) + 2.0 * np.log1p(-t),
        0.0,
        1.0,
        rtol=1e-8,
    )
    assert beta_kl(2.5, 1.8, 1.5, 3.0) == pytest.approx(by_quadrature, rel=1e-6)


@pytest.mark.parametrize(
    ("gamma", "kl", "eps"),
    [
        (0.1, 7.7325e-07, 0.004),
        (1.0, 7.68858e-05, 0.04),
        (10.0, 0.00727199, 0.4),
        (100.0, 0.461411, 4.0),
        (1000.0, 9.12594, 40.0),
    ],
)
def test_figure_2a(gamma, kl, eps):
    assert private_mean_on_average_kl(gamma, 100) == pytest.approx(kl, rel=7e-6)
    assert private_mean_dp_epsilon(gamma, 100) == pytest.approx(eps)
    assert gamma * 4.0 / 100 == pytest.approx(eps)  # the sensitivity, and a normalizer free of data


def test_private_mean_kl_by_sampling():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(4_000_00, 2))
    z = z[np.all(np.abs(z) < 2, axis=1)]
    d = 30.0 * np.abs(z[:, 0] - z[:, 1]) / 10
    values = d + np.expm1(-d)
    error = values.std() / math.sqrt(values.size)
    assert abs(values.mean() - private_mean_on_average_kl(30.0, 10)) < 4 * error


@pytest.mark.parametrize("n", [1, 2, 7])
def test_private_mean_information(n):
    answer = private_mean(4.0, n)
    total = answer.mutual_information + answer.lautum_information
    assert answer.generalization_error == pytest.approx(total / 4.0)
    assert answer.mutual_information <= n * answer.on_average_kl
    if n == 1:  # replacing the one example is replacing all
        assert total == pytest.approx(answer.on_average_kl, rel=1e-6)
    else:  # Lemma 6 needs a sum loss: this structured one is subadditive here
        assert total < n * answer.on_average_kl


def test_laplace_information_of_a_bit():
    for scale in (0.2, 1.0, 5.0):
        answer = laplace_mechanism_information([0.0, 1.0], [0.3, 0.7], scale)

        def log_mixture(x, scale=scale):
            first = np.log(0.3) - np.abs(x) / scale
            return np.logaddexp(first, np.log(0.7) - np.abs(x - 1) / scale)

        def noise(center, scale=scale):
            return lambda x: -np.abs(x - center) / scale

        ends = (-60 * scale, 1 + 60 * scale)
        forward = [
            divergence_by_quadrature(
                kl_divergence, noise(c), log_mixture, *ends, breakpoints=(0.0, 1.0)
            )
            for c in (0.0, 1.0)
        ]
        backward = [
            divergence_by_quadrature(
                kl_divergence, log_mixture, noise(c), *ends, breakpoints=(0.0, 1.0)
            )
            for c in (0.0, 1.0)
        ]
        weight = np.array([0.3, 0.7])
        assert answer.mutual_information == pytest.approx(weight @ forward, abs=1e-9)
        assert answer.lautum_information == pytest.approx(weight @ backward, abs=1e-9)
        total = 2 * 0.3 * 0.7 * laplace_kl(0.0, 1.0, scale)
        assert sum(answer) == pytest.approx(total, abs=1e-12)


@pytest.mark.parametrize(("gamma", "n"), [(0.01, 3), (0.1, 100), (1.0, 12), (100.0, 100)])
def test_figure_2b_flat_is_the_mean_over_random_datasets(gamma, n):
    exact = linear_regression_figure2b_exact(gamma, n)
    rng = np.random.default_rng(0)
    if n == 3:  # the square of 1 / S has no mean there
        # Over the third, 1 / (r^2 + x^2) integrates to arctan(1 / r) / r, r the length of the first
        # two: x = u, y = u v covers half of the unit square.
        nodes, weights = np.polynomial.legendre.leggauss(400)
        x, w = 0.5 * (nodes + 1), 0.5 * weights
        u, v = np.meshgrid(x, x, indexing="ij")
        r = u * np.hypot(1.0, v)
        inverse = 2.0 * np.sum(w[:, None] * w * u * np.arctan(1.0 / r) / r)
        flat_kl = gamma * ((inverse / 3 + 1 / n) / 3 + (inverse / 3 - 1 / n) / (2 * gamma))
        assert exact.on_average_kl == pytest.approx(flat_kl, rel=1e-7)
        return
    total = (rng.uniform(-1, 1, size=(200_000, n)) ** 2).sum(axis=1)
    z = 3 * exact.excess_risk / (1 / 3 + 1 / (2 * gamma)) - np.mean(1 / total)
    assert abs(z) < 4 * np.std(1 / total) / np.sqrt(200_000)
    drawn = linear_regression_figure2b(gamma, n, num_datasets=20_000, seed=1)
    for name in ("on_average_kl", "excess_risk"):
        error = getattr(drawn, f"{name}_se")
        assert abs(getattr(drawn, name) - getattr(exact, name)) < 4 * error


@pytest.mark.parametrize("gamma", [0.001, 0.01, 0.1])
def test_figure_2b_on_an_interval_is_the_mean_over_random_datasets(gamma):
    exact = linear_regression_figure2b_exact(gamma, 100, support=(-2.0, 2.0))
    drawn = linear_regression_figure2b(gamma, 100, 12_000, seed=2, support=(-2.0, 2.0))
    for name in ("on_average_kl", "excess_risk"):
        error = getattr(drawn, f"{name}_se")
        assert abs(getattr(drawn, name) - getattr(exact, name)) < 4 * error
    assert exact.on_average_kl_se < 1e-8 * exact.on_average_kl


def test_figure_2b_on_a_skewed_interval_of_few_examples():
    exact = linear_regression_figure2b_exact(0.05, 30, support=(0.5, 3.0))
    drawn = linear_regression_figure2b(0.05, 30, 12_000, seed=3, support=(0.5, 3.0))
    assert abs(drawn.on_average_kl - exact.on_average_kl) < 4 * drawn.on_average_kl_se
    assert exact.on_average_kl_se < 1e-6 * exact.on_average_kl


def test_figure_2b_pair_is_the_gaussian_kl():
    from gibbs_dp.papers.on_average_kl.figure2 import _gaussian, _truncated

    rng = np.random.default_rng(4)
    x, y = rng.normal(size=5), rng.normal(size=5)
    ghost_x, ghost_y = 0.4, -0.9
    square = np.array([[ghost_x**2 - x[0] ** 2]])
    cross = np.array([[ghost_x * ghost_y - x[0] * y[0]]])
    sums = np.array([x @ x]), np.array([x @ y])
    kl, _ = _gaussian(0.7, *sums, square, cross)
    p = linear_regression_posterior(x[:, None], y, 0.7)
    x2, y2 = np.concatenate([[ghost_x], x[1:]]), np.concatenate([[ghost_y], y[1:]])
    q = linear_regression_posterior(x2[:, None], y2, 0.7)
    expected = gaussian_kl(p.mean, 1 / p.precision, q.mean, 1 / q.precision)
    assert kl[0, 0] == pytest.approx(expected, rel=1e-9)
    wide, _ = _truncated(0.7, *sums, square, cross, (-50.0, 50.0))
    assert wide[0, 0] == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: gaussian_mean(0.0, 1, 1, 1.0), "gamma must be positive"),
        (lambda: gaussian_mean(1.0, 1, 1, 1.0, -1.0), "prior_variance must be"),
        (lambda: linear_regression_posterior([[1.0]], [1.0, 2.0], 1.0), "y must have shape"),
        (lambda: linear_regression_posterior([[1.0, 1.0]], [1.0], 1.0), "improper"),
        (lambda: beta_bernoulli(1.0, 3, 1.0), "probability must lie"),
        (lambda: laplace_mechanism_information([0.0], [0.5, 0.5], 1.0), "values must be"),
        (
            lambda: linear_regression_figure2b(1.0, 4, 10, 0),
            "num_pairs must be at most",
        ),
        (lambda: linear_regression_figure2b_exact(1.0, 2), "n must be"),
        (
            lambda: linear_regression_figure2b_exact(1.0, 29, support=(0.0, 1.0)),
            "n must be",
        ),
        (
            lambda: linear_regression_figure2b_exact(1.0, 50, support=(1.0, 1.0)),
            "support must",
        ),
        (
            lambda: linear_regression_figure2b(1.0, 9, 10, 0, support=(1.0, 1.0)),
            "support must be",
        ),
    ],
)
def test_bad_input_is_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.trust(but="10.0")
@pytest.mark.parametrize("gamma", [0.3, 10.0, 300.0])
def test_excess_risk_of_the_private_mean(gamma):
    """Against datasets, the noise averaged: ``E |a + b| = |a| + exp(-gamma |a|) / gamma``."""
    rng = np.random.default_rng(5)
    means = truncnorm.rvs(-2, 2, size=(200_000, 20), random_state=rng).mean(axis=1)
    a = np.abs(means[::2] - means[1::2])
    found = a + np.exp(-gamma * a) / gamma - 0.5 * (np.abs(means[::2]) + np.abs(means[1::2]))
    error = found.std() / np.sqrt(found.size)
    # Four standard errors: a false alarm in 16,000.
    assert abs(found.mean() - private_mean_excess_risk(gamma, 20)) < 4 * error
    assert error < 0.02 * found.mean()
