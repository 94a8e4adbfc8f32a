"""The M x M comparison at one gamma: every dataset's draws under every dataset's posterior."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from gibbs_dp._jaxlib.compile import on_default_backend
from gibbs_dp.engine.datasets import Stream, roots
from gibbs_dp.engine.executor import run_jobs
from gibbs_dp.engine.plan import Asked
from gibbs_dp.engine.view import Result
from gibbs_dp.estimators import ConsistencySums, ContrastSums
from gibbs_dp.estimators.table_sums import (
    CACHED_ENTRIES,
    Layout,
    Swaps,
    Table,
    layout_of,
    rows_at_once,
)
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.quantities.mutual_information.kept import Kept
from gibbs_dp.quantities.mutual_information.tables import (
    Look,
    is_resolved,
    look_at,
    pair_losses,
    point_losses,
    quadratic_losses,
    swap_terms,
)

# What swapping one example does to the normalizer of a posterior that is a sum over points.

# A product of sums that is smaller has lost terms to underflow.
_LEAST = 1e-250
# Pairs summed term by term at once.
_PAIRS = 4096


class SwapSums:
    """``log C(Z_k with its first example replaced by z_m) - log C(Z_k)``, over points in parts.

    The sum over points of ``exp(a_k(t) + b_m(t))``, ``a_k`` the log posterior without the first
    example and ``b_m`` the new one's log likelihood, is a matrix product of exponentials. Where
    all terms underflow, as they do where the two peak far apart, a pair's are summed by themselves.

    Parameters
    ----------
    others, datasets
        Examples to put in, and datasets to put them into.
    """

    def __init__(self, others: int, datasets: int) -> None:
        self._swapped = np.full((others, datasets), -np.inf)
        self._own = np.full(datasets, -np.inf)

    def add(
        self,
        log_weight: Float[np.ndarray, "points datasets"],
        first: Float[np.ndarray, "points datasets"],
        other: Float[np.ndarray, "points others"],
    ) -> None:
        """Add points.

        Parameters
        ----------
        log_weight
            Unnormalized log posterior of every dataset.
        first, other
            Gamma times the loss of the datasets' first examples, and of those to put in.
        """
        self._own = np.logaddexp(self._own, np.logaddexp.reduce(log_weight, axis=0))
        self._swapped = np.logaddexp(self._swapped, _log_product(log_weight + first, -other))

    def result(self) -> Float[np.ndarray, "others datasets"]:
        """Log ratios of the normalizers."""
        return self._swapped - self._own


def _log_product(
    a: Float[np.ndarray, "points datasets"], b: Float[np.ndarray, "points others"]
) -> Float[np.ndarray, "others datasets"]:
    """``log sum_t exp(a_tk + b_tm)``."""
    top_a, top_b = a.max(axis=0), b.max(axis=0)
    sums = np.exp(b - top_b).T @ np.exp(a - top_a)
    lost = np.argwhere(sums < _LEAST)
    with np.errstate(divide="ignore"):
        found = np.log(sums) + top_b[:, None] + top_a
    for start in range(0, len(lost), _PAIRS):
        m, k = lost[start : start + _PAIRS].T
        found[m, k] = np.logaddexp.reduce(a[:, k] + b[:, m], axis=0)
    return np.asarray(found)


def _log_priors(
    posterior: GibbsPosterior, points: Float[Array, "points dim"]
) -> Float[Array, " points"]:
    """Log prior density of theta at points in flat coordinates."""
    return jax.vmap(lambda u: posterior.prior.log_prob(posterior.constrain(u)))(points)


log_priors = on_default_backend(_log_priors, "posterior")


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
DATASETS_PER_CALL = 64

Points = Float[np.ndarray, "points dim"]
Losses = Float[Array, "points columns"]


class Block(NamedTuple):
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

    def losses(self, points: Points, datasets: Int[np.ndarray, " columns"]) -> Losses:
        """Total loss of datasets at every point, less that at the anchor; left on the device."""
        known, posterior = self.look().statistics, self.settings.posterior
        if known is None or not is_resolved(posterior, known, self.anchor, points):
            return self._all_losses(points)[:, datasets]
        return jnp.asarray(quadratic_losses(posterior, known, self.anchor, points, datasets))

    def _source(self) -> tuple[Any, ...]:
        return self.settings.posterior, self.plan, self.settings.population, self.root

    def _all_losses(self, points: Points) -> Losses:
        posterior, plan, *source = self._source()
        out = np.empty((points.shape[0], self.count), points.dtype)

        def work(indices: Int[np.ndarray, " datasets"], device: jax.Device) -> Any:
            arguments = (*source, jnp.asarray(indices), self.anchor, points)
            return pair_losses(posterior, plan, *jax.device_put(arguments, device))

        for indices, losses in run_jobs(_calls(self.count), work):
            wanted = indices[indices < self.count]
            out[:, wanted] = losses[:, : wanted.size]
        return jnp.asarray(out)


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
        blocks = list(self.blocks())
        correction, single = self.consistent(blocks)
        level = np.asarray(self.kept.log_normalizer, np.float64)
        sums = ContrastSums(self.layout, DRAWS_PER_DATASET)
        for block in blocks:
            table = single._replace(level=self._levels(level + correction)) if single else None
            swaps = self.swaps(block) if self._has_individual else None
            sums.add(table or self.table(block, level + correction), swaps)
        return sums, correction

    def consistent(
        self, blocks: list[Block]
    ) -> tuple[Float[np.ndarray, " datasets"], Table | None]:
        """Find what to add to log normalizers; with the table where there is but one block."""
        level = np.asarray(self.kept.log_normalizer, np.float64)
        checks = ConsistencySums(self.layout)
        # One block is kept between the two passes; more are computed again.
        single = self.table(blocks[0], level) if len(blocks) == 1 else None
        for block in blocks:
            checks.add(single or self.table(block, level))
        correction = np.zeros(self.count)
        se = np.asarray(self.kept.log_normalizer_se, np.float64)[self.good]
        correction[self.good] = checks.correction(se)
        return correction, single

    def largest_spread(self) -> float | None:
        """Largest standard deviation, over datasets' first examples, of the loss at a draw."""
        if self.settings.posterior.structured:
            return None
        spreads = []
        for block in self.blocks():
            firsts, everyone = self.shared.look().first, np.arange(self.count)
            losses = point_losses(self.settings.posterior, firsts, everyone, block.points)
            good = self._only_good(np.asarray(losses, np.float64), block.is_used)
            spreads.append(good.std(axis=1))
        return float(np.concatenate(spreads).max())

    def blocks(self) -> Iterator[Block]:
        """Draws that datasets are compared on, in parts."""
        each = DRAWS_PER_DATASET
        size = block_size(self.count)
        draws = np.nan_to_num(compared(np.asarray(self.kept.u)))
        for start in range(0, self.count, size):
            wanted = np.arange(start, start + size)
            datasets = np.minimum(wanted, self.count - 1)
            is_used = (wanted < self.count) & self.good[datasets]
            yield Block(
                datasets,
                draws[datasets].reshape(size * each, -1),
                np.repeat(datasets, each),
                np.repeat(is_used, each),
            )

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

    @cached_property
    def layout(self) -> Layout:
        """Columns of the tables."""
        return layout_of(self.good)

    def table(self, block: Block, level: Float[np.ndarray, " datasets"]) -> Table:
        """Log posterior density over prior density of every draw under every dataset."""
        column = np.zeros(self.count, np.int32)
        column[self.good] = self.layout.position
        losses = self.shared.losses(block.points, self.layout.datasets)
        return Table(
            losses,
            jnp.asarray(column[block.owner]),
            jnp.asarray(block.is_used),
            self._levels(level),
            jnp.asarray(self.layout.is_used),
            jnp.asarray(self.result.gamma, losses.dtype),
        )

    def _levels(self, level: Float[np.ndarray, " datasets"]) -> Float[Array, " columns"]:
        # Only differences count; centred, single precision keeps them.
        centred = np.where(self.good, level, 0.0) - level[self.good].mean()
        return jnp.asarray(centred[self.layout.datasets], jnp.zeros(()).dtype)

    def swaps(self, block: Block) -> Swaps:
        """Log density gained when ``Z_k``'s first example becomes that of a draw's own dataset."""
        posterior, datasets = self.settings.posterior, self.layout.datasets
        firsts = self.shared.look().first
        losses = point_losses(posterior, firsts, datasets, block.points)
        points = self.settings.sampler.points(posterior)
        if points is not None and points.shape[0] * self.count**2 <= MAX_TERMS:
            gain = jnp.asarray(self._exact_gain(block.datasets, np.asarray(points)), losses.dtype)
            return Swaps(losses, gain)
        draws = np.nan_to_num(thinned(np.asarray(self.kept.u))[datasets])
        gamma = self.result.tuned.inputs.gamma
        gain = swap_terms(posterior, firsts, block.datasets, datasets, draws, gamma)
        return Swaps(losses, gain)

    def _exact_gain(
        self, owners: Int[np.ndarray, " owners"], points: Points
    ) -> Float[np.ndarray, "owners columns"]:
        """Take sums over all points: draws miss the few that a swapped example likes."""
        posterior, datasets = self.settings.posterior, self.layout.datasets
        firsts = self.shared.look().first
        sums, gamma = SwapSums(owners.size, datasets.size), self.result.gamma
        rows = max(1, CACHED_ENTRIES // datasets.size)
        for start in range(0, points.shape[0], rows):
            part = points[start : start + rows]
            weight = -gamma * np.asarray(self.shared.losses(part, datasets), np.float64)
            weight += np.asarray(log_priors(posterior, part), np.float64)[:, None]
            losses, swapped = (
                gamma * np.asarray(point_losses(posterior, firsts, of, part), np.float64)
                for of in (datasets, owners)
            )
            sums.add(weight, losses, swapped)
        return sums.result()


def compared(draws: Float[np.ndarray, "datasets chains draws *dim"]) -> Float[np.ndarray, ...]:
    """One draw of each of the first chains: far apart, their directions independent."""
    return draws[:, :DRAWS_PER_DATASET, -1]


def thinned(draws: Float[np.ndarray, "datasets chains draws dim"]) -> Float[np.ndarray, ...]:
    """Evenly spaced draws of every chain, about ``DRAWS_OF_SWAPS`` of a dataset in all."""
    return draws[:, :, :: max(1, draws.shape[1] * draws.shape[2] // DRAWS_OF_SWAPS)]


def block_size(count: int) -> int:
    """Datasets whose draws are compared with all others at once: a chunk, or whole chunks."""
    most = min(count, max(1, MAX_ENTRIES // (count * DRAWS_PER_DATASET)))
    step = rows_at_once(layout_of(np.ones(count, bool)).datasets.size) // DRAWS_PER_DATASET
    return most if most <= step else -(-most // step) * step


def _calls(count: int) -> Iterator[Int[np.ndarray, " datasets"]]:
    """Equal blocks of dataset indices that cover ``count``: one shape, one compilation."""
    size = min(DATASETS_PER_CALL, count)
    for start in range(0, count, size):
        yield np.arange(start, start + size)
