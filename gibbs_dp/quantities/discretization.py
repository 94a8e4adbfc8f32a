"""The bias of Langevin chains without an acceptance step, as their theory predicts it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gibbs_dp._cautions import Warned
from gibbs_dp.engine.jobs import Asked
from gibbs_dp.engine.quantity import Quantity, Row
from gibbs_dp.engine.result import Result
from gibbs_dp.engine.view import View
from gibbs_dp.estimators import average
from gibbs_dp.results.table import Column


class DiscretizationValues(NamedTuple):
    """Of each dataset: relative excess of the draws' variance, and of their on-average KL."""

    variance: Float[Array, "*b"]
    kl: Float[Array, "*b"]


@dataclass(frozen=True)
class Discretization(Quantity):
    """Inflation by steps that are not corrected; only of samplers that are not adjusted."""

    name = "discretization"
    Values = DiscretizationValues
    columns = (
        Column(
            "variance_inflation",
            "Estimated relative excess of the draws' variance over the posterior's, a mean over "
            "coordinates, of kernels without an acceptance step; no bound.",
        ),
        Column(
            "kl_inflation",
            "Estimated relative excess of a one-sided on_average_kl, of kernels without an "
            "acceptance step; no bound.",
            title="KL infl. (est.)",
        ),
    )

    def per_dataset(self, view: View) -> DiscretizationValues:
        """Take what the sampler says of its draws."""
        return DiscretizationValues(jnp.mean(view.draws.inflation), view.draws.kl_inflation)

    def finish(self, result: Result, row: Row) -> tuple[Row, list[Warned]]:
        """Both columns."""
        if result.settings.sampler.traits.is_adjusted:
            return {}, []
        values = result.good.values.discretization
        more: Row = {}
        for name, inflation in zip(values._fields, values, strict=True):
            excess = average(np.asarray(inflation, np.float64))
            more |= {f"{name}_inflation": excess.value, f"{name}_inflation_se": excess.se}
        return more, []

    def notes(self, settings: Asked, rows: Sequence[Row]) -> list[str]:
        """Say what the draws are not."""
        if settings.sampler.traits.is_adjusted:
            return []
        return [
            "the kernel has no acceptance step, so its draws are not the posterior's: "
            "variance_inflation (a mean over coordinates) and kl_inflation (of a one-sided "
            "on_average_kl) estimate their relative excess from a linear chain around the draws; "
            "they are no bounds."
        ]
