"""Pilots of every gamma, side by side or in turn, and what all gammas share."""

from __future__ import annotations

import math
import operator
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future
from contextlib import closing
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray, PyTree

from gibbs_dp._jaxlib.compile import on_default_backend, program
from gibbs_dp._jaxlib.devices import key_of, on_device, platform
from gibbs_dp._jaxlib.precision import traced_exactly
from gibbs_dp._progress import Progress
from gibbs_dp.engine.datasets import Stream, draw_dataset, keys_of, remembered, roots, stream_key
from gibbs_dp.engine.executor import background, in_room, in_threads
from gibbs_dp.engine.pilots import (
    Runs,
    chosen,
    first_inputs,
    num_pilots,
    r_hat_of_starts,
    run_pilots,
    run_pilots_twice,
    tune,
    with_reference,
)
from gibbs_dp.engine.plan import Inputs, Job, Plan, Tuned
from gibbs_dp.engine.quantity import Settings
from gibbs_dp.engine.store.archive import Archive, Origin, nothing_tuned
from gibbs_dp.engine.track import Track
from gibbs_dp.engine.view import Block, believed
from gibbs_dp.model.losses.base import LinearLoss
from gibbs_dp.model.populations import Table
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.kernels.base import make_schedule
from gibbs_dp.sampling.modes import NOT_LOOKED_FOR
from gibbs_dp.sampling.sampler import PathSampler

# Pilots of all gammas at once: what each asks for waits until all have asked, and is one call.
#
# The tuning of one gamma is a dialogue, each question depending on the answer before. A sampler
# that goes along a path draws at all gammas in one call, so that their dialogues are held side by
# side, each in a thread of its own that waits most of the time.

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


class Together:
    """A runner shared by ``count`` threads: their jobs run once all of them wait."""

    def __init__(self, runner: Runs, count: int) -> None:
        self._runner, self._count, self.path = runner, count, runner.path
        self._asked: list[tuple[Job, Future[Block]]] = []
        self._num_waiting = 0
        self._is_stopped = False
        self._lock = threading.Lock()

    @property
    def settings(self) -> Settings:
        """Of the audit."""
        return self._runner.settings

    def run(
        self, jobs: Iterable[Job], num_beside: int = 0
    ) -> Generator[tuple[Job, Block], None, None]:
        """Run with the jobs of all other threads; yield those that were given."""
        del num_beside
        if self._is_stopped:
            raise RuntimeError("stopped")  # in a thread that nobody waits for
        mine = [(job, Future[Block]()) for job in jobs]
        with self._lock:
            self._asked += mine
            self._num_waiting += 1
        self._run_if_all_wait()
        for job, future in mine:
            yield job, future.result()

    def leave(self) -> None:
        """Wait for this thread no longer."""
        with self._lock:
            self._count -= 1
        self._run_if_all_wait()

    def stop(self) -> None:
        """Run nothing more: whoever asked has gone."""
        self._is_stopped = True

    def _run_if_all_wait(self) -> None:
        with self._lock:
            if self._num_waiting < self._count or not self._asked:
                return
            spec, self._asked, self._num_waiting = self._asked, [], 0
        # Tags are the speakers' own, and may be the same ones.
        numbered = [job._replace(tag=i) for i, (job, _) in enumerate(spec)]
        try:
            with closing(self._runner.run(numbered, num_beside=1)) as finished:
                for job, block in finished:
                    spec[job.tag][1].set_result(block)
        except BaseException as error:  # whoever waits has to be told
            for _, future in spec:
                if not future.done():
                    future.set_exception(error)


def side_by_side(
    runner: Runs, items: Sequence[Item], talk: Callable[[Runs, Item], Outcome]
) -> list[Outcome]:
    """Call ``talk`` on every item, each in a thread; what they run is run together."""
    together = Together(runner, len(items))

    def one(_: int, item: Item) -> Any:
        try:
            return talk(together, item)
        finally:
            together.leave()

    numbered = list(enumerate(items))
    done = {}
    with closing(in_threads(numbered, lambda i, job: one(i, job[1]), len(items))) as finished:
        try:
            for (number, _), result in finished:
                done[number] = result
        except BaseException:
            together.stop()
            raise
    return [done[i] for i in range(len(items))]


# The population's best parameter, which all gammas share: what excess risk is measured against.
# It is searched for beside the first pilots.

NUM_EXAMPLES = 65_536
NUM_DATASETS = 4_096
MAX_NUMBERS = 2**25
# A loss that is not known to be convex may have its best parameter far from the pilots: so many
# draws of the prior are tried, on so many rows, up to so many coordinates.
NUM_SCATTERED, SCATTERED_ROWS, MOST_SCATTERED_DIM = 64, 1024, 32
# Where a risk has no slope, as that of steps, it is minimized without, in few coordinates.
MOST_FLAT_DIM, FLAT_STEPS = 4, 200


def population_optimum(
    posterior: GibbsPosterior,
    population: Any,
    n: int,
    key: PRNGKeyArray,
    start: Float[Array, " dim"],
    points: Float[Array, "points dim"] | None = None,
) -> Float[np.ndarray, " dim"]:
    """Flat coordinates of a minimizer of the population risk; NaN where none was found.

    Minimizes the mean loss over a table's rows, over 65,536 fresh examples, or (structured loss)
    over 4,096 fresh datasets of size ``n``, by L-BFGS on unconstrained coordinates. The sample
    makes the reported excess risk too small by about ``dim / 65,536`` of the loss's scale. Where
    the loss is not known to be convex a second search begins at the best of 64 draws of the prior,
    if that is better than where the first one ended. A risk that keeps falling towards infinity has
    no minimizer. With ``points`` the minimizer is the best of them.
    """
    data = _reference_data(posterior, population, n, key)
    if points is not None:
        risks = [float(_mean_risk(posterior, u, data)[0]) for u in points]
        return np.asarray(points[int(np.argmin(risks))])

    def objective(u: Float[np.ndarray, " dim"]) -> tuple[float, Float[np.ndarray, " dim"]]:
        value, gradient = _mean_risk(posterior, u.astype(start.dtype), data)
        return float(value), np.asarray(gradient, np.float64)

    def search(begin: Float[np.ndarray, " dim"]) -> tuple[float, Float[np.ndarray, " dim"]]:
        nothing = np.full(begin.size, np.nan)
        result = minimize(objective, begin, jac=True, method="L-BFGS-B", options={"maxiter": 500})
        if not (np.isfinite(result.fun) and np.isfinite(result.x).all()):
            return math.inf, nothing
        if begin.size <= MOST_FLAT_DIM and not np.any(result.jac):
            rest = {"method": "Nelder-Mead", "options": {"maxiter": FLAT_STEPS}}
            lower = minimize(lambda u: objective(u)[0], result.x, **rest)
            result = lower if lower.fun < result.fun else result
        # A loss that is still falling a long way out has its infimum at infinity.
        further, _ = objective(begin + 3.0 * (result.x - begin))
        is_falling = further < result.fun and np.linalg.norm(result.x - begin) > 10.0
        return (-math.inf, nothing) if is_falling else (result.fun, result.x)

    from scipy import optimize  # slow to import

    minimize: Any = optimize.minimize
    found = [search(np.asarray(start, np.float64))]
    may_differ = not posterior.has_convex_loss and start.size <= MOST_SCATTERED_DIM
    if may_differ and found[0][0] > -math.inf and posterior.prior.has_draws:
        reached = on_device(found[0][1].astype(start.dtype))
        better = _better_draw(posterior, jax.random.fold_in(key, 1), data, reached)
        found += [] if better is None else [search(better)]
    return np.asarray(min(found, key=operator.itemgetter(0))[1])


def _better_draw(
    posterior: GibbsPosterior, key: PRNGKeyArray, data: PyTree, reached: Float[Array, " dim"]
) -> Float[np.ndarray, " dim"] | None:
    """Return a draw of the prior whose loss on a part of the data is less than at ``reached``.

    Where that is no number any draw does better; None if none does.
    """
    part = jax.tree.map(lambda a: a[:SCATTERED_ROWS], data)
    scattered = program(_scattered_risks, ("posterior",), platform(), is_quick=True)
    points, risks = (np.asarray(a, np.float64) for a in scattered(posterior, key, part, reached))
    best = int(np.argmin(np.where(np.isfinite(risks), risks, np.inf)))
    return points[best] if best else None


def _scattered_risks(
    posterior: GibbsPosterior, key: PRNGKeyArray, data: PyTree, reached: Float[Array, " dim"]
) -> tuple[Float[Array, "points dim"], Float[Array, " points"]]:
    keys = jax.random.split(key, NUM_SCATTERED)
    draws = jax.vmap(lambda k: posterior.unconstrain(posterior.prior.sample(k)))(keys)
    points = jnp.concatenate([reached.astype(draws.dtype)[None], draws])
    return points, jax.lax.map(lambda u: _risk(posterior, u, data), points)


def _reference_data(
    posterior: GibbsPosterior, population: Any, n: int, key: PRNGKeyArray
) -> PyTree:
    """Return a large sample of the population: rows, or (structured loss) whole datasets."""

    def size() -> int:
        shapes = jax.eval_shape(lambda k: _draw_of(population, k, n, None), key)
        return sum(leaf.size for leaf in jax.tree.leaves(shapes))

    numbers = remembered(size, "numbers of a dataset", posterior, population, n)
    num_datasets = max(64, min(NUM_DATASETS, MAX_NUMBERS // max(numbers, 1)))
    if posterior.structured:
        return _draw(population, key, n, num_datasets)
    if isinstance(population, Table) and population.weights is None:
        return population.data
    if population.is_dependent:  # examples of many datasets, not of a long one
        datasets = _draw(population, key, n, num_datasets)
        return jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), datasets)
    count = max(1024, min(NUM_EXAMPLES, MAX_NUMBERS * n // max(numbers, 1)))
    return _draw(population, key, count, None)


def _draw(population: Any, key: PRNGKeyArray, n: int, num_datasets: int | None) -> PyTree:
    return program(_draw_of, ("n", "num_datasets"), platform(), is_quick=True)(
        population, key, n, num_datasets
    )


def _draw_of(population: Any, key: PRNGKeyArray, n: int, num_datasets: int | None) -> PyTree:
    if num_datasets is None:
        return population.sample(key, n, 1)[0]
    keys = jax.random.split(key, num_datasets)
    return jax.vmap(lambda k: population.sample(k, n, 1)[0])(keys)


def _risk(posterior: GibbsPosterior, u: Float[Array, " dim"], data: PyTree) -> Array:
    theta = posterior.constrain(u)
    if posterior.structured:
        return jnp.mean(jax.vmap(lambda z: posterior.empirical_loss(theta, z))(data))
    return jnp.mean(posterior.losses(theta, data))


_mean_risk = jax.jit(
    traced_exactly(jax.value_and_grad(_risk, argnums=1)), static_argnames=("posterior",)
)


class OriginSearch:
    """The search for the population's best parameter, beside the first pilots where it can be.

    From any start it ends at the same point where the loss is convex; else it starts where the
    pilots have been. The examples that it minimizes over are the same whatever an audit's key, so
    that what was found for the same objects is remembered where the start is the same too.
    """

    def __init__(self, settings: Settings, known: Origin | None) -> None:
        self.settings, self.known = settings, known
        self._found: Future[Origin] | None = None
        s, zeros = settings, on_device(np.zeros(settings.posterior.dim, jnp.result_type(float)))
        if not any(quantity.needs_optimum for quantity in settings.quantities):
            # Of the type that pilots have: a weak one would compile the program again.
            self.known = known = Origin(on_device(np.full_like(zeros, np.nan)), zeros)
        if known is None and isinstance(s.posterior.loss, LinearLoss):
            self._found = background(
                lambda: remembered(
                    lambda: _find_origin(s, zeros),
                    "origin",
                    s.posterior,
                    s.population,
                    s.n,
                    s.sampler,
                )
            )

    def result(self, start: Float[Array, " dim"]) -> Origin:
        """Wait for what was begun, or search from ``start``."""
        return self._found.result() if self._found else _find_origin(self.settings, start)


def _find_origin(settings: Settings, start: Float[Array, " dim"]) -> Origin:
    key = stream_key(key_of(0), Stream.OPTIMUM)
    found = population_optimum(
        settings.posterior,
        settings.population,
        settings.n,
        key,
        start,
        settings.sampler.finite_class(settings.posterior),
    )
    optimum = on_device(found.astype(start.dtype))
    return Origin(optimum, optimum if np.isfinite(found).all() else start)


# Pilots of a sampler that goes along a path: one path, frozen; then pilots of every gamma.

# Datasets that a path is found on.
NUM_PATH_PILOTS = 16


def path_inputs(settings: Settings, progress: Progress) -> tuple[Inputs, ...]:
    """Find a path on pilot datasets; inputs at all gammas, with their segments of it."""
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
    zeros = jnp.zeros((s.posterior.dim,), jnp.result_type(float))
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
    runner: Runs,
    tracks: list[Track],
    search: OriginSearch,
    progress: Progress,
    archive: Archive | None,
) -> None:
    """Pilots of every gamma: one after another, or along a path side by side."""
    tune_them = _tune_along_path if settings.sampler.traits.is_path else _tune_in_turn
    tune_them(settings, runner, tracks, search, progress, archive)


def _tune_along_path(
    settings: Settings,
    runner: Runs,
    tracks: list[Track],
    search: OriginSearch,
    progress: Progress,
    archive: Archive | None,
) -> None:
    stored = [_stored(archive, gamma) for gamma in settings.gammas]
    new = [i for i, found in enumerate(stored) if found is None]
    plan, made = settings.plan, dict[int, Tuned]()
    held = [found[0].inputs for found in stored if found is not None]
    runner.path = path = path_inputs(settings, progress) if new else tuple(held)
    stored, new = _of_one_path(stored)
    progress.stage("tuning", len(settings.gammas), "gamma")
    progress.skip(len(stored) - len(new))

    def tune_one(runner: Runs, number: int) -> Tuned:
        tuned = tune_on_path(runner, path[number])
        progress.advance(1)
        return tuned

    if new:
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
        optimum=on_device(origin.optimum), anchor=on_device(origin.anchor)
    )
    return with_pairs(runner, tuned._replace(inputs=inputs), plan)


def with_pairs(runner: Runs, tuned: Tuned, plan: Plan) -> Tuned:
    """Add how many pairs the chosen estimator takes, where any dataset's are compared."""
    inputs, settings = tuned.inputs, runner.settings
    if not settings.num_paired(tuned.estimator, is_stored=True):
        return tuned

    def pilots(num_pairs: int) -> Any:
        spec = inputs._replace(num_pairs=on_device(np.int32(num_pairs)))
        found = believed(run_pilots(runner, plan, spec, num_pilots(settings)))
        return getattr(found.values, settings.leading.name)

    num_pairs = settings.leading.num_pairs(tuned.estimator, settings, pilots)
    num_pairs = max(num_pairs, *(q.least_pairs(tuned.estimator) for q in settings.quantities))
    return tuned._replace(inputs=inputs._replace(num_pairs=on_device(np.int32(num_pairs))))
