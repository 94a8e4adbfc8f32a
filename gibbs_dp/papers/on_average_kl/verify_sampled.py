"""Sampled checks: audits of small problems against closed forms and against each other.

Every comparison is a z-score. Numbers from the same datasets are dependent, so their standard
errors are added, which bounds that of the difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import jax.numpy as jnp
from jaxtyping import Array, Float

from gibbs_dp import io
from gibbs_dp._jaxlib.threads import POOL_SIZE
from gibbs_dp.auditing import Report, audit
from gibbs_dp.engine.executor import num_workers
from gibbs_dp.exact.closed_form import ClosedForm, gaussian_mean, private_mean_on_average_kl
from gibbs_dp.model import Flat, GibbsPosterior, losses, supports
from gibbs_dp.papers.on_average_kl.verify_dependent import compare_dependent, dependent_audits
from gibbs_dp.papers.verify.check import Check, sampled_equality
from gibbs_dp.problems.base import normal_prior
from gibbs_dp.problems.gaussian_mean import Gaussian
from gibbs_dp.problems.private_mean import private_mean
from gibbs_dp.quantities.mutual_information import MutualInformation
from gibbs_dp.quantities.on_average_kl import OnAverageKL
from gibbs_dp.quantities.registry import DEFAULT

WANG = "Wang, Lei & Fienberg 2016"
GAMMAS = (0.2, 1.0)
PRIVATE_GAMMAS = (1.0, 10.0, 100.0)
N, DIM, PRIOR_SCALE, GROUP = 15, 2, 0.7, 4

# Most of the time goes into compiling, which keeps one core busy.
MAX_AUDITS_AT_ONCE = 2
NUM_DATASETS = 1024


def total_half_squares(theta: Float[Array, " dim"], data: Float[Array, "n dim"]) -> Array:
    """Sum of half squared distances, as a loss of the whole dataset."""
    return jnp.sum((data - theta) ** 2) / 2


def _sample(
    posterior: GibbsPosterior,
    population: object,
    n: int,
    gammas: tuple[float, ...],
    key: int,
    group_size: int = 1,
) -> Report:
    return audit(
        posterior,
        population,  # type: ignore[arg-type]
        n,
        gammas,
        num_datasets=NUM_DATASETS,
        key=key,  # Every KL here is below 1 nat, and one side compiles twice as fast.
        learn=[*DEFAULT, OnAverageKL("one-sided", group_size), MutualInformation(0)],
        progress=False,
    )


def audits() -> dict[str, Callable[[], Report]]:
    """List the audits that the checks read, by name, each with its own seed."""
    population = Gaussian(DIM, 1.0)
    loss, prior = losses.half_squared_distance, normal_prior(DIM, PRIOR_SCALE)
    proper = GibbsPosterior(loss, prior)
    whole = GibbsPosterior(total_loss=total_half_squares, prior=prior)
    flat = GibbsPosterior(loss, Flat(supports.real(DIM)))
    private = private_mean()
    return {
        "Gaussian mean, proper prior": lambda: _sample(proper, population, N, GAMMAS, 20),
        f"Gaussian mean, groups of {GROUP}": lambda: _sample(
            proper, population, N, GAMMAS, 21, GROUP
        ),
        "Gaussian mean, structured loss": lambda: _sample(whole, population, N, GAMMAS, 22),
        "Gaussian mean, flat prior": lambda: _sample(flat, population, N, GAMMAS, 23),
        "private mean, n = 100": lambda: _sample(
            private.posterior, private.population, 100, PRIVATE_GAMMAS, 24
        ),
    }


def run_audits(say: io.Say, jobs: dict[str, Callable[[], Report]]) -> dict[str, Report]:
    """Run audits, a few at a time.

    Parameters
    ----------
    say
        Called with a line when an audit is done.
    jobs
        Audits by name, such as `audits()`.

    Returns
    -------
    dict
        Reports, by the names of ``jobs``.
    """
    reports = {}
    # Each audit runs one program a worker, and one thread of XLA's pool must stay free.
    room = (POOL_SIZE - 1) // num_workers()
    pool = ThreadPoolExecutor(max(1, min(MAX_AUDITS_AT_ONCE, room)))
    try:
        running = {name: pool.submit(job) for name, job in jobs.items()}
        for name, future in running.items():
            reports[name] = future.result()
            say(f"sampled: {name}")
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    return reports


def _two_routes(case: str, report: Report) -> list[Check]:
    """Theorem 4: the direct estimate of the KL against gamma times the generalization error."""
    return [
        sampled_equality(
            "Theorem 4, two estimators: eps_KL = gamma gen",
            WANG,
            f"{case}, gamma = {row['gamma']:g}",
            row["on_average_kl"],
            row["on_average_kl_ghost"],
            left_se=row["on_average_kl_se"],
            right_se=row["on_average_kl_ghost_se"],
        )
        for row in report.rows
    ]


def _against(name: str, case: str, report: Report, field: str, truth: list[float]) -> list[Check]:
    """Compare one column of a report with exact numbers, one per gamma."""
    return [
        sampled_equality(
            name,
            WANG,
            f"{case}, gamma = {row['gamma']:g}",
            row[field],
            value,
            left_se=row[f"{field}_se"],
        )
        for row, value in zip(report.rows, truth, strict=True)
    ]


def _ratio(name: str, case: str, left: Report, right: Report, factor: int) -> list[Check]:
    """On-average KL of one audit against a multiple of another's, on other datasets."""
    return [
        sampled_equality(
            name,
            WANG,
            f"{case}, gamma = {a['gamma']:g}",
            a["on_average_kl"],
            factor * b["on_average_kl"],
            left_se=a["on_average_kl_se"],
            right_se=factor * b["on_average_kl_se"],
            independent=True,
        )
        for a, b in zip(left.rows, right.rows, strict=True)
    ]


def compare(reports: dict[str, Report]) -> list[Check]:
    """Turn the reports of `run_audits` into checks.

    Parameters
    ----------
    reports
        Reports, by the names of `audits`.

    Returns
    -------
    list of Check
        Each against a closed form or against another estimate.
    """
    one, group, structured, flat, private = reports.values()
    sums, groups, wholes, free, mean = reports

    def truth(prior_variance: float) -> list[ClosedForm]:
        return [gaussian_mean(gamma, N, DIM, 1.0, prior_variance) for gamma in GAMMAS]

    kl = [answer.on_average_kl for answer in truth(PRIOR_SCALE**2)]
    gen = [answer.generalization_error for answer in truth(PRIOR_SCALE**2)]
    kl_flat = [answer.on_average_kl for answer in truth(math.inf)]
    kl_private = [private_mean_on_average_kl(gamma, 100) for gamma in PRIVATE_GAMMAS]
    kl_group = [GROUP * value for value in kl]
    closed, lemma_6 = "audit against closed form: eps_KL", f"Lemma 6: {GROUP} ghosts"
    figure = "audit against Figure 2a: eps_KL"
    same = "a structured loss that is a sum is the sum"
    gap = "audit against closed form: gen"
    return [
        *_against(closed, sums, one, "on_average_kl", kl),
        *_against(closed, wholes, structured, "on_average_kl", kl),
        *_against(closed, free, flat, "on_average_kl", kl_flat),
        *_against(gap, sums, one, "generalization_error", gen),
        *_against(figure, mean, private, "on_average_kl", kl_private),
        *_two_routes(sums, one),
        *_two_routes(free, flat),
        *_two_routes(mean, private),
        *_against(f"{lemma_6} against closed form", groups, group, "on_average_kl", kl_group),
        *_ratio(f"{lemma_6} cost {GROUP} eps_KL, two audits", groups, group, one, GROUP),
        *_ratio(same, wholes, structured, one, 1),
    ]


def sampled_checks(say: io.Say) -> list[Check]:
    """Run all audits and compare them.

    Parameters
    ----------
    say
        Called with a line when an audit is done.

    Returns
    -------
    list of Check
        Those of `compare` and of `compare_dependent`.
    """
    jobs, dependent = audits(), dependent_audits()
    reports = run_audits(say, jobs | dependent)
    return [
        *compare({name: reports[name] for name in jobs}),
        *compare_dependent({name: reports[name] for name in dependent}),
    ]
