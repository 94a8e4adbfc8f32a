"""Choosing subsets by their maximum: each mean is unbiased, those of the chosen are not.

``n`` standard normals in ``n/ln n`` subsets of ``ln n``, those in ``sqrt(n/ln n)`` groups; the
largest subset means of all groups are averaged. Noise before choosing removes the bias.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from gibbs_dp.experiments.holdout_result import Advance, mean_and_se, uncounted
from gibbs_dp.experiments.tables import Row
from gibbs_dp.information import checks

SIZES = (1_000, 10_000, 100_000)
BETA = 0.05
CLIP = 3.0


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


def one_maximum(key: PRNGKeyArray, n: int, beta: float = BETA) -> Float[Array, " choices"]:
    """Average the chosen subsets' own means: no noise, heuristic noise, replace-one noise."""
    groups, subsets, size = shape_of(n)
    draw, noise = jax.random.split(key)
    rows = jnp.clip(jax.random.normal(draw, (groups, subsets, size)), -CLIP, CLIP)
    means = rows.mean(axis=2)
    unit = jax.random.laplace(noise, means.shape)
    found = []
    for scale in (0.0, *noise_scales(n, beta)):
        chosen = jnp.argmax(means + scale * unit, axis=1)
        found.append(jnp.take_along_axis(means, chosen[:, None], axis=1).mean())
    return jnp.stack(found)


def maxima_rows(
    sizes: Sequence[int] = SIZES,
    *,
    repetitions: int = 200,
    beta: float = BETA,
    key: int = 0,
    advance: Advance = uncounted,
) -> list[Row]:
    """Bias of the average, one dict per ``n`` and way of choosing, errors over repetitions.

    Parameters
    ----------
    sizes
        Values of ``n``.
    repetitions
        Independent repetitions, vmapped.
    beta
        Failure probability that sets the noise.
    key
        Integer seed.
    advance
        Called with the number of repetitions just done.

    Returns
    -------
    list of dict
        Bias and its standard error, with ``n`` and the way of choosing.
    """
    checks.count("repetitions", repetitions, minimum=2)
    names = ("largest mean", "noisy, lecture's heuristic", "noisy, replace-one")
    rows: list[Row] = []
    for n in sizes:
        keys = jax.random.split(jax.random.fold_in(jax.random.key(key), n), repetitions)
        batch = max(1, min(repetitions, 8_000_000 // n))
        run = jax.jit(
            lambda k, n=n, b=batch: jax.lax.map(
                lambda one: one_maximum(one, n, beta), k, batch_size=b
            )
        )
        found = np.asarray(run(keys), dtype=np.float64)
        for i, name in enumerate(names):
            scale = (0.0, *noise_scales(n, beta))[i]
            row = {"n": n, "choice": name, "noise_scale": scale, "repetitions": repetitions}
            rows.append(row | mean_and_se("bias", found[:, i]))
        advance(repetitions)
    return rows
