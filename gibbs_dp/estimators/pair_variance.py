"""Half the variance of the log ratio: a pair's KL to second order, cheap for all pairs."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from gibbs_dp._jaxlib.elementary import total
from gibbs_dp.estimators.direct import centred, group_sums
from gibbs_dp.information.checks import whole_arrays


class PairVariance(NamedTuple):
    """``Var_p(delta) / 2`` (nats), with ``delta = log p - log p'`` up to a constant.

    Examples and ghosts are exchangeable, so every pair's has the same mean over datasets: the
    difference between some pairs and all is a control variate of mean zero.

    Attributes
    ----------
    first
        For the first pairs: an example with the ghost of the same number.
    mean
        Mean over all pairs of an example and a ghost.
    """

    first: Float[Array, " first"]
    mean: Float[Array, ""]


@whole_arrays
def pair_variance(
    train: Float[Array, "chains draws n"],
    ghost: Float[Array, "chains draws ghosts"],
    weight: Float[Array, "chains draws"],
    gamma: Float[Array, ""],
    group_size: int,
    most: int,
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
    most
        How many of the first pairs to compute singly, at most.

    Returns
    -------
    PairVariance
        Of the first pairs, and the mean over all.
    """
    x = gamma * centred(group_sums(train, group_size), weight)
    y = gamma * centred(group_sums(ghost, group_size), weight)
    # What a draw's losses share cancels in every delta; it would only cost digits.
    mean_x, mean_y = total(x) / x.shape[-1], total(y) / y.shape[-1]
    shared = 0.5 * (mean_x + mean_y)
    x, y = x - shared[..., None], y - shared[..., None]
    share = weight / weight.shape[0]
    alone = total(x**2) / x.shape[-1] + total(y**2) / y.shape[-1]
    mixed = (mean_x - shared) * (mean_y - shared)
    first = min(most, x.shape[-1], y.shape[-1])
    return PairVariance(
        first=_half_square(y[..., :first] - x[..., :first], share),
        mean=0.5 * jnp.sum(share * (alone - 2.0 * mixed)),
    )


@whole_arrays
def pair_variance_of_pairs(
    delta: Float[Array, "chains draws pairs"], weight: Float[Array, "chains draws"], most: int
) -> PairVariance:
    """Compute it from log ratios, one column per pair, for structured losses."""
    each = _half_square(centred(delta, weight), weight / weight.shape[0])
    return PairVariance(first=each[:most], mean=jnp.mean(each))


def _half_square(
    delta: Float[Array, "chains draws pairs"], share: Float[Array, "chains draws"]
) -> Float[Array, " pairs"]:
    return 0.5 * jnp.einsum("cd,cdi->i", share, delta**2, precision="highest")
