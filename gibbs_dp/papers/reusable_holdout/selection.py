"""Means that were selected because they are large: their bias, with and without noise.

Of ``m`` means ``phi_j ~ N(0, sigma^2)``, all with population mean 0, one is selected by softmax
(the exponential mechanism, which at zero temperature takes the largest): its bias is at most
``sqrt(2 sigma^2 I(W; Phi))`` (Russo & Zou 2016).

Of ``n`` standard normals in ``n/ln n`` subsets of ``ln n``, those in ``sqrt(n/ln n)`` groups, the
largest subset means of all groups are averaged. Each mean is unbiased, those of the chosen are not;
noise before choosing removes the bias.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from scipy.stats import norm

from gibbs_dp._jaxlib.precision import matmul
from gibbs_dp.information import bounds, checks
from gibbs_dp.papers.reusable_holdout.result import Advance, mean_and_se, uncounted
from gibbs_dp.papers.tables import Row

COUNTS = (10, 100, 1000)
# In standard deviations of a mean; 0 selects the largest.
TEMPERATURES = (0.0, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0)


def one_selection(
    key: PRNGKeyArray, m: int, temperatures: Float[Array, " temperatures"]
) -> Float[Array, "temperatures 2"]:
    """Compute the expected selected mean and the selection's entropy given the means, unit sigma.

    By symmetry ``I(W; Phi) = log m - E H(W | Phi)``, so both are averages of exact conditional
    expectations.
    """
    phi = jax.random.normal(key, (m,))

    def at(temperature: Float[Array, ""]) -> Float[Array, " 2"]:
        log_p = jax.nn.log_softmax(phi / jnp.maximum(temperature, 1e-6))
        p = jnp.exp(log_p)
        return jnp.stack([matmul(p, phi), -jnp.sum(jnp.where(p > 0, p * log_p, 0.0))])

    return jax.vmap(at)(temperatures)


def selection_rows(
    counts: Sequence[int] = COUNTS,
    *,
    sigma: float = 0.01,
    repetitions: int = 2000,
    key: int = 0,
    advance: Advance = uncounted,
) -> list[Row]:
    """Bias and bound, one dict per ``m`` and temperature; errors over repetitions.

    Parameters
    ----------
    counts
        Values of ``m``.
    sigma
        Standard deviation of each mean, such as ``1/sqrt(n)``.
    repetitions
        Independent repetitions, vmapped.
    key
        Integer seed.
    advance
        Called with the number of repetitions just done.

    Returns
    -------
    list of dict
        Bias, its standard error and the bound, with ``m`` and the temperature.
    """
    checks.count("repetitions", repetitions, minimum=2)
    checks.positive("sigma", sigma)
    rows: list[Row] = []
    grid = jnp.asarray(TEMPERATURES)
    for m in counts:
        checks.count("counts", m, minimum=2)
        keys = jax.random.split(jax.random.fold_in(jax.random.key(key), m), repetitions)
        run = jax.jit(
            lambda k, m=m: jax.lax.map(lambda one: one_selection(one, m, grid), k, batch_size=100)
        )
        found = np.asarray(run(keys), dtype=np.float64)
        for i, temperature in enumerate(TEMPERATURES):
            entropy = found[:, i, 1]
            information = max(0.0, math.log(m) - float(entropy.mean()))
            bound = bounds.selection_bias(information, sigma=sigma)
            rows.append(
                {"m": m, "temperature": temperature, "sigma": sigma, "repetitions": repetitions}
                | mean_and_se("bias", sigma * found[:, i, 0])
                | {"information": information}
                | {"information_se": float(entropy.std(ddof=1) / repetitions**0.5)}
                | {"bound": bound, "bound_at_zero": sigma * math.sqrt(2 * math.log(m))}
            )
        advance(repetitions)
    return rows


SIZES = (1_000, 10_000, 100_000)
BETA = 0.05
CLIP = 3.0
NUM_BINS = 60
CHOICES = ("largest mean", "noisy, lecture's heuristic", "noisy, replace-one")


def shape_of(n: int) -> tuple[int, int, int]:
    """Count groups, subsets per group and rows per subset; products may stay a little below ``n``.

    >>> shape_of(10_000)
    (33, 33, 9)
    """
    size = max(1, round(math.log(checks.count("n", n, minimum=100))))
    groups = math.isqrt(n // size)
    return groups, groups, size


def noise_scales(n: int, beta: float = BETA) -> tuple[float, float]:
    """Laplace scales ``Delta/eps`` of a subset mean, ``eps = sqrt(ln(1/beta)/(2 ln n))``.

    ``Delta = 3/ln n`` is the lecture's heuristic; replacing one row of ``|x| <= 3`` moves a mean
    by ``6/ln n``.

    >>> [round(scale, 3) for scale in noise_scales(10_000)]
    [0.808, 1.615]
    """
    checks.unit_interval("beta", beta, open_left=True)
    eps = math.sqrt(math.log(1 / beta) / (2 * math.log(n)))
    heuristic = CLIP / math.log(n) / eps
    return heuristic, 2 * heuristic


def chosen_means(key: PRNGKeyArray, n: int, beta: float = BETA) -> Float[Array, "choices groups"]:
    """Draw one dataset, and return the own mean of every group's chosen subset.

    Choices in the order of `CHOICES`: no noise, heuristic noise, replace-one noise.
    """
    groups, subsets, size = shape_of(n)
    draw, noise = jax.random.split(key)
    rows = jnp.clip(jax.random.normal(draw, (groups, subsets, size)), -CLIP, CLIP)
    means = rows.mean(axis=2)
    unit = jax.random.laplace(noise, means.shape)
    found = []
    for scale in (0.0, *noise_scales(n, beta)):
        chosen = jnp.argmax(means + scale * unit, axis=1)
        found.append(jnp.take_along_axis(means, chosen[:, None], axis=1)[:, 0])
    return jnp.stack(found)


def maxima_draws(
    n: int, *, repetitions: int = 200, beta: float = BETA, key: int = 0
) -> Float[np.ndarray, "repetitions choices groups"]:
    """Repeat `chosen_means`, vmapped.

    Parameters
    ----------
    n
        Rows of a dataset.
    repetitions
        Independent datasets.
    beta
        Failure probability that sets the noise.
    key
        Integer seed.

    Returns
    -------
    array
        Means of the chosen subsets.
    """
    checks.count("repetitions", repetitions, minimum=2)
    keys = jax.random.split(jax.random.fold_in(jax.random.key(key), n), repetitions)
    batch = max(1, min(repetitions, 8_000_000 // n))
    run = jax.jit(
        lambda k: jax.lax.map(lambda one: chosen_means(one, n, beta), k, batch_size=batch)
    )
    return np.asarray(run(keys), dtype=np.float64)


def maxima_rows(
    draws: Float[np.ndarray, "repetitions choices groups"], n: int, beta: float = BETA
) -> list[Row]:
    """Bias of the average over groups, one dict per way of choosing, errors over repetitions.

    Parameters
    ----------
    draws
        Of `maxima_draws`.
    n, beta
        What they were drawn with.

    Returns
    -------
    list of dict
        Bias and its standard error, with ``n`` and the way of choosing.
    """
    scales = (0.0, *noise_scales(n, beta))
    averages = draws.mean(axis=2)
    return [
        {"n": n, "choice": name, "noise_scale": scale, "repetitions": draws.shape[0]}
        | mean_and_se("bias", averages[:, i])
        for i, (name, scale) in enumerate(zip(CHOICES, scales, strict=True))
    ]


def running_rows(draws: Float[np.ndarray, "repetitions choices groups"], n: int) -> list[Row]:
    """Accumulate means over the groups, one dict per way of choosing and number of groups.

    Parameters
    ----------
    draws, n
        As in `maxima_rows`.

    Returns
    -------
    list of dict
        ``first``: in the first dataset; ``running``, ``running_se``: mean over all and its error;
        ``low``, ``high``: quantiles 0.025 and 0.975 of one dataset's.
    """
    counts = np.arange(1, draws.shape[2] + 1)
    running = np.cumsum(draws, axis=2) / counts
    low, high = np.quantile(running, (0.025, 0.975), axis=0)
    return [
        {"n": n, "choice": name, "groups": int(j + 1), "first": float(running[0, i, j])}
        | mean_and_se("running", running[:, i, j])
        | {"low": float(low[i, j]), "high": float(high[i, j])}
        for i, name in enumerate(CHOICES)
        for j in range(counts.size)
    ]


def density_rows(
    draws: Float[np.ndarray, "repetitions choices groups"], n: int, num_bins: int = NUM_BINS
) -> list[Row]:
    """Density of the chosen subsets' own means, one dict per way of choosing and bin.

    Parameters
    ----------
    draws, n
        As in `maxima_rows`.
    num_bins
        Equal bins from the smallest to the largest value.

    Returns
    -------
    list of dict
        ``density`` of a bin, its standard error over repetitions, and at its middle the densities
        of one subset's mean, ``one``, and of the largest of a group, ``largest`` (closed forms
        without clipping).
    """
    _, subsets, size = shape_of(n)
    edges = np.linspace(draws.min(), draws.max(), num_bins + 1)
    middles, width = (edges[1:] + edges[:-1]) / 2, edges[1] - edges[0]
    law = norm(scale=size**-0.5)
    one = law.pdf(middles)
    largest = subsets * one * law.cdf(middles) ** (subsets - 1)
    rows: list[Row] = []
    for i, name in enumerate(CHOICES):
        # The unit is a dataset, as everywhere.
        shares = np.array([np.histogram(run[i], edges)[0] / run[i].size for run in draws])
        for j, middle in enumerate(middles):
            row: Row = {"n": n, "choice": name, "mean": float(middle)}
            row |= mean_and_se("density", shares[:, j] / width)
            rows.append(row | {"one": float(one[j]), "largest": float(largest[j])})
    return rows
