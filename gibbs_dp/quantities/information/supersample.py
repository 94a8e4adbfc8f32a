"""Jensen-Shannon divergence of replaced examples: conditional mutual information from above."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from gibbs_dp.engine.quantity import Quantity
from gibbs_dp.engine.result import Result
from gibbs_dp.engine.view import View
from gibbs_dp.estimators.jensen_shannon import mean_jensen_shannon, of_pairs
from gibbs_dp.quantities.information.columns import JENSEN_SHANNON


class SupersampleValues(NamedTuple):
    """Of each dataset: mean Jensen-Shannon divergence over replaced examples, nats."""

    value: Float[Any, "*b"]


@dataclass(frozen=True)
class Supersample(Quantity):
    """``I(theta; U_i | U_-i, supersample) = E JS``, from a posterior's own draws.

    A dataset and a fresh example are a supersample in which all but one coin is known. ``n E JS``
    is at least the conditional mutual information (Steinke & Zakynthinou 2020; chain rule).
    """

    name = "supersample"
    Values = SupersampleValues
    columns = (JENSEN_SHANNON,)

    def per_dataset(self, view: View) -> SupersampleValues:
        """Average over pairs of an example and a ghost."""
        losses, inputs, weight = view.losses, view.inputs, view.draws.weight
        if view.posterior.structured:
            delta = inputs.gamma * (losses.ghost - losses.train)
            return SupersampleValues(of_pairs(delta, weight))
        return SupersampleValues(
            mean_jensen_shannon(losses.train, losses.ghost, weight, inputs.gamma)
        )

    def means(self, result: Result) -> dict[str, Float[np.ndarray, " datasets"]]:
        """Return the divergence."""
        return {JENSEN_SHANNON.name: result.summary.values.supersample.value}

    def identity(self) -> bool:
        """Blocks have its values."""
        return True
