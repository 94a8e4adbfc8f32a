"""A dataset's posterior, and those of the dataset with examples replaced, one after another."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from gibbs_dp import estimators
from gibbs_dp.audit.losses import over_draws, swap
from gibbs_dp.audit.plan import Inputs, Plan
from gibbs_dp.audit.sizes import MOST_PAIRS
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.chains import ChainDraws


class Pairs(NamedTuple):
    """What a dataset and its replaced versions add up to."""

    two_sided: Float[Array, " most"]  # of every pair; 0 beyond those that were sampled
    is_stuck: Bool[Array, ""]  # any chain of any of them
    is_improper: Bool[Array, ""]


class PairSummary(NamedTuple):
    """What leaves the device of a dataset's pairs.

    Attributes
    ----------
    mean
        Of the pairs' two-sided estimates; NaN where none were sampled.
    control
        Mean of half the variance of their log ratios, less that of all pairs: of mean zero.
    spread
        Between the pairs: variance of the estimates, their covariance with the half variances,
        and these' variance.
    """

    mean: Float[Array, ""]
    control: Float[Array, ""]
    spread: Float[Array, " 3"]


def summarize_pairs(pairs: Pairs, variance: estimators.PairVariance, inputs: Inputs) -> PairSummary:
    """Reduce the pairs that were sampled."""
    proxy = variance.first
    value = pairs.two_sided[: proxy.size]
    is_used = jnp.arange(proxy.size) < inputs.num_pairs
    used = jnp.maximum(inputs.num_pairs, 1)

    def mean(values: Float[Array, " first"]) -> Float[Array, ""]:
        return jnp.sum(jnp.where(is_used, values, 0.0)) / used

    a, b = value - mean(value), proxy - mean(proxy)
    spread = jnp.stack([mean(a * a), mean(a * b), mean(b * b)])
    return PairSummary(
        mean=jnp.where(inputs.num_pairs > 0, mean(value), jnp.nan),
        control=jnp.where(inputs.num_pairs > 0, mean(proxy) - variance.mean, 0.0),
        spread=spread * used / jnp.maximum(used - 1, 1),
    )


def sample_with_pairs(
    sample: Callable[[PyTree], ChainDraws],
    posterior: GibbsPosterior,
    train: PyTree,
    ghosts: PyTree,
    inputs: Inputs,
    plan: Plan,
) -> tuple[ChainDraws, Pairs]:
    """Draws of the dataset itself, and two-sided estimates of ``inputs.num_pairs`` pairs.

    The sampler is in the program once, in a loop whose first round is the dataset itself: how
    many pairs there are, or none, is traced.
    """
    sample = jax.jit(sample)  # traced once, for its shapes and for the loop

    def one(index: Array, carry: tuple[ChainDraws, Pairs]) -> tuple[ChainDraws, Pairs]:
        base, so_far = carry
        is_first, pair = index == 0, jnp.maximum(index - 1, 0)
        replaced = swap(train, ghosts, pair, plan.group_size)
        data = jax.tree.map(lambda a, b: jnp.where(is_first, a, b), train, replaced)
        draws = sample(data)
        base = jax.tree.map(lambda a, b: jnp.where(is_first, a, b), draws, base)

        def delta(u: Array) -> Float[Array, "chains draws 1"]:
            return over_draws(
                lambda p: pair_delta(posterior, p, pair, train, ghosts, inputs, plan)[None], u
            )

        two_sided = estimators.two_sided_kl(delta(base.u), delta(draws.u), base.weight)
        return base, Pairs(
            so_far.two_sided.at[pair].set(jnp.where(is_first, 0.0, two_sided)),
            so_far.is_stuck | jnp.any(draws.is_stuck),
            so_far.is_improper | draws.is_improper,
        )

    shapes = jax.eval_shape(sample, train)
    blank = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
    false = jnp.zeros((), bool)
    nothing = Pairs(jnp.zeros((MOST_PAIRS,), blank.u.dtype), false, false)
    return jax.lax.fori_loop(0, 1 + inputs.num_pairs, one, (blank, nothing))


def pair_delta(
    posterior: GibbsPosterior,
    point: Float[Array, " dim"],
    pair: Int[Array, ""],
    train: PyTree,
    ghosts: PyTree,
    inputs: Inputs,
    plan: Plan,
) -> Float[Array, ""]:
    """``log p - log p'`` at a point, up to a constant, with one group of examples replaced."""
    size, theta = plan.group_size, posterior.constrain(point)
    if posterior.structured:
        new = posterior.empirical_loss(theta, swap(train, ghosts, pair, size))
        return inputs.gamma * (new - posterior.empirical_loss(theta, train))
    rows = pair * size + jnp.arange(size)
    old = posterior.losses(theta, jax.tree.map(lambda a: a[rows], train))
    new = posterior.losses(theta, jax.tree.map(lambda a: a[rows], ghosts))
    return inputs.gamma * jnp.sum(new - old)
