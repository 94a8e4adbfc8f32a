"""Pilots of a sampler that goes along a path: one path, frozen; then pilots of every gamma."""

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
from gibbs_dp.engine.pilots import run_pilots_twice
from gibbs_dp.engine.plan import Inputs, Tuned
from gibbs_dp.engine.progress import Progress
from gibbs_dp.engine.settings import Settings
from gibbs_dp.engine.together import Runs
from gibbs_dp.engine.tuning import chosen, first_inputs, r_hat_of_starts, with_reference
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.modes import NOT_LOOKED_FOR
from gibbs_dp.sampling.sampler import PathSampler
from gibbs_dp.sampling.schedule import make_schedule

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
