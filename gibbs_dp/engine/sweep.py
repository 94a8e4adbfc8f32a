"""The host loop of a sweep: pilots, blocks of datasets, drift reruns and the stopping rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from gibbs_dp.engine.allocation import extend, must_rerun, other_estimator
from gibbs_dp.engine.datasets import Stream, roots, stream_key
from gibbs_dp.engine.executor import background
from gibbs_dp.engine.explored import Explored
from gibbs_dp.engine.health import believed
from gibbs_dp.engine.optimum import population_optimum
from gibbs_dp.engine.pilots import num_pilots, run_pilots
from gibbs_dp.engine.plan import Inputs, Plan, Tuned
from gibbs_dp.engine.progress import Progress
from gibbs_dp.engine.result import Result
from gibbs_dp.engine.runner import Job, Runner
from gibbs_dp.engine.settings import Settings
from gibbs_dp.engine.store.archive import Archive, Origin
from gibbs_dp.engine.store.findings import find_all
from gibbs_dp.engine.store.share import collect, nothing_tuned, recall, save
from gibbs_dp.engine.track import Track
from gibbs_dp.engine.tuning import tune
from gibbs_dp.engine.workers import Threads, Workers
from gibbs_dp.model.losses.base import LinearLoss


class SweepInterruptedError(Exception):
    """Ctrl-C during a sweep; ``tracks`` hold the blocks that were finished."""

    def __init__(self, tracks: list[Track]) -> None:
        super().__init__("interrupted")
        self.tracks = tracks


def run_sweep(
    settings: Settings,
    progress: Progress,
    archive: Archive | None = None,
    workers: Workers | None = None,
) -> list[Track]:
    """Tune every gamma, then sample datasets until counts and ``rel_error`` are met.

    With an archive, what is in it is not computed again, and what is computed is put there.
    ``workers`` run the blocks, threads of this process by default.

    Raises
    ------
    SweepInterruptedError
        On Ctrl-C, with what was finished.
    ImproperPosteriorError
        If a posterior cannot be normalized.
    AuditIncomplete
        If blocks of other processes are missing.
    """
    runner = Runner(settings, workers or Threads())
    tracks: list[Track] = []
    search = _OriginSearch(settings, archive.origin() if archive else None)
    # A store that knows the origin has been here: there may be nothing to compile beside.
    rehearsal = background(lambda: _rehearse(settings)) if search.known is None else None
    try:
        _tune_all(settings, runner, tracks, search, progress, archive)
        if rehearsal is not None:
            rehearsal.result()  # workers take the room that it had
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
        progress.stage(kind.__name__.lower())
        progress.expect(len(tracks))
        return find_all(archive, kind, name, asked, make, progress)

    results = [track.result() for track in tracks]
    sweep = Explored(settings, results, find)
    found = {q.name: q.explore(sweep) for q in settings.quantities}
    return [
        replace(result, found={name: each[i] for name, each in found.items()})
        for i, result in enumerate(results)
    ]


def _rehearse(settings: Settings) -> None:
    for quantity in settings.quantities:
        quantity.rehearse(settings)


def _tune_all(
    settings: Settings,
    runner: Runner,
    tracks: list[Track],
    search: _OriginSearch,
    progress: Progress,
    archive: Archive | None,
) -> None:
    """Pilots from the smallest gamma up, each starting from its neighbour's settings."""
    base = settings.plan
    guess: Inputs | None = None
    origin = search.known
    for gamma in settings.gammas:
        progress.stage(f"tuning gamma={gamma:g}")
        tuned, num_reruns = (archive.tuned(gamma) if archive else None) or (None, 0)
        if tuned is None:
            if archive is not None and archive.store.process_id is None:
                raise nothing_tuned(archive.store, gamma)
            tuned = tune(runner, gamma, base, guess)
            if origin is None:
                origin = search.result(tuned.inputs.reference)
                origin = archive.publish_origin(origin) if archive else origin
            tuned = _complete(runner, tuned, origin, base)
            tuned = archive.publish_tuned(gamma, 0, tuned) if archive else tuned
        guess = tuned.inputs
        track = Track(settings, gamma, tuned, settings.num_datasets, num_reruns=num_reruns)
        tracks.append(track)
        progress.advance(1)


def _complete(runner: Runner, tuned: Tuned, origin: Origin, plan: Plan) -> Tuned:
    """Add to what pilots chose what all gammas share."""
    inputs = tuned.inputs._replace(
        optimum=jnp.asarray(origin.optimum), anchor=jnp.asarray(origin.anchor)
    )
    return _with_pairs(runner, tuned._replace(inputs=inputs), plan)


def _with_pairs(runner: Runner, tuned: Tuned, plan: Plan) -> Tuned:
    """Add how many pairs the chosen estimator takes."""
    inputs, settings = tuned.inputs, runner.settings

    def pilots(num_pairs: int) -> Any:
        asked = inputs._replace(num_pairs=jnp.asarray(num_pairs, jnp.int32))
        found = believed(run_pilots(runner, plan, asked, num_pilots(settings)))
        return getattr(found.values, settings.leading.name)

    num_pairs = settings.leading.num_pairs(tuned.estimator, settings, pilots)
    return tuned._replace(inputs=inputs._replace(num_pairs=jnp.asarray(num_pairs, jnp.int32)))


class _OriginSearch:
    """The search for the population's best parameter, beside the first pilots where it can be.

    From any start it ends at the same point where the loss is convex; else it starts where the
    pilots have been.
    """

    def __init__(self, settings: Settings, known: Origin | None) -> None:
        self.settings, self.known = settings, known
        self._found: Future[Origin] | None = None
        if not any(quantity.needs_optimum for quantity in settings.quantities):
            unknown = jnp.full((settings.posterior.dim,), jnp.nan)
            self.known = known = Origin(unknown, jnp.zeros_like(unknown))
        if known is None and isinstance(settings.posterior.loss, LinearLoss):
            zeros = jnp.zeros((settings.posterior.dim,))
            self._found = background(lambda: _find_origin(settings, zeros))

    def result(self, start: Float[Array, " dim"]) -> Origin:
        """Wait for what was begun, or search from ``start``."""
        return self._found.result() if self._found else _find_origin(self.settings, start)


def _find_origin(settings: Settings, start: Float[Array, " dim"]) -> Origin:
    key = stream_key(settings.key, Stream.OPTIMUM)
    found = population_optimum(
        settings.posterior,
        settings.population,
        settings.n,
        key,
        start,
        settings.sampler.finite_class(settings.posterior),
    )
    optimum = jnp.asarray(found, start.dtype)
    return Origin(optimum, jnp.where(jnp.all(jnp.isfinite(optimum)), optimum, start))


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
    progress.stage("sampling")
    progress.expect(len(blocks))
    wanted = recall(archive, blocks, progress) if archive else blocks
    numbered = {id(track): i for i, track in enumerate(tracks)}
    jobs = [
        Job((numbered[id(track)], first), keys, first, plan, track.tuned.inputs)
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
        tuned = _with_pairs(runner, track.tuned._replace(estimator=estimator), settings.plan)
    track.num_reruns += 1
    track.tuned = archive.publish_tuned(track.gamma, track.num_reruns, tuned) if archive else tuned
    track.forget()
    return True
