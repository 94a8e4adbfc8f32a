"""An audit of nearly equal columns says what one of the same columns, told apart, would say."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gibbs_dp as gdp

GAP, NUM, GAMMA, DATASETS = 1e-4, 50, 0.5, 256


def population(key, n):
    """Three columns, of which the second is the first but for ``GAP``."""
    first, second = jax.random.split(key)
    x = jax.random.normal(first, (n, 3))
    x = x.at[:, 1].set(x[:, 0] + GAP * x[:, 1])
    return x, x @ jnp.array([1.0, 1.0, -1.0]) + jax.random.normal(second, (n,))


def exact(num_datasets, seed):
    """On-average KL and mutual information of the same posteriors, in independent coordinates.

    Both are free of the coordinates. Gaussians ``N(m, P^-1)`` with ``P = x^T x``; information
    against the mixture over all datasets, own one left in and out.
    """
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((num_datasets, NUM + 1, 3))
    y = rng.standard_normal((num_datasets, NUM + 1))

    def fit(rows):
        precision = np.swapaxes(x[:, rows], 1, 2) @ x[:, rows]
        right = np.einsum("kni,kn->ki", x[:, rows], y[:, rows])
        return np.linalg.solve(precision, right[..., None])[..., 0], precision

    (mean, precision), (other, replaced) = fit(slice(NUM)), fit(slice(1, NUM + 1))
    log_det = np.linalg.slogdet(precision)[1]
    gap = other - mean
    kl = 0.5 * (
        np.trace(np.linalg.solve(precision, replaced), axis1=1, axis2=2)
        - 3
        + np.einsum("ki,kij,kj->k", gap, replaced, gap)
        + log_det
        - np.linalg.slogdet(replaced)[1]
    )
    noise = rng.standard_normal((num_datasets, 3, 1))
    root = np.linalg.cholesky(precision)
    points = mean + np.linalg.solve(np.swapaxes(root, 1, 2), noise)[..., 0]
    shift = points[:, None] - mean
    logs = 0.5 * (log_det - np.einsum("pki,kij,pkj->pk", shift, precision, shift))
    own = np.diagonal(logs)
    mixture = np.log(np.exp(logs - own[:, None]).mean(axis=1))
    return kl, -mixture


@pytest.mark.trust
def test_an_audit_of_collinear_columns_is_right():
    """Limits of 4 standard errors: one good audit in 5,000 fails one of the three."""
    posterior = gdp.GibbsPosterior(gdp.losses.squared, gdp.Flat(gdp.supports.real(3)))
    report = gdp.audit(
        posterior, population, NUM, GAMMA, num_datasets=DATASETS, key=11, progress=False
    )
    assert not report.warnings
    row = report.to_dataframe().iloc[0]
    assert row["failed_datasets"] == 0
    kl, information = exact(2000, 0)
    error = np.hypot(row["on_average_kl_se"], kl.std() / len(kl) ** 0.5)
    assert abs(row["on_average_kl"] - kl.mean()) < 4 * error
    low, high = row["mutual_information_lower"], row["mutual_information_upper"]
    error = np.hypot(row["mutual_information_lower_se"], information.std() / len(kl) ** 0.5)
    assert low - 4 * error < information.mean() < high + 4 * error
