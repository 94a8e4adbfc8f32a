"""The mean of a Gaussian, for which everything has a closed form."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from gibbs_dp.model import GibbsPosterior, losses
from gibbs_dp.problems.base import Problem, normal_prior
from gibbs_dp.random import normal


@dataclass(frozen=True)
class Gaussian:
    """Draws ``n`` points of ``N(0, scale^2 I)`` in ``dim`` dimensions."""

    dim: int
    scale: float

    def __call__(self, key: PRNGKeyArray, n: int) -> Float[Array, "n dim"]:
        """Return the points."""
        return self.scale * normal(key, (n, self.dim))


def gaussian_mean(
    dim: int = 1, prior_scale: float | None = None, data_scale: float = 1.0
) -> Problem:
    """Half squared distance to Gaussian examples.

    With ``P = n gamma + 1 / prior_scale^2`` the on-average KL is exactly
    ``dim gamma^2 data_scale^2 / P``.

    Parameters
    ----------
    dim
        Dimension of an example.
    prior_scale
        Standard deviation of the Gaussian prior; None (or infinity) for a flat one.
    data_scale
        Standard deviation of an example's coordinates.

    Returns
    -------
    Problem
        Ready for ``gibbs_dp.audit``.

    Raises
    ------
    ValueError
        If a dimension or scale is not positive.
    """
    if not (data_scale > 0 and np.isfinite(data_scale)):
        raise ValueError(f"data_scale: must be positive and finite, got {data_scale:g}.")
    return Problem(
        name="gaussian-mean",
        posterior=GibbsPosterior(losses.half_squared_distance, normal_prior(dim, prior_scale)),
        population=Gaussian(dim, data_scale),
        n=100,
        gammas=(0.1, 1.0, 10.0),
        description="Mean of N(0, data_scale^2 I); loss |z - theta|^2 / 2.",
    )
