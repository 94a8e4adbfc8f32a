"""Sums over a table of log densities, a row per draw and a column per dataset: compiled programs.

The table stays on the device; vectors come home. Single precision is enough, as rows are relative
to the draw's own density, exponentials to the largest of their row, and sums are of their excess
over one: what is small is never added to what is not. Sums over many rows are finished at home.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from gibbs_dp._jaxlib.compile import on_default_backend
from gibbs_dp._jaxlib.devices import is_accelerator, target_platform
from gibbs_dp._jaxlib.precision import expm1_and_exp, matmul, total
from gibbs_dp.estimators.cross_fitting import fold_of

# How a table with a column per dataset is laid out for the programs that sum it up.

# A maximum over a row is taken of so many numbers at once.
LANES = 16


class Layout(NamedTuple):
    """Columns of a table: datasets of the first half, then those of the second.

    A half is as wide whichever datasets failed, so that nothing is compiled for their number.
    """

    datasets: Int[np.ndarray, " columns"]  # dataset of each column; any one where there is none
    is_used: Bool[np.ndarray, " columns"]  # whether there is one
    position: Int[np.ndarray, " good"]  # column of each dataset that did not fail, in their order

    @property
    def sizes(self) -> Int[np.ndarray, " 2"]:
        """Datasets of each half."""
        used: Int[np.ndarray, " 2"] = self.is_used.reshape(2, -1).sum(axis=1)
        return used


def layout_of(good: Bool[np.ndarray, " datasets"]) -> Layout:
    """Lay out the datasets that did not fail, in the halves of :func:`fold_of`."""
    width = math.ceil(good.shape[0] / 2 / LANES) * LANES
    wanted = np.flatnonzero(good)
    fold = fold_of(wanted.size)
    datasets, is_used = np.zeros((2, width), int), np.zeros((2, width), bool)
    position = np.empty(wanted.size, int)
    for half in (0, 1):
        mine = wanted[fold == half]
        datasets[half, : mine.size], is_used[half, : mine.size] = mine, True
        position[fold == half] = half * width + np.arange(mine.size)
    return Layout(datasets.ravel(), is_used.ravel(), position)


# Entries worked on at once on CPUs: temporaries of this size stay in a processor's caches.
CACHED_ENTRIES = 2**17
# Smaller logarithms than this, relative to the largest of a row, are taken for it.
_LEAST_LOG = -80.0
# A control variate this large is left out anyway; it only has to stay finite.
LARGEST_LOG_RATIO = 50.0
# Of entries that are not there.
_NOWHERE = -1e30


class DensityTable(NamedTuple):
    """``log p(theta_p | Z_k) = -gamma L(theta_p, Z_k) - level_k``, columns as in `Layout`."""

    # Total losses, or any other numbers that are the same up to a term of the draw.
    losses: Float[Array, "rows columns"]
    own: Int[Array, " rows"]  # column of the dataset that a draw came from
    is_draw: Bool[Array, " rows"]  # whether a row is one
    level: Float[Array, " columns"]  # log normalizers
    is_used: Bool[Array, " columns"]  # whether a column has a dataset
    gamma: Float[Array, ""]  # inverse temperature


class Swaps(NamedTuple):
    """What a table becomes when ``Z_k``'s first example becomes that of a draw's own dataset."""

    losses: Float[Array, "rows columns"]  # loss of every draw on every dataset's first example
    # What the swap adds to the log normalizer; the draws of a dataset share a row.
    gain: Float[Array, "owners columns"]


class Normalized(NamedTuple):
    """Mean of a row's exponentials over each half: ``exp(top) (1 + excess)``."""

    top: Float[Array, "rows 2"]
    excess: Float[Array, "rows 2"]


class ContrastParts(NamedTuple):
    """What :class:`~gibbs_dp.estimators.mutual_information.ContrastSums` is made of."""

    own_loss: Float[Array, " rows"]  # entry of a draw's own dataset
    # Sum over the other datasets of the log density, relative to the own one.
    row: Float[Array, " rows"]
    # before, after: Means over the other datasets, before and after the swap.
    before: Normalized
    after: Normalized | None
    weight: Float[Array, "rows 2 weights"]  # what column sums weigh the rows of either half with
    # By weight, sums over rows of exponentials' excess over one; first, of the log densities.
    columns: Float[Array, "parts sums columns"]


def _relative(table: DensityTable) -> tuple[Float[Array, "rows columns"], Float[Array, " rows"]]:
    """Log density under every dataset less that under the draw's own, and the latter's loss."""
    own = jnp.take_along_axis(table.losses, table.own[:, None], axis=1)
    # Differences of like numbers first: they are exact.
    level = table.level[None] - table.level[table.own][:, None]
    return -(table.gamma * (table.losses - own)) - level, own[:, 0]


def _largest(rows: Float[Array, "rows columns"]) -> Float[Array, " rows"]:
    return jnp.max(jnp.max(rows.reshape(rows.shape[0], -1, LANES), axis=1), axis=1)


def _consistency(table: DensityTable) -> Float[Array, "4 columns"]:
    """Sum ``p_k / q - 1`` over draws, and its square, and ``p_k / q``, and its square."""
    is_there = table.is_used[None] & table.is_draw[:, None]
    x = jnp.where(is_there, _relative(table)[0], _NOWHERE)
    excess, power = expm1_and_exp(jnp.maximum(x - _largest(x)[:, None], _LEAST_LOG))
    excess = jnp.where(is_there, excess, 0.0)
    mean = total(excess) / jnp.sum(table.is_used)
    share = jnp.where(table.is_draw, 1.0 / (1.0 + mean), 0.0)
    ratio, off = power * share[:, None], (excess - mean[:, None]) * share[:, None]
    one = jnp.ones_like(share)
    return jnp.stack([matmul(one, a) for a in (off, off**2, ratio, ratio**2)])


class _Half(NamedTuple):
    """One half's other datasets at every draw."""

    excess: Float[Array, "rows columns"]
    size: Float[Array, " rows"]
    top: Float[Array, " rows"]
    mean: Float[Array, " rows"]  # of the excess

    @property
    def normal(self) -> Float[Array, " rows"]:
        """Logarithm of the sum of exponentials, relative to ``top``."""
        return jnp.log1p(self.mean) + jnp.log(self.size)


def _halves(table: DensityTable, x: Float[Array, "rows columns"]) -> list[_Half]:
    """Halves of log densities that are relative to the draw's own."""
    width = x.shape[1] // 2
    found = []
    for h, part in enumerate((slice(width), slice(width, None))):
        count = jnp.sum(table.is_used[part]) - (table.own // width == h)
        found.append(_half(x[:, part], _is_other(table)[:, part], count.astype(x.dtype)))
    return found


def _is_other(table: DensityTable) -> Bool[Array, "rows columns"]:
    is_there = table.is_used[None] & table.is_draw[:, None]
    return is_there & (jnp.arange(table.is_used.shape[0]) != table.own[:, None])


def _half(
    x: Float[Array, "rows columns"],
    is_other: Bool[Array, "rows columns"],
    count: Float[Array, " rows"],
) -> _Half:
    x = jnp.where(is_other, x, _NOWHERE)
    top = _largest(x)
    excess = expm1_and_exp(jnp.maximum(x - top[:, None], _LEAST_LOG))[0]
    excess = jnp.where(is_other, excess, 0.0)
    return _Half(excess, count, top, total(excess) / count)


def _together(halves: list[_Half]) -> tuple[list[Array], Float[Array, " rows"]]:
    """Share of each half in the sum of both, and the logarithm of the sum."""
    one, two = halves
    first, second = one.normal + one.top, two.normal + two.top
    # Tops' difference is exact, however large they are.
    lead = (one.top - two.top) + (one.normal - two.normal)
    return [jax.nn.sigmoid(lead), jax.nn.sigmoid(-lead)], jnp.logaddexp(first, second)


def _ratio(log_ratio: Float[Array, " rows"]) -> Float[Array, " rows"]:
    return jnp.exp(jnp.minimum(log_ratio, LARGEST_LOG_RATIO))


def _contrast(table: DensityTable, swaps: Swaps | None) -> ContrastParts:
    width = table.is_used.shape[0] // 2
    x, own_loss = _relative(table)
    x = jnp.where(_is_other(table), x, 0.0)
    before = _halves(table, x)
    mass, normal = _together(before)
    size = before[0].size + before[1].size
    # Weights of the upper bound's columns, and of the lower's, in whose mean the own density is.
    left = jax.nn.sigmoid(normal)
    upper = _ratio(normal - jnp.log(size))
    lower = _ratio(jnp.logaddexp(normal, 0.0) - jnp.log(size + 1.0))
    weights = [[m, m * upper, m * left, m * left * lower] for m in mass]
    after = None
    if swaps is not None:
        after = _halves(table, x + _change(table, swaps))
        for own, more in zip(weights, _individual(before, after), strict=True):
            own.extend(more)

    def scaled(half: int, k: int, part: _Half) -> Float[Array, " rows"]:
        found = weights[half][k] / (part.size * (1.0 + part.mean))
        return jnp.where(table.is_draw, found, 0.0)

    weight, columns = [], []
    for h in (0, 1):
        count = len(weights[h]) - (0 if after is None else 2)
        mine = jnp.stack([scaled(h, k, before[h]) for k in range(count)])
        sums = [matmul(jnp.ones_like(own_loss), x[:, h * width : (h + 1) * width])[None]]
        sums.append(matmul(mine, before[h].excess))
        if after is not None:
            others = jnp.stack([scaled(h, k, after[h]) for k in (count, count + 1)])
            sums.append(matmul(others, after[h].excess))
            mine = jnp.concatenate([mine, others])
        weight.append(mine.T)
        columns.append(jnp.concatenate(sums))
    return ContrastParts(
        own_loss,
        total(x),
        _normalized(before),
        None if after is None else _normalized(after),
        jnp.stack(weight, axis=1),
        jnp.concatenate(columns, axis=1)[None],
    )


def _normalized(halves: list[_Half]) -> Normalized:
    return Normalized(
        jnp.stack([h.top for h in halves], axis=1), jnp.stack([h.mean for h in halves], axis=1)
    )


def _change(table: DensityTable, swaps: Swaps) -> Float[Array, "rows columns"]:
    """Find what the swap adds to log densities."""
    own = jnp.take_along_axis(swaps.losses, table.own[:, None], axis=1)
    gain = jnp.repeat(swaps.gain, swaps.losses.shape[0] // swaps.gain.shape[0], axis=0)
    return table.gamma * (swaps.losses - own) - gain


def _individual(before: list[_Half], after: list[_Half]) -> list[list[Array]]:
    """Weights of either half: two before the swap, two after it.

    Of all datasets, twice; of each half by itself, minus a half. A ratio that is cut has no slope.
    """
    mass, normal = _together(before)
    mass_after, normal_after = _together(after)
    most = 0.5 * jnp.log(before[0].size + before[1].size + 1.0)  # root of the datasets

    def slope(log_ratio: Float[Array, " rows"]) -> Float[Array, " rows"]:
        return jnp.where(log_ratio < most, jnp.exp(jnp.minimum(log_ratio, most)), 0.0)

    ratio = slope(normal - normal_after)
    found = []
    for h in (0, 1):
        shift = before[h].top - after[h].top
        mine = slope(shift + (before[h].normal - after[h].normal))
        found.append(
            [
                0.5 - 2.0 * mass[h],
                2.0 * ratio * mass[h] - 0.5 * mine,
                2.0 * mass_after[h] - 0.5,
                0.5 * mine - 2.0 * ratio * mass_after[h],
            ]
        )
    return found


def rows_at_once(num_columns: int) -> int:
    """Rows of a chunk on CPUs; a block has a multiple of them."""
    return max(2, CACHED_ENTRIES // num_columns // 2 * 2)


def _in_chunks(
    work: Callable[..., Any], table: DensityTable, swaps: Swaps | None
) -> tuple[Any, bool]:
    """Run on a chunk of rows at a time on CPUs; whether results have an axis of chunks."""
    num_rows, num_columns = table.losses.shape
    size = rows_at_once(num_columns)
    if is_accelerator(target_platform()) or num_rows <= size or num_rows % size:
        return work(table, swaps), False

    def cut(a: Array) -> Array:
        return a.reshape(num_rows // size, -1, *a.shape[1:])

    rows = (cut(table.losses), cut(table.own), cut(table.is_draw))

    def one(given: Any) -> Any:
        (losses, own, is_draw), part = given
        return work(table._replace(losses=losses, own=own, is_draw=is_draw), part)

    return jax.lax.map(one, (rows, jax.tree.map(cut, swaps))), True


def _consistency_sums(table: DensityTable) -> Float[Array, "parts 4 columns"]:
    found, is_cut = _in_chunks(lambda part, _: _consistency(part), table, None)
    sums: Float[Array, "parts 4 columns"] = found if is_cut else found[None]
    return sums


def _contrast_sums(table: DensityTable, swaps: Swaps | None) -> ContrastParts:
    found, is_cut = _in_chunks(_contrast, table, swaps)
    if not is_cut:
        return ContrastParts(*found)
    return jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), ContrastParts(*found))


consistency_sums = on_default_backend(_consistency_sums)
contrast_sums = on_default_backend(_contrast_sums)


# Normalizers made consistent with each other's draws.

# Of means of ratios that are smaller, what they lack of one says too little.
_SMALL = 0.5


class ConsistencySums:
    """How far each of M posterior densities is from integrating to one, judged by all draws.

    Draws from all M posteriors, equally many of each, are draws of their mixture ``q``, and
    ``E_q[p_k / q] = 1`` for every normalized ``p_k``. Where the mean over draws is not 1, the
    log normalizer of ``Z_k`` is off by its logarithm: one step of the self-consistent equations of
    Shirts & Chodera (2008, equation 11). Where the information is small every draw informs every
    normalizer, with far less noise than bridging each on its own; noise of standard
    deviation ``s`` would bias a small mutual information by up to ``s^2 / 2``.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout, self._draws = layout, 0
        self._sums = np.zeros((4, layout.position.size))

    def add(self, table: DensityTable) -> None:
        """Add a block of draws: their log density (over any one of the draw) per dataset."""
        self._draws += int(np.asarray(table.is_draw).sum())
        found = np.asarray(consistency_sums(table)).astype(np.float64).sum(axis=0)
        self._sums += found[:, self._layout.position]

    def correction(self, se: Float[np.ndarray, " datasets"]) -> Float[np.ndarray, " datasets"]:
        """Return what to add to log normalizers, weighing both estimates by inverse variances."""
        off, off_square, mean, square = self._sums / self._draws
        tiny = np.finfo(float).tiny
        mean = np.maximum(mean, tiny)
        is_small = mean < _SMALL
        log_mean = np.where(is_small, np.log(mean), np.log1p(np.maximum(off, -_SMALL)))
        spread = np.where(is_small, square - mean**2, off_square - off**2)
        variance = np.maximum(spread / np.exp(2 * log_mean), 0.0) / self._draws
        share = se**2 / np.maximum(se**2 + variance, tiny)
        return np.asarray(share * log_mean)
