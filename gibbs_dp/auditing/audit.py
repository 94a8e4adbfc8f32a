"""``gdp.audit``: how private and how accurate a Gibbs posterior is on average, over gamma."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import PRNGKeyArray
from numpy.typing import ArrayLike

from gibbs_dp._cautions import Warned, warns
from gibbs_dp._jaxlib.compile import make_room
from gibbs_dp._progress import Progress
from gibbs_dp.auditing.assemble import make_report, partial_report
from gibbs_dp.auditing.report import Report
from gibbs_dp.auditing.report_data import CHANGED_SAMPLER
from gibbs_dp.auditing.summary import kind_of
from gibbs_dp.engine.datasets import Stream, check_examples, num_fresh, stream_key
from gibbs_dp.engine.executor import Workers, noting_interrupts, raise_lost_interrupt
from gibbs_dp.engine.pilots import TooCoarseError
from gibbs_dp.engine.plan import AuditSpec, default_block_size, default_ghosts, power_of_two
from gibbs_dp.engine.quantity import Quantity, Settings
from gibbs_dp.engine.store import Store
from gibbs_dp.engine.store.archive import Archive
from gibbs_dp.engine.store.configuration import (
    CacheKey,
    as_store,
    configuration,
    open_archive,
    request,
    stored_configuration,
)
from gibbs_dp.engine.sweep import (
    BeyondSumsError,
    SeveralModesError,
    SweepInterruptedError,
    explore,
    run_sweep,
)
from gibbs_dp.engine.track import Track
from gibbs_dp.model.check import as_key, check_posterior, names_keywords, positive_count
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.populations import HasSample, Population, as_population
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.quantities.exposure import Exposure
from gibbs_dp.quantities.registry import DEFAULT, leading_of, others
from gibbs_dp.results.table import Column
from gibbs_dp.sampling.adaptive_hmc import AdaptiveHMC, is_hierarchy
from gibbs_dp.sampling.as_sampler import Chains, as_sampler
from gibbs_dp.sampling.grid import Grid, Line, lattice_on_interval
from gibbs_dp.sampling.kernels import Kernel, Unadjusted
from gibbs_dp.sampling.modes import summary_of
from gibbs_dp.sampling.sampler import Sampler
from gibbs_dp.sampling.smc import SMC


class Counts(NamedTuple):
    """How many examples and datasets, as they were asked for."""

    n: int
    num_datasets: int
    max_datasets: int


def check_counts(
    n: int, group_size: int, num_datasets: int | tuple[int, int], rel_error: float | None
) -> Counts:
    """Check the counts of ``gibbs_dp.audit``; see there."""
    n = positive_count("n", n)
    if group_size > n:
        raise ValueError(f"group_size: {group_size} examples of a dataset of n={n}; lower it.")
    given: Any = num_datasets
    is_pair = isinstance(given, (tuple, list))
    if is_pair and len(given) != 2:
        raise ValueError(
            f"num_datasets: give a number, or two with rel_error (to start with, and at most), got "
            f"{given!r:.60}."
        )
    first = positive_count("num_datasets", given[0] if is_pair else given, least=2)
    most = 64 * first
    if is_pair:
        if rel_error is None:
            raise ValueError("num_datasets: a second number goes with rel_error; give one number.")
        most = positive_count("num_datasets", given[1])
        if most < first:
            raise ValueError(
                f"num_datasets: at most {most} is below the {first} to start with; raise it."
            )
    if rel_error is not None and not rel_error > 0:
        raise ValueError(f"rel_error: must be positive, got {rel_error}.")
    return Counts(n, first, most)


def check_ghosts(
    posterior: GibbsPosterior,
    population: Population,
    n: int,
    group_size: int,
    num_ghosts: int | None,
) -> int:
    """Return how many fresh examples to draw per dataset; see ``gibbs_dp.audit``."""
    if num_ghosts is None:
        num_ghosts = default_ghosts(posterior, population, n)
    num_ghosts = max(positive_count("num_ghosts", num_ghosts), group_size)
    if not population.is_dependent:
        return num_ghosts
    if group_size != n:
        raise ValueError(
            f"group_size: the population's examples are dependent, so only whole datasets can be "
            f"replaced by ghosts; pass group_size=n ({n}), not {group_size}."
        )
    return n * -(-num_ghosts // n)  # whole datasets


def check_gammas(gammas: ArrayLike | float | Sequence[float]) -> tuple[float, ...]:
    """Sort and check a grid of inverse temperatures."""
    try:
        table = np.atleast_1d(np.asarray(gammas, dtype=float))
    except (TypeError, ValueError):
        table = np.zeros((0, 0))
    if table.ndim != 1:
        raise ValueError(f"gammas: give a list of numbers, got {gammas!r:.60}.")
    values = [float(g) for g in table]
    if not values:
        raise ValueError("gammas: the grid is empty; give at least one value.")
    for g in values:
        if not (math.isfinite(g) and g >= 0):
            raise ValueError(f"gammas: {g:g} is not a finite number >= 0.")
    if len(set(values)) < len(values):
        raise ValueError("gammas: a value is repeated; give each once.")
    return tuple(sorted(values))


# Reports as plain lists and numbers, for a store, and back.


def report_to_plain(report: Report) -> dict[str, Any]:
    """Return what a store keeps of a report: all but figures of single rows."""
    curves = [{name: _lists(curve) for name, curve in of_row.items()} for of_row in report.curves]
    names = ("rows", "settings", "warnings", "notes")
    plain = {name: getattr(report, name) for name in names}
    own = [column.plain() for column in report.own_columns]
    values = [_lists(of_row) for of_row in report.per_dataset]
    return plain | {"per_dataset": values, "curves": curves, "own_columns": own}


def report_from_plain(held: dict[str, Any]) -> Report:
    """Make the report again."""
    rows, warnings, notes = (tuple(held[name]) for name in ("rows", "warnings", "notes"))
    curves = tuple(
        {name: _arrays(curve) for name, curve in of_row.items()} for of_row in held["curves"]
    )
    values = tuple(_arrays(of_row) for of_row in held["per_dataset"])
    own = tuple(Column.from_plain(column) for column in held["own_columns"])
    return Report(rows, held["settings"], warnings, notes, values, curves, (), own)


def _lists(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    return {name: array.tolist() for name, array in arrays.items()}


def _arrays(lists: dict[str, Any]) -> dict[str, np.ndarray]:
    return {name: np.array(values, np.float64) for name, values in lists.items()}


# What an audit goes on with where its pilots find several modes.

# Particles of an audit that goes on with SMC: of paths in many coordinates more are lost.
PARTICLES_PER_DIM, MOST_PARTICLES = 16, 1024


def with_smc(settings: Settings) -> Settings | None:
    """Return settings with SMC; None where the prior cannot be drawn from."""
    if not settings.posterior.prior.has_draws:
        return None
    dim = settings.posterior.dim
    smc = SMC(num_particles=min(MOST_PARTICLES, max(256, power_of_two(PARTICLES_PER_DIM * dim))))
    return replace(settings, sampler=smc, num_chains=smc.num_islands, num_samples=smc.num_each)


# Points of the lattices that are tried before, on an interval: all posteriors share them, so that
# they tell any KL. And how many are to be effective: where a loss jumps, means over datasets of
# what so many say are off by less than a percent.
LATTICES, FINE_POINTS = (1024, 8192), 32.0


def lattices_of(posterior: GibbsPosterior) -> list[Grid]:
    """Return lattices to sum over, the coarser first, of a number on an interval; else none."""
    found = (lattice_on_interval(posterior, count) for count in LATTICES)
    return [one for one in found if one is not None]


def is_fine(tracks: Sequence[Track]) -> bool:
    """Whether a lattice has several points where any dataset's posterior is, at every gamma."""
    summaries = [track.summary() for track in tracks]
    fewest = (np.min(s.values.lattice.effective_points) for s in summaries if s is not None)
    return all(count >= FINE_POINTS for count in fewest)


# Sums over so many nodes are tried in turn: a kink of a loss of examples is one of many, that of a
# loss of the whole dataset is the density's own. Jumps, which chains do not see, and narrow peaks
# want more.
NUM_NODES, NUM_NODES_OF_WHOLE = (64, 256, 1024), (256, 1024)


def lines_of(posterior: GibbsPosterior, learn: Sequence[Quantity]) -> list[Line]:
    """Return sums for a posterior of one coordinate, where they tell all that is learnt."""
    leading = leading_of(learn)
    is_known = all(
        type(q).__module__.startswith("gibbs_dp.") and not q.needs_independent_chains for q in learn
    )
    if posterior.dim != 1 or not is_known or leading.estimator not in ("auto", "one-sided"):
        return []
    counts = NUM_NODES_OF_WHOLE if posterior.structured else NUM_NODES
    return [Line(count) for count in counts]


class AuditInterrupted(KeyboardInterrupt):
    """Ctrl-C during an audit. ``report`` holds what was finished, or None."""

    def __init__(self, report: Report | None) -> None:
        super().__init__("audit interrupted")
        self.report = report


@names_keywords
@warns(kind_of)
def audit(
    posterior: GibbsPosterior,
    population: HasSample | Callable[[PRNGKeyArray, int], Any],
    n: int,
    gammas: ArrayLike | float | Sequence[float],
    *,
    num_datasets: int | tuple[int, int] = 1024,
    learn: Sequence[Quantity] = DEFAULT,
    sampler: Kernel | Unadjusted | Sampler | Chains | None = None,
    domain: Domain | None = None,
    rel_error: float | None = None,
    key: int | PRNGKeyArray = 0,
    store: Store | str | os.PathLike[str] | None = None,
    executor: Executor | None = None,
    block_size: int | None = None,
    progress: bool = True,
) -> Report:
    """Sample the posteriors of many datasets and report privacy, generalization and risk.

    For every gamma, ``num_datasets`` datasets of ``n`` examples are drawn (the same ones for
    every gamma), their posteriors sampled, and the draws reduced to on-average KL-privacy
    (Wang, Lei & Fienberg 2016, Definition 2), generalization error and risks. Standard errors
    are over datasets. A few draws a dataset are enough: the datasets are the sample.

    Parameters
    ----------
    posterior
        Loss and prior.
    population
        ``(key, n) -> examples``, a distribution of NumPyro, or an object of
        ``gibbs_dp.populations``.
    n
        Examples per dataset.
    gammas
        Inverse temperatures, finite and >= 0; gamma multiplies the total loss.
    num_datasets
        Datasets per gamma. Where ``rel_error`` asks for more, the number to start with, or a pair:
        that and the number at which it stops trying, 64 times as many by default.
    learn
        Quantities: what the rows are to say. By default ``gibbs_dp.DEFAULT``, which is
        :class:`~gibbs_dp.OnAverageKL`, :class:`~gibbs_dp.Risks`,
        :class:`~gibbs_dp.MutualInformation`, :class:`~gibbs_dp.WorstCase` and
        :class:`~gibbs_dp.Attacker`; on request :class:`~gibbs_dp.FurtherInformation`,
        :class:`~gibbs_dp.Exposure`, and subclasses of :class:`~gibbs_dp.Quantity` of your own. Of
        several of one kind the last counts: ``learn=[*gibbs_dp.DEFAULT,
        gibbs_dp.MutualInformation(256)]``. On-average KL, which steers the audit, is always there.
    sampler
        A kernel, ``gibbs_dp.HMC()`` or ``gibbs_dp.MALA()``; ``gibbs_dp.Chains(kernel,
        num_chains=8, num_samples=8, num_warmup=None)``, to say how many chains it runs and how
        long; ``gibbs_dp.SMC()`` for posteriors with several modes; or ``gibbs_dp.Grid(...)`` for
        posteriors summed exactly over candidates or a lattice. None: HMC, or an ensemble of chains
        where parts of the prior depend on each other; and without a ``store``, where theta has one
        coordinate, ``gibbs_dp.Line()``, which sums. Where sums over nodes cannot tell, an audit
        goes on with a lattice if theta is on an interval, or with chains. If there is neither
        kernel nor ``store``, one whose pilots find several modes goes on with that lattice, or with
        SMC if the prior can be drawn from, and says so. ``gibbs_dp.ULA()`` and
        ``gibbs_dp.SGLD()`` are biased; the column ``variance_inflation`` estimates by how much.
    domain
        Declared bounds on examples: supplies ``dp_epsilon`` for the built-in losses, and ``sigma``
        of bounded ones.
    rel_error
        Add datasets to a gamma until the standard error of ``on_average_kl`` is this share of it
        (never judged on fewer than 256 datasets).
    key
        Integer seed or JAX key. The same key gives the same numbers up to rounding, whatever the
        block size or device count.
    store
        Folder that keeps every finished block of datasets: killed at any moment, the same call
        continues and ends with the same numbers, and further datasets, gammas or a smaller
        ``rel_error`` reuse what is there. A :class:`gibbs_dp.Store` also shares the work among
        processes. Blocks, pilots and mutual information are kept; a setting or function that
        changed is refused (code behind host callbacks is not seen, see
        ``gibbs_dp.engine.store.configuration``). ``block_size`` is then the store's by default.
    executor
        Where blocks of datasets run, any ``concurrent.futures.Executor``: of Dask
        (``client.get_executor()``), ``mpi4py.futures``, or processes that are spawned. The numbers
        are those of a single process; everything that decides, mutual information and the store
        stay in this one. A block whose worker was lost is run again, up to three times. Needs the
        extra ``distributed``. None: threads of this process, on all of its cores or devices.
    block_size
        Datasets per compiled call; changes nothing but speed and memory.
    progress
        Tell on stderr what is done: a bar in terminals and notebooks, elsewhere a line a stage.

    Returns
    -------
    Report
        With ``warnings`` wherever the engine saw that it is wrong.

    Raises
    ------
    ValueError
        For arguments that make no sense, examples or losses that do not fit together,
        posteriors that cannot be normalized, a store of another configuration, and workers that
        have other versions of the library or of JAX.
    AuditInterrupted
        On Ctrl-C; its ``report`` holds what was finished.
    AuditIncomplete
        If this process has done its part and blocks of others are missing in the store.
    StoreError
        If the store cannot be written (a full disk); what was finished stays.
    ExecutorError
        If the executor breaks, or loses the same block again and again.

    Examples
    --------
    >>> import jax, numpyro.distributions as dist, gibbs_dp as gdp
    >>> posterior = gdp.GibbsPosterior(gdp.losses.half_squared_distance,
    ...                                gdp.Flat(gdp.supports.real(1)))
    >>> report = gdp.audit(posterior, lambda key, n: jax.random.normal(key, (n, 1)), n=20,
    ...                    gammas=[1.0], num_datasets=256, progress=False)
    >>> bool(abs(report["on_average_kl"][0] - 1 / 20) < 4 * report["on_average_kl_se"][0])
    True
    """
    if executor is not None:
        from gibbs_dp.engine.remote import check_executor

        check_executor(executor)
    check_posterior(posterior, learn, sampler)
    checked, root = check_gammas(gammas), as_key(key)
    # What is given in place of chains counts as a kernel, which the audit keeps to.
    chains, kernel = (
        (sampler, sampler.kernel) if isinstance(sampler, Chains) else (Chains(), sampler)
    )
    if kernel is None and is_hierarchy(posterior):
        drawn_by: Sampler = AdaptiveHMC()
    else:
        drawn_by = as_sampler(kernel, also=", or gibbs_dp.Grid(...)")
    drawn_by.check(posterior)
    leading, source = leading_of(learn), as_population(population)
    counts = check_counts(n, leading.group_size, num_datasets, rel_error)
    num_ghosts = check_ghosts(posterior, source, counts.n, leading.group_size, leading.num_ghosts)
    if drawn_by.traits.is_exact and leading.estimator not in ("auto", "one-sided"):
        raise ValueError(
            f"estimator: a {type(drawn_by).__name__} sums over the posterior exactly and has no "
            f"use for {leading.estimator!r}; leave it at 'auto'."
        )
    place = None if store is None else as_store(store)
    held = None if place is None else stored_configuration(place)
    if block_size is None and held is not None:
        block_size = held.get("block_size")
    if block_size is not None:
        block_size = positive_count("block_size", block_size)

    def settings_of(sampler: Sampler) -> Settings:
        shape = sampler.shape(posterior, chains.num_chains, chains.num_samples)
        size = block_size or default_block_size(
            posterior,
            counts.n,
            num_ghosts,
            *shape,
            counts.num_datasets,
            is_stored=place is not None,
            num_gammas=len(checked) if sampler.traits.is_path else 1,
        )
        spec = AuditSpec(
            posterior=posterior,
            population=source,
            n=counts.n,
            gammas=checked,
            num_datasets=counts.num_datasets,
            num_ghosts=num_ghosts,
            key=root,
            sampler=sampler,
            num_chains=shape[0],
            num_warmup=chains.num_warmup,
            num_samples=shape[1],
            group_size=leading.group_size,
            rel_error=rel_error,
            max_datasets=counts.max_datasets,
            block_size=size,
            domain=domain,
        )
        return Settings(**vars(spec), leading=leading, others=others(learn, spec))

    is_free = place is None and sampler is None
    lines = lines_of(posterior, learn) if is_free and drawn_by == as_sampler(None) else []
    lattices = [settings_of(one) for one in lattices_of(posterior)] if lines else []
    in_turn = [*map(settings_of, lines), *lattices, settings_of(drawn_by)]
    settings = in_turn[0]
    has_rows = any(isinstance(q, Exposure) for q in settings.others)
    identity = CacheKey(settings)
    if held is None:  # what a store holds has been checked
        identity.check_once(lambda: _check(settings))
    archive = None if place is None else open_archive(place, lambda: _describe(settings))
    wanted = request(settings)  # a domain that does not fit is refused here, before any sampling
    workers = None if executor is None else _remote(executor, place)
    if archive is None:
        with identity.known():
            particles = None if kernel is not None else with_smc(in_turn[-1])
            at_modes = lattices if particles is None else [*lattices, particles]
            return _run(in_turn, progress, None, workers, at_modes)
    # Figures of rows are made from the blocks again: no file holds them beside the report's own.
    stored = None if has_rows else archive.report(wanted)
    if stored is not None:
        return report_from_plain(stored)
    with identity.known():
        report = _run([settings], progress, archive, workers)
    if has_rows:
        return report
    archive.save_report(wanted, report_to_plain(report))
    return report


def _describe(settings: Settings) -> dict[str, Any]:
    try:
        return configuration(settings)
    except Exception:
        _check(settings)  # says what is wrong with examples or losses that cannot be traced
        raise


def _check(settings: Settings) -> None:
    s = settings
    fresh = num_fresh(s.posterior, s.n, s.num_ghosts)
    check_examples(s.posterior, s.population, s.n, fresh, stream_key(s.key, Stream.TRIAL))


def _remote(executor: Executor, store: Store | None) -> Workers:
    from gibbs_dp.engine.remote import Remote

    if store is None:
        return Remote(executor, "nothing was kept, as no store was given")
    kept = f"finished blocks are in the store {os.fspath(store.path)!r}, to go on with"
    return Remote(executor, kept)


def _changed(found: SeveralModesError, sampler: Sampler) -> Warned:
    name = f"gibbs_dp.{type(sampler).__name__}()"
    if isinstance(sampler, Grid):
        name = f"sums over {sampler.num_points:,} points of the support (gibbs_dp.Grid)"
    modes = summary_of(found.modes)
    return CHANGED_SAMPLER(gamma=found.gamma, found=modes, sampler=name)


def _run(
    in_turn: Sequence[Settings],
    progress: bool,
    archive: Archive | None,
    workers: Workers | None,
    at_modes: Sequence[Settings] = (),
) -> Report:
    """Run the first settings whose sampler suits; of ``at_modes`` where modes are found."""
    make_room()
    told: tuple[Warned, ...] = ()
    left, found = list(in_turn), None
    with noting_interrupts(), Progress(progress) as bar:
        settings = left.pop(0)
        try:
            while True:
                if found is not None:
                    told = (_changed(found, settings.sampler),)
                is_tentative = found is None and bool(left or at_modes)
                try:
                    tracks = run_sweep(settings, bar, archive, workers, is_tentative)
                    is_trial = bool(left) and isinstance(settings.sampler, Grid)
                    if not is_trial or is_fine(tracks):
                        break
                    settings = left.pop(0)
                except TooCoarseError:
                    if not left:
                        raise
                    settings = left.pop(0)
                except BeyondSumsError:  # more nodes of a dataset's own would be as far beyond
                    left = [one for one in left if not isinstance(one.sampler, Line)]
                    settings = left.pop(0)
                except SeveralModesError as error:
                    if at_modes:
                        found, left = error, list(at_modes)
                        settings = left.pop(0)
                    else:  # chains tell of them
                        settings = left.pop()
                        left.clear()
        except SweepInterruptedError as stopped:
            raise AuditInterrupted(partial_report(settings, stopped.tracks, told)) from None
        try:
            raise_lost_interrupt()
            results = explore(settings, tracks, bar, archive)
            raise_lost_interrupt()
        except KeyboardInterrupt:
            raise AuditInterrupted(partial_report(settings, tracks, told)) from None
    return make_report(settings, results, told)
