"""On-average KL from draws of the posterior and of replaced ones."""

from __future__ import annotations

from typing import Any, NamedTuple

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
        Of the pairs' two-sided estimates; NaN where none were sampled.
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
        at_base, at_replaced = pair.delta(pair.base.u), pair.delta(pair.replaced.u)
        weights = pair.base.weight, pair.replaced.weight
        return estimators.two_sided_kl(at_base, at_replaced, *weights)

    def per_dataset(self, view: View) -> TwoSidedValues:
        """Reduce the pairs that were sampled."""
        losses, inputs, weight = view.losses, view.inputs, view.draws.weight
        if view.posterior.structured:
            delta = inputs.gamma * (losses.ghost - losses.train)
            variance = estimators.pair_variance_of_pairs(delta, weight, MOST_PAIRS)
        else:
            variance = estimators.pair_variance(
                losses.train, losses.ghost, weight, inputs.gamma, view.plan.group_size, MOST_PAIRS
            )
        proxy, num_pairs = variance.first, inputs.num_pairs
        pairs = jnp.zeros((MOST_PAIRS,), proxy.dtype) if view.pairs is None else view.pairs
        value = pairs[: proxy.size]
        is_used, used = jnp.arange(proxy.size) < num_pairs, jnp.maximum(num_pairs, 1)

        def mean(values: Float[Array, " first"]) -> Float[Array, ""]:
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
