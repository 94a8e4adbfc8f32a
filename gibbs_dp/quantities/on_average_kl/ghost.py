"""On-average KL as gamma times the generalization error, with a control variate."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from gibbs_dp import estimators
from gibbs_dp.engine.quantity import Column, Style
from gibbs_dp.engine.view import View
from gibbs_dp.quantities.control import fitted_gap
from gibbs_dp.quantities.on_average_kl.estimator import Estimator


class GhostValues(NamedTuple):
    """Of each dataset: gamma times its gap less the control variate, and that of mean zero."""

    value: Float[Any, "*b"]
    control: Float[Any, "*b"]


class Ghost(Estimator):
    """Gamma times the gap between losses of ghosts and of training examples (Theorem 4)."""

    name = "ghost"
    Values = GhostValues
    column = Column(
        "on_average_kl_ghost",
        "Gamma times the generalization error of a whole group, which is the on-average KL of "
        "exact draws (Wang, Lei & Fienberg 2016, Theorem 4): a second route to the same number.",
        "nats",
        "gamma*gen",
        Style("gamma × generalization error", "#E69F00", marker="D", is_points=True),
    )
    note = (
        "ghost rows: on_average_kl is gamma times the generalization error, which it equals "
        "for exact draws (Theorem 4); no second route checks it there."
    )

    def per_dataset(self, view: View) -> GhostValues:
        """Estimate from the losses of one dataset's draws."""
        losses, scale = view.losses, view.gap_scale
        control = estimators.reference_gap(*losses.reference)
        gap = estimators.gap(losses.mean[..., None], losses.ghost, view.draws.weight) - control
        return GhostValues(scale * gap, scale * control)

    def fitted(self, values: GhostValues, is_kept: Bool[np.ndarray, " datasets"]) -> GhostValues:
        """Give back what of the control variate does not reduce noise."""
        return values._replace(value=fitted_gap(values.value, values.control, is_kept))

    def value_of(self, values: GhostValues) -> Float[np.ndarray, " datasets"]:
        """Every dataset's estimate, nats."""
        return np.asarray(values.value)
