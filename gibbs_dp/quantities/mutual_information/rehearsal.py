"""What comparisons of datasets run, compiled ahead of them."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import jax
import jax.numpy as jnp
import numpy as np

from gibbs_dp.engine.asked import Asked
from gibbs_dp.estimators.table_layout import layout_of
from gibbs_dp.estimators.table_sums import Swaps, Table, consistency_sums, contrast_sums
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.quantities.mutual_information.comparison import (
    DRAWS_PER_DATASET,
    Shared,
    block_size,
    thinned,
)
from gibbs_dp.quantities.mutual_information.tables import has_statistics, point_losses, swap_terms


def rehearse(settings: Asked, count: int) -> None:
    """Run what comparisons of quadratic losses run on blank numbers: it is compiled then.

    Meant for a core that would wait for the first block's compilation; once for a posterior and
    a shape.
    """
    posterior, dim = settings.posterior, settings.posterior.dim
    if count == 0 or settings.is_exact or not has_statistics(posterior):
        return
    dtype = jnp.zeros(()).dtype
    shape = (settings.plan, count, str(dtype), jax.tree.structure(settings.population))
    if shape in _rehearsed.setdefault(posterior, set()):
        return
    _rehearsed[posterior].add(shape)
    shared = Shared(settings, jnp.zeros((dim,), dtype), count)
    size = block_size(count)
    points = np.zeros((size * DRAWS_PER_DATASET, dim), dtype)
    datasets = layout_of(np.ones(count, bool)).datasets
    shared.losses(points, datasets)
    firsts, owners = shared.look().first, np.arange(size) % count
    losses = point_losses(posterior, firsts, datasets, points)
    draws = np.zeros((datasets.size, settings.num_chains, settings.num_samples, dim), dtype)
    gain = swap_terms(posterior, firsts, owners, datasets, thinned(draws), jnp.ones((), dtype))
    own, level = np.zeros(points.shape[0], np.int32), np.zeros(datasets.size, dtype)
    is_draw, is_used = np.ones(own.size, bool), np.ones(datasets.size, bool)
    table = Table(losses, *map(jnp.asarray, (own, is_draw, level, is_used, np.ones((), dtype))))
    consistency_sums(table)
    contrast_sums(table, Swaps(losses, gain))


_rehearsed: WeakKeyDictionary[GibbsPosterior, set[Any]] = WeakKeyDictionary()
