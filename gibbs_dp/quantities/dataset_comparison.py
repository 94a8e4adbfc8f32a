"""Datasets compared with each other, and the bounds of mutual information that follow."""

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

from gibbs_dp._jaxlib.devices import devices, on_device
from gibbs_dp.engine.datasets import Stream, root, run_once
from gibbs_dp.engine.executor import run_jobs
from gibbs_dp.engine.plan import AuditSpec
from gibbs_dp.engine.view import Explored, GammaResult, is_believed
from gibbs_dp.estimators import (
    Average,
    Baseline,
    ConsistencySums,
    Contrast,
    ContrastSums,
    Halves,
    average,
    crossed,
    fold_of,
    halves,
    integrate_mean_loss,
    is_tame,
)
from gibbs_dp.estimators.table_sums import (
    CACHED_ENTRIES,
    DensityTable,
    Layout,
    Swaps,
    consistency_sums,
    contrast_sums,
    layout_of,
    rows_at_once,
)
from gibbs_dp.quantities.dataset_losses import (
    GRID_DRAWS,
    Kept,
    Summaries,
    SwapSums,
    has_statistics,
    is_resolved,
    log_priors,
    pair_losses,
    point_losses,
    quadratic_losses,
    summarize,
    swap_terms,
)

# The M x M comparison at one gamma: every dataset's draws under every dataset's posterior.

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
# Losses that a rehearsal of the comparison may compute: some tenths of a second.
MOST_REHEARSED = 2**25

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

    def __init__(self, settings: AuditSpec, anchor: Float[Array, " dim"], count: int) -> None:
        self.settings, self.anchor, self.count = settings, anchor, count
        self.plan = settings.plan
        self._lock = threading.Lock()
        self._found: Summaries | None = None

    @property
    def root(self) -> Any:
        """Key that datasets come from."""
        return root(self.settings.key, Stream.MAIN)

    def summaries(self) -> Summaries:
        """First example and statistics of every dataset."""
        with self._lock:
            if self._found is None:
                self._found = summarize(
                    *self._source(), np.arange(self.count, dtype=np.int32), self.anchor
                )
            return self._found

    def losses(self, points: Points, datasets: Int[np.ndarray, " columns"]) -> Losses:
        """Total loss of datasets at every point, less that at the anchor; left on the device."""
        known, posterior = self.summaries().statistics, self.settings.posterior
        if known is None or not is_resolved(posterior, known, self.anchor, points):
            return on_device(self._all_losses(points)[:, datasets])
        return on_device(quadratic_losses(posterior, known, self.anchor, points, datasets))

    def rehearse(self, points: Points, datasets: Int[np.ndarray, " columns"]) -> Losses | None:
        """Run what :meth:`losses` runs, once, in this thread; None where even that takes long."""
        posterior = self.settings.posterior
        if has_statistics(posterior):
            return self.losses(points, datasets)
        indices = next(_calls(self.count))
        if indices.size * points.shape[0] * self.plan.n > MOST_REHEARSED:
            return None
        self.summaries()
        self._some_losses(points, indices, devices()[0])
        return on_device(np.zeros((points.shape[0], datasets.size), points.dtype))

    def _source(self) -> tuple[Any, ...]:
        return self.settings.posterior, self.plan, self.settings.population, self.root

    def _some_losses(
        self, points: Points, indices: Int[np.ndarray, " datasets"], device: jax.Device
    ) -> Losses:
        posterior, plan, *source = self._source()
        arguments = (*source, on_device(indices), self.anchor, points)
        found: Losses = pair_losses(posterior, plan, *jax.device_put(arguments, device))
        return found

    def _all_losses(self, points: Points) -> Float[np.ndarray, "points datasets"]:
        out = np.empty((points.shape[0], self.count), points.dtype)

        def work(indices: Int[np.ndarray, " datasets"], device: jax.Device) -> Any:
            return self._some_losses(points, indices, device)

        for indices, losses in run_jobs(_calls(self.count), work):
            wanted = indices[indices < self.count]
            out[:, wanted] = losses[:, : wanted.size]
        return out


@dataclass
class DatasetComparison:
    """Compares the datasets that did not fail, a block of draws at a time."""

    settings: AuditSpec
    result: GammaResult
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
    ) -> tuple[Float[np.ndarray, " datasets"], DensityTable | None]:
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
            firsts, everyone = self.shared.summaries().first, np.arange(self.count)
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
        return _may_swap(self.settings) and self.result.tuned.estimator == "one-sided"

    @cached_property
    def layout(self) -> Layout:
        """Columns of the tables."""
        return layout_of(self.good)

    def table(self, block: Block, level: Float[np.ndarray, " datasets"]) -> DensityTable:
        """Log posterior density over prior density of every draw under every dataset."""
        column = np.zeros(self.count, np.int32)
        column[self.good] = self.layout.position
        losses = self.shared.losses(block.points, self.layout.datasets)
        return DensityTable(
            losses,
            on_device(column[block.owner]),
            on_device(block.is_used),
            self._levels(level),
            on_device(self.layout.is_used),
            on_device(np.asarray(self.result.gamma, losses.dtype)),
        )

    def _levels(self, level: Float[np.ndarray, " datasets"]) -> Float[Array, " columns"]:
        # Only differences count; centred, single precision keeps them.
        centred = np.where(self.good, level, 0.0) - level[self.good].mean()
        return on_device(centred[self.layout.datasets].astype(jnp.result_type(float)))

    def swaps(self, block: Block) -> Swaps:
        """Log density gained when ``Z_k``'s first example becomes that of a draw's own dataset."""
        posterior, datasets = self.settings.posterior, self.layout.datasets
        firsts = self.shared.summaries().first
        losses = point_losses(posterior, firsts, datasets, block.points)
        points = self.settings.sampler.points(posterior)
        if points is not None and points.shape[0] * self.count**2 <= MAX_TERMS:
            gain = on_device(
                self._exact_gain(block.datasets, np.asarray(points)).astype(losses.dtype)
            )
            return Swaps(losses, gain)
        gamma, nodes, weight = self.result.tuned.inputs.gamma, self.kept.nodes, None
        if nodes is None:
            draws = np.nan_to_num(thinned(np.asarray(self.kept.u))[datasets])
        else:
            draws = np.nan_to_num(np.asarray(nodes.u)[datasets, None])
            weight = np.nan_to_num(np.asarray(nodes.weight)[datasets])
        gain = swap_terms(posterior, firsts, block.datasets, datasets, draws, gamma, weight)
        return Swaps(losses, gain)

    def _exact_gain(
        self, owners: Int[np.ndarray, " owners"], points: Points
    ) -> Float[np.ndarray, "owners columns"]:
        """Take sums over all points: draws miss the few that a swapped example likes."""
        posterior, datasets = self.settings.posterior, self.layout.datasets
        firsts = self.shared.summaries().first
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


def _may_swap(settings: AuditSpec) -> bool:
    """Whether examples have losses of their own, and nothing to do with each other."""
    return not (settings.posterior.structured or settings.population.is_dependent)


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


# What comparisons of datasets run, compiled ahead of them.


def rehearse(settings: AuditSpec, count: int) -> None:
    """Run what comparisons of datasets run on blank numbers, once: it is compiled then.

    Meant for a core that would wait for the first block's compilation.
    """
    if count == 0:
        return
    which = "comparisons", settings.plan, count, settings.num_draws, settings.sampler
    run_once(lambda: _run_blank(settings, count), settings.posterior, settings.population, *which)


def _run_blank(settings: AuditSpec, count: int) -> None:
    dim, dtype, size = settings.posterior.dim, jnp.result_type(float), block_size(count)
    shared = Shared(settings, on_device(np.zeros(dim, dtype)), count)
    points = np.zeros((size * DRAWS_PER_DATASET, dim), dtype)
    datasets = layout_of(np.ones(count, bool)).datasets
    losses = shared.rehearse(points, datasets)
    if losses is None:
        return
    one = on_device(np.ones((), dtype))
    table = DensityTable(
        losses=losses,
        own=on_device(np.zeros(points.shape[0], np.int32)),
        is_draw=on_device(np.ones(points.shape[0], bool)),
        level=on_device(np.zeros(datasets.size, dtype)),
        is_used=on_device(np.ones(datasets.size, bool)),
        gamma=one,
    )
    consistency_sums(table)
    contrast_sums(table, _blank_swaps(shared, points, datasets, np.arange(size) % count))


def _blank_swaps(
    shared: Shared,
    points: Float[np.ndarray, "points dim"],
    datasets: Int[np.ndarray, " columns"],
    owners: Int[np.ndarray, " owners"],
) -> Swaps | None:
    """Run what swaps of single examples run, where there are any."""
    settings, posterior = shared.settings, shared.settings.posterior
    if not _may_swap(settings):
        return None
    traits, dim = settings.sampler.traits, points.shape[1]
    firsts, one = shared.summaries().first, on_device(np.ones((), points.dtype))
    losses = point_losses(posterior, firsts, datasets, points)
    if traits.is_exact and not traits.is_local:  # sums over all points, by matrix products
        return Swaps(losses, on_device(np.zeros((owners.size, datasets.size), points.dtype)))
    weight = None
    if traits.is_exact:
        each, weight = (1, settings.num_samples), np.ones((datasets.size, settings.num_samples))
        weight = weight.astype(points.dtype)
    elif traits.is_path:
        each = GRID_DRAWS
    else:
        each = (settings.num_chains, settings.num_samples)
    draws = np.zeros((datasets.size, *each, dim), points.dtype)
    given = draws if traits.is_exact else thinned(draws)
    return Swaps(losses, swap_terms(posterior, firsts, owners, datasets, given, one, weight))


# Mutual information of a sweep, from kept draws and normalizers.

# Fewest datasets that say anything.
MIN_INFORMATION = 32


class Information(NamedTuple):
    """Information estimates of one gamma, over the datasets that did not fail."""

    contrast: Contrast  # what the posteriors say about each other's draws
    gaussian: Halves | None  # variational upper bound with a Gaussian marginal; None on a grid
    # The same with a mixture of Gaussians; None where it was not worth fitting.
    mixture: Halves | None
    # Thermodynamic integration minus bridge sampling, mean over datasets; None at the gamma that
    # anchors the integration.
    normalizer_gap: Average | None
    normalizer_gap_limit: float  # difference that the spacing of the grid of gammas may cause
    normalizer_se: float  # root mean square standard error of a dataset's bridge sampling
    poor_overlap: float  # share of datasets on which proposal and posterior hardly overlap
    # Largest standard deviation over examples of the loss at a draw; where it was asked for.
    largest_spread: float | None


POOR_OVERLAP = 0.1


def compare_all(sweep: Explored, count: int, with_spread: bool) -> list[Information | None]:
    """Estimate the information of every gamma; None where draws are missing or too few.

    With an archive, estimates are kept in it, and each process makes those of its own gammas.
    """
    settings, results = sweep.settings, sweep.results
    draws = [r.kept_of("mutual_information") for r in results]
    present = [d for d in draws if d is not None and d.u.shape[0] == count]
    if len(present) < len(results) or count < MIN_INFORMATION:
        return [None] * len(results)
    good = np.stack([usable(r, d) for r, d in zip(results, present, strict=True)])
    gaps = _normalizer_gaps([r.gamma for r in results], present, good)
    shared = Shared(settings, on_device(results[0].tuned.inputs.anchor), count)
    found = sweep.find(
        Information,
        _stored_name(settings, count, with_spread),
        [bool(g.sum() >= MIN_INFORMATION) for g in good],
        lambda i: _information(settings, results[i], present[i], good[i], shared, with_spread),
    )
    pairs = zip(found, gaps, strict=True)
    return [
        None if f is None else f._replace(normalizer_gap=gap, normalizer_gap_limit=limit)
        for f, (gap, limit) in pairs
    ]


def _stored_name(settings: AuditSpec, count: int, with_spread: bool) -> str:
    """Name of a finding in a store: another one for estimates that are made in another way."""
    route = "-exact-swaps" if settings.is_exact and not settings.sampler.traits.is_local else ""
    return f"information-corrected-{count}{route}{'-with-spread' if with_spread else ''}"


def usable(result: GammaResult, kept: Kept) -> Bool[np.ndarray, " datasets"]:
    """Datasets that did not fail and whose normalizer is known."""
    good = is_believed(result.summary)[: kept.u.shape[0]]
    return good & np.isfinite(kept.log_normalizer) & np.isfinite(kept.u).all(axis=(1, 2, 3))


def _information(
    settings: AuditSpec,
    result: GammaResult,
    kept: Kept,
    good: Bool[np.ndarray, " datasets"],
    shared: Shared,
    with_spread: bool,
) -> Information:
    """Estimate all but what takes several gammas."""
    comparison = DatasetComparison(settings, result, kept, good, shared)
    sums, correction = comparison.run()
    if settings.is_exact and not settings.sampler.traits.is_local:
        contrast, gaussian, mixture = sums.result(), None, None
    else:
        contrast, gaussian, mixture = _variational(kept, good, correction, sums)
    return Information(
        contrast=contrast,
        gaussian=gaussian,
        mixture=mixture,
        normalizer_gap=None,
        normalizer_gap_limit=0.0,
        normalizer_se=float(np.sqrt(np.mean(kept.log_normalizer_se[good].astype(float) ** 2))),
        poor_overlap=float(np.mean(kept.overlap[good] < POOR_OVERLAP)),
        largest_spread=comparison.largest_spread() if with_spread else None,
    )


class _Above(NamedTuple):
    """``log p(theta | Z) / r(theta)`` at all draws, for a density ``r`` from other datasets."""

    log_ratio: Float[np.ndarray, "datasets chains draws"]

    def bound(self) -> Halves:
        """Mean, less noisy by its control variate ``r / p - 1``."""
        values, control = self._means(self.log_ratio)
        fold = fold_of(values.shape[0])
        draws = self.log_ratio[0].size
        used = crossed(values, control, fold, -self.log_ratio.ravel(), np.repeat(fold, draws))
        return halves(used, fold)

    def baseline(self) -> Baseline:
        """Return what all draws say beyond the few that datasets are compared on."""
        fold = fold_of(self.log_ratio.shape[0])
        value, control = self._means(self.log_ratio)
        few, few_control = self._means(compared(self.log_ratio))
        tame = [is_tame(-self.log_ratio[fold == half].ravel()) for half in (0, 1)]
        return Baseline(value - few, control - few_control, (tame[0], tame[1]))

    def _means(
        self, log_ratio: Float[np.ndarray, "datasets ..."]
    ) -> tuple[Float[np.ndarray, " datasets"], Float[np.ndarray, " datasets"]]:
        flat = log_ratio.reshape(log_ratio.shape[0], -1)
        return flat.mean(axis=1), np.expm1(np.minimum(-flat, 50.0)).mean(axis=1)


# A mixture is fitted where the other bounds leave this much of the information open.
_WORTH_NATS, _WORTH_SHARE = 0.01, 0.05


def _variational(
    kept: Kept,
    good: Bool[np.ndarray, " datasets"],
    correction: Float[np.ndarray, " datasets"],
    sums: ContrastSums,
) -> tuple[Contrast, Halves, Halves | None]:
    from gibbs_dp.estimators.mutual_information import (
        cross_fitted_gaussian,
        cross_fitted_mixture,
        looks_gaussian,
    )

    u = np.asarray(kept.u, np.float64)[good]
    points = u.reshape(u.shape[0], -1, u.shape[-1])
    own = np.asarray(kept.log_density, np.float64)[good] - correction[good][:, None, None]
    above = _Above(own - cross_fitted_gaussian(points).reshape(own.shape))
    contrast, gaussian = sums.result(above.baseline()), above.bound()
    best = min(gaussian.value, contrast.upper.value)
    is_known = best - contrast.lower.value <= max(_WORTH_NATS, _WORTH_SHARE * best)
    if is_known or looks_gaussian(points):  # a mixture of few would be no better
        return contrast, gaussian, None
    mixture = _Above(own - cross_fitted_mixture(points).reshape(own.shape))
    return contrast, gaussian, mixture.bound()


def _normalizer_gaps(
    grid: list[float], kept: list[Kept], good: Bool[np.ndarray, "gammas datasets"]
) -> list[tuple[Average | None, float]]:
    """Compare bridge sampling with integration from the smallest gamma up."""
    all_good = good.all(axis=0)
    gaps: list[tuple[Average | None, float]] = [(None, 0.0)] * len(grid)
    if len(grid) < 2 or all_good.sum() < MIN_INFORMATION:
        return gaps

    def stack(name: str) -> Float[np.ndarray, "datasets gammas"]:
        return np.stack([getattr(k, name)[all_good] for k in kept], axis=1).astype(np.float64)

    integral = integrate_mean_loss(np.array(grid), stack("mean_loss"), stack("loss_variance"))
    bridged = stack("log_normalizer")
    integrated = bridged[:, :1] + np.cumsum(integral.value, axis=1)
    limits = np.cumsum(integral.quadrature_error.mean(axis=0))
    for j in range(1, len(grid)):
        gaps[j] = average(integrated[:, j - 1] - bridged[:, j]), float(limits[j - 1])
    return gaps
