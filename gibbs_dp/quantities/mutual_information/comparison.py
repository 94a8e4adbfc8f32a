"""The M x M comparison at one gamma: every dataset's draws under every dataset's posterior."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from gibbs_dp.engine.asked import Asked
from gibbs_dp.engine.datasets import Stream, roots
from gibbs_dp.engine.executor import run_jobs
from gibbs_dp.engine.result import Result
from gibbs_dp.estimators import ConsistencySums, ContrastSums
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.quantities.mutual_information.exact_swaps import SwapSums, log_priors
from gibbs_dp.quantities.mutual_information.kept import Kept
from gibbs_dp.quantities.mutual_information.tables import (
    Look,
    has_statistics,
    look_at,
    pair_losses,
    point_losses,
    quadratic_losses,
    swap_terms,
)

# Draws of each dataset that all datasets are compared on.
DRAWS_PER_DATASET = 2
# And on which what swapping one of its examples does to its normalizer is averaged: a mean over
# all datasets follows, whose error would be up to 7% smaller with 64.
DRAWS_OF_SWAPS = 32
# Of posteriors that are sums over points, exact sums are taken up to so many terms a gamma: a
# matrix product of some seconds.
MAX_TERMS = 2e10
# Entries of the comparison held at once, however many datasets there are.
MAX_ENTRIES = 2**22
# And of them at once in NumPy: a dozen temporaries of this size stay in a processor's caches.
CACHED_ENTRIES = 2**18
DATASETS_PER_CALL = 64

Table = Float[np.ndarray, "points datasets"]
Points = Float[np.ndarray, "points dim"]


class _Block(NamedTuple):
    """Draws of some datasets, padded to the shape of all blocks."""

    datasets: Int[np.ndarray, " owners"]
    points: Points
    owner: Int[np.ndarray, " points"]
    is_used: Bool[np.ndarray, " points"]


class Shared:
    """The datasets, as far as the comparisons of all gammas look at them; each part found once."""

    def __init__(self, settings: Asked, anchor: Float[Array, " dim"], count: int) -> None:
        self.settings, self.anchor, self.count = settings, anchor, count
        self.plan = settings.plan
        self._lock = threading.Lock()
        self._found: Look | None = None

    @property
    def root(self) -> Any:
        """Key that datasets come from."""
        return roots(self.settings.key, Stream.MAIN)[0]

    def look(self) -> Look:
        """First example and statistics of every dataset."""
        with self._lock:
            if self._found is None:
                self._found = look_at(*self._source(), jnp.arange(self.count), self.anchor)
            return self._found

    def losses(self, points: Points) -> Table:
        """Total loss of every dataset at every point, less that at the anchor."""
        known, posterior = self.look().statistics, self.settings.posterior
        if known is None:
            return self._all_losses(points)
        found = quadratic_losses(posterior, known, self.anchor, jnp.asarray(points))
        return np.array(found, np.float64)  # never the device's own memory: it is written to

    def _source(self) -> tuple[Any, ...]:
        return self.settings.posterior, self.plan, self.settings.population, self.root

    def _all_losses(self, points: Points) -> Table:
        posterior, plan, *source = self._source()
        out = np.empty((points.shape[0], self.count))

        def work(indices: Int[np.ndarray, " datasets"], device: jax.Device) -> Any:
            arguments = (*source, jnp.asarray(indices), self.anchor, points)
            return pair_losses(posterior, plan, *jax.device_put(arguments, device))

        for indices, losses in run_jobs(_calls(self.count), work):
            wanted = indices[indices < self.count]
            out[:, wanted] = losses[:, : wanted.size]
        return out


@dataclass
class Comparison:
    """Compares the datasets that did not fail, a block of draws at a time."""

    settings: Asked
    result: Result
    kept: Kept
    good: Bool[np.ndarray, " datasets"]
    shared: Shared

    @property
    def count(self) -> int:
        """Datasets, failed ones included."""
        return int(self.good.shape[0])

    def run(self) -> tuple[ContrastSums, Float[np.ndarray, " datasets"]]:
        """Sum up the comparison; with corrections that made the log normalizers consistent."""
        blocks = list(self._blocks())
        checks = ConsistencySums(int(self.good.sum()))
        # One block is kept between the two passes; more are computed again.
        single = self._log_density(blocks[0]) if len(blocks) == 1 else None
        for block in blocks:
            table = self._log_density(block) if single is None else single
            for part in self._parts(block):
                checks.add(self._only_good(table[part], block.is_used[part]))
        correction = np.zeros(self.count)
        se = np.asarray(self.kept.log_normalizer_se, np.float64)[self.good]
        correction[self.good] = checks.correction(se)
        column = np.cumsum(self.good) - 1  # among the datasets that did not fail
        sums = ContrastSums(int(self.good.sum()), DRAWS_PER_DATASET)
        for block in blocks:
            table = self._log_density(block) if single is None else single
            swap = self._log_swap(block) if self._has_individual else None
            for part in self._parts(block):
                used = block.is_used[part]
                sums.add(
                    self._only_good(table[part] - correction, used),
                    column[block.owner[part][used]],
                    None if swap is None else self._only_good(swap[part], used),
                )
        return sums, correction

    def largest_spread(self) -> float | None:
        """Largest standard deviation, over datasets' first examples, of the loss at a draw."""
        if self.settings.posterior.structured:
            return None
        spreads = []
        for block in self._blocks():
            losses = point_losses(self.settings.posterior, self.shared.look().first, block.points)
            good = self._only_good(np.asarray(losses, np.float64), block.is_used)
            spreads.append(good.std(axis=1))
        return float(np.concatenate(spreads).max())

    def _blocks(self) -> Iterator[_Block]:
        each = DRAWS_PER_DATASET
        size = _block_size(self.count)
        draws = np.nan_to_num(compared(np.asarray(self.kept.u)))
        for start in range(0, self.count, size):
            wanted = np.arange(start, start + size)
            datasets = np.minimum(wanted, self.count - 1)
            is_used = (wanted < self.count) & self.good[datasets]
            yield _Block(
                datasets,
                draws[datasets].reshape(size * each, -1),
                np.repeat(datasets, each),
                np.repeat(is_used, each),
            )

    def _parts(self, block: _Block) -> Iterator[slice]:
        """Rows that are worked on at once."""
        rows = max(1, CACHED_ENTRIES // self.count)
        for start in range(0, block.points.shape[0], rows):
            yield slice(start, start + rows)

    def _only_good(
        self, table: Float[np.ndarray, "rows datasets"], is_used: Bool[np.ndarray, " rows"]
    ) -> Float[np.ndarray, ...]:
        if is_used.all() and self.good.all():
            return table
        return table[is_used][:, self.good]

    @property
    def _has_individual(self) -> bool:
        posterior, population = self.settings.posterior, self.settings.population
        is_iid = not population.is_dependent
        return is_iid and not posterior.structured and self.result.tuned.estimator == "one-sided"

    def _log_density(self, block: _Block) -> Table:
        """Log posterior density over prior density of every draw under every dataset."""
        table = self.shared.losses(block.points)
        table *= -self.result.gamma
        table -= np.asarray(self.kept.log_normalizer, np.float64)
        return table

    def _log_swap(self, block: _Block) -> Table:
        """Log density gained when ``Z_k``'s first example becomes that of a draw's own dataset."""
        posterior, firsts = self.settings.posterior, self.shared.look().first
        table = np.array(point_losses(posterior, firsts, block.points), np.float64)
        table -= table[np.arange(block.points.shape[0]), block.owner][:, None]
        table *= self.result.gamma
        by_owner = table.reshape(-1, DRAWS_PER_DATASET, self.count)
        by_owner -= self._swaps(block.datasets)[:, None]
        return table

    def _swaps(self, owners: Int[np.ndarray, " owners"]) -> Float[np.ndarray, "owners datasets"]:
        """Log normalizers with the first example swapped for an owner's, minus those without."""
        posterior, firsts = self.settings.posterior, self.shared.look().first
        points = self.settings.sampler.points(posterior)
        if points is not None and points.shape[0] * self.count**2 <= MAX_TERMS:
            return self._exact_swaps(owners, np.asarray(points))
        others = jax.tree.map(lambda a: a[owners], firsts)
        draws = _thinned(np.nan_to_num(self.kept.u))
        found = swap_terms(posterior, others, firsts, draws, self.result.tuned.inputs.gamma)
        return np.asarray(found)

    def _exact_swaps(
        self, owners: Int[np.ndarray, " owners"], points: Points
    ) -> Float[np.ndarray, "owners datasets"]:
        """Take sums over all points: draws miss the few that a swapped example likes."""
        posterior, firsts = self.settings.posterior, self.shared.look().first
        sums, gamma = SwapSums(owners.size, self.count), self.result.gamma
        rows = max(1, CACHED_ENTRIES // self.count)
        for start in range(0, points.shape[0], rows):
            part = points[start : start + rows]
            weight = -gamma * self.shared.losses(part)
            weight += np.asarray(log_priors(posterior, part), np.float64)[:, None]
            losses = gamma * np.asarray(point_losses(posterior, firsts, part), np.float64)
            sums.add(weight, losses, losses[:, owners])
        return sums.result()


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
    size = _block_size(count)
    points = np.zeros((size * DRAWS_PER_DATASET, dim), dtype)
    shared.losses(points)
    firsts = shared.look().first
    others = jax.tree.map(lambda a: a[:size], firsts)
    point_losses(posterior, firsts, points)
    draws = np.zeros((count, settings.num_chains, settings.num_samples, dim), dtype)
    swap_terms(posterior, others, firsts, _thinned(draws), jnp.ones((), dtype))


_rehearsed: WeakKeyDictionary[GibbsPosterior, set[Any]] = WeakKeyDictionary()


def compared(draws: Float[np.ndarray, "datasets chains draws *dim"]) -> Float[np.ndarray, ...]:
    """One draw of each of the first chains: far apart, their directions independent."""
    return draws[:, :DRAWS_PER_DATASET, -1]


def _thinned(draws: Float[np.ndarray, "datasets chains draws dim"]) -> Float[np.ndarray, ...]:
    """Evenly spaced draws of every chain, about ``DRAWS_OF_SWAPS`` of a dataset in all."""
    return draws[:, :, :: max(1, draws.shape[1] * draws.shape[2] // DRAWS_OF_SWAPS)]


def _block_size(count: int) -> int:
    """Datasets whose draws are compared with all others at once."""
    return min(count, max(1, MAX_ENTRIES // (count * DRAWS_PER_DATASET)))


def _calls(count: int) -> Iterator[Int[np.ndarray, " datasets"]]:
    """Equal blocks of dataset indices that cover ``count``: one shape, one compilation."""
    size = min(DATASETS_PER_CALL, count)
    for start in range(0, count, size):
        yield np.arange(start, start + size)
