"""Arguments of an audit, checked one by one and against each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gibbs_dp.engine.plan import default_ghosts
from gibbs_dp.model.check import positive_count
from gibbs_dp.model.populations import Population
from gibbs_dp.model.posterior import GibbsPosterior


class Counts(NamedTuple):
    """How many examples and datasets, as they were asked for."""

    n: int
    num_datasets: int
    max_datasets: int


def check_counts(
    n: int, group_size: int, num_datasets: int | tuple[int, int], rel_error: float | None
) -> Counts:
    """Check the counts of ``gibbs_dp.audit``; see there."""
    n = positive_count("n", n)
    if group_size > n:
        raise ValueError(f"group_size: {group_size} examples of a dataset of n={n}; lower it.")
    given: Any = num_datasets
    is_pair = isinstance(given, (tuple, list))
    if is_pair and len(given) != 2:
        raise ValueError(
            f"num_datasets: give a number, or two with rel_error (to start with, and at most), got "
            f"{given!r:.60}."
        )
    first = positive_count("num_datasets", given[0] if is_pair else given, least=2)
    most = 64 * first
    if is_pair:
        if rel_error is None:
            raise ValueError("num_datasets: a second number goes with rel_error; give one number.")
        most = positive_count("num_datasets", given[1])
        if most < first:
            raise ValueError(
                f"num_datasets: at most {most} is below the {first} to start with; raise it."
            )
    if rel_error is not None and not rel_error > 0:
        raise ValueError(f"rel_error: must be positive, got {rel_error}.")
    return Counts(n, first, most)


def check_ghosts(
    posterior: GibbsPosterior,
    population: Population,
    n: int,
    group_size: int,
    num_ghosts: int | None,
) -> int:
    """Return how many fresh examples to draw per dataset; see ``gibbs_dp.audit``."""
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
    """Sort and check a grid of inverse temperatures."""
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
