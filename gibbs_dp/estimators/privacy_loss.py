"""The law of the privacy loss ``L = log p(theta)/p'(theta)`` of pairs of posteriors, from draws.

Of a pair ``p, p'`` (a dataset, and the same with a group replaced), whoever knows both and sees a
draw is told by ``L`` all there is to know (Neyman & Pearson 1933).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from gibbs_dp._jaxlib.precision import matmul

PER_DECADE, FIRST_DECADE, NUM_STEPS = 8, -4, 44
EPSILONS: Float[np.ndarray, " bins"] = np.concatenate(
    [[0.0], 10.0 ** (FIRST_DECADE + np.arange(NUM_STEPS) / PER_DECADE)]
)
"""Nats at which tails are known: 0, then eight to a decade from 1e-4 to 24."""

ORDERS = (2.0, 8.0)
"""Rényi orders."""

_BEYOND = np.triu(np.ones((EPSILONS.size, EPSILONS.size + 1), np.float32), 1)


class LossTails(NamedTuple):
    """What one dataset's draws say of the privacy loss, averaged over its pairs.

    Attributes
    ----------
    above
        ``P_p(L > eps)`` at :data:`EPSILONS`: true positives of the test with that threshold.
    excess
        ``E_p[(1 - e^-L) 1(L > eps)]`` there: true positives less false ones; at 0, total variation.
    auc
        Area under the ROC of each pair, a mean over pairs.
    renyi
        ``D_a(p || p')`` of :data:`ORDERS`, a mean over pairs, nats.
    weight
        Largest share of one draw in ``E_p e^((a - 1) L)``, of these orders: a mean over pairs, that
        count by their divergence where they are of one posterior.
    tail
        How slowly ``P_p(L > t)`` falls: what losses beyond a point in their upper tail exceed it
        by, on average, in nats; the largest of the pairs. One over the rate of an exponential tail,
        whose Rényi divergence of order ``a`` is infinite where ``(a - 1) tail >= 1``.
    """

    above: Float[Any, "*b bins"]
    excess: Float[Any, "*b bins"]
    auc: Float[Any, "*b"]
    renyi: Float[Any, "*b orders"]
    weight: Float[Any, "*b orders"]
    tail: Float[Any, "*b"]


def mean_excess(
    loss: Float[Array, "*lead draws"], share: Float[Array, " draws"]
) -> Float[Array, "*lead"]:
    """Mean excess of losses over a point that some fifth to sixth of them exceed.

    The mean plus 0.84 standard deviations, beyond which are 20% of Gaussian losses and 16% of
    exponential ones; no order is needed.
    """
    mean = jnp.sum(share * loss, axis=-1, keepdims=True)
    above = loss - mean
    above = above - 0.84 * jnp.sqrt(jnp.sum(share * above**2, axis=-1, keepdims=True))
    beyond = jnp.where(above > 0, share, 0.0)
    mass = jnp.sum(beyond, axis=-1)
    return jnp.sum(beyond * above, axis=-1) / jnp.where(mass > 0, mass, 1.0)


def released(
    loss: Float[Array, "*lead draws"],
    share: Float[Array, "*lead draws"],
    shape: tuple[int, int],
    num_releases: int,
) -> tuple[Float[Array, "*lead draws"], Float[Array, "*lead draws"]]:
    """Loss of several draws together, each of another chain and step than the others."""
    if num_releases == 1:
        return loss, share
    square = [a.reshape(*a.shape[:-1], *shape) for a in (loss, share)]
    total, product = square
    for k in range(1, num_releases):
        moved = [jnp.roll(a, (k, k), axis=(-2, -1)) for a in square]
        total, product = total + moved[0], product * moved[1]
    product = product / jnp.sum(product, axis=(-2, -1), keepdims=True)
    return total.reshape(loss.shape), product.reshape(share.shape)


def tails(
    loss: Float[Array, " draws"], weight: Float[Array, " draws"], excess: Float[Array, " draws"]
) -> tuple[Float[Array, " bins"], Float[Array, " bins"]]:
    """Sum two weights over the draws whose loss is beyond each of :data:`EPSILONS`."""
    blank = jnp.zeros(EPSILONS.size + 1, weight.dtype)
    # Scatters would compute them one by one, with a call for every logarithm.
    place, weight, excess = jax.lax.optimization_barrier((_bin_of(loss), weight, excess))
    # Each by itself: on CPUs sums of pairs take four times as long.
    held = jnp.stack([blank.at[place].add(weight), blank.at[place].add(excess)], axis=1)
    beyond = matmul(
        jnp.asarray(_BEYOND, held.dtype), held
    )  # compiles in less time than a cumulative sum
    return beyond[:, 0], beyond[:, 1]


def _bin_of(loss: Float[Array, " draws"]) -> Int[Array, " draws"]:
    """How many of :data:`EPSILONS` a loss exceeds."""
    steps = PER_DECADE * (jnp.log10(jnp.maximum(loss, 1e-30)) - FIRST_DECADE)
    beyond = jnp.clip(jnp.ceil(steps), 0, NUM_STEPS) + 1
    return jnp.where(loss > 0, beyond, 0).astype(jnp.int32)
