"""The host loop of a sweep: pilots, blocks of datasets, drift reruns and the stopping rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import jax.numpy as jnp

from gibbs_dp.engine.allocation import extend, must_rerun, other_estimator
from gibbs_dp.engine.datasets import Stream, roots
from gibbs_dp.engine.executor import background
from gibbs_dp.engine.explored import Explored
from gibbs_dp.engine.jobs import Job
from gibbs_dp.engine.origin import OriginSearch
from gibbs_dp.engine.progress import Progress
from gibbs_dp.engine.result import Result
from gibbs_dp.engine.runner import Runner
from gibbs_dp.engine.settings import Settings
from gibbs_dp.engine.store.archive import Archive
from gibbs_dp.engine.store.findings import find_all
from gibbs_dp.engine.store.share import collect, recall, save
from gibbs_dp.engine.track import Track
from gibbs_dp.engine.tune_all import tune_all, with_pairs
from gibbs_dp.engine.workers import Threads, Workers
from gibbs_dp.sampling.modes import Modes, warn_of


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


def run_sweep(
    settings: Settings,
    progress: Progress,
    archive: Archive | None = None,
    workers: Workers | None = None,
    stops_at_modes: bool = False,
) -> list[Track]:
    """Tune every gamma, then sample datasets until counts and ``rel_error`` are met.

    With an archive, what is in it is not computed again, and what is computed is put there.
    ``workers`` run the blocks, threads of this process by default.

    Raises
    ------
    SeveralModesError
        With ``stops_at_modes``, where pilots find several modes: before datasets are sampled.
    SweepInterruptedError
        On Ctrl-C, with what was finished.
    ImproperPosteriorError
        If a posterior cannot be normalized.
    AuditIncomplete
        If blocks of other processes are missing.
    """
    runner = Runner(settings, progress.compiling, workers or Threads())
    tracks: list[Track] = []
    search = OriginSearch(settings, archive.origin() if archive else None)
    # A store that knows the origin has been here: there may be nothing to compile beside.
    rehearsal = background(lambda: _rehearse(settings)) if search.known is None else None
    try:
        tune_all(settings, runner, tracks, search, progress, archive)
        if rehearsal is not None:
            rehearsal.result()  # workers take the room that it had
        if stops_at_modes:
            _stop_at_modes(tracks)
        pending = list(tracks)
        while pending:
            _run_missing(settings, runner, pending, progress, archive)
            pending = [t for t in pending if _needs_more(runner, t, archive)]
    except KeyboardInterrupt:
        raise SweepInterruptedError(tracks) from None
    return tracks


def explore(
    settings: Settings, tracks: Sequence[Track], progress: Progress, archive: Archive | None = None
) -> list[Result]:
    """Collect a result for every gamma, with what quantities find in all of them together.

    Raises
    ------
    AuditIncomplete
        If findings of other processes are missing.
    """

    def find(
        kind: type, name: str, wanted: Sequence[bool], make: Callable[[int], Any]
    ) -> list[Any]:
        asked = [
            track if is_wanted else None for track, is_wanted in zip(tracks, wanted, strict=True)
        ]
        progress.stage(title)
        progress.expect(len(tracks))
        return find_all(archive, kind, name, asked, make, progress)

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
    """Run the blocks that the tracks' targets still need, all gammas of a block together."""
    keys, plan = roots(settings.key, Stream.MAIN), settings.plan
    size = settings.block_size
    last = max(t.target for t in tracks)
    blocks = [
        (track, first)
        for first in range(0, last, size)
        for track in tracks
        if first < track.target and first not in track.blocks
    ]
    progress.stage("sampling", len(blocks), "block")
    wanted = recall(archive, blocks, progress) if archive else blocks
    numbered = {id(track): i for i, track in enumerate(tracks)}
    jobs = [
        Job((numbered[id(track)], first), keys, first, size, plan, track.tuned.inputs)
        for track, first in wanted
    ]
    with closing(runner.run(jobs)) as finished:
        for job, block in finished:
            index, first = job.tag
            if archive is not None:
                save(archive, tracks[index], first, block)
            tracks[index].add(first, block)
            progress.advance(1)
    if archive is not None:
        collect(archive, blocks, progress)


def _needs_more(runner: Runner, track: Track, archive: Archive | None) -> bool:
    """Decide whether one gamma is finished; if not, say what it needs next."""
    settings, inputs = runner.settings, track.tuned.inputs
    if must_rerun(settings, track):
        longer = jnp.asarray(inputs.schedule.num_burn_in) * 4
        schedule = inputs.schedule._replace(num_burn_in=longer)
        tuned = track.tuned._replace(inputs=inputs._replace(schedule=schedule))
    else:
        estimator = other_estimator(settings, track)
        if estimator is None:
            return extend(settings, track)
        tuned = with_pairs(runner, track.tuned._replace(estimator=estimator), settings.plan)
    track.num_reruns += 1
    track.tuned = archive.publish_tuned(track.gamma, track.num_reruns, tuned) if archive else tuned
    track.forget()
    return True
