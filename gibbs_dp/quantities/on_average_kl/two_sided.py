"""On-average KL from draws of the posterior and of replaced ones."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from gibbs_dp import estimators
from gibbs_dp.engine.sizes import MOST_PAIRS
from gibbs_dp.engine.view import PairView, View
from gibbs_dp.quantities.control import shares_of_others
from gibbs_dp.quantities.on_average_kl.estimator import Estimator


class TwoSidedValues(NamedTuple):
    """What a dataset's pairs add up to.

    Attributes
    ----------
    mean
        Of the pairs' two-sided estimates, each counting by its weight; NaN where none were sampled.
    control
        Mean of half the variance of their log ratios, less that of all pairs: of mean zero.
    spread
        Between the pairs: variance of the estimates, their covariance with the half variances,
        and these' variance.
    """

    mean: Float[Any, "*b"]
    control: Float[Any, "*b"]
    spread: Float[Any, "*b 3"]


class TwoSided(Estimator):
    """Half the symmetrized KL of a few pairs, unbiased however large it is."""

    name = "two-sided"
    Values = TwoSidedValues
    note = (
        "two-sided rows: on_average_kl and gamma times gen rest on the same symmetry, so their "
        "agreement is no independent check there."
    )

    def of_pair(self, pair: PairView) -> Float[Array, ""]:
        """Half the symmetrized KL of one pair, nats."""
        parts = pair.parts(pair.base.u), pair.parts(pair.replaced.u)
        weights = pair.base.weight, pair.replaced.weight
        here, there = (p[..., 1:] - p[..., :1] for p in parts)
        found = estimators.two_sided_kl(here, there, *weights)
        if pair.posterior.structured:
            return found
        train, ghost = sum(map(_variance, parts, weights), jnp.zeros(2))
        size = pair.plan.group_size
        counts = [jax.tree.leaves(data)[0].shape[0] // size for data in (pair.train, pair.ghosts)]
        return found * _seen_alike(found, train, ghost, *counts)

    def per_dataset(self, view: View) -> TwoSidedValues:
        """Reduce the pairs that were sampled."""
        losses, inputs, weight, chosen = view.losses, view.inputs, view.draws.weight, view.chosen
        if view.posterior.structured:
            delta = inputs.gamma * (losses.ghost - losses.train)
            variance = estimators.pair_variance_of_pairs(delta, weight, chosen.new)
        else:
            size, groups = view.plan.group_size, (chosen.old, chosen.new)
            variance = estimators.pair_variance(
                losses.train, losses.ghost, weight, inputs.gamma, size, *groups
            )
        proxy, num_pairs = chosen.weight * variance.chosen, inputs.num_pairs
        value = jnp.zeros_like(proxy) if view.pairs is None else chosen.weight * view.pairs
        is_used, used = jnp.arange(MOST_PAIRS) < num_pairs, jnp.maximum(num_pairs, 1)

        def mean(values: Float[Array, " pairs"]) -> Float[Array, ""]:
            return jnp.sum(jnp.where(is_used, values, 0.0)) / used

        a, b = value - mean(value), proxy - mean(proxy)
        spread = jnp.stack([mean(a * a), mean(a * b), mean(b * b)])
        return TwoSidedValues(
            mean=jnp.where(num_pairs > 0, mean(value), jnp.nan),
            control=jnp.where(num_pairs > 0, mean(proxy) - variance.mean, 0.0),
            spread=spread * used / jnp.maximum(used - 1, 1),
        )

    def fitted(
        self, values: TwoSidedValues, is_kept: Bool[np.ndarray, " datasets"]
    ) -> TwoSidedValues:
        """Take from the estimate what is only due to which pairs were sampled.

        How much half the variance of a pair's log ratio differs from that of all pairs costs no
        further posterior, and says most of how much the pair's KL differs.
        """
        value, control = (np.asarray(a, np.float64) for a in (values.mean, values.control))
        chosen = np.isfinite(value) & np.isfinite(control) & is_kept
        if not chosen.any():
            return values
        found = value.copy()
        found[chosen] -= shares_of_others(value[chosen], control[chosen]) * control[chosen]
        return values._replace(mean=found.astype(values.mean.dtype))

    def value_of(self, values: TwoSidedValues) -> Float[np.ndarray, " datasets"]:
        """Every dataset's estimate, nats."""
        return np.asarray(values.mean)


# Nats of a pair from about where one of its two examples has most of the KL.
_HEAVY = 10.0


def _variance(
    parts: Float[Array, "chains draws 2"], weight: Float[Array, "chains draws"]
) -> Float[Array, " 2"]:
    share = weight / jnp.sum(weight)
    centred = parts - jnp.einsum("cd,cdk->k", share, parts, precision="highest")
    return jnp.einsum("cd,cdk->k", share, centred**2, precision="highest")


def _seen_alike(
    kl: Float[Array, ""],
    train: Float[Array, ""],
    ghost: Float[Array, ""],
    num_train: int,
    num_ghosts: int,
) -> Float[Array, ""]:
    """Factor of mean one, weighted by the KL, that lets rare examples count where most are drawn.

    An example that weighs much is as likely a training example as a ghost, but counts for 1 / n as
    the one and 1 / ghosts as the other. Both datasets of a pair have one law: what is the
    example's that has part ``f`` of the variance of the log ratio, ``f = train / (train +
    ghost)`` over draws of both posteriors, has the same mean on either side. So sides count by the
    numbers of examples that were drawn, and an error is that of all of them together.
    """
    is_heavy = kl**2 / (kl**2 + _HEAVY**2)
    both = train + ghost
    apart = (train - ghost) / jnp.where(both > 0, both, 1.0)
    return 1.0 + is_heavy * apart * (num_train - num_ghosts) / (num_train + num_ghosts)
