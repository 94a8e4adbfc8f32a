"""Bridge sampling against known normalizers; |z| <= 4 has a false-alarm rate of 6e-5."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, special

from gibbs_dp.estimators import (
    bridge,
    integrate_mean_loss,
    log_normalizer_ratio,
    point_worth,
    quasi_normals,
)


def log_ratio(v, mean, scale, log_normalizer):
    """Log of an unnormalized N(mean, scale^2) over a standard normal, summed over coordinates."""
    density = -0.5 * ((v - mean) / scale) ** 2 - np.log(scale) + log_normalizer / v.shape[-1]
    return jnp.sum(density + 0.5 * v**2, axis=-1)


def bridged(key, dim, mean, scale, log_normalizer, chains=8, draws=8, points=256):
    v = mean + scale * jax.random.normal(key, (chains, draws, dim))
    proposals = jnp.asarray(quasi_normals(points, dim), v.dtype)
    at = (mean, scale, log_normalizer)
    return bridge(log_ratio(v, *at), log_ratio(proposals, *at), point_worth(dim))


@pytest.mark.trust(but="float32")
def test_a_fitting_proposal_is_exact(precision):
    found = bridged(jax.random.key(0), 3, 0.0, 1.0, 2.5)
    assert found.value == pytest.approx(2.5, abs=1e-5)
    assert found.overlap == pytest.approx(1.0, abs=1e-5)
    assert found.value.dtype == precision


@pytest.mark.trust(but=["1-0.5-1.3", "5-0.1-0.9"])
@pytest.mark.parametrize(
    ("dim", "mean", "scale"), [(1, 0.5, 0.8), (1, 0.5, 1.3), (2, 0.3, 0.7), (5, 0.1, 0.9)]
)
def test_repetitions_center_on_the_truth_within_their_errors(dim, mean, scale):
    keys = jax.random.split(jax.random.key(dim), 400)
    found = jax.vmap(lambda k: bridged(k, dim, mean, scale, -7.0))(keys)
    error = np.asarray(found.value, float) + 7.0
    spread = error.std(ddof=1)
    # All runs share the proposal's points and so their error, which the reported one includes.
    reported = np.sqrt(np.mean(np.asarray(found.se, float) ** 2))
    assert abs(error.mean()) < 2 * reported
    assert spread < 1.2 * reported
    assert reported < 0.05


def test_errors_are_those_of_few_proposals_too():
    """Sixty-four independent ones, 64 draws; 400 errors tell a spread to 4%: four of these."""
    at = 0.5, 0.9, -7.0

    def one(key):
        keys = jax.random.split(key)
        v = at[0] + at[1] * jax.random.normal(keys[0], (8, 8, 1))
        return bridge(log_ratio(v, *at), log_ratio(jax.random.normal(keys[1], (64, 1)), *at), 1.0)

    found = jax.vmap(one)(jax.random.split(jax.random.key(11), 400))
    spread = np.asarray(found.value, float).std(ddof=1)
    assert spread == pytest.approx(np.sqrt(np.mean(np.asarray(found.se, float) ** 2)), rel=0.16)


@pytest.mark.trust
def test_correlated_chains_have_larger_errors():
    # Eight copies of each draw: an eighth of the information, seen by comparing chains.
    key = jax.random.key(1)
    proposals = jnp.asarray(quasi_normals(256, 1), jnp.float32)
    v = 0.5 + 1.5 * jax.random.normal(key, (200, 8, 8, 1))
    at = (0.5, 1.5, 0.0)
    copied = jnp.broadcast_to(v[:, :, :1], v.shape)
    run = jax.vmap(lambda x: bridge(log_ratio(x, *at), log_ratio(proposals, *at)))
    free, stuck = run(v), run(copied)
    assert np.mean(stuck.se) > 1.5 * np.mean(free.se)
    assert np.std(stuck.value) < 1.2 * np.sqrt(np.mean(stuck.se**2))


def test_little_overlap_is_seen():
    assert float(bridged(jax.random.key(2), 1, 6.0, 1.0, 0.0).overlap) < 0.05
    two_modes = jnp.concatenate([jnp.full((4, 8, 1), -8.0), jnp.full((4, 8, 1), 8.0)])
    v = two_modes + jax.random.normal(jax.random.key(3), two_modes.shape)

    def ratio(x):
        log_p = jnp.logaddexp(-0.5 * (x - 8.0) ** 2, -0.5 * (x + 8.0) ** 2)
        return (log_p + 0.5 * x**2)[..., 0]

    proposals = jnp.asarray(quasi_normals(256, 1), v.dtype)
    assert float(bridge(ratio(v), ratio(proposals)).overlap) < 0.05


def test_quasi_normals_are_standard_and_antithetic():
    points = quasi_normals(256, 4)
    np.testing.assert_allclose(points.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(np.cov(points, rowvar=False), np.eye(4), atol=0.12)
    with pytest.raises(ValueError, match="twice a power of two"):
        quasi_normals(100, 2)


# The ratio of normalizers from draws of two posteriors.


def gaussian_pair(rng, mu, count):
    """``delta``, shifted, at draws of N(0, 1) and of N(mu, 1): C'/C = e^(mu^2/2+3)."""
    constant = 3.0

    def delta(x):
        return -mu * x - constant

    draws = rng.normal(size=count), mu + rng.normal(size=count)
    return [jnp.asarray(delta(x)) for x in draws], mu**2 / 2 + constant


@pytest.mark.parametrize("mu", [0.01, 1.0, 5.0])
def test_it_is_the_ratio_of_a_gaussian_pair(mu, float64):
    # Of 200 pairs of 64 draws the mean is within 4 standard errors (6 false alarms in 100,000).
    rng = np.random.default_rng(3)
    pairs, truth = zip(*(gaussian_pair(rng, mu, 64) for _ in range(200)), strict=True)
    found = jax.jit(jax.vmap(log_normalizer_ratio))(*map(jnp.stack, zip(*pairs, strict=True)))
    errors = np.asarray(found) - np.array(truth)
    assert abs(np.mean(errors)) < 4 * np.std(errors) / len(errors) ** 0.5
    assert np.std(errors) < 0.6 * mu


@pytest.mark.parametrize("mu", [0.01, 5.0, 60.0])
def test_it_solves_bennetts_equation_however_far_apart_the_laws(mu, float64):
    (delta, other), _ = gaussian_pair(np.random.default_rng(0), mu, 40)

    def excess(ratio):
        forward = special.expit(-(np.asarray(delta) + ratio))
        return forward.mean() - special.expit(np.asarray(other) + ratio).mean()

    found = float(log_normalizer_ratio(delta, other))
    truth = optimize.brentq(excess, -1e5, 1e5, xtol=1e-12)
    # Where the laws do not meet, the equation is flat between them.
    assert found == pytest.approx(truth, abs=1e-6) or abs(excess(found)) < 1e-12


# Thermodynamic integration against closed forms.


GAMMAS = np.array([0.1, 0.5, 2.0, 10.0])


def test_exact_for_gaussian_posteriors_under_a_flat_prior():
    # C(gamma) = exp(-a gamma) (2 pi / (c gamma))^(d / 2), one row a dataset.
    a, d = np.array([[3.0], [0.0], [-1.0]]), np.array([[1], [5], [20]])
    found = integrate_mean_loss(GAMMAS, a + d / (2 * GAMMAS), d / (2 * GAMMAS**2))
    truth = -a * np.diff(GAMMAS) - d / 2 * np.diff(np.log(GAMMAS))
    np.testing.assert_allclose(found.value, truth, rtol=1e-10, atol=1e-10)
    assert found.quadrature_error.max() < 1e-9


def conjugate(gammas, n=20.0, t=1.0):
    """Loss n theta^2 / 2 under a N(0, t^2) prior: mean and variance of the loss, log C."""
    precision = n * gammas + 1 / t**2
    return n / (2 * precision), n**2 / (2 * precision**2), -0.5 * np.log(precision * t**2)


@pytest.mark.parametrize("spacing", [1.3, 2.0, 5.0])
def test_the_quadrature_error_covers_what_a_proper_prior_costs(spacing):
    gammas = 0.01 * spacing ** np.arange(6)
    mean, variance, log_normalizer = conjugate(gammas)
    found = integrate_mean_loss(gammas, mean[None], variance[None])
    error = np.abs(found.value[0] - np.diff(log_normalizer))
    assert (error <= found.quadrature_error[0]).all()
    if spacing < 2:
        assert error.max() < 1e-4


def test_an_interval_from_zero_uses_powers_of_gamma():
    gammas = np.array([0.0, 0.005, 0.01])
    mean, variance, log_normalizer = conjugate(gammas)
    found = integrate_mean_loss(gammas, mean[None], variance[None])
    np.testing.assert_allclose(found.value[0], np.diff(log_normalizer), atol=1e-5)
