"""The direct (one-sided) estimator of on-average KL: normalizer ratios from the same draws."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

# exp(40)^2 still fits a float32; a pair that needs more is reported as heavy-tailed anyway.
_CLIP = 40.0


class DirectKL(NamedTuple):
    """One dataset's estimate of ``KL(p || p')``, averaged over pairs.

    Attributes
    ----------
    value
        Jackknifed over chains (the plug-in value when there is one chain), in nats.
    plug_in
        Before the jackknife: biased downwards by ``O(1 / draws)``.
    """

    value: Float[Array, ""]
    plug_in: Float[Array, ""]


def _from_chain_means(excess: Float[Array, chains * pairs]) -> DirectKL:
    value, plug_in = _per_pair(excess)
    return DirectKL(jnp.mean(value), jnp.mean(plug_in))


def _per_pair(excess: Float[Array, chains * pairs]) -> tuple[Array, Array]:
    """KL per pair from each chain's mean of ``exp(-(delta - mean delta)) - 1``; and the plug-in.

    ``log1p`` of the overall mean is the plug-in KL, since ``delta`` was centred. Leaving out
    chain c divides ``1 + mean`` by ``1 + r_c``, ``r_c = (mean - mean_c) / ((C - 1)(1 + mean))``;
    the jackknife needs only the sum of ``log1p(r_c)``, taken as the log of a running product.
    """
    num_chains = excess.shape[0]
    # At minus one all draws, or all but one chain's, underflowed: the KL is far beyond this
    # estimator, which the distance between plug-in and jackknife shows.
    least = jnp.finfo(excess.dtype).eps - 1.0
    mean = jnp.maximum(jnp.mean(excess, axis=0), least)
    plug_in = jnp.log1p(mean)
    if num_chains == 1:
        return plug_in, plug_in
    product = jnp.zeros_like(mean)  # the product of (1 + r_c), minus one
    for c in range(num_chains):
        r = (mean - excess[c]) / ((num_chains - 1) * (1.0 + mean))
        product = product + r + product * r
    correction = -(num_chains - 1) / num_chains * jnp.log1p(jnp.maximum(product, least))
    return plug_in + correction, plug_in


def _centred(
    losses: Float[Array, "chains draws items"], weight: Float[Array, "chains draws"]
) -> Float[Array, "chains draws items"]:
    return losses - jnp.mean(jnp.sum(losses * weight[..., None], axis=1), axis=0)


def group_sums(
    losses: Float[Array, "chains draws items"], size: int
) -> Float[Array, "chains draws groups"]:
    """Sum over consecutive groups of ``size`` items; a remainder is left out."""
    if size == 1:
        return losses
    count = losses.shape[-1] // size
    trimmed = losses[..., : count * size]
    return jnp.sum(trimmed.reshape(*losses.shape[:-1], count, size), axis=-1)


def direct_kl(
    train: Float[Array, "chains draws n"],
    ghost: Float[Array, "chains draws ghosts"],
    weight: Float[Array, "chains draws"],
    gamma: Float[Array, ""],
    group_size: int = 1,
) -> DirectKL:
    """``KL(p || p')`` of one dataset, averaged over all (training group, ghost group) pairs.

    With ``delta = gamma (loss(theta, z'_j) - loss(theta, z_i))``,
    ``KL = E_p[delta] + log E_p[exp(-delta)]`` (theory: definition of ``p'``; no use of the
    identity ``eps_KL = gamma gen``). ``exp(-delta)`` is a factor of ``z_i`` times one of ``z'_j``,
    so all pairs are one matrix product per chain, of ``expm1`` of centred factors: the value is
    right in float32 when the KL is 1e-6.

    Parameters
    ----------
    train, ghost
        Losses of the draws on training examples and on ghosts.
    weight
        Weights of the draws, summing to one within each chain.
    gamma
        Inverse temperature.
    group_size
        Number k of examples replaced at once (Lemma 6).
    """
    x = gamma * _centred(group_sums(train, group_size), weight)
    y = gamma * _centred(group_sums(ghost, group_size), weight)
    # What all losses of a draw share cancels in every delta; without it the factors stay small.
    shared = 0.5 * (jnp.mean(x, axis=-1) + jnp.mean(y, axis=-1))[..., None]
    x, y = jnp.clip(x - shared, -_CLIP, _CLIP), jnp.clip(y - shared, -_CLIP, _CLIP)
    # exp(x - y) - 1 = (a + 1)(b + 1) - 1 = ab + a + b with a = expm1(x), b = expm1(-y): exact for
    # small arguments. For large ones those terms cancel, and plain exponentials do not.
    is_large = jnp.maximum(jnp.max(jnp.abs(x)), jnp.max(jnp.abs(y))) > 1.0
    a = jnp.where(is_large, jnp.exp(x), jnp.expm1(x))
    b = jnp.where(is_large, jnp.exp(-y), jnp.expm1(-y))
    weighted = a * weight[..., None]
    cross = jnp.einsum("cti,ctj->cij", weighted, b, precision="highest")
    alone = jnp.sum(weighted, axis=1)[:, :, None] + jnp.einsum("ct,ctj->cj", weight, b)[:, None, :]
    return _from_chain_means(cross + jnp.where(is_large, -1.0, alone))


def log_mean_ratio(delta: Float[Array, "chains draws pairs"]) -> Float[Array, " pairs"]:
    """``log E_p[exp(-delta)]`` per pair, jackknifed over chains: a log ratio of normalizers."""
    center = jnp.mean(delta, axis=(0, 1))
    shifted = jnp.clip(delta - center, -2 * _CLIP, 2 * _CLIP)
    return _per_pair(jnp.mean(jnp.expm1(-shifted), axis=1))[0] - center


def direct_kl_of_pairs(
    delta: Float[Array, "chains draws pairs"], weight: Float[Array, "chains draws"]
) -> DirectKL:
    """Estimate the same from log ratios ``delta = log p / p'`` up to a constant, a column a pair.

    For structured losses, where ``delta = gamma (L(theta, Z~) - L(theta, Z))``.
    """
    centred = jnp.clip(_centred(delta, weight), -2 * _CLIP, 2 * _CLIP)
    return _from_chain_means(jnp.sum(jnp.expm1(-centred) * weight[..., None], axis=1))
