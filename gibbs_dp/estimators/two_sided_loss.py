"""The law of the privacy loss from draws of both posteriors, however far apart they are."""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from gibbs_dp.estimators.bennett import log_normalizer_ratio
from gibbs_dp.estimators.one_sided_loss import MOST_RANKED
from gibbs_dp.estimators.privacy_loss import ORDERS, LossTails, mean_excess, released, tails


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
    compared = jnp.asarray(_compared(*shape, num_releases)[thin, thin], loss.dtype)
    own, other = ((a[0, thin], s[0, thin]) for a, s in zip(at, share, strict=True))
    auc = 0.5 + _win(own, other, compared)
    renyi, largest = [], []
    for a in ORDERS:
        both = []
        for toward in (loss, -loss):
            power = (a - 1.0) * toward + jax.nn.log_sigmoid(toward) + jnp.log(2.0 * half)
            both.append(jax.nn.logsumexp(power))
            largest.append(jnp.max(jax.nn.softmax(power)))
        renyi.append(0.5 * (both[0] + both[1]) / (a - 1.0))
    weights = jnp.stack(largest).reshape(len(ORDERS), 2)
    tail = mean_excess(deltas[0][0], shares[0][0])
    return LossTails(above, excess, auc, jnp.stack(renyi), jnp.mean(weights, axis=1), tail)


def _win(
    own: tuple[Float[Array, " draws"], Float[Array, " draws"]],
    other: tuple[Float[Array, " draws"], Float[Array, " draws"]],
    compared: Float[Array, "draws draws"],
) -> Float[Array, ""]:
    """``P(L_p > L_p') - 1/2``, ties counting half, over the draws that are compared."""
    (loss, share), (other_loss, other_share) = own, other
    weight = share[:, None] * compared * other_share
    won = jnp.sum(weight * jnp.sign(loss[:, None] - other_loss))
    return 0.5 * won / jnp.sum(weight)


@cache
def _compared(num_chains: int, num_draws: int, num_releases: int) -> Bool[np.ndarray, "all all"]:
    """Which draws of ``p`` are compared with which of ``p'``: those that are independent.

    The chains of both are moved by one noise, which brings draws of one chain together, and where
    chains share the noise of their steps also those of one step. What there is too little of to be
    that choosy, one chain, one draw of each, or nearly as many releases as chains, still leaves out
    what was moved alike.
    """
    chain, step = np.divmod(np.arange(num_chains * num_draws), num_draws)
    together = range(1 - num_releases, num_releases)

    def near(index: np.ndarray, count: int, k: int) -> np.ndarray:
        apart: np.ndarray = (index[:, None] - index - k) % count
        return apart == 0

    same_chain, same_step = (
        np.any([near(index, count, k) for k in together], axis=0)
        for index, count in ((chain, num_chains), (step, num_draws))
    )
    moved_alike = np.any(
        [near(chain, num_chains, k) & near(step, num_draws, k) for k in together], axis=0
    )
    for excluded in (same_chain | same_step, same_chain, moved_alike):
        if not excluded.all(axis=1).any():
            return ~excluded
    return np.ones_like(moved_alike)
