"""Arguments of an audit, checked one by one and against each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gibbs_dp.engine.sizes import default_ghosts
from gibbs_dp.model.check import positive_count
from gibbs_dp.model.populations import Population
from gibbs_dp.model.posterior import GibbsPosterior


class Counts(NamedTuple):
    """How much of everything, as it was asked for."""

    n: int
    group_size: int
    num_chains: int
    num_samples: int
    num_datasets: int
    num_warmup: int | None
    max_datasets: int


def check_counts(
    n: int,
    group_size: int,
    num_chains: int,
    num_samples: int,
    num_datasets: int,
    num_warmup: int | None,
    rel_error: float | None,
    max_datasets: int | None,
) -> Counts:
    """Check the counts of ``gibbs_dp.audit``; see there.

    Returns
    -------
    Counts
        As integers, with defaults filled in.

    Raises
    ------
    ValueError
        If one is out of range.
    """
    group_size, n = positive_count("group_size", group_size), positive_count("n", n)
    if group_size > n:
        raise ValueError(f"group_size: {group_size} examples of a dataset of n={n}; lower it.")
    num_chains = positive_count("num_chains", num_chains, least=2)
    num_samples = positive_count("num_samples", num_samples, least=4)
    num_datasets = positive_count("num_datasets", num_datasets, least=2)
    if num_warmup is not None:
        num_warmup = positive_count("num_warmup", num_warmup, least=0)
    if rel_error is not None and not rel_error > 0:
        raise ValueError(f"rel_error: must be positive, got {rel_error}.")
    if max_datasets is None:
        max_datasets = 64 * num_datasets
    max_datasets = positive_count("max_datasets", max_datasets)
    if max_datasets < num_datasets:
        raise ValueError(
            f"max_datasets: {max_datasets} is below num_datasets={num_datasets}; raise it."
        )
    return Counts(n, group_size, num_chains, num_samples, num_datasets, num_warmup, max_datasets)


def check_ghosts(
    posterior: GibbsPosterior,
    population: Population,
    n: int,
    group_size: int,
    num_ghosts: int | None,
) -> int:
    """Return how many fresh examples to draw per dataset; see ``gibbs_dp.audit``.

    Raises
    ------
    ValueError
        If it is out of range, or single examples of a dependent population are to be replaced.
    """
    if num_ghosts is None:
        num_ghosts = default_ghosts(posterior, population, n)
    num_ghosts = max(positive_count("num_ghosts", num_ghosts), group_size)
    if not population.is_dependent:
        return num_ghosts
    if group_size != n:
        raise ValueError(
            f"group_size: the population's examples are dependent, so only whole datasets can be "
            f"replaced by ghosts; pass group_size=n ({n}), not {group_size}."
        )
    return n * -(-num_ghosts // n)  # whole datasets


def check_gammas(gammas: ArrayLike | float | Sequence[float]) -> tuple[float, ...]:
    """Sort and check a grid of inverse temperatures.

    Raises
    ------
    ValueError
        If it is empty, repeats a value, or holds one that is negative, NaN or infinite.
    """
    try:
        table = np.atleast_1d(np.asarray(gammas, dtype=float))
    except (TypeError, ValueError):
        table = np.zeros((0, 0))
    if table.ndim != 1:
        raise ValueError(f"gammas: give a list of numbers, got {gammas!r:.60}.")
    values = [float(g) for g in table]
    if not values:
        raise ValueError("gammas: the grid is empty; give at least one value.")
    for g in values:
        if not (math.isfinite(g) and g >= 0):
            raise ValueError(f"gammas: {g:g} is not a finite number >= 0.")
    if len(set(values)) < len(values):
        raise ValueError("gammas: a value is repeated; give each once.")
    return tuple(sorted(values))
