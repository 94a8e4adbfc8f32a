"""Figure 2b of Wang, Lei & Fienberg (2016): one-dimensional linear regression."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from gibbs_dp.information import checks

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(96)
_CHUNK = 4000


class Figure2b(NamedTuple):
    """Monte Carlo averages over datasets and their standard errors; KL in nats."""

    on_average_kl: float
    on_average_kl_se: float
    excess_risk: float
    excess_risk_se: float


def linear_regression_figure2b(
    gamma: float,
    n: int,
    num_datasets: int,
    seed: int,
    *,
    support: tuple[float, float] | None = None,
    num_pairs: int = 8,
) -> Figure2b:
    """Average the closed-form KL and excess risk over datasets.

    ``x`` and the noise are uniform on ``(-1, 1)``, ``y = x + noise``, ``loss = (y - x theta)^2``;
    the prior is flat on the real line, or uniform on ``support``. Per dataset the KL is exact (a
    difference form that keeps its digits when it is 1e-9), averaged over ``num_pairs`` examples
    each with its own ghost.

    Parameters
    ----------
    gamma
        Inverse temperature of the total loss.
    n, num_datasets
        Dataset size, at least 2, and how many datasets; at least 2.
    seed
        Of NumPy's generator.
    support
        Ends of a uniform prior; ``None``, the default, for the flat prior on the line.
    num_pairs
        Replaced examples per dataset, at most ``n``.

    Returns
    -------
    Figure2b
        Standard errors are over datasets.

    Raises
    ------
    ValueError
        If a count is out of range, or the support is empty.

    Examples
    --------
    >>> answer = linear_regression_figure2b(1.0, 100, num_datasets=2000, seed=0)
    >>> abs(answer.on_average_kl - 6.716e-3) < 4 * answer.on_average_kl_se + 1e-4
    True
    """
    checks.positive("gamma", gamma)
    checks.count("n", n, minimum=2)
    checks.count("num_datasets", num_datasets, minimum=2)
    checks.count("num_pairs", num_pairs)
    if num_pairs > n:
        raise ValueError(f"num_pairs must be at most n = {n}, got {num_pairs}; lower it.")
    if support is not None and not support[0] < support[1]:
        raise ValueError(f"support must be (lower, upper) with lower < upper, got {support}.")
    rng = np.random.default_rng(seed)
    kl, risk = [], []
    for start in range(0, num_datasets, _CHUNK):
        rows = min(_CHUNK, num_datasets - start)
        x, noise = rng.uniform(-1, 1, size=(2, rows, n))
        ghost_x, ghost_noise = rng.uniform(-1, 1, size=(2, rows, num_pairs))
        y, ghost_y = x + noise, ghost_x + ghost_noise
        sxx, sxy = (x * x).sum(axis=1), (x * y).sum(axis=1)
        square = ghost_x**2 - x[:, :num_pairs] ** 2
        cross = ghost_x * ghost_y - x[:, :num_pairs] * y[:, :num_pairs]
        if support is None:
            pair_kl, pair_risk = _gaussian(gamma, sxx, sxy, square, cross)
        else:
            pair_kl, pair_risk = _truncated(gamma, sxx, sxy, square, cross, support)
        kl.append(pair_kl.mean(axis=1))
        risk.append(pair_risk)
    return Figure2b(*_mean_and_error(np.concatenate(kl)), *_mean_and_error(np.concatenate(risk)))


Rows = Float[np.ndarray, " datasets"]
Pairs = Float[np.ndarray, "datasets pairs"]


def _mean_and_error(values: Rows) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(values.size))


def _gaussian(
    gamma: float, sxx: Rows, sxy: Rows, square: Pairs, cross: Pairs
) -> tuple[Pairs, Rows]:
    """KL of ``N(m, 1/P)`` to ``N(m', 1/P')``, in the changes of ``sum x^2`` and ``sum x y``."""
    mean = sxy / sxx
    relative = square / sxx[:, None]
    shift = (cross - mean[:, None] * square) / (sxx[:, None] + square)
    precision = 2 * gamma * (sxx[:, None] + square)
    kl = 0.5 * (relative - np.log1p(relative)) + 0.5 * precision * shift**2
    return kl, ((mean - 1) ** 2 + 1 / (2 * gamma * sxx)) / 3


def _truncated(
    gamma: float,
    sxx: Rows,
    sxy: Rows,
    square: Pairs,
    cross: Pairs,
    support: tuple[float, float],
) -> tuple[Pairs, Rows]:
    """Return the same on an interval, by nodes over ten deviations of the posterior."""
    deviation = 1 / np.sqrt(2 * gamma * sxx)
    center = np.clip(sxy / sxx, *support)
    low = np.maximum(support[0], center - 10 * deviation)
    high = np.minimum(support[1], center + 10 * deviation)
    theta = (low + high)[:, None] / 2 + (high - low)[:, None] / 2 * _NODES
    exponent = -gamma * (sxx[:, None] * theta**2 - 2 * sxy[:, None] * theta)
    weight = np.exp(exponent - exponent.max(axis=1, keepdims=True)) * _WEIGHTS
    weight /= weight.sum(axis=1, keepdims=True)
    # KL = log E exp(-(delta - E delta)), delta = gamma (loss at the ghost - loss at the example).
    delta = gamma * (
        square[:, :, None] * theta[:, None, :] ** 2 - 2 * cross[:, :, None] * theta[:, None, :]
    )
    delta -= np.einsum("dpt,dt->dp", delta, weight)[:, :, None]
    kl = np.log1p(np.einsum("dpt,dt->dp", np.expm1(-delta), weight))
    return kl, (weight * (theta - 1) ** 2).sum(axis=1) / 3
