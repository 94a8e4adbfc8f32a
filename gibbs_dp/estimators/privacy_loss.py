"""The law of the privacy loss ``L = log p(theta)/p'(theta)`` of pairs of posteriors, from draws.

Of a pair ``p, p'`` (a dataset, and the same with a group replaced), whoever knows both and sees a
draw is told by ``L`` all there is to know (Neyman & Pearson 1933).
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from gibbs_dp._jaxlib.precision import expm1_and_exp, matmul
from gibbs_dp.estimators.direct import MAX_EXPONENT, bounded
from gibbs_dp.estimators.jackknife import LeavingOut
from gibbs_dp.estimators.normalizer import log_normalizer_ratio

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


# The law of the privacy loss from draws of one posterior, which tell the other's level too.

# Pairs whose losses make the tails, and (they cost more) ranks; and the first of them, on which
# groups of draws are left out to find the bias of all.
MOST_LOSSES, RANKED, LEFT_OUT = 32, 8, 2
# Draws that are ranked: two of them at a time.
MOST_RANKED = 256


def one_sided_loss(
    delta: Float[Array, "pairs chains draws"],
    weight: Float[Array, "chains draws"],
    num_releases: int = 1,
) -> LossTails:
    """Estimate from draws of one posterior, jackknifed."""
    num_pairs, *shape = delta.shape
    share = weight.reshape(-1) / jnp.sum(weight)
    flat = delta.reshape(num_pairs, -1)
    flat = flat - matmul(flat, share)[:, None]
    flat = jnp.clip(flat, -MAX_EXPONENT, MAX_EXPONENT)
    small, _ = expm1_and_exp(-flat)
    level = jnp.log1p(bounded(matmul(small, share)))

    left = LeavingOut.of(*shape)
    few = slice(min(LEFT_OUT, num_pairs))
    kept = left.kept * share  # [selections, draws]
    kept = kept / jnp.sum(kept, axis=1, keepdims=True)
    levels = jnp.log1p(bounded(matmul(kept, small[few].T)))  # [selections, pairs]

    def together(loss: Array, shares: Array) -> tuple[Array, Array]:
        return released(loss, shares, (shape[0], shape[1]), num_releases)

    whole = together(flat + level[:, None], jnp.broadcast_to(share, flat.shape))
    parts = together(
        flat[few] + levels[..., None],
        jnp.broadcast_to(kept[:, None], (*levels.shape, share.size)),
    )
    fewer = (whole[0][few], whole[1][few])
    count = fewer[0].shape[0]
    above, excess = _tails(
        (whole[0], whole[1] / num_pairs),
        (fewer[0], fewer[1] * (left.whole / count)),
        (parts[0], parts[1] * (left.parts[:, None, None] / count)),
    )

    auc = _auc_of_pairs(whole, parts, left, is_exact=shape[0] == 1)
    renyi, largest = _renyi(flat, level, share)
    correction = [
        left.whole * jnp.mean(of_few) + matmul(left.parts, jnp.mean(of_parts, axis=-1))
        for of_few, of_parts in zip(
            _renyi(flat[few], level[few], share)[0],
            _renyi(flat[few], levels, kept[:, None])[0],
            strict=True,
        )
    ]
    means = jnp.stack([jnp.mean(r) + c for r, c in zip(renyi, correction, strict=True)])
    # Pairs count by their divergence: means are made of few pairs where data are skewed.
    part = jnp.maximum(jnp.stack(renyi), jnp.finfo(level.dtype).tiny)
    heavy = jnp.sum((part / jnp.sum(part, axis=1, keepdims=True)) * largest, axis=1)
    tail = jnp.max(mean_excess(flat, share)) if shape[0] > 1 else jnp.zeros_like(auc)
    return LossTails(above, excess, auc, num_releases * means, heavy, tail)


def _tails(*parts: tuple[Array, Array]) -> tuple[Float[Array, " bins"], Float[Array, " bins"]]:
    """Tails of losses with weights, added up."""
    above = excess = jnp.zeros(EPSILONS.size, parts[0][0].dtype)
    for loss, weight in parts:  # together they would take longer
        flat, share = jnp.ravel(loss), jnp.ravel(weight)
        lost, _ = expm1_and_exp(-jnp.clip(flat, 0.0, MAX_EXPONENT))
        found = tails(flat, share, -lost * share)
        above, excess = above + found[0], excess + found[1]
    return above, excess


def _auc_of_pairs(
    whole: tuple[Float[Array, "pairs draws"], Float[Array, "pairs draws"]],
    parts: tuple[Float[Array, "selections few draws"], Float[Array, "selections few draws"]],
    left: LeavingOut,
    is_exact: bool,
) -> Float[Array, ""]:
    """``1/2 + E abs(r - r~)/4`` with ``r = e^-L``, a mean over pairs, jackknifed.

    Over two different draws; or over two points of an exact sum, which may be the same. Losses of
    selections differ by constants from those of all.
    """
    thin = slice(None) if is_exact else slice(None, None, -(-whole[0].shape[-1] // MOST_RANKED))
    loss, share = (a[:RANKED, thin] for a in whole)
    share = share / jnp.sum(share, axis=-1, keepdims=True)
    ratio = jnp.exp(-loss)

    def spread(r: Float[Array, " draws"], w: Float[Array, " draws"]) -> Float[Array, ""]:
        if r.size <= MOST_RANKED:
            return jnp.sum(w[:, None] * w * jnp.abs(r[:, None] - r))
        # Points of an exact sum: there may be many.
        order = jnp.argsort(r)
        r, w = r[order], w[order]
        below = jnp.cumsum(w) - w
        return 2.0 * jnp.sum(w * r * (2.0 * below + w - jnp.sum(w)))

    def auc(distance: Array, shares: Array) -> Array:
        same = 0.0 if is_exact else jnp.sum(shares**2, axis=-1)
        return 0.5 + 0.25 * distance / (1.0 - same)

    found = auc(jax.vmap(spread)(ratio, share), share)
    count = parts[0].shape[1]
    if not parts[0].shape[0]:
        return jnp.mean(found)
    shares = parts[1][..., thin]
    shares = shares / jnp.sum(shares, axis=-1, keepdims=True)
    apart = jnp.abs(ratio[:count, :, None] - ratio[:count, None])
    between = jnp.einsum("gps,pst,gpt->gp", shares, apart, shares, precision="highest")
    change = jnp.exp(whole[0][:count, 0] - parts[0][..., 0])
    of_parts = jnp.mean(auc(change * between, shares), axis=-1)
    return jnp.mean(found) + left.whole * jnp.mean(found[:count]) + matmul(left.parts, of_parts)


def _renyi(
    delta: Float[Array, "pairs draws"],
    level: Float[Array, "*lead pairs"],
    share: Float[Array, "*lead #pairs draws"] | Float[Array, " draws"],
) -> tuple[list[Float[Array, "*lead pairs"]], Float[Array, "orders *lead pairs"]]:
    """``D_a(p || p') = log E_p e^((a-1) L) / (a-1)``, and the largest share of a draw in that."""
    found, largest = [], []
    for a in ORDERS:
        power = (a - 1.0) * delta
        total = jax.nn.logsumexp(power, axis=-1, b=share)
        found.append(total / (a - 1.0) + level)
        largest.append(jnp.max(share * jnp.exp(power - total[..., None]), axis=-1))
    return found, jnp.stack(largest)


# The law of the privacy loss from draws of both posteriors, however far apart they are.


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
