"""On-average KL of one dataset's draws: by ghosts, by both sides, and whether they agree."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gibbs_dp._jaxlib.precision import total
from gibbs_dp.estimators.table_sums import Layout, Table, consistency_sums
from gibbs_dp.information.checks import whole_arrays


@whole_arrays
def risk(
    losses: Float[Array, "chains draws examples"], weight: Float[Array, "chains draws"]
) -> Float[Array, ""]:
    """Posterior mean of the average loss over examples: ``E_theta mean_i loss(theta, z_i)``.

    ``weight`` sums to the number of chains.
    """
    mean = total(losses) / losses.shape[-1]
    return jnp.mean(jnp.sum(mean * weight, axis=-1))


@whole_arrays
def gap(
    train: Float[Array, "chains draws n"],
    ghost: Float[Array, "chains draws ghosts"],
    weight: Float[Array, "chains draws"],
) -> Float[Array, ""]:
    """Ghost estimate of the generalization error.

    ``E_theta[mean_j loss(theta, z'_j) - mean_i loss(theta, z_i)]``: unbiased for
    ``gen = E[R(theta) - Rhat(theta, Z)]``.
    """
    return risk(ghost, weight) - risk(train, weight)


@whole_arrays
def reference_gap(train: Float[Array, " n"], ghost: Float[Array, " ghosts"]) -> Float[Array, ""]:
    """Return a control variate for :func:`gap`: the same difference at a fixed parameter.

    It has mean zero **because that parameter does not depend on this dataset or its ghosts**.
    Where posteriors are close to the parameter, subtracting it removes most of the variance.
    """
    return jnp.mean(ghost) - jnp.mean(train)


# The two-sided estimator of on-average KL: draws of the posterior and of the replaced one.


@whole_arrays
def two_sided_kl(
    delta: Float[Array, "chains draws pairs"],
    delta_replaced: Float[Array, "chains draws pairs"],
    weight: Float[Array, "chains draws"],
    weight_replaced: Float[Array, "chains draws"] | None = None,
) -> Float[Array, ""]:
    """Half the symmetrized KL, ``(E_p[delta] - E_p'[delta]) / 2``, averaged over pairs.

    ``delta = log p - log p'`` up to a constant, at draws of ``p`` and at draws of ``p'``. The
    normalizers cancel in ``KL(p || p') + KL(p' || p)``, so nothing has heavy tails and nothing
    is biased, however large the KL. ``(Z, Z')`` and ``(Z', Z)`` have the same law, so both
    directions have the same mean over datasets and half their sum estimates ``eps_KL``
    (Definition 2). One pair's value is a symmetrized KL, not ``KL(p || p')``.

    The same symmetry proves ``eps_KL = gamma gen``: unlike the one-sided estimator, this one is not
    an independent check of that identity, and does not detect draws from a wrong law.

    Drawing ``p`` and ``p'`` with the same random numbers couples the chains and makes the
    difference far less noisy than either mean.
    """
    other = weight if weight_replaced is None else weight_replaced
    difference = jnp.sum(delta * weight[..., None] - delta_replaced * other[..., None], axis=1)
    return 0.5 * jnp.mean(difference)


# Normalizers made consistent with each other's draws.

# Of means of ratios that are smaller, what they lack of one says too little.
_SMALL = 0.5


class ConsistencySums:
    """How far each of M posterior densities is from integrating to one, judged by all draws.

    Draws from all M posteriors, equally many of each, are draws of their mixture ``q``, and
    ``E_q[p_k / q] = 1`` for every normalized ``p_k``. Where the mean over draws is not 1, the
    log normalizer of ``Z_k`` is off by its logarithm: one step of the self-consistent equations of
    Shirts & Chodera (2008, equation 11). Where the information is small every draw informs every
    normalizer, with far less noise than bridging each on its own; noise of standard
    deviation ``s`` would bias a small mutual information by up to ``s^2 / 2``.

    Parameters
    ----------
    layout
        Columns of the tables.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout, self._draws = layout, 0
        self._sums = np.zeros((4, layout.position.size))

    def add(self, table: Table) -> None:
        """Add a block of draws: their log density (over any one of the draw) per dataset."""
        self._draws += int(np.sum(table.is_draw))
        found = np.asarray(consistency_sums(table)).astype(np.float64).sum(axis=0)
        self._sums += found[:, self._layout.position]

    def correction(self, se: Float[np.ndarray, " datasets"]) -> Float[np.ndarray, " datasets"]:
        """Return what to add to log normalizers that are each known to a standard error ``se``.

        The two estimates are averaged with weights inverse to their variances.
        """
        off, off_square, mean, square = self._sums / self._draws
        tiny = np.finfo(float).tiny
        mean = np.maximum(mean, tiny)
        is_small = mean < _SMALL
        log_mean = np.where(is_small, np.log(mean), np.log1p(np.maximum(off, -_SMALL)))
        spread = np.where(is_small, square - mean**2, off_square - off**2)
        variance = np.maximum(spread / np.exp(2 * log_mean), 0.0) / self._draws
        share = se**2 / np.maximum(se**2 + variance, tiny)
        return np.asarray(share * log_mean)
