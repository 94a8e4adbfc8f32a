"""Half the variance of the log ratio: a pair's KL to second order, cheap for all pairs."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from gibbs_dp._jaxlib.precision import total
from gibbs_dp.estimators.direct import centred, half_square, pair_parts
from gibbs_dp.information.checks import whole_arrays


class PairVariance(NamedTuple):
    """``Var_p(delta) / 2`` (nats), with ``delta = log p - log p'`` up to a constant.

    Examples and ghosts are exchangeable, so every pair's has the same mean over datasets: the
    difference between pairs chosen at random and all is a control variate of mean zero.

    Attributes
    ----------
    chosen
        For the pairs that were asked for.
    mean
        Mean over all pairs of an example and a ghost.
    """

    chosen: Float[Array, " pairs"]
    mean: Float[Array, ""]


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

    Parameters
    ----------
    train, ghost
        Losses of the draws on training examples and on ghosts.
    weight
        Weights of the draws, summing to one within each chain.
    gamma
        Inverse temperature.
    group_size
        Number k of examples replaced at once.
    old, new
        Training groups and ghost groups of the pairs to compute singly.

    Returns
    -------
    PairVariance
        Of these pairs, and the mean over all.
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
