"""The main job: how private and how accurate a Gibbs posterior is on average, over gamma."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

import jax
from jaxtyping import PRNGKeyArray
from numpy.typing import ArrayLike

from gibbs_dp.audit.assemble import make_report, partial_report
from gibbs_dp.audit.information import compare_all
from gibbs_dp.audit.progress import Progress
from gibbs_dp.audit.report import Report
from gibbs_dp.audit.settings import (
    Estimator,
    Settings,
    check_examples,
    check_gammas,
    check_information,
    check_sigma,
)
from gibbs_dp.audit.sizes import default_block_size, default_ghosts
from gibbs_dp.audit.store import Store
from gibbs_dp.audit.store.archive import Archive
from gibbs_dp.audit.store.configuration import configuration, request
from gibbs_dp.audit.store.open import as_store, open_archive, stored_configuration
from gibbs_dp.audit.sweep import SweepInterruptedError, run_sweep
from gibbs_dp.model.check import as_key, check_posterior, positive_count
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.keywords import names_keywords
from gibbs_dp.model.populations import HasSample, as_population
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.grid import Grid
from gibbs_dp.sampling.kernels import HMC, Kernel, Unadjusted, check_kernel
from gibbs_dp.sampling.langevin_walk import check_unadjusted


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
    num_datasets: int = 1024,
    num_ghosts: int | None = None,
    key: int | PRNGKeyArray = 0,
    kernel: Kernel | Unadjusted | Grid | None = None,
    num_chains: int = 8,
    num_warmup: int | None = None,
    num_samples: int = 8,
    group_size: int = 1,
    rel_error: float | None = None,
    max_datasets: int | None = None,
    domain: Domain | None = None,
    estimator: Estimator = "auto",
    block_size: int | None = None,
    num_information: int | None = None,
    sigma: float | Literal["empirical"] | None = None,
    store: Store | str | os.PathLike[str] | None = None,
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
        ``gibbs_dp.HMC()`` by default, ``gibbs_dp.MALA()``, or ``gibbs_dp.Grid(...)`` for posteriors
        summed exactly over candidates or a lattice (chains, samples and warm-up are then unused).
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
    store
        Folder that keeps every finished block of datasets: killed at any moment, the same call
        continues and ends with the same numbers, and further datasets, gammas or a smaller
        ``rel_error`` reuse what is there. A :class:`gibbs_dp.Store` also shares the work among
        processes. Blocks, pilots and mutual information are kept; a setting or function that
        changed is refused (code behind host callbacks is not seen, see
        ``gibbs_dp.audit.store.fingerprint``). ``block_size`` is then the store's by default.
    progress
        Show a progress bar on stderr.

    Returns
    -------
    Report
        With ``warnings`` wherever the engine saw that it is wrong.

    Raises
    ------
    ValueError
        For arguments that make no sense, examples or losses that do not fit together,
        posteriors that cannot be normalized, and a store of another configuration.
    AuditInterrupted
        On Ctrl-C; its ``report`` holds what was finished.
    AuditIncomplete
        If this process has done its part and blocks of others are missing in the store.
    StoreError
        If the store cannot be written (a full disk); what was finished stays.

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
    check_posterior(posterior)
    group_size = positive_count("group_size", group_size)
    n = positive_count("n", n)
    if group_size > n:
        raise ValueError(f"group_size: {group_size} examples of a dataset of n={n}; lower it.")
    num_chains = positive_count("num_chains", num_chains, least=2)
    num_samples = positive_count("num_samples", num_samples, least=4)
    num_datasets = positive_count("num_datasets", num_datasets, least=2)
    if num_warmup is not None:
        num_warmup = positive_count("num_warmup", num_warmup, least=0)
    if rel_error is not None and not rel_error > 0:
        raise ValueError(f"rel_error: must be positive, got {rel_error}.")
    if max_datasets is None:
        max_datasets = 64 * num_datasets
    max_datasets = positive_count("max_datasets", max_datasets)
    if max_datasets < num_datasets:
        raise ValueError(
            f"max_datasets: {max_datasets} is below num_datasets={num_datasets}; raise it."
        )
    if estimator not in get_args(Estimator):
        raise ValueError(
            f"estimator: {estimator!r} is not 'auto', 'one-sided', 'two-sided' or 'ghost'."
        )
    checked = check_gammas(gammas)
    root = as_key(key)
    source = as_population(population)
    if num_ghosts is None:
        num_ghosts = default_ghosts(posterior, source, n)
    num_ghosts = max(positive_count("num_ghosts", num_ghosts), group_size)
    if source.is_dependent:
        if group_size != n:
            raise ValueError(
                f"group_size: the population's examples are dependent, so only whole datasets can "
                f"be replaced by ghosts; pass group_size=n ({n}), not {group_size}."
            )
        num_ghosts = n * -(-num_ghosts // n)  # whole datasets
    if not isinstance(kernel, Grid):
        kernel = check_kernel(HMC() if kernel is None else kernel, also=", or gibbs_dp.Grid(...)")
    if isinstance(kernel, Unadjusted):
        check_unadjusted(kernel, posterior)
    if isinstance(kernel, Grid):
        num_chains, num_samples = 1, kernel.check(posterior)
        if estimator in ("two-sided", "ghost"):
            raise ValueError(
                "estimator: a Grid sums over the posterior exactly and has no use for "
                f"{estimator!r}; leave it at 'auto'."
            )
    place = None if store is None else as_store(store)
    held = None if place is None else stored_configuration(place)
    if block_size is None and held is not None:
        block_size = held.get("block_size")
    if block_size is None:
        block_size = default_block_size(
            posterior,
            n,
            num_ghosts,
            num_chains,
            num_samples,
            num_datasets,
            is_stored=place is not None,
        )
    settings = Settings(
        posterior=posterior,
        population=source,
        n=n,
        gammas=checked,
        num_datasets=num_datasets,
        num_ghosts=num_ghosts,
        key=root,
        kernel=kernel,
        num_chains=num_chains,
        num_warmup=num_warmup,
        num_samples=num_samples,
        group_size=group_size,
        rel_error=rel_error,
        max_datasets=max_datasets,
        domain=domain,
        estimator=estimator,
        block_size=positive_count("block_size", block_size),
        num_information=check_information(num_information, num_datasets, posterior.dim),
        sigma=check_sigma(sigma),
    )
    if held is None:  # what a store holds has been checked
        _check(settings)
    archive = None if place is None else open_archive(place, lambda: _describe(settings))
    if archive is None:
        return _run(settings, progress, None)
    asked = request(settings)
    report = archive.report(asked)
    if report is None:
        report = _run(settings, progress, archive)
        archive.save_report(asked, report)
    return report


def _describe(settings: Settings) -> dict[str, Any]:
    try:
        return configuration(settings)
    except Exception:
        _check(settings)  # says what is wrong with examples or losses that cannot be traced
        raise


def _check(settings: Settings) -> None:
    s = settings
    fresh = s.num_ghosts + (s.n if s.posterior.structured else 0)
    check_examples(s.posterior, s.population, s.n, fresh, jax.random.fold_in(s.key, 3))


def _run(settings: Settings, progress: bool, archive: Archive | None) -> Report:
    with Progress(progress, steps=len(settings.gammas)) as bar:
        try:
            tracks = run_sweep(settings, bar, archive)
        except SweepInterruptedError as interrupt:
            raise AuditInterrupted(partial_report(settings, interrupt.tracks)) from None
        try:
            found = compare_all(settings, tracks, bar, archive)
        except KeyboardInterrupt:
            raise AuditInterrupted(partial_report(settings, tracks)) from None
    return make_report(settings, tracks, found)
