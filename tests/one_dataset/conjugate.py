"""Models of which the posterior without an example, and its divergences, are exact."""

import math
from typing import NamedTuple

import numpy as np
from scipy import special


class Problem(NamedTuple):
    """Log-likelihoods of exact draws ``[1, draw, example]``, and exact divergences.

    ``pairs[j, i]`` is ``KL(p_-j || p_-i)``, ``remove[i]`` is ``KL(p || p_-i)``, ``add[i]`` is
    ``KL(p_-i || p)``; ``elpd[i]`` is the log density of example ``i`` by the others, where known.
    """

    log_likelihood: np.ndarray
    pairs: np.ndarray
    remove: np.ndarray
    add: np.ndarray
    elpd: np.ndarray | None = None

    @property
    def on_average_kl(self):
        n = len(self.pairs)
        return self.pairs.sum() / (n * (n - 1))

    @property
    def exposure(self):
        """Of each example ``j``: the mean over ``i`` of ``KL(p_-i || p_-j)``."""
        return self.pairs.sum(axis=0) / (len(self.pairs) - 1)


def of_laws(log_likelihood, full, without, kl, elpd=None):
    """A problem from the parameters of posteriors, and the divergence of two of them."""
    pairs = np.array([[kl(a, b) for b in without] for a in without])
    remove = np.array([kl(full, b) for b in without])
    add = np.array([kl(a, full) for a in without])
    return Problem(log_likelihood, pairs, remove, add, elpd)


def normal_kl(a, b):
    """KL of two normal laws: mean, precision matrix."""
    (mean, precision), (other, against) = a, b
    ratio = np.linalg.solve(precision, against)
    gap = mean - other
    log_det = np.linalg.slogdet(ratio)[1]
    return 0.5 * (np.trace(ratio) - len(mean) - log_det + gap @ against @ gap)


def linear_regression(n, dim, gamma, num_draws, rng, data=None):
    """Known variance 1, standard normal prior."""
    if data is None:
        x = np.concatenate([np.ones((n, 1)), rng.normal(size=(n, dim - 1))], axis=1)
        y = x @ rng.normal(size=dim) + rng.normal(size=n)
    else:
        x, y = data

    def law(keep):
        precision = np.eye(x.shape[1]) + gamma * x[keep].T @ x[keep]
        return np.linalg.solve(precision, gamma * x[keep].T @ y[keep]), precision

    everyone = np.arange(len(y))
    full, without = law(everyone), [law(everyone != i) for i in everyone]
    root = np.linalg.inv(np.linalg.cholesky(full[1])).T
    theta = full[0] + rng.normal(size=(num_draws, x.shape[1])) @ root.T
    values = -0.5 * (y - theta @ x.T) ** 2 - 0.5 * math.log(2 * math.pi)
    spread = np.array([1 + x[i] @ np.linalg.solve(without[i][1], x[i]) for i in everyone])
    gap = y - np.array([x[i] @ without[i][0] for i in everyone])
    elpd = -0.5 * np.log(2 * math.pi * spread) - 0.5 * gap**2 / spread
    return of_laws(values[None], full, without, normal_kl, elpd)


def beta_kl(a, b):
    """KL of two beta laws."""
    (a1, b1), (a2, b2) = a, b
    found = special.betaln(a2, b2) - special.betaln(a1, b1)
    found += (a1 - a2) * special.digamma(a1) + (b1 - b2) * special.digamma(b1)
    return found + (a2 - a1 + b2 - b1) * special.digamma(a1 + b1)


def bernoulli(n, gamma, num_draws, rng):
    """Beta(1, 1) prior."""
    z = (rng.random(n) < 0.3).astype(float)
    full = (1 + gamma * z.sum(), 1 + gamma * (n - z.sum()))
    without = [(full[0] - gamma * z[i], full[1] - gamma * (1 - z[i])) for i in range(n)]
    theta = rng.beta(*full, size=(num_draws, 1))
    return of_laws((z * np.log(theta) + (1 - z) * np.log1p(-theta))[None], full, without, beta_kl)


def normal_gamma_kl(a, b):
    """KL of two normal-gamma laws: mean, count, shape, rate."""
    (m1, k1, s1, r1), (m2, k2, s2, r2) = a, b
    found = 0.5 * (k2 / k1 - 1 - math.log(k2 / k1) + k2 * (m1 - m2) ** 2 * s1 / r1)
    found += (s1 - s2) * special.digamma(s1) - special.gammaln(s1) + special.gammaln(s2)
    return found + s2 * math.log(r1 / r2) + s1 * (r2 - r1) / r1


def unknown_variance(n, num_draws, rng):
    """Normal examples; mean and precision are normal-gamma with counts 1, shape and rate 1."""
    z = rng.normal(0.5, 1.0, size=n)

    def law(keep):
        count, mean = keep.sum(), z[keep].mean()
        rate = 1 + 0.5 * np.sum((z[keep] - mean) ** 2) + 0.5 * count * mean**2 / (1 + count)
        return count * mean / (1 + count), 1 + count, 1 + 0.5 * count, rate

    everyone = np.arange(n)
    full = law(everyone >= 0)
    without = [law(everyone != i) for i in everyone]
    precision = rng.gamma(full[2], 1 / full[3], size=(num_draws, 1))
    mean = full[0] + rng.normal(size=(num_draws, 1)) / np.sqrt(full[1] * precision)
    values = 0.5 * np.log(precision / (2 * math.pi)) - 0.5 * precision * (z - mean) ** 2
    return of_laws(values[None], full, without, normal_gamma_kl)
