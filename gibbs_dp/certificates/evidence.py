"""What certificates are computed from, by whatever route."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree
from scipy.special import logsumexp

from gibbs_dp._jaxlib.compile import on_default_backend
from gibbs_dp.model.charts import BoxChart, chart_of
from gibbs_dp.model.examples import num_examples
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.grid import Grid

# Losses that are on a device at a time.
AT_ONCE = 2**22
# Of the lattice on an interval where no sampler is given.
LATTICE_POINTS = 1024

Column = Float[np.ndarray, " gammas"]


class Evidence(NamedTuple):
    """Normalizers and empirical risks of one dataset's posteriors, a number a gamma.

    Attributes
    ----------
    log_normalizer, log_normalizer_se
        Log of the prior mean of ``exp(-gamma L)``, and its Monte Carlo error; nats. Where it is
        sampled, its exponential is unbiased.
    empirical_risk, empirical_risk_se
        Mean loss on the data, of the posterior or of weighted particles, and how far off the
        posterior's the latter may be.
    kl, kl_se
        Divergence from the prior, and its Monte Carlo error; nats.
    lowest, highest
        Of all losses that were met, at all gammas.
    """

    log_normalizer: Column
    log_normalizer_se: Column
    empirical_risk: Column
    empirical_risk_se: Column
    kl: Column
    kl_se: Column
    lowest: float
    highest: float


def from_sums(
    gammas: Column,
    total_loss: Float[np.ndarray, " points"],
    log_prior: Float[np.ndarray, " points"],
    n: int,
    ends: tuple[float, float],
) -> Evidence:
    """Sum over a finite class."""
    prior = log_prior - logsumexp(log_prior)
    height = prior - np.multiply.outer(gammas, total_loss)
    log_normalizer = logsumexp(height, axis=1)
    risk = np.exp(height - log_normalizer[:, None]) @ total_loss / n
    none = np.zeros_like(gammas)
    kl = np.maximum(0.0, -gammas * n * risk - log_normalizer)
    return Evidence(log_normalizer, none, risk, none, kl, none, *ends)


def from_islands(
    gammas: Column,
    log_normalizer: Float[np.ndarray, "gammas islands"],
    mean_loss: Float[np.ndarray, "gammas islands"],
    n: int,
    ends: tuple[float, float],
) -> Evidence:
    """Pool independent islands, each with an unbiased normalizer; errors by leaving out each.

    No bias is taken off: the mean of the islands' normalizers is unbiased as it is, which is what
    bounds rest on.
    """
    count = log_normalizer.shape[1]
    others = ~np.eye(count, dtype=bool)
    # Last axis: who is in; first all islands, then all but one.
    groups = np.concatenate([np.ones((1, count), bool), others])
    level = np.where(groups, log_normalizer[:, None, :], -np.inf)
    log_c = logsumexp(level, axis=-1) - np.log(groups.sum(axis=1))
    share = np.exp(level - logsumexp(level, axis=-1, keepdims=True))
    risk = (share * mean_loss[:, None, :]).sum(axis=-1)
    kl = -gammas[:, None] * n * risk - log_c

    def error(values: Float[np.ndarray, "gammas groups"]) -> Column:
        without = values[:, 1:]
        spread = ((without - without.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
        return np.asarray(np.sqrt((count - 1) / count * spread))

    return Evidence(
        log_c[:, 0],
        error(log_c),
        risk[:, 0],
        error(risk),
        np.maximum(0.0, kl[:, 0]),
        error(kl),
        *ends,
    )


# Exact sums over a finite class of parameters.


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
    """Sum over a grid's points, in double precision."""
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
