"""On-average KL of one dataset's draws: by ghosts, by both sides, and whether they agree."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from gibbs_dp._jaxlib.precision import total
from gibbs_dp.estimators.direct import centred, half_square, pair_parts
from gibbs_dp.information.checks import whole_arrays


@whole_arrays
def risk(
    losses: Float[Array, "chains draws examples"], weight: Float[Array, "chains draws"]
) -> Float[Array, ""]:
    """Posterior mean of the average loss over examples; ``weight`` sums to the number of chains."""
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


# Half the variance of the log ratio: a pair's KL to second order, cheap for all pairs.


class PairVariance(NamedTuple):
    """``Var_p(delta) / 2`` (nats), with ``delta = log p - log p'`` up to a constant.

    Examples and ghosts are exchangeable, so every pair's has the same mean over datasets: the
    difference between pairs chosen at random and all is a control variate of mean zero.
    """

    chosen: Float[Array, " pairs"]  # for the pairs that were asked for
    mean: Float[Array, ""]  # mean over all pairs of an example and a ghost


@whole_arrays
def pair_variance(
    train: Float[Array, "chains draws n"],
    ghost: Float[Array, "chains draws ghosts"],
    weight: Float[Array, "chains draws"],
    gamma: Float[Array, ""],
    group_size: int,
    old: Int[Array, " pairs"],
    new: Int[Array, " pairs"],
) -> PairVariance:
    """Compute it from losses of draws: ``delta = gamma (loss(theta, z'_j) - loss(theta, z_i))``.

    All pairs cost no more than all losses: the mean of ``Var(y_j - x_i)`` over ``i`` and ``j`` is
    the mean variance of ``x_i`` plus that of ``y_j``, less twice the covariance of their means.
    """
    x, y = pair_parts(train, ghost, weight, gamma, group_size)
    share = weight / weight.shape[0]
    alone = total(x**2) / x.shape[-1] + total(y**2) / y.shape[-1]
    mixed = (total(x) / x.shape[-1]) * (total(y) / y.shape[-1])
    return PairVariance(
        chosen=half_square(y[..., new] - x[..., old], share),
        mean=0.5 * jnp.sum(share * (alone - 2.0 * mixed)),
    )


def group_variances(
    train: Float[Array, "chains draws n"],
    ghost: Float[Array, "chains draws ghosts"],
    weight: Float[Array, "chains draws"],
    gamma: Float[Array, ""],
    group_size: int,
) -> tuple[Float[Array, " groups"], Float[Array, " others"]]:
    """Variances of every training group's and every ghost group's part of the log ratios.

    Their sum bounds that of a pair: ``Var(y - x) / 2 <= Var(x) + Var(y)``. Where it is large the
    pair's KL may be.
    """
    x, y = pair_parts(train, ghost, weight, gamma, group_size)
    share = weight / weight.shape[0]
    return 2.0 * half_square(x, share), 2.0 * half_square(y, share)


@whole_arrays
def pair_variance_of_pairs(
    delta: Float[Array, "chains draws pairs"],
    weight: Float[Array, "chains draws"],
    chosen: Int[Array, " chosen"],
) -> PairVariance:
    """Compute it from log ratios, one column per pair, for structured losses."""
    each = variance_of_pairs(delta, weight)
    return PairVariance(chosen=each[chosen], mean=jnp.mean(each))


def variance_of_pairs(
    delta: Float[Array, "chains draws pairs"], weight: Float[Array, "chains draws"]
) -> Float[Array, " pairs"]:
    """``Var_p(delta) / 2`` of every column."""
    return half_square(centred(delta, weight), weight / weight.shape[0])
