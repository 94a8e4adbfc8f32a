"""Pilots of every gamma, and what all gammas share."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key, PyTree

from gibbs_dp._jaxlib.compile import on_default_backend
from gibbs_dp.engine.datasets import Stream, draw_dataset, keys_of, roots
from gibbs_dp.engine.executor import in_room
from gibbs_dp.engine.health import believed
from gibbs_dp.engine.origin import OriginSearch
from gibbs_dp.engine.plan import Inputs, Plan, Tuned
from gibbs_dp.engine.progress import Progress
from gibbs_dp.engine.runner import Runner
from gibbs_dp.engine.settings import Settings
from gibbs_dp.engine.store.archive import Archive, Origin
from gibbs_dp.engine.store.share import nothing_tuned
from gibbs_dp.engine.together import Runs, side_by_side
from gibbs_dp.engine.track import Track
from gibbs_dp.engine.tuning import (
    chosen,
    first_inputs,
    num_pilots,
    r_hat_of_starts,
    run_pilots,
    run_pilots_twice,
    tune,
    with_reference,
)
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.modes import NOT_LOOKED_FOR
from gibbs_dp.sampling.sampler import PathSampler
from gibbs_dp.sampling.schedule import make_schedule

# Pilots of a sampler that goes along a path: one path, frozen; then pilots of every gamma.

# Datasets that a path is found on.
NUM_PATH_PILOTS = 16


def path_inputs(settings: Settings, progress: Progress) -> tuple[Inputs, ...]:
    """Find a path on pilot datasets; inputs at all gammas, with their segments of it.

    Raises
    ------
    ValueError
        If the path's end is out of reach.
    ImproperPosteriorError
        If there is nothing to begin a path with.
    """
    s, sampler = settings, settings.sampler
    assert isinstance(sampler, PathSampler)
    keys = roots(s.key, Stream.PILOTS)
    numbers = jnp.tile(jnp.arange(NUM_PATH_PILOTS, dtype=jnp.int32), (2, 1))
    data = in_room(lambda: _training_sets(s.posterior, s.population, s.n, keys, numbers))
    progress.stage("finding a path", len(s.gammas), "gamma")
    with progress.compiling():
        segments = sampler.find_path(
            jax.random.fold_in(keys[1], NUM_PATH_PILOTS),
            s.posterior,
            data,
            s.gammas,
            lambda: progress.advance(1),
        )
    zeros = jnp.zeros((s.posterior.dim,), jnp.zeros(()).dtype)
    schedule = make_schedule((1.0, 1), 0, 0)
    on_host = jax.tree.map(np.asarray, segments)
    return tuple(
        first_inputs(gamma, zeros, schedule)._replace(
            segment=jax.tree.map(lambda a, i=i: jnp.asarray(a[i]), on_host)
        )
        for i, gamma in enumerate(s.gammas)
    )


def tune_on_path(runner: Runs, inputs: Inputs) -> Tuned:
    """Pilots of one gamma: a control variate and an estimator; whether two runs agree."""
    first, second = run_pilots_twice(runner, runner.settings.plan, inputs)
    good = believed(first)
    return Tuned(
        with_reference(inputs, good),
        chosen(runner.settings, good),
        r_hat_of_starts(first, second),
        NOT_LOOKED_FOR,
    )


def _training_sets_of(
    posterior: GibbsPosterior,
    population: Any,
    n: int,
    roots: Key[Array, 2],
    numbers: Int[Array, "2 pilots"],
) -> PyTree:
    data_keys, _ = keys_of(roots, numbers)
    return jax.vmap(lambda key: draw_dataset(posterior, population, key, n, 1)[0])(data_keys)


_training_sets = on_default_backend(_training_sets_of, "posterior", "n")


def tune_all(
    settings: Settings,
    runner: Runner,
    tracks: list[Track],
    search: OriginSearch,
    progress: Progress,
    archive: Archive | None,
) -> None:
    """Pilots of every gamma: one after another, or side by side where that is one call."""
    tune_them = _tune_side_by_side if runner.is_wide else _tune_in_turn
    tune_them(settings, runner, tracks, search, progress, archive)


def _tune_side_by_side(
    settings: Settings,
    runner: Runner,
    tracks: list[Track],
    search: OriginSearch,
    progress: Progress,
    archive: Archive | None,
) -> None:
    stored = [_stored(archive, gamma) for gamma in settings.gammas]
    new = [i for i, found in enumerate(stored) if found is None]
    plan, made = settings.plan, dict[int, Tuned]()
    if settings.sampler.traits.is_path:
        held = [found[0].inputs for found in stored if found is not None]
        runner.path = path_inputs(settings, progress) if new else tuple(held)
        stored, new = _of_one_path(stored)
    progress.stage("tuning", len(settings.gammas), "gamma")
    progress.skip(len(stored) - len(new))

    def tune_one(runner: Runs, number: int) -> Tuned:
        if path:
            tuned = tune_on_path(runner, path[number])
        else:
            tuned = tune(runner, settings.gammas[number], plan, None)
        progress.advance(1)
        return tuned

    if new:
        path = runner.path
        found = side_by_side(runner, new, tune_one)
        origin = search.known or search.result(found[0].inputs.reference)
        if archive is not None and search.known is None:
            origin = archive.publish_origin(origin)
        found = side_by_side(runner, found, lambda r, t: _complete(r, t, origin, plan))
        made = dict(zip(new, found, strict=True))
    for i, gamma in enumerate(settings.gammas):
        tuned, num_reruns = stored[i] or (made[i], 0)
        if i in made and archive is not None:
            tuned = archive.publish_tuned(gamma, 0, tuned)
        tracks.append(Track(settings, gamma, tuned, settings.num_datasets, num_reruns=num_reruns))
    if settings.sampler.traits.is_path:
        runner.path = tuple(track.tuned.inputs for track in tracks)


def _of_one_path(
    stored: list[tuple[Tuned, int] | None],
) -> tuple[list[tuple[Tuned, int] | None], list[int]]:
    """Keep a store's tunings only where all gammas' are there: segments fit one path alone."""
    if None not in stored:
        return stored, []
    return [None] * len(stored), list(range(len(stored)))


def _stored(archive: Archive | None, gamma: float) -> tuple[Tuned, int] | None:
    """Tuning of a gamma that a store has, and how often it was made longer."""
    found = archive.tuned(gamma) if archive else None
    if found is None and archive is not None and archive.store.process_id is None:
        raise nothing_tuned(archive.store, gamma)
    return found


def _tune_in_turn(
    settings: Settings,
    runner: Runs,
    tracks: list[Track],
    search: OriginSearch,
    progress: Progress,
    archive: Archive | None,
) -> None:
    """From the smallest gamma up, each starting from its neighbour's settings."""
    base = settings.plan
    guess: Inputs | None = None
    origin = search.known
    progress.stage("tuning", len(settings.gammas), "gamma")
    for gamma in settings.gammas:
        tuned, num_reruns = _stored(archive, gamma) or (None, 0)
        if tuned is None:
            tuned = tune(runner, gamma, base, guess)
            if origin is None:
                origin = search.result(tuned.inputs.reference)
                origin = archive.publish_origin(origin) if archive else origin
            tuned = _complete(runner, tuned, origin, base)
            tuned = archive.publish_tuned(gamma, 0, tuned) if archive else tuned
            progress.advance(1)
        else:
            progress.skip(1)
        guess = tuned.inputs
        track = Track(settings, gamma, tuned, settings.num_datasets, num_reruns=num_reruns)
        tracks.append(track)


def _complete(runner: Runs, tuned: Tuned, origin: Origin, plan: Plan) -> Tuned:
    """Add to what pilots chose what all gammas share."""
    inputs = tuned.inputs._replace(
        optimum=jnp.asarray(origin.optimum), anchor=jnp.asarray(origin.anchor)
    )
    return with_pairs(runner, tuned._replace(inputs=inputs), plan)


def with_pairs(runner: Runs, tuned: Tuned, plan: Plan) -> Tuned:
    """Add how many pairs the chosen estimator takes."""
    inputs, settings = tuned.inputs, runner.settings

    def pilots(num_pairs: int) -> Any:
        asked = inputs._replace(num_pairs=jnp.asarray(num_pairs, jnp.int32))
        found = believed(run_pilots(runner, plan, asked, num_pilots(settings)))
        return getattr(found.values, settings.leading.name)

    num_pairs = settings.leading.num_pairs(tuned.estimator, settings, pilots)
    num_pairs = max(num_pairs, *(q.least_pairs(tuned.estimator) for q in settings.quantities))
    return tuned._replace(inputs=inputs._replace(num_pairs=jnp.asarray(num_pairs, jnp.int32)))
