"""The host loop of a sweep: pilots, blocks of datasets, drift reruns and the stopping rule."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

import jax.numpy as jnp
import numpy as np
from threadpoolctl import ThreadpoolController

from gibbs_dp._jaxlib.compile import return_memory
from gibbs_dp._jaxlib.devices import on_device
from gibbs_dp._progress import Progress
from gibbs_dp.engine.datasets import Stream, roots
from gibbs_dp.engine.executor import Threads, Workers, background, in_threads, num_workers
from gibbs_dp.engine.pilots import MAX_BURN_IN, adapting
from gibbs_dp.engine.plan import Job
from gibbs_dp.engine.quantity import Settings
from gibbs_dp.engine.runner import Runner
from gibbs_dp.engine.store.archive import Archive, AuditIncomplete, Store, pilot_digest
from gibbs_dp.engine.track import Track
from gibbs_dp.engine.tuning import OriginSearch, tune_all, with_pairs
from gibbs_dp.engine.view import Block, Explored, GammaResult, believed, is_drifting
from gibbs_dp.estimators import Average
from gibbs_dp.sampling.diagnostics import pool
from gibbs_dp.sampling.modes import Modes, warn_of
from gibbs_dp.sampling.target import derivatives_named

# What a gamma needs next: the drift test, the estimator, and the stopping rule of ``rel_error``.
#
# Every gamma gets datasets in proportion to the relative variance of its own estimate, and those
# that meet ``rel_error`` get no more. All gammas use the datasets 0, 1, 2, ... in this order, so
# random numbers stay common to as many datasets as two gammas both have. The decision reads
# finished datasets only, in order: restarts and the number of processes do not change it.

# The stopping rule reads a standard error, which is itself too noisy before this many datasets.
MIN_DATASETS_TO_STOP = 256
MAX_RERUNS = 2
# Share of datasets with chains that are stuck, from where all are worth another run.
MOST_STUCK = 0.01
# Datasets of a run that is long beside the tenths of a second that freed memory takes to return.
LONG_RUN = 4096
# Spare datasets asked for, and limits of one extrapolation: its standard error is an estimate.
SPARE, LEAST_GROWTH, MOST_GROWTH = 1.1, 1.2, 8.0


def must_rerun(settings: Settings, track: Track) -> bool:
    """Whether the chains of one gamma drift and a longer burn-in may be tried."""
    if (
        settings.is_exact
        or settings.sampler.traits.is_path
        or settings.num_warmup is not None
        or track.num_reruns >= MAX_RERUNS
    ):
        return False
    if int(track.tuned.inputs.schedule.num_burn_in) >= MAX_BURN_IN:
        return False
    summary = track.summary()
    assert summary is not None
    good = believed(summary)
    if good.size < 2:
        return False
    return is_drifting(pool(good.health.spread, settings.num_chains, settings.num_samples))


def must_adapt(settings: Settings, track: Track) -> bool:
    """Whether chains of one gamma get stuck that pilots, none of which did, left as they were."""
    traits, schedule = settings.sampler.traits, track.tuned.inputs.schedule
    is_fixed = settings.is_exact or traits.is_path or traits.is_tuned or not traits.is_adjusted
    if is_fixed or int(schedule.num_adapt_rounds) or track.num_reruns >= MAX_RERUNS:
        return False
    summary = track.summary()
    assert summary is not None
    return float(np.mean(summary.health.is_stuck & ~summary.health.is_improper)) > MOST_STUCK


def other_estimator(settings: Settings, track: Track) -> str | None:
    """Estimator to take instead of the pilots' choice, where that fails on the datasets themselves.

    In skewed populations a few datasets hold the hard cases, and pilots may have none of them.
    """
    summary, leading = track.summary(), settings.leading
    assert summary is not None
    values = getattr(believed(summary).values, leading.name)
    return leading.reconsider(values, track.tuned.estimator, settings)


def extend(settings: Settings, track: Track) -> bool:
    """Raise the target of one gamma that misses ``rel_error``; False where it is finished."""
    if settings.rel_error is None:
        return False
    estimate = track.estimate()
    if estimate.num_datasets < 2:
        return False  # nothing but failures: the report says so
    target = next_target(estimate, track.target, settings.rel_error, settings.block_size)
    if target is None:
        return False
    if track.target >= settings.max_datasets:
        track.missed_rel_error = True
        return False
    track.target = min(target, settings.max_datasets)
    return True


def next_target(estimate: Average, target: int, rel_error: float, block_size: int) -> int | None:
    """Datasets that one gamma needs for its relative error; None where it has them.

    The standard error falls like one over the root of the number of datasets (Chow & Robbins
    1965: stopping when its estimate is small enough is valid as ``rel_error`` tends to 0).

    Examples
    --------
    >>> next_target(Average(1.0, 0.02, 1000), 1000, 0.02, 64) is None
    True
    >>> next_target(Average(1.0, 0.04, 1000), 1000, 0.02, 64)  # four times as many, and a tenth
    4416
    """
    if target >= MIN_DATASETS_TO_STOP and estimate.se <= rel_error * abs(estimate.value):
        return None
    ratio = estimate.se / (rel_error * max(abs(estimate.value), 1e-30))
    growth = min(max(SPARE * ratio**2, LEAST_GROWTH), MOST_GROWTH)
    wanted = max(target * growth, MIN_DATASETS_TO_STOP)
    return math.ceil(wanted / block_size) * block_size


class SweepInterruptedError(Exception):
    """Ctrl-C during a sweep; ``tracks`` hold the blocks that were finished."""

    def __init__(self, tracks: list[Track]) -> None:
        super().__init__("interrupted")
        self.tracks = tracks


class SeveralModesError(Exception):
    """Pilots found modes that chains do not pass between; ``modes`` are of the worst gamma."""

    def __init__(self, gamma: float, modes: Modes) -> None:
        super().__init__("several modes")
        self.gamma, self.modes = gamma, modes


class BeyondSumsError(Exception):
    """At some gamma a KL wants pairs of posteriors, which only chains have."""

    def __init__(self, gamma: float) -> None:
        super().__init__(f"gamma={gamma:g} wants pairs of posteriors")


@derivatives_named("audits need a loss that JAX can differentiate twice")
def run_sweep(
    settings: Settings,
    progress: Progress,
    archive: Archive | None = None,
    workers: Workers | None = None,
    is_tentative: bool = False,
) -> list[Track]:
    """Tune every gamma, then sample datasets until counts and ``rel_error`` are met.

    With an archive, what is in it is not computed again, and what is computed is put there.
    ``workers`` run the blocks, threads of this process by default. A sweep that ``is_tentative``
    stops where pilots or datasets show that another sampler is needed.
    """
    with _blas().limit(limits=1, user_api="blas"):
        return _swept(settings, progress, archive, workers or Threads(), is_tentative)


@cache
def _blas() -> Any:
    """Find NumPy's and SciPy's linear algebra, which takes a millisecond.

    OpenBLAS's threads spin for 50 ms after every call that they shared, as a search for one
    parameter is: on cores that are to sample.
    """
    return ThreadpoolController()


def _swept(
    settings: Settings,
    progress: Progress,
    archive: Archive | None,
    workers: Workers,
    is_tentative: bool,
) -> list[Track]:
    runner = Runner(settings, progress.compiling, workers)
    tracks: list[Track] = []
    search = OriginSearch(settings, archive.origin() if archive else None)
    # A store that knows the origin has been here: there may be nothing to compile beside.
    rehearsal = background(lambda: _rehearse(settings)) if search.known is None else None
    try:
        tune_all(settings, runner, tracks, search, progress, archive)
        if is_tentative:
            _stop_at_modes(tracks)
        controls = settings.leading.controls(settings, [track.tuned for track in tracks])
        for track in tracks:
            track.controls = controls
        pending = list(tracks)
        while pending:
            _run_missing(settings, runner, pending, progress, archive)
            if controls is not None:
                controls.make(max(track.target for track in pending))
            pending = [t for t in pending if _needs_more(runner, t, archive, is_tentative)]
        if rehearsal is not None:
            rehearsal.result()  # what it compiles is needed now
    except KeyboardInterrupt:
        raise SweepInterruptedError(tracks) from None
    return tracks


def explore(
    settings: Settings, tracks: Sequence[Track], progress: Progress, archive: Archive | None = None
) -> list[GammaResult]:
    """Collect a result for every gamma, with what quantities find in all of them together."""

    def find(
        kind: type, name: str, wanted: Sequence[bool], make: Callable[[int], Any]
    ) -> list[Any]:
        spec = [
            track if is_wanted else None for track, is_wanted in zip(tracks, wanted, strict=True)
        ]
        progress.stage(title)
        progress.expect(len(tracks))
        return find_all(archive, kind, name, spec, make, progress)

    results = [track.result() for track in tracks]
    sweep = Explored(settings, results, find)
    found = {}
    for quantity in settings.quantities:
        title = quantity.name.replace("_", " ")
        found[quantity.name] = quantity.explore(sweep)
    return [
        replace(result, found={name: each[i] for name, each in found.items()})
        for i, result in enumerate(results)
    ]


def _stop_at_modes(tracks: Sequence[Track]) -> None:
    found = [track for track in tracks if warn_of(track.tuned.modes)]
    if found:
        worst = max(found, key=lambda track: track.tuned.modes.share_of_datasets)
        raise SeveralModesError(worst.gamma, worst.tuned.modes)


def _rehearse(settings: Settings) -> None:
    for quantity in settings.quantities:
        quantity.rehearse(settings)


def _run_missing(
    settings: Settings,
    runner: Runner,
    tracks: list[Track],
    progress: Progress,
    archive: Archive | None,
) -> None:
    """Run the datasets that the tracks' targets still need, all gammas of a block together."""
    keys, plan = roots(settings.key, Stream.MAIN), settings.plan
    size = step = settings.block_size
    # A store's blocks are whole, and so are those that gammas of a path share.
    is_whole = archive is not None or settings.sampler.traits.is_path
    begin = {id(track): 0 if is_whole else track.num_completed for track in tracks}
    num_missing = sum(track.target - track.num_completed for track in tracks)
    if num_missing >= LONG_RUN:
        return_memory()
    if not is_whole and num_missing < 2 * size * num_workers():
        step = settings.job_size
    blocks = [
        (track, first)
        for track in tracks
        for first in range(begin[id(track)], track.target, step)
        if first not in track.blocks
    ]
    blocks.sort(key=lambda block: block[1])
    progress.stage("sampling", len(blocks), "block")
    wanted = recall(archive, blocks, progress) if archive else blocks
    numbered = {id(track): i for i, track in enumerate(tracks)}
    is_stored, no_pairs = archive is not None, on_device(np.int32(0))
    stored = settings.num_stored if is_stored else settings.num_kept
    paired = [settings.num_paired(track.tuned.estimator, is_stored) for track in tracks]
    alone = [track.tuned.inputs._replace(num_pairs=no_pairs) for track in tracks]

    def job_of(track: Track, first: int) -> Job:
        number = numbered[id(track)]
        given = track.tuned.inputs if first < paired[number] else alone[number]
        count = step if is_whole else min(step, track.target - first)
        left = (max(0, end - first) for end in stored.values())
        keeps = tuple(count if is_whole and most else min(count, most) for most in left)
        return Job((number, first), keys, first, size, plan, given, wanted=count, keeps=keeps)

    jobs = [job_of(track, first) for track, first in wanted]
    with closing(runner.run(jobs)) as finished:
        for job, block in finished:
            index, first = job.tag
            if archive is not None:
                save(archive, tracks[index], first, block)
            tracks[index].add(first, block)
            progress.advance(1)
    if archive is not None:
        collect(archive, blocks, progress)


def _needs_more(runner: Runner, track: Track, archive: Archive | None, is_tentative: bool) -> bool:
    """Decide whether one gamma is finished; if not, say what it needs next."""
    settings, inputs = runner.settings, track.tuned.inputs
    if must_rerun(settings, track):
        longer = jnp.asarray(inputs.schedule.num_burn_in) * 4
        schedule = inputs.schedule._replace(num_burn_in=longer)
        tuned = track.tuned._replace(inputs=inputs._replace(schedule=schedule))
    elif must_adapt(settings, track):
        tuned = track.tuned._replace(inputs=adapting(settings, inputs))
    else:
        estimator = other_estimator(settings, track)
        if estimator is not None and settings.is_exact:
            if not settings.leading.needs_pairs(estimator, settings):
                track.tuned = track.tuned._replace(estimator=estimator)  # blocks have it, too
            elif is_tentative:
                raise BeyondSumsError(track.gamma)
        if estimator is None or settings.is_exact:
            return extend(settings, track)
        tuned = with_pairs(runner, track.tuned._replace(estimator=estimator), settings.plan)
    track.num_reruns += 1
    track.tuned = archive.publish_tuned(track.gamma, track.num_reruns, tuned) if archive else tuned
    track.forget()
    return True


# Finished blocks and findings: what a store has, what is this process's, what others owe.

Blocks = list[tuple[Track, int]]

POLL_SECONDS = 0.5
# Missing blocks that a message lists one by one.
LISTED = 4


def recall(archive: Archive, blocks: Blocks, progress: Progress) -> Blocks:
    """Take in every block that the store has; return those of this process that it lacks."""
    missing = _absorb(archive, blocks, progress)
    owners = _owners(archive.store, blocks)
    return [blocks[rank] for rank in missing if owners[rank] == archive.store.process_id]


def save(archive: Archive, track: Track, first: int, block: Block) -> None:
    """Write a block, with what quantities may want of the first datasets, now or later."""
    if block.kept is not None:
        stored = track.settings.num_stored
        past = {name: None for name in block.kept._fields if first >= stored[name]}
        block = block._replace(kept=block.kept._replace(**past))
    pilot = pilot_digest(track.tuned)
    archive.save_block(track.gamma, track.num_reruns, first, pilot, block)


def collect(archive: Archive, blocks: Blocks, progress: Progress) -> None:
    """Take in the blocks of other processes, waiting as long as the store says."""
    missing = _unfinished(blocks)
    patience = time.monotonic() + archive.store.wait
    if missing:
        progress.stage("waiting for other processes")
        progress.expect(len(missing))
    while missing:
        _absorb(archive, blocks, progress)
        left = _unfinished(blocks)
        if len(left) < len(missing):
            patience = time.monotonic() + archive.store.wait
        missing = left
        if missing and time.monotonic() >= patience:
            raise _incomplete(archive.store, blocks, missing)
        if missing:
            time.sleep(min(POLL_SECONDS, archive.store.wait))


def _unfinished(blocks: Blocks) -> list[int]:
    return [rank for rank, (track, first) in enumerate(blocks) if first not in track.blocks]


def _absorb(archive: Archive, blocks: Blocks, progress: Progress) -> list[int]:
    """Load what the store has of the unfinished blocks; return the ranks that it lacks."""
    tracks = {id(track): track for track, _ in blocks}
    there = {key: archive.firsts(t.gamma, t.num_reruns) for key, t in tracks.items()}
    pilots = {key: pilot_digest(track.tuned) for key, track in tracks.items()}
    missing = []
    for rank in _unfinished(blocks):
        track, first = blocks[rank]
        key = id(track)
        found = None
        if first in there[key]:
            given = track.gamma, track.num_reruns, first, pilots[key], track.settings.traced
            found = archive.block(*given)
        if found is None or _lacks(found, track, first):
            missing.append(rank)
            continue
        track.add(first, found)
        progress.skip(1)
    return missing


def _lacks(block: Block, track: Track, first: int) -> bool:
    """Whether a quantity wants something of these datasets that was not kept."""
    wanted = [name for name, count in track.settings.num_kept.items() if first < count]
    return any(getattr(block.kept, name, None) is None for name in wanted)


def _incomplete(store: Store, blocks: Blocks, missing: list[int]) -> AuditIncomplete:
    named = tuple(f"gamma={blocks[r][0].gamma:g} from dataset {blocks[r][1]}" for r in missing)
    listed = ", ".join(named[:LISTED]) + (", ..." if len(named) > LISTED else "")
    whose = _whose(store, blocks, missing)
    return AuditIncomplete(
        f"store: {len(missing)} of {len(blocks)} blocks are missing ({listed}){whose}; run what "
        "should have made them again, unless it is still at work.",
        named,
    )


def _owners(store: Store, blocks: Blocks) -> list[int]:
    """Deal each gamma's blocks to all processes in turn: gammas may differ in cost."""
    gammas = [track.gamma for track, _ in blocks]
    order = sorted(range(len(blocks)), key=lambda rank: (gammas[rank], blocks[rank][1]))
    owners = [0] * len(blocks)
    for turn, rank in enumerate(order):
        owners[rank] = store.owner(turn)
    return owners


def _whose(store: Store, blocks: Blocks, missing: Iterable[int]) -> str:
    if store.num_processes == 1:
        return ""
    owners = _owners(store, blocks)
    numbers = sorted({owners[rank] for rank in missing})
    return f", all of process {', '.join(map(str, numbers))} of {store.num_processes}"


# What is found from a gamma's finished blocks: made once, shared out by gamma, kept.

Finding = TypeVar("Finding")
# Much of a finding is NumPy on one core; each holds tables of some hundred megabytes.
MAX_THREADS = 2


def find_all(
    archive: Archive | None,
    kind: type[Finding],
    name: str,
    tracks: Sequence[Track | None],
    make: Callable[[int], Finding],
    progress: Progress,
) -> list[Finding | None]:
    """Return ``make(i)`` for every track, None where there is no track."""
    found: dict[int, Finding] = {}
    wanted = {rank: track for rank, track in enumerate(tracks) if track is not None}
    progress.skip(len(tracks) - len(wanted))
    missing = []
    for rank, track in wanted.items():
        held = _recall(archive, track, name, kind)
        if held is not None:
            found[rank] = held
            progress.skip(1)
        elif archive is None or _is_mine(archive, rank):
            missing.append(rank)
    with closing(in_threads(missing, lambda _, rank: make(rank), MAX_THREADS)) as finished:
        for rank, held in finished:
            if archive is not None:
                track = wanted[rank]
                archive.save_finding(
                    track.gamma, _named(name, track), pilot_digest(track.tuned), held
                )
            found[rank] = held
            progress.advance(1)
    if archive is not None:
        _collect(archive, kind, name, wanted, found)
    return [found.get(rank) for rank in range(len(tracks))]


def _is_mine(archive: Archive, rank: int) -> bool:
    # A process that only merges the others' blocks does this too, as it takes no sampling.
    store = archive.store
    return store.process_id is None or store.owner(rank) == store.process_id


def _named(name: str, track: Track) -> str:
    return f"{name}-{track.num_reruns}"


def _recall(
    archive: Archive | None, track: Track, name: str, kind: type[Finding]
) -> Finding | None:
    if archive is None:
        return None
    return archive.finding(track.gamma, _named(name, track), pilot_digest(track.tuned), kind)


def _collect(
    archive: Archive,
    kind: type[Finding],
    name: str,
    wanted: dict[int, Track],
    found: dict[int, Finding],
) -> None:
    """Wait for the findings of other processes, as long as the store says."""
    patience = time.monotonic() + archive.store.wait
    while len(found) < len(wanted):
        before = len(found)
        for rank, track in wanted.items():
            if rank in found:
                continue
            held = _recall(archive, track, name, kind)
            if held is not None:
                found[rank] = held
        if len(found) > before:
            patience = time.monotonic() + archive.store.wait
        elif time.monotonic() >= patience:
            missing = tuple(
                f"{kind.__name__.lower()} at gamma={track.gamma:g}"
                for rank, track in wanted.items()
                if rank not in found
            )
            raise AuditIncomplete(
                f"store: all blocks are there; other processes have yet to write the "
                f"{', '.join(missing)}, or putting the store together makes them.",
                missing,
            )
        else:
            time.sleep(min(POLL_SECONDS, archive.store.wait))
