"""Whether a lattice is wide and fine enough for the posterior that it stands for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gibbs_dp._cautions import Caution, Warned
from gibbs_dp.engine.quantity import Quantity, Row
from gibbs_dp.engine.view import Result, View

# Weight of a lattice's rim and effective lattice points beyond which the lattice shows.
EDGE_LIMIT = 1e-3
POINTS_LIMIT = 5.0

TOO_NARROW = Caution(
    "lattice-too-narrow",
    "the posterior reaches the lattice's rim (weight {edge:.2g} there); unless that is the prior's "
    "own bound, widen Grid(low, high).",
    "The grid ends where the posterior still has weight, and cuts it off.",
    "Widen Grid(low, high), with more num_points. Nothing is wrong where the prior ends there too.",
)
TOO_COARSE = Caution(
    "lattice-too-coarse",
    "a posterior lies on only {points:.1f} lattice points; raise Grid(num_points).",
    "The posterior of some dataset is narrower than a few cells of the grid, so that the sum over "
    "the grid is another posterior than the one that it stands for.",
    "Raise Grid(num_points), or narrow Grid(low, high).",
)


class LatticeValues(NamedTuple):
    """Of each dataset: one over the sum of squared weights, and the weight of the rim."""

    effective_points: Float[Array, "*b"]
    edge_weight: Float[Array, "*b"]


@dataclass(frozen=True)
class Lattice(Quantity):
    """Effective points of exact sums; its column ``ess_min`` is that of chains' draws too."""

    name = "lattice"
    Values = LatticeValues

    def per_dataset(self, view: View) -> LatticeValues:
        """Of a grid, or of a chain."""
        weight = view.draws.weight
        effective = 1.0 / jnp.mean(jnp.sum(weight**2, axis=1))
        return LatticeValues(effective, view.draws.edge_weight)

    def finish(self, result: Result, row: Row) -> tuple[Row, list[Warned]]:
        """Say where the lattice is too narrow or too coarse."""
        traits, values = result.settings.sampler.traits, result.good.values.lattice
        if not traits.is_exact:
            return {}, []
        fewest, edge = float(np.min(values.effective_points)), float(np.max(values.edge_weight))
        found = []
        if traits.is_discretized and edge > EDGE_LIMIT:
            found.append(TOO_NARROW(edge=edge))
        if traits.is_discretized and fewest < POINTS_LIMIT:
            found.append(TOO_COARSE(points=fewest))
        return {"ess_min": fewest}, found
