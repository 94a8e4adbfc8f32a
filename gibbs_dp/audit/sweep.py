"""The host loop of an audit: pilots, blocks of datasets, drift reruns and the stopping rule."""

from __future__ import annotations

from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gibbs_dp.audit.kept import Kept
from gibbs_dp.audit.optimum import population_optimum
from gibbs_dp.audit.pilot import (
    MAX_BURN_IN,
    NUM_PAIRS,
    Tuned,
    is_drifting,
    keep,
    kept_datasets,
    tune,
)
from gibbs_dp.audit.plan import Inputs, Plan, Summary
from gibbs_dp.audit.progress import Progress
from gibbs_dp.audit.runner import Job, Runner, concatenate
from gibbs_dp.audit.settings import Settings
from gibbs_dp.estimators import Average, average
from gibbs_dp.sampling.diagnostics import pool
from gibbs_dp.sampling.grid import Grid

# The stopping rule reads a standard error, which is itself too noisy before this many datasets.
MIN_DATASETS_TO_STOP = 256
MAX_RERUNS = 2


@dataclass
class Track:
    """Everything known about one gamma so far."""

    gamma: float
    tuned: Tuned
    plan: Plan
    target: int
    blocks: dict[int, Summary] = field(default_factory=dict)
    kept: dict[int, Kept] = field(default_factory=dict)
    num_reruns: int = 0
    missed_rel_error: bool = False

    def summary(self) -> Summary | None:
        """Completed datasets, in order, up to the first block that is missing."""
        parts = []
        size = 0
        while size in self.blocks:
            part = self.blocks[size]
            parts.append(part)
            size += part.kl_direct.shape[0]
        return concatenate(parts, min(size, self.target)) if parts else None

    def draws(self, count: int) -> Kept | None:
        """Draws and normalizers of the first ``count`` datasets; None unless all are there."""
        parts = [self.kept[first] for first in sorted(self.kept)]
        return concatenate(parts, count) if parts else None

    def kl(self) -> Average:
        """On-average KL over the datasets that did not fail."""
        summary = self.summary()
        assert summary is not None
        values = summary.kl_two_sided if self.tuned.is_two_sided else summary.kl_direct
        return average(np.asarray(values, np.float64), kept_datasets(summary))


class SweepInterruptedError(Exception):
    """Ctrl-C during a sweep; ``tracks`` hold the blocks that were finished."""

    def __init__(self, tracks: list[Track]) -> None:
        super().__init__("interrupted")
        self.tracks = tracks


def run_sweep(settings: Settings, progress: Progress) -> list[Track]:
    """Tune every gamma, then sample datasets until counts and ``rel_error`` are met.

    Raises
    ------
    SweepInterruptedError
        On Ctrl-C, with what was finished.
    ImproperPosteriorError
        If a posterior cannot be normalized.
    """
    runner = Runner(settings)
    tracks: list[Track] = []
    try:
        _tune_all(settings, runner, tracks, progress)
        pending = list(tracks)
        while pending:
            _run_missing(settings, runner, pending, progress)
            pending = [t for t in pending if _needs_more(settings, t)]
    except KeyboardInterrupt:
        raise SweepInterruptedError(tracks) from None
    return tracks


def _tune_all(settings: Settings, runner: Runner, tracks: list[Track], progress: Progress) -> None:
    """Pilots from the smallest gamma up, each starting from its neighbour's settings."""
    base = Plan(
        settings.n,
        settings.num_ghosts,
        settings.group_size,
        0,
        settings.num_chains,
        settings.num_samples,
        settings.num_proposals,
    )
    pairs = min(NUM_PAIRS, min(settings.n, settings.num_ghosts) // settings.group_size)
    guess: Inputs | None = None
    optimum = anchor = None
    for gamma in settings.gammas:
        progress.stage(f"tuning gamma={gamma:g}")
        tuned = tune(runner, gamma, base, guess)
        if optimum is None or anchor is None:
            key = jax.random.fold_in(settings.key, 2)
            start = tuned.inputs.reference
            found = population_optimum(
                settings.posterior,
                settings.population,
                settings.n,
                key,
                start,
                _candidates(settings),
            )
            optimum = jnp.asarray(found, start.dtype)
            anchor = jnp.where(jnp.all(jnp.isfinite(optimum)), optimum, start)
        if settings.estimator != "auto":
            tuned = tuned._replace(is_two_sided=settings.estimator == "two-sided")
        guess = tuned.inputs
        inputs = tuned.inputs._replace(optimum=optimum, anchor=anchor)
        tuned = tuned._replace(inputs=inputs)
        plan = base._replace(num_pairs=pairs if tuned.is_two_sided else 0)
        tracks.append(Track(gamma, tuned, plan, settings.num_datasets))
        progress.advance(1)


def _candidates(settings: Settings) -> Float[Array, "points dim"] | None:
    """Return the hypotheses of a finite class: the only parameters that compete for best."""
    kernel = settings.kernel
    if isinstance(kernel, Grid) and not kernel.is_lattice:
        return kernel.points(settings.posterior)
    return None


def _run_missing(
    settings: Settings, runner: Runner, tracks: list[Track], progress: Progress
) -> None:
    """Run the blocks that the tracks' targets still need, all gammas of a block together."""
    roots = jax.random.split(jax.random.fold_in(settings.key, 0), 2)
    size = settings.block_size
    last = max(t.target for t in tracks)
    jobs = runner.in_order(
        Job((i, first), roots, first, track.plan, track.tuned.inputs)
        for first in range(0, last, size)
        for i, track in enumerate(tracks)
        if first < track.target and first not in track.blocks
    )
    progress.stage("sampling")
    progress.expect(len(jobs))
    for job, (summary, kept) in runner.run(jobs):
        index, first = job.tag
        tracks[index].blocks[first] = summary
        if kept is not None and first < settings.num_information:
            tracks[index].kept[first] = kept
        progress.advance(1)


def _needs_more(settings: Settings, track: Track) -> bool:
    """Decide whether one gamma is finished; if not, say what it needs next."""
    summary = track.summary()
    assert summary is not None
    good = keep(summary)
    if good.kl_direct.shape[0] < 2:
        return False
    if not settings.is_exact and settings.num_warmup is None and track.num_reruns < MAX_RERUNS:
        pooled = pool(good.spread, settings.num_chains, settings.num_samples)
        schedule = track.tuned.inputs.schedule
        if is_drifting(pooled) and int(schedule.num_burn_in) < MAX_BURN_IN:
            longer = schedule._replace(num_burn_in=schedule.num_burn_in * 4)
            track.tuned = track.tuned._replace(inputs=track.tuned.inputs._replace(schedule=longer))
            track.blocks.clear()
            track.kept.clear()
            track.num_reruns += 1
            return True
    if settings.rel_error is None:
        return False
    estimate = track.kl()
    if track.target >= MIN_DATASETS_TO_STOP and estimate.se <= settings.rel_error * abs(
        estimate.value
    ):
        return False
    if track.target >= settings.max_datasets:
        track.missed_rel_error = True
        return False
    ratio = estimate.se / (settings.rel_error * max(abs(estimate.value), 1e-30))
    # Between 1.2 and 8 times as many: the error that this extrapolates is an estimate itself.
    wanted = track.target * float(np.clip(1.1 * ratio**2, 1.2, 8.0))
    wanted = max(wanted, MIN_DATASETS_TO_STOP)
    rounded = int(np.ceil(wanted / settings.block_size) * settings.block_size)
    track.target = min(rounded, settings.max_datasets)
    return True
