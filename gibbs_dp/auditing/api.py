"""The main job: how private and how accurate a Gibbs posterior is on average, over gamma."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from jaxtyping import PRNGKeyArray
from numpy.typing import ArrayLike

from gibbs_dp._cautions import Warned
from gibbs_dp._jaxlib.memory_maps import make_room
from gibbs_dp.auditing.assemble import make_report, partial_report
from gibbs_dp.auditing.cautions import CHANGED_TO_SMC
from gibbs_dp.auditing.checks import check_counts, check_gammas, check_ghosts
from gibbs_dp.auditing.report import Report
from gibbs_dp.engine import interrupt
from gibbs_dp.engine.datasets import Stream, check_examples, num_fresh, stream_key
from gibbs_dp.engine.identity import Identity
from gibbs_dp.engine.progress import Progress
from gibbs_dp.engine.remote import Remote, check_executor
from gibbs_dp.engine.settings import Settings
from gibbs_dp.engine.sizes import default_block_size, power_of_two
from gibbs_dp.engine.store import Store
from gibbs_dp.engine.store.archive import Archive
from gibbs_dp.engine.store.fingerprint import configuration, request
from gibbs_dp.engine.store.open import as_store, open_archive, stored_configuration
from gibbs_dp.engine.sweep import (
    SeveralModesError,
    SweepInterruptedError,
    explore,
    run_sweep,
)
from gibbs_dp.engine.workers import Workers
from gibbs_dp.information.checks import Adjacency
from gibbs_dp.model.check import as_key, check_posterior, positive_count
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.keywords import names_keywords
from gibbs_dp.model.populations import HasSample, as_population
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.quantities.attacker.quantity import check_releases
from gibbs_dp.quantities.exposure import check_exposure
from gibbs_dp.quantities.information.names import DEFAULT, InformationName, check_names
from gibbs_dp.quantities.mutual_information.quantity import check_information
from gibbs_dp.quantities.on_average_kl import OnAverageKL
from gibbs_dp.quantities.registry import others
from gibbs_dp.sampling.as_sampler import as_sampler
from gibbs_dp.sampling.kernels import Kernel, Unadjusted
from gibbs_dp.sampling.modes import summary_of
from gibbs_dp.sampling.sampler import Sampler
from gibbs_dp.sampling.smc.sampler import SMC

# Reports as plain lists and numbers, for a store, and back.


def parts_of(report: Report) -> dict[str, Any]:
    """Return what a store keeps of a report: all but figures of single rows."""
    curves = [{name: _lists(curve) for name, curve in of_row.items()} for of_row in report.curves]
    names = ("rows", "settings", "warnings", "notes")
    plain = {name: getattr(report, name) for name in names}
    return plain | {"per_dataset": [_lists(v) for v in report.per_dataset], "curves": curves}


def restored(held: dict[str, Any]) -> Report:
    """Make the report again."""
    rows, warnings, notes = (tuple(held[name]) for name in ("rows", "warnings", "notes"))
    curves = tuple(
        {name: _arrays(curve) for name, curve in of_row.items()} for of_row in held["curves"]
    )
    values = tuple(_arrays(of_row) for of_row in held["per_dataset"])
    return Report(rows, held["settings"], warnings, notes, values, curves)


def _lists(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    return {name: array.tolist() for name, array in arrays.items()}


def _arrays(lists: dict[str, Any]) -> dict[str, np.ndarray]:
    return {name: np.array(values, np.float64) for name, values in lists.items()}


# What an audit goes on with where its pilots find several modes.

# Particles of an audit that goes on with SMC: of paths in many coordinates more are lost.
PARTICLES_PER_DIM, MOST_PARTICLES = 16, 1024


def settings_with_smc(settings: Settings, kernel: Any) -> Settings | None:
    """Return what an audit goes on with where pilots find several modes; None: with its chains.

    Only where the kernel was left to the audit, and the prior can be drawn from.
    """
    if kernel is not None or not settings.posterior.prior.has_draws:
        return None
    dim = settings.posterior.dim
    smc = SMC(num_particles=min(MOST_PARTICLES, max(256, power_of_two(PARTICLES_PER_DIM * dim))))
    return replace(settings, sampler=smc, num_chains=smc.num_islands, num_samples=smc.num_each)


class AuditInterrupted(KeyboardInterrupt):
    """Ctrl-C during an audit. ``report`` holds what was finished, or None."""

    def __init__(self, report: Report | None) -> None:
        super().__init__("audit interrupted")
        self.report = report


@names_keywords
def audit(
    posterior: GibbsPosterior,
    population: HasSample | Callable[[PRNGKeyArray, int], Any],
    n: int,
    gammas: ArrayLike | float | Sequence[float],
    *,
    num_datasets: int = 1024,
    num_ghosts: int | None = None,
    key: int | PRNGKeyArray = 0,
    kernel: Kernel | Unadjusted | Sampler | None = None,
    num_chains: int = 8,
    num_warmup: int | None = None,
    num_samples: int = 8,
    group_size: int = 1,
    rel_error: float | None = None,
    max_datasets: int | None = None,
    domain: Domain | None = None,
    adjacency: Adjacency = "replace-one",
    estimator: str = "auto",
    block_size: int | None = None,
    num_information: int | None = None,
    sigma: float | Literal["empirical"] | None = None,
    b: float | None = None,
    information: Sequence[InformationName] = DEFAULT,
    attack: bool = True,
    num_releases: int = 1,
    exposure: bool = False,
    store: Store | str | os.PathLike[str] | None = None,
    executor: Executor | None = None,
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
        ``(key, n) -> examples``, or an object of ``gibbs_dp.populations``.
    n
        Examples per dataset.
    gammas
        Inverse temperatures, finite and >= 0; gamma multiplies the total loss.
    num_datasets
        Datasets per gamma; where ``rel_error`` asks for more, the number to start with.
    num_ghosts
        Fresh examples per dataset (raised to ``group_size`` where that is larger). None: ``n``, but
        at least 64, at most 256; 64 for a structured loss, which needs a dataset with each of them;
        no more than a table drawn without replacement has left; and 16 for dependent examples,
        where each stands for a dataset.
    key
        Integer seed or JAX key. The same key gives the same numbers up to rounding, whatever the
        block size or device count.
    kernel
        ``gibbs_dp.HMC()`` by default, ``gibbs_dp.MALA()``, ``gibbs_dp.SMC()`` for posteriors with
        several modes, or ``gibbs_dp.Grid(...)`` for posteriors summed exactly over candidates or a
        lattice (of the last two, chains, samples and warm-up are unused). If it is left out, there
        is no ``store`` and the prior can be drawn from, an audit whose pilots find several modes
        goes on with SMC, and says so.
        ``gibbs_dp.ULA()`` and ``gibbs_dp.SGLD()`` are biased; the column ``variance_inflation``
        estimates by how much.
    num_chains, num_samples
        Chains per dataset (at least 2) and draws kept per chain (at least 4).
    num_warmup
        Burn-in steps. None: 16, lengthened where pilots or the drift test ask for it.
    group_size
        Examples replaced at once, ``k``.
    rel_error
        Add datasets to a gamma until the standard error of ``on_average_kl`` is this share of it
        (never judged on fewer than 256 datasets).
    max_datasets
        Where ``rel_error`` stops trying; 64 times ``num_datasets`` by default.
    domain
        Declared bounds on examples: supplies ``dp_epsilon`` for the built-in losses.
    adjacency
        Which datasets are neighbours for ``dp_epsilon``. On-average KL is of replaced examples.
    estimator
        Of on-average KL. "one-sided" takes normalizer ratios from the posterior's own draws;
        "two-sided" also samples the posterior with examples replaced, which is unbiased for any
        KL but costs up to nine times as much; "ghost" is gamma times the generalization error
        (Theorem 4), steady only where the KL is some nats. "auto" decides per gamma on pilot
        datasets, and leaves one side where the reported datasets show that it fails on them.
    block_size
        Datasets per compiled call; changes nothing but speed and memory.
    num_information
        Datasets compared with each other for mutual information, ``M``: its lower bound cannot
        exceed ``log M``, and its cost grows like ``M^2 n``. None: ``min(num_datasets, 1024)``,
        or none where that is below 32 or theta has more than 512 coordinates; 0: none.
    sigma
        ``loss(theta, z)`` is ``sigma^2``-subgaussian in ``z`` for every theta, for the upper end
        of Corollary 10. None: half the loss's range on the declared domain, if that is finite;
        "empirical": the largest standard deviation seen over draws, which guarantees nothing.
    b
        Declares the loss subexponential only (exponential or squared Gaussian data, say): ``log E
        exp(s (loss - R)) <= s^2 sigma^2 / 2`` for ``|s| < 1/b``, with the given number ``sigma``;
        in units of the loss. The upper end is then ``b I / n + sigma^2 / (2 b)``, and that of
        subgaussian losses where ``2 I / (n sigma^2) <= 1 / b^2`` (Russo & Zou 2016, Proposition
        3). None: for every ``s``.
    information
        What is learnt from the comparison of datasets, () for nothing: "mutual" information, and
        on request Sibson's "alpha" information of orders 2 and 8, maximal "leakage", T-information
        ("tv"), "conditional" information by supersamples, and "membership", what a draw says about
        one example where the others are unknown; each with its bound of the generalization error.
    attack
        Whether to learn what an attacker sees in a draw: ``on_average_tv``, the columns beside it
        and :meth:`Report.privacy_profile`. It takes some 0.2 ms of a core for a dataset and gamma,
        and 1.4 kB.
    num_releases
        Independent draws of one posterior that this attacker sees together; at most
        ``num_chains``.
    exposure
        Whether :attr:`Report.exposure` is to say what each row of a table costs. Only for a
        population that is a ``Table``, a loss of single examples and ``group_size=1``. It needs
        three numbers a gamma, dataset and example (12 kB a dataset of 1,000; of larger datasets
        the first 4,096 examples are looked at), and a few operations a draw, example and each of
        16 ghosts: an audit of a mean takes two to three times as long, others less than that. A
        row is in some ``num_datasets * n / rows`` datasets, half of which choose the list, half of
        which report; 40 or more are worth having. The list is as sensitive as the table.
    store
        Folder that keeps every finished block of datasets: killed at any moment, the same call
        continues and ends with the same numbers, and further datasets, gammas or a smaller
        ``rel_error`` reuse what is there. A :class:`gibbs_dp.Store` also shares the work among
        processes. Blocks, pilots and mutual information are kept; a setting or function that
        changed is refused (code behind host callbacks is not seen, see
        ``gibbs_dp.engine.store.fingerprint``). ``block_size`` is then the store's by default.
    executor
        Where blocks of datasets run, any ``concurrent.futures.Executor``: of Dask
        (``client.get_executor()``), ``mpi4py.futures``, or processes that are spawned. The numbers
        are those of a single process; everything that decides, mutual information and the store
        stay in this one. A block whose worker was lost is run again, up to three times. Needs the
        extra ``distributed``. None: threads of this process, on all of its cores or devices.
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
        check_executor(executor)
    check_posterior(posterior)
    counts = check_counts(
        n, group_size, num_chains, num_samples, num_datasets, num_warmup, rel_error, max_datasets
    )
    leading, checked, root = OnAverageKL(estimator), check_gammas(gammas), as_key(key)
    source = as_population(population)
    num_ghosts = check_ghosts(posterior, source, counts.n, counts.group_size, num_ghosts)
    of_rows = check_exposure(exposure, posterior, source, counts.group_size)
    sampler = as_sampler(kernel, also=", or gibbs_dp.Grid(...)")
    sampler.check(posterior)
    num_chains, num_samples = sampler.shape(posterior, counts.num_chains, counts.num_samples)
    if sampler.traits.is_exact and estimator not in ("auto", "one-sided"):
        raise ValueError(
            f"estimator: a {type(sampler).__name__} sums over the posterior exactly and has no use "
            f"for {estimator!r}; leave it at 'auto'."
        )
    place = None if store is None else as_store(store)
    held = None if place is None else stored_configuration(place)
    if block_size is None and held is not None:
        block_size = held.get("block_size")
    if block_size is None:
        block_size = default_block_size(
            posterior,
            counts.n,
            num_ghosts,
            num_chains,
            num_samples,
            counts.num_datasets,
            is_stored=place is not None,
            num_gammas=len(checked),
        )
    releases = check_releases(num_releases, num_chains, sampler.traits.is_exact)
    names = check_names(information)
    num_information = check_information(
        num_information, counts.num_datasets, posterior.dim, getattr(source, "is_mixture", False)
    )
    num_information = num_information if names else 0
    settings = Settings(
        posterior=posterior,
        population=source,
        n=counts.n,
        gammas=checked,
        num_datasets=counts.num_datasets,
        num_ghosts=num_ghosts,
        key=root,
        sampler=sampler,
        num_chains=num_chains,
        num_warmup=counts.num_warmup,
        num_samples=num_samples,
        group_size=counts.group_size,
        rel_error=rel_error,
        max_datasets=counts.max_datasets,
        block_size=positive_count("block_size", block_size),
        leading=leading,
        others=(
            *others(
                num_information,
                sigma,
                domain,
                adjacency,
                names,
                releases if attack else None,
                b,
            ),
            *of_rows,
        ),
    )
    identity = Identity(settings)
    if held is None:  # what a store holds has been checked
        identity.check_once(lambda: _check(settings))
    archive = None if place is None else open_archive(place, lambda: _describe(settings))
    asked = request(settings)  # a domain that does not fit is refused here, before any sampling
    workers = None if executor is None else Remote(executor, _kept(place))
    if archive is None:
        with identity.known():
            return _run(settings, progress, None, workers, settings_with_smc(settings, kernel))
    # Figures of rows are made from the blocks again: no file holds them beside the report's own.
    stored = None if of_rows else archive.report(asked)
    if stored is not None:
        return restored(stored)
    with identity.known():
        report = _run(settings, progress, archive, workers)
    if of_rows:
        return report
    archive.save_report(asked, parts_of(report))
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


def _kept(store: Store | None) -> str:
    if store is None:
        return "nothing was kept, as no store was given"
    return f"finished blocks are in the store {os.fspath(store.path)!r}, to go on with"


def _run(
    settings: Settings,
    progress: bool,
    archive: Archive | None,
    workers: Workers | None,
    with_smc: Settings | None = None,
) -> Report:
    make_room()
    told: tuple[Warned, ...] = ()
    with interrupt.noted(), Progress(progress) as bar:
        try:
            try:
                tracks = run_sweep(settings, bar, archive, workers, with_smc is not None)
            except SeveralModesError as found:
                assert with_smc is not None
                told = (CHANGED_TO_SMC(gamma=found.gamma, found=summary_of(found.modes)),)
                settings = with_smc
                tracks = run_sweep(settings, bar, archive, workers)
        except SweepInterruptedError as stopped:
            raise AuditInterrupted(partial_report(settings, stopped.tracks, told)) from None
        try:
            interrupt.check()
            results = explore(settings, tracks, bar, archive)
            interrupt.check()
        except KeyboardInterrupt:
            raise AuditInterrupted(partial_report(settings, tracks, told)) from None
    return make_report(settings, results, told)
