"""The law of the privacy loss from draws of one posterior, which tell the other's level too."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from gibbs_dp._jaxlib.elementary import expm1_and_exp
from gibbs_dp._jaxlib.precision import matmul
from gibbs_dp.estimators.direct import MAX_EXPONENT, bounded
from gibbs_dp.estimators.leaving_out import LeavingOut
from gibbs_dp.estimators.privacy_loss import (
    EPSILONS,
    ORDERS,
    LossTails,
    mean_excess,
    released,
    tails,
)

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
    """Estimate from draws of one posterior, jackknifed.

    Parameters
    ----------
    delta
        ``log p/p'`` up to a constant of each pair, nats.
    weight
        Weights of the draws, summing to the number of chains.
    num_releases
        Independent draws that are seen together; at most the number of chains.

    Returns
    -------
    LossTails
        Biases of order one over draws are removed by leaving out chains, steps and both
        (:class:`~gibbs_dp.estimators.leaving_out.LeavingOut`).
    """
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
