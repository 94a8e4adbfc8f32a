"""On-average KL from normalizer ratios, with the posterior's own draws."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float

from gibbs_dp import estimators
from gibbs_dp.engine.view import View
from gibbs_dp.quantities.on_average_kl.estimator import Estimator


class OneSidedValues(NamedTuple):
    """Of each dataset: the estimate, and two signs of how wrong it is (see ``DirectKL``)."""

    value: Float[Array, "*b"]
    tail: Float[Array, "*b"]
    lost: Float[Array, "*b"]


class OneSided(Estimator):
    """``E_p[delta] + log E_p[exp(-delta)]`` over all pairs of an example and a ghost."""

    name = "one-sided"
    Values = OneSidedValues

    def per_dataset(self, view: View) -> OneSidedValues:
        """Estimate from the losses of one dataset's draws."""
        losses, inputs, weight = view.losses, view.inputs, view.draws.weight
        if view.posterior.structured:
            delta = inputs.gamma * (losses.ghost - losses.train)
            found = estimators.direct_kl_of_pairs(delta, weight)
        else:
            found = estimators.direct_kl(
                losses.train, losses.ghost, weight, inputs.gamma, view.plan.group_size
            )
        return OneSidedValues(found.value, found.tail, found.lost)

    def value_of(self, values: OneSidedValues) -> Float[np.ndarray, " datasets"]:
        """Every dataset's estimate, nats."""
        return np.asarray(values.value)
