"""The M x M comparison at one gamma: every dataset's draws under every dataset's posterior."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int, PyTree

from gibbs_dp.audit.kept import Kept
from gibbs_dp.audit.pairs import first_examples, pair_losses, point_losses, swap_terms
from gibbs_dp.audit.settings import Settings
from gibbs_dp.audit.track import Track
from gibbs_dp.audit.workers import run_jobs
from gibbs_dp.estimators import ConsistencySums, Contrast, ContrastSums

# Draws of each dataset that all datasets are compared on.
DRAWS_PER_DATASET = 2
# Entries of the comparison held at once, however many datasets there are.
MAX_ENTRIES = 2**22
DATASETS_PER_CALL = 64

Table = Float[np.ndarray, "points datasets"]
Points = Float[np.ndarray, "points dim"]


class _Block(NamedTuple):
    """Draws of some datasets, padded to the shape of all blocks."""

    datasets: Int[np.ndarray, " owners"]
    points: Points
    owner: Int[np.ndarray, " points"]
    is_used: Bool[np.ndarray, " points"]


class _LossJob(NamedTuple):
    indices: Int[np.ndarray, " datasets"]
    points: Points


@dataclass
class Comparison:
    """Compares the datasets that did not fail, a block of draws at a time."""

    settings: Settings
    track: Track
    kept: Kept
    good: Bool[np.ndarray, " datasets"]

    @property
    def count(self) -> int:
        """Datasets, failed ones included."""
        return int(self.good.shape[0])

    def run(self) -> tuple[Contrast, Float[np.ndarray, " datasets"]]:
        """Information estimates, and corrections that made the log normalizers consistent."""
        blocks = list(self._blocks())
        checks = ConsistencySums(int(self.good.sum()))
        # One block is kept between the two passes; more are computed again.
        single = self._log_density(blocks[0]) if len(blocks) == 1 else None
        for block in blocks:
            table = self._log_density(block) if single is None else single
            checks.add(self._only_good(table, block))
        correction = np.zeros(self.count)
        se = np.asarray(self.kept.log_normalizer_se, np.float64)[self.good]
        correction[self.good] = checks.correction(se)
        column = np.cumsum(self.good) - 1  # among the datasets that did not fail
        sums = ContrastSums(int(self.good.sum()), DRAWS_PER_DATASET)
        for block in blocks:
            table = self._log_density(block) if single is None else single
            swap = self._log_swap(block) if self._has_individual else None
            sums.add(
                self._only_good(table - correction, block),
                column[block.owner[block.is_used]],
                None if swap is None else self._only_good(swap, block),
            )
        return sums.result(), correction

    def largest_spread(self) -> float | None:
        """Largest standard deviation, over datasets' first examples, of the loss at a draw."""
        if self.settings.posterior.structured:
            return None
        spreads = []
        for block in self._blocks():
            losses = point_losses(self.settings.posterior, self._firsts, block.points)
            spreads.append(self._only_good(np.asarray(losses, np.float64), block).std(axis=1))
        return float(np.concatenate(spreads).max())

    def _blocks(self) -> Iterator[_Block]:
        each = DRAWS_PER_DATASET
        size = min(self.count, max(1, MAX_ENTRIES // (self.count * each)))
        # One draw of each of the first chains: different chains are independent.
        draws = np.nan_to_num(self.kept.u[:, :each, -1])
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

    def _only_good(self, table: Table, block: _Block) -> Table:
        return table[block.is_used][:, self.good]

    @property
    def _has_individual(self) -> bool:
        posterior, population = self.settings.posterior, self.settings.population
        is_iid = not getattr(population, "is_dependent", False)
        return is_iid and not posterior.structured and self.track.tuned.estimator == "one-sided"

    @property
    def _root(self) -> Any:
        return jax.random.split(jax.random.fold_in(self.settings.key, 0), 2)[0]

    def _log_density(self, block: _Block) -> Table:
        """Log posterior density over prior density of every draw under every dataset."""
        s, anchor = self.settings, self.track.tuned.inputs.anchor
        out = np.empty((block.points.shape[0], self.count))

        def work(job: _LossJob, device: jax.Device) -> Any:
            arguments = (s.population, self._root, jnp.asarray(job.indices), anchor, job.points)
            return pair_losses(s.posterior, self.track.plan, *jax.device_put(arguments, device))

        jobs = [_LossJob(indices, block.points) for indices in _calls(self.count)]
        for job, losses in run_jobs(jobs, work):
            wanted = job.indices[job.indices < self.count]
            out[:, wanted] = losses[: wanted.size].T
        return -self.track.gamma * out - np.asarray(self.kept.log_normalizer, np.float64)

    @cached_property
    def _firsts(self) -> PyTree:
        """First example of every dataset."""
        s, plan = self.settings, self.track.plan
        parts = [
            first_examples(s.posterior, plan, s.population, self._root, jnp.asarray(indices))
            for indices in _calls(self.count)
        ]
        return jax.tree.map(lambda *a: jnp.concatenate(a)[: self.count], *parts)

    def _log_swap(self, block: _Block) -> Table:
        """Log density gained when ``Z_k``'s first example becomes that of a draw's own dataset."""
        posterior, gamma = self.settings.posterior, self.track.gamma
        at_firsts = np.asarray(point_losses(posterior, self._firsts, block.points), np.float64)
        mine = at_firsts[np.arange(block.points.shape[0]), block.owner][:, None]
        ratio = np.repeat(self._log_ratio(block), DRAWS_PER_DATASET, axis=1)
        return -gamma * (mine - at_firsts) - ratio.T

    def _log_ratio(self, block: _Block) -> Float[np.ndarray, "datasets owners"]:
        """Log normalizers with the first example swapped for an owner's, minus those without."""
        gamma = self.track.tuned.inputs.gamma
        others = jax.tree.map(lambda a: a[block.datasets], self._firsts)
        parts = []
        for indices in _calls(self.count):
            rows = np.minimum(indices, self.count - 1)
            own = jax.tree.map(lambda a, rows=rows: a[rows], self._firsts)
            draws = jnp.asarray(np.nan_to_num(self.kept.u[rows]))
            found = swap_terms(self.settings.posterior, others, own, draws, gamma)
            parts.append(np.asarray(found, np.float64))
        return np.concatenate(parts)[: self.count]


def _calls(count: int) -> Iterator[Int[np.ndarray, " datasets"]]:
    """Equal blocks of dataset indices that cover ``count``: one shape, one compilation."""
    size = min(DATASETS_PER_CALL, count)
    for start in range(0, count, size):
        yield np.arange(start, start + size)
