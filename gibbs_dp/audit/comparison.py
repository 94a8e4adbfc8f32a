"""The M x M comparison at one gamma: every dataset's draws under every dataset's posterior."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int, PyTree

from gibbs_dp.audit.kept import Kept
from gibbs_dp.audit.pairs import first_examples, pair_losses, point_losses, swap_terms
from gibbs_dp.audit.settings import Settings
from gibbs_dp.audit.sweep import Track
from gibbs_dp.audit.workers import run_jobs
from gibbs_dp.estimators import Contrast, ContrastSums

# Draws of each dataset that all datasets are compared on.
DRAWS_PER_DATASET = 2
# Entries of the comparison held at once.
MAX_ENTRIES = 2**22
DATASETS_PER_CALL = 64


class _LossJob(NamedTuple):
    tag: int
    indices: Int[np.ndarray, " datasets"]
    points: Float[np.ndarray, "points dim"]


@dataclass
class Comparison:
    """The M x M comparison at one gamma."""

    settings: Settings
    track: Track
    kept: Kept
    good: Bool[np.ndarray, " datasets"]

    def contrast(self) -> Contrast:
        """Compare all datasets, a block of draws at a time."""
        count, each = self.kept.u.shape[0], DRAWS_PER_DATASET
        column = np.cumsum(self.good) - 1  # among the datasets that did not fail
        sums = ContrastSums(int(self.good.sum()), each)
        points = self._points()
        owner = np.repeat(np.arange(count), each)
        firsts = self._firsts() if self._has_individual else None
        step = each * max(1, MAX_ENTRIES // (count * each))
        for start in range(0, count * each, step):
            rows = slice(start, min(start + step, count * each))
            log_density = self._log_density(points[rows])
            mine = self.good[owner[rows]]
            swap = None
            if firsts is not None:
                swap = self._log_swap(firsts, points[rows], owner[rows])[mine][:, self.good]
            sums.add(log_density[mine][:, self.good], column[owner[rows]][mine], swap)
        return sums.result()

    def largest_spread(self) -> float | None:
        """Largest standard deviation, over datasets' first examples, of the loss at a draw."""
        if self.settings.posterior.structured:
            return None
        program, firsts = point_losses, self._firsts()
        losses = np.asarray(program(self.settings.posterior, firsts, self._points()), np.float64)
        return float(
            losses[np.repeat(self.good, DRAWS_PER_DATASET)][:, self.good].std(axis=1).max()
        )

    def _points(self) -> Float[np.ndarray, "points dim"]:
        """One draw of each of the first chains of every dataset: chains are independent."""
        draws = self.kept.u[:, :DRAWS_PER_DATASET, -1]
        return np.nan_to_num(draws.reshape(-1, draws.shape[-1]))

    @property
    def _has_individual(self) -> bool:
        posterior, population = self.settings.posterior, self.settings.population
        is_iid = not getattr(population, "is_dependent", False)
        return is_iid and not posterior.structured and not self.track.tuned.is_two_sided

    def _root(self) -> Any:
        return jax.random.split(jax.random.fold_in(self.settings.key, 0), 2)[0]

    def _log_density(
        self, points: Float[np.ndarray, "points dim"]
    ) -> Float[np.ndarray, "points datasets"]:
        """Log posterior density over prior density of every point under every dataset."""
        s, count = self.settings, self.kept.u.shape[0]
        program, root = pair_losses, self._root()
        out = np.empty((points.shape[0], count))

        def work(job: _LossJob, device: jax.Device) -> Any:
            anchor = self.track.tuned.inputs.anchor
            arguments = (s.population, root, jnp.asarray(job.indices), anchor, job.points)
            return program(s.posterior, self.track.plan, *jax.device_put(arguments, device))

        jobs = [_LossJob(i, indices, points) for i, indices in _calls(count)]
        for job, losses in run_jobs(jobs, work):
            wanted = job.indices[job.indices < count]
            out[:, wanted] = losses[: wanted.size].T
        return -self.track.gamma * out - self.kept.log_normalizer.astype(np.float64)

    def _firsts(self) -> PyTree:
        s, count = self.settings, self.kept.u.shape[0]
        program, root = first_examples, self._root()
        parts = [
            program(s.posterior, self.track.plan, s.population, root, jnp.asarray(indices))
            for _, indices in _calls(count)
        ]
        return jax.tree.map(lambda *a: jnp.concatenate(a)[:count], *parts)

    def _log_swap(
        self,
        firsts: PyTree,
        points: Float[np.ndarray, "points dim"],
        owner: Int[np.ndarray, " points"],
    ) -> Float[np.ndarray, "points datasets"]:
        """Log density gained when ``Z_k``'s first example becomes that of a point's dataset."""
        s, gamma = self.settings, self.track.gamma
        at_firsts = np.asarray(point_losses(s.posterior, firsts, points), np.float64)
        ratio = self._log_ratio(firsts)
        rows = np.arange(points.shape[0])
        mine = at_firsts[rows, owner][:, None]
        return -gamma * (mine - at_firsts) - ratio[:, owner].T

    def _log_ratio(self, firsts: PyTree) -> Float[np.ndarray, "datasets others"]:
        s, count = self.settings, self.kept.u.shape[0]
        program = swap_terms
        gamma = self.track.tuned.inputs.gamma
        parts = []
        for _, indices in _calls(count):
            rows = np.minimum(indices, count - 1)
            own = jax.tree.map(lambda a, rows=rows: a[rows], firsts)
            draws = jnp.asarray(np.nan_to_num(self.kept.u[rows]))
            parts.append(np.asarray(program(s.posterior, firsts, own, draws, gamma), np.float64))
        return np.concatenate(parts)[:count]


def _calls(count: int) -> Iterator[tuple[int, Int[np.ndarray, " datasets"]]]:
    """Equal blocks of dataset indices that cover ``count``: one shape, one compilation."""
    size = min(DATASETS_PER_CALL, count)
    for start in range(0, count, size):
        yield start, np.arange(start, start + size)
