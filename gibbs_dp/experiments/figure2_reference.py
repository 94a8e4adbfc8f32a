"""What Figure 2 should show: on-average KL by quadrature, without sampling any posterior."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import stats

NUM_NODES = 96
WIDTH = 10.0
CHUNK = 4_000


class Reference(NamedTuple):
    """A value and its standard error, 0 where it is exact."""

    value: float
    se: float


def private_mean_kl(gamma: float, n: int, example_bound: float = 2.0) -> Reference:
    """On-average KL of the Laplace mechanism on the mean of truncated normals, exactly.

    ``E[D + e^-D - 1]`` over two independent examples, ``D = gamma |z - z'| / n``, by Gauss
    quadrature.

    >>> round(private_mean_kl(100.0, 100).value, 6)
    0.461411
    """
    # Of two nodes x < y of [-b, b]: an integral over z, and one over the gap that starts at z.
    nodes, weights = np.polynomial.legendre.leggauss(NUM_NODES)
    law = stats.truncnorm(-example_bound, example_bound)
    z = example_bound * nodes
    half = 0.5 * (example_bound - z)
    gap = half[:, None] * (nodes + 1.0)
    density = law.pdf(z)[:, None] * law.pdf(np.minimum(z[:, None] + gap, example_bound))
    scaled = gamma * gap / n
    kl = scaled + np.expm1(-scaled)
    inner = (density * kl) @ weights * half
    return Reference(float(2.0 * example_bound * weights @ inner), 0.0)


def linear_regression_kl(
    gamma: float, n: int, theta_bound: float, num_datasets: int = 40_000, seed: int = 0
) -> Reference:
    """On-average KL of 1-D regression with a flat prior on ``[-theta_bound, theta_bound]``.

    The KL of every dataset's posterior is a one-dimensional integral; the average over datasets
    is by Monte Carlo, which is where the standard error comes from.
    """
    rng = np.random.default_rng(seed)
    parts = []
    for first in range(0, num_datasets, CHUNK):
        count = min(CHUNK, num_datasets - first)
        x, noise = rng.uniform(-1.0, 1.0, (2, count, n + 1))
        parts.append(_replace_one_kl(gamma, x, x + noise, theta_bound))
    values = np.concatenate(parts)
    return Reference(float(values.mean()), float(values.std(ddof=1) / len(values) ** 0.5))


def _replace_one_kl(
    gamma: float,
    x: Float[np.ndarray, "datasets n_plus_1"],
    y: Float[np.ndarray, "datasets n_plus_1"],
    bound: float,
) -> Float[np.ndarray, " datasets"]:
    """KL from the posterior of all but the last example to that with the last for the first."""
    curvature, slope = x**2, x * y
    a, b = curvature[:, :-1].sum(axis=1), slope[:, :-1].sum(axis=1)
    da, db = curvature[:, -1] - curvature[:, 0], slope[:, -1] - slope[:, 0]
    dc = y[:, -1] ** 2 - y[:, 0] ** 2
    nodes, weights = np.polynomial.legendre.leggauss(NUM_NODES)
    # Nodes where either posterior has its mass.
    modes = np.stack([b / a, (b + db) / (a + da)])
    reach = WIDTH / np.sqrt(2.0 * gamma * np.minimum(a, a + da))
    low = np.clip(modes.min(axis=0) - reach, -bound, bound)
    high = np.clip(modes.max(axis=0) + reach, -bound, bound)
    half = 0.5 * (high - low)
    theta = (0.5 * (high + low))[:, None] + half[:, None] * nodes
    energy = gamma * a[:, None] * (theta - modes[0][:, None]) ** 2
    mass = np.exp(-(energy - energy.min(axis=1, keepdims=True))) * weights
    mass /= mass.sum(axis=1, keepdims=True)
    delta = gamma * (da[:, None] * theta**2 - 2.0 * db[:, None] * theta + dc[:, None])
    centred = delta - (mass * delta).sum(axis=1, keepdims=True)
    return np.log1p((mass * np.expm1(-centred)).sum(axis=1))
