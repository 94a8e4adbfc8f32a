"""Exact posteriors of one or two parameters, summed over a fine lattice in double precision.

A reference for samplers: NumPy only, and nothing of the library's. The midpoint rule converges
exponentially on densities that are smooth and vanish at the rim; a lattice that is too coarse or
too narrow is refused, not used.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

# Weight on the rim; and by which the weight of every other stripe may differ from a half. On a
# normal law the sum itself is then wrong by no more than the fourth power of that.
MAX_RIM = 1e-6
MAX_UNEVEN = 1e-2
# Points whose weight is below exp(-NATS) of the largest, with any one example exchanged, are left
# out.
NATS = 45.0


class Exact(NamedTuple):
    """Of every dataset: nats, and units of the loss.

    Attributes
    ----------
    on_average_kl
        ``KL(p(. | Z) || p(. | Z'))`` averaged over every example and the fresh one in its place.
    empirical_risk, population_risk
        Mean loss of a draw on its training examples, and on the fresh ones.
    """

    on_average_kl: np.ndarray
    empirical_risk: np.ndarray
    population_risk: np.ndarray


class Lattice(NamedTuple):
    """Midpoints of equal cells.

    Attributes
    ----------
    points
        ``[m, d]``.
    is_rim
        ``[m]``: in an outermost cell.
    is_even
        ``[m, d]``: every other stripe across each axis.
    """

    points: np.ndarray
    is_rim: np.ndarray
    is_even: np.ndarray


def lattice(low: Sequence[float], high: Sequence[float], num: int) -> Lattice:
    """Cover a box by ``num`` cells in each of one or two coordinates."""
    if len(low) not in (1, 2):
        raise ValueError(f"low: {len(low)} coordinates; a lattice is for one or two.")
    cell = (np.arange(num) + 0.5) / num
    axes = [a + (b - a) * cell for a, b in zip(low, high, strict=True)]
    index = np.indices((num,) * len(low)).reshape(len(low), -1)
    return Lattice(
        points=np.array(list(itertools.product(*axes))),
        is_rim=((index == 0) | (index == num - 1)).any(axis=0),
        is_even=(index % 2 == 0).T,
    )


def exact(
    loss: Callable[[np.ndarray, np.ndarray], np.ndarray],
    log_prior: Callable[[np.ndarray], np.ndarray] | None,
    grid: Lattice,
    train: Any,
    ghosts: Any,
    gamma: float,
    is_bounded: bool = False,
) -> Exact:
    """Sum over the posteriors of given datasets.

    Parameters
    ----------
    loss
        ``loss(points [m, d], examples [n, ...]) -> [m, n]``.
    log_prior
        ``[m, d] -> [m]`` up to a constant; None for a flat one.
    grid
        Where the posterior lives.
    train, ghosts
        Datasets and fresh examples, ``[datasets, n, ...]`` and ``[datasets, g, ...]``.
    gamma
        Inverse temperature of the total loss.
    is_bounded
        The lattice fills the prior's support: weight on the rim is no defect.

    Returns
    -------
    Exact
        ``[datasets]`` each.

    Raises
    ------
    ValueError
        If the lattice is too narrow or too coarse for a dataset.
    """
    prior = np.zeros(len(grid.points)) if log_prior is None else log_prior(grid.points)
    pairs = zip(np.asarray(train, float), np.asarray(ghosts, float), strict=True)
    found = [_one(loss, prior, grid, a, b, gamma, is_bounded) for a, b in pairs]
    return Exact(*(np.array(column) for column in zip(*found, strict=True)))


def _one(loss, prior, grid, train, ghosts, gamma, is_bounded):
    old = loss(grid.points, train)
    log_weight = prior - gamma * old.sum(axis=1)
    log_weight -= logsumexp(log_weight)
    weight = np.exp(log_weight)
    rim, uneven = weight[grid.is_rim].sum(), np.abs(weight @ grid.is_even - 0.5).max()
    if rim > MAX_RIM and not is_bounded:
        raise ValueError(f"grid: a weight of {rim:.1g} lies on the rim; widen it.")
    if uneven > MAX_UNEVEN:
        raise ValueError(f"grid: every other stripe is off a half by {uneven:.1g}; refine it.")
    kept = log_weight + gamma * old.max(axis=1) > log_weight.max() - NATS
    new, old, log_weight, weight = (
        loss(grid.points[kept], ghosts),
        old[kept],
        log_weight[kept],
        weight[kept],
    )
    mean_old, mean_new = weight @ old, weight @ new
    # E exp(-delta) of all pairs is one product; halves of the weight on both sides, scaled to 1.
    out, into = 0.5 * log_weight[:, None] + gamma * old, 0.5 * log_weight[:, None] - gamma * new
    top_out, top_into = out.max(axis=0), into.max(axis=0)
    ratio = np.exp(out - top_out).T @ np.exp(into - top_into)
    log_ratio = np.log(ratio) + top_out[:, None] + top_into
    kl = gamma * (mean_new - mean_old[:, None]) + log_ratio
    return kl.mean(), mean_old.mean(), mean_new.mean()
