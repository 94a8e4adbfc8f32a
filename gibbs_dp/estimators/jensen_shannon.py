"""Mean Jensen-Shannon divergence between posteriors with one example replaced."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from gibbs_dp.estimators.direct import MAX_EXPONENT, centred

# Examples and ghosts whose pairs are looked at: with more, nearly all of the variance is the
# datasets'.
PAIRS = (16, 8)


def mean_jensen_shannon(
    train: Float[Array, "chains draws n"],
    ghost: Float[Array, "chains draws ghosts"],
    weight: Float[Array, "chains draws"],
    gamma: Float[Array, ""],
) -> Float[Array, ""]:
    """``(KL(p || m) + KL(p' || m)) / 2``, ``m = (p + p') / 2``, averaged over pairs, in nats.

    With ``delta = gamma (loss(theta, z'_j) - loss(theta, z_i))`` and ``r = exp(-delta) / E_p
    exp(-delta) = p' / p`` the first half is ``log 2 - E_p log(1 + r)``. Dataset and fresh example
    are exchangeable, so that both halves have the same mean over datasets, and one is enough.
    Draws of a chain depend on each other and chains may share random numbers; the bias that this
    and the normalizer's noise cause is removed to second order, see :func:`of_pairs`.

    Parameters
    ----------
    train, ghost
        Losses of the draws on training examples and on ghosts.
    weight
        Weights of the draws, summing to the number of chains.
    gamma
        Inverse temperature.

    Returns
    -------
    Array
        Of one dataset, up to ``log 2`` but for noise.
    """
    x = gamma * centred(train[..., : PAIRS[0]], weight)
    y = gamma * centred(ghost[..., : PAIRS[1]], weight)
    delta = y[..., None, :] - x[..., :, None]
    return of_pairs(delta.reshape(*delta.shape[:2], -1), weight)


def of_pairs(
    delta: Float[Array, "chains draws pairs"], weight: Float[Array, "chains draws"]
) -> Float[Array, ""]:
    """Estimate the same from log ratios ``delta = log p / p'`` up to a constant, a column per pair.

    The plug-in is ``f(N) = -E log((1 + r / N) / 2)`` with both means over the same draws, ``N`` the
    noisy mean of ``r``. Its bias to second order is ``Cov(mean a, mean r) - (E a + E a (1 - a)) Var
    (mean r) / 2`` with ``a = r / (1 + r)``; variances of means are those of a two-way layout of
    chains and steps.

    Parameters
    ----------
    delta
        Log ratios of draws.
    weight
        Weights of the draws, summing to the number of chains.

    Returns
    -------
    Array
        Mean over pairs, in nats.
    """
    delta = centred(delta[..., : PAIRS[0] * PAIRS[1]], weight)
    share = (weight / weight.shape[0])[..., None]
    ratio = jnp.expm1(-jnp.clip(delta, -MAX_EXPONENT, MAX_EXPONENT))
    mean = jnp.sum(share * ratio, axis=(0, 1))
    excess = (ratio - mean) / (1.0 + mean)  # of r over one
    # What is left of log1p beyond its mean zero part does not cancel where r is near one.
    half = 0.5 * excess
    plug_in = -jnp.sum(share * (jnp.log1p(half) - half), axis=(0, 1))
    if weight.shape[0] == 1:
        return jnp.mean(plug_in)
    left = (1.0 + excess) / (2.0 + excess)
    level = jnp.sum(share * left, axis=(0, 1))
    bend = jnp.sum(share * left * (1.0 - left), axis=(0, 1))
    scaled = weight[..., None] * weight.shape[1]
    noise, common = (
        _covariance_of_means(scaled * part, scaled * excess) for part in (excess, left - level)
    )
    return jnp.mean(plug_in - common + 0.5 * (level + bend) * noise)


def _covariance_of_means(
    one: Float[Array, "chains draws pairs"], two: Float[Array, "chains draws pairs"]
) -> Float[Array, " pairs"]:
    """Of centred numbers in a layout of chains and steps, by analysis of variance."""
    chains, draws = one.shape[:2]
    of_chains = [jnp.mean(a, axis=1) for a in (one, two)]
    found = jnp.sum(of_chains[0] * of_chains[1], axis=0) / (chains * (chains - 1))
    if draws == 1:
        return found
    of_steps = [jnp.mean(a, axis=0) for a in (one, two)]
    rest = [
        a - c[:, None] - s[None] for a, c, s in zip((one, two), of_chains, of_steps, strict=True)
    ]
    residual = jnp.sum(rest[0] * rest[1], axis=(0, 1)) / ((chains - 1) * (draws - 1))
    of_steps_alone = jnp.sum(of_steps[0] * of_steps[1], axis=0) / (draws * (draws - 1))
    return found + of_steps_alone - residual / (chains * draws)
