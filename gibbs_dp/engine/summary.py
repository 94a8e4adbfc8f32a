"""What leaves the device for each dataset: health for the engine, values for the quantities."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Bool, Float

from gibbs_dp.sampling.diagnostics import Spread


class Health(NamedTuple):
    """How the chains of each dataset fared (leading axis: datasets).

    Attributes
    ----------
    accept_prob
        Mean acceptance probability.
    worst_ess
        Smallest share of particles that were effective on the way to the posterior; 1: no such way.
    mean_u, var_u
        Mean and variance of the draws in flat coordinates.
    square_v
        Mean square of the whitened draws.
    log_mass
        Of the mode that was sampled: log of the integral of ``exp(-U)`` over it, as the draws'
        energy and entropy have it, with the potential relative to that at the inputs' reference.
    spread
        For R-hat, effective draws and the drift test.
    is_curved
        Whether there is a usable Laplace fit.
    is_improper, is_stuck
        Of the dataset's posterior, or of any of its replaced ones.
    is_finite
        Whether all draws are.
    """

    accept_prob: Float[Array, "*b"]
    worst_ess: Float[Array, "*b"]
    mean_u: Float[Array, "*b dim"]
    var_u: Float[Array, "*b dim"]
    square_v: Float[Array, "*b dim"]
    log_mass: Float[Array, "*b"]
    spread: Spread
    is_curved: Bool[Array, "*b"]
    is_improper: Bool[Array, "*b"]
    is_stuck: Bool[Array, "*b"]
    is_finite: Bool[Array, "*b"]


class Summary(NamedTuple):
    """What every dataset leaves behind (leading axis: datasets)."""

    health: Health
    values: Any  # a named tuple: the ``Values`` of every quantity, by its name

    @property
    def size(self) -> int:
        """Datasets."""
        return int(self.health.is_finite.shape[0])

    def only(self, chosen: Bool[np.ndarray, " datasets"]) -> Summary:
        """Keep the chosen datasets."""
        return self if chosen.all() else jax.tree.map(lambda a: a[chosen], self)


class Block(NamedTuple):
    """A block of datasets, as the program returns it and a store keeps it."""

    health: Health
    values: Any
    kept: Any  # a named tuple: the ``Kept`` of quantities that have it

    @property
    def summary(self) -> Summary:
        """Without what is kept of the first datasets only."""
        return Summary(self.health, self.values)
