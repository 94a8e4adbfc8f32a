"""The law of the privacy loss from draws of both posteriors, however far apart they are."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from gibbs_dp.estimators.bennett import log_normalizer_ratio
from gibbs_dp.estimators.one_sided_loss import MOST_RANKED
from gibbs_dp.estimators.privacy_loss import ORDERS, LossTails, released, tails


def two_sided_loss(
    delta: Float[Array, "chains draws"],
    delta_replaced: Float[Array, "chains draws"],
    weight: Float[Array, "chains draws"],
    weight_replaced: Float[Array, "chains draws"],
    num_releases: int = 1,
) -> LossTails:
    """Estimate of one pair, from draws of both posteriors, however far apart they are.

    With ``m = (p + p')/2`` and ``w = sigmoid(L)``, ``p = 2 w m`` and ``p' = 2 (1 - w) m``; the mean
    over both directions of the pair, whose laws are one (Definition 2).

    Parameters
    ----------
    delta, delta_replaced
        ``log p/p'`` up to a constant at draws of ``p`` and of ``p'``, nats.
    weight, weight_replaced
        Of these draws.
    num_releases
        As above.

    Returns
    -------
    LossTails
        Of the pair.
    """
    shape = (delta.shape[0], delta.shape[1])
    shares = [w.reshape(1, -1) / jnp.sum(w) for w in (weight, weight_replaced)]
    deltas = [d.reshape(1, -1) for d in (delta, delta_replaced)]
    level = log_normalizer_ratio(deltas[0][0], deltas[1][0], shares[0][0], shares[1][0])
    at, share = zip(
        *(released(d + level, s, shape, num_releases) for d, s in zip(deltas, shares, strict=True)),
        strict=True,
    )
    loss, half = jnp.concatenate(at, axis=1)[0], 0.5 * jnp.concatenate(share, axis=1)[0]
    size = jnp.abs(loss)
    above, excess = tails(size, half * jax.nn.sigmoid(size), half * jnp.tanh(0.5 * size))
    thin = slice(None, None, -(-at[0].shape[1] // MOST_RANKED))
    auc = 0.5 + _win(at[0][0, thin], share[0][0, thin], at[1][0, thin], share[1][0, thin])
    renyi, largest = [], []
    for a in ORDERS:
        both = []
        for toward in (loss, -loss):
            power = (a - 1.0) * toward + jax.nn.log_sigmoid(toward) + jnp.log(2.0 * half)
            both.append(jax.nn.logsumexp(power))
            largest.append(jnp.max(jax.nn.softmax(power)))
        renyi.append(0.5 * (both[0] + both[1]) / (a - 1.0))
    weights = jnp.stack(largest).reshape(len(ORDERS), 2)
    return LossTails(above, excess, auc, jnp.stack(renyi), jnp.mean(weights, axis=1))


def _win(
    loss: Float[Array, " draws"],
    share: Float[Array, " draws"],
    other: Float[Array, " others"],
    other_share: Float[Array, " others"],
) -> Float[Array, ""]:
    """``P(L_p > L_p') - 1/2``, ties counting half."""
    sign = jnp.sign(loss[:, None] - other[None])
    won = jnp.einsum("i,ij,j->", share, sign, other_share, precision="highest")
    return 0.5 * won / (jnp.sum(share) * jnp.sum(other_share))
