"""Exact sums over a finite class of parameters."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from gibbs_dp._jaxlib.compile import on_default_backend
from gibbs_dp.certificates.evidence import Column, Evidence, from_sums
from gibbs_dp.model.charts import BoxChart, chart_of
from gibbs_dp.model.examples import num_examples
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.grid import Grid

# Losses that are on a device at a time.
AT_ONCE = 2**22
# Of the lattice on an interval where no sampler is given.
LATTICE_POINTS = 1024


def _losses_of(
    posterior: GibbsPosterior, values: Float[Array, "points ..."], data: PyTree
) -> tuple[Float[Array, "points n"], Float[Array, " points"]]:
    rebuild = posterior.prior.treedef.unflatten
    losses = jax.vmap(lambda x: posterior.losses(rebuild([x]), data))(values)
    return losses, jax.vmap(lambda x: posterior.prior.log_prob(rebuild([x])))(values)


_losses = on_default_backend(_losses_of, "posterior")


def lattice_on_interval(posterior: GibbsPosterior) -> Grid | None:
    """Return a lattice for a single number on a bounded interval; None for other parameters."""
    supports = posterior.prior.supports
    if len(supports) != 1 or int(np.prod(supports[0].shape)) != 1:
        return None
    chart: Any = chart_of(supports[0].constraint)
    if not isinstance(chart, BoxChart):
        return None
    low, high = (float(np.ravel(end)[0]) for end in (chart.low, chart.high))
    return Grid(low=low, high=high, num_points=LATTICE_POINTS)


def sum_over(posterior: GibbsPosterior, data: PyTree, gammas: Column, grid: Grid) -> Evidence:
    """Sum over a grid's points, in double precision.

    Parameters
    ----------
    posterior, data
        Loss and prior; examples.
    gammas
        Inverse temperatures.
    grid
        The class; the prior's density at its points, normalized, is the prior on it.

    Returns
    -------
    Evidence
        Exact but for rounding of single losses.

    Raises
    ------
    ValueError
        If the points do not fit the posterior.
    """
    grid.check(posterior)
    values = grid.points_of_shape(posterior.prior.supports[0].shape)
    n, dtype = num_examples(data), jnp.zeros(()).dtype
    step = min(len(values), max(1, AT_ONCE // n))
    total, log_prior, ends = [], [], []
    for first in range(0, len(values), step):
        block = values[first : first + step]
        # One shape, one compilation: the last block repeats a point, which is cut off again.
        padded = np.concatenate([block, np.repeat(block[-1:], step - len(block), axis=0)])
        found = _losses(posterior, jnp.asarray(padded, dtype), data)
        losses, prior = (np.asarray(a, np.float64)[: len(block)] for a in found)
        total.append(losses.sum(axis=1))
        log_prior.append(prior)
        ends.append((losses.min(), losses.max()))
    lows, highs = zip(*ends, strict=True)
    whole = np.concatenate(total), np.concatenate(log_prior)
    return from_sums(gammas, *whole, n, (float(min(lows)), float(max(highs))))
