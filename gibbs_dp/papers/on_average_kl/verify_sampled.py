"""Sampled checks: audits of small problems against closed forms and against each other.

Every comparison is a z-score. Numbers from the same datasets are dependent, so their standard
errors are added, which bounds that of the difference.

Moving the draws of a Gibbs posterior never lowers ``gamma E L + KL(law || prior)``: an affine map
changes the entropy by the logarithm of its determinant, whatever the law is, so that the change of
the objective needs neither a density of the draws nor a normalizer. That draws of another law
(another temperature, say) can be moved downhill is what gives the check its power.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from gibbs_dp import io
from gibbs_dp._jaxlib.threads import POOL_SIZE
from gibbs_dp.auditing.audit import audit
from gibbs_dp.auditing.report import Report
from gibbs_dp.engine.executor import num_workers
from gibbs_dp.model import Flat, GibbsPosterior, losses, supports
from gibbs_dp.papers.on_average_kl.closed_forms import (
    ClosedForm,
    gaussian_mean,
    private_mean_on_average_kl,
)
from gibbs_dp.papers.on_average_kl.verify_closed_forms import compare_dependent, dependent_audits
from gibbs_dp.papers.verify.check import Z_LIMIT, Check, sampled_equality
from gibbs_dp.problems.base import normal_prior
from gibbs_dp.problems.location import Gaussian, private_mean
from gibbs_dp.problems.regression import logistic_regression
from gibbs_dp.quantities.on_average_kl import OnAverageKL
from gibbs_dp.quantities.risks import Risks
from gibbs_dp.sampling.sample import sample

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
        learn=[OnAverageKL("one-sided", group_size), Risks()],
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
    """Run audits, a few at a time."""
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
    """Turn the reports of `run_audits` into checks."""
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
    """Run all audits and compare them."""
    jobs, dependent = audits(), dependent_audits()
    reports = run_audits(say, jobs | dependent)
    return [
        *compare({name: reports[name] for name in jobs}),
        *compare_dependent({name: reports[name] for name in dependent}),
    ]


MOVED_DIM, MOVED_N, GAMMA = 3, 40, 1.0
NUM_CHAINS, NUM_SAMPLES, NUM_WARMUP = 64, 48, 64
NUM_MAPS, SIZES = 12, (0.05, 0.3)


class Change(NamedTuple):
    """Change of the objective by a map, in nats, with its standard error over chains."""

    value: float
    se: float


def changes(
    posterior: GibbsPosterior,
    data: PyTree,
    gamma: float,
    draws: Float[np.ndarray, "chains samples dim"],
    seed: int = 0,
) -> list[Change]:
    """Change of ``gamma E L + KL(law || prior)`` as draws are moved by random affine maps."""
    rng = np.random.default_rng(seed)
    points = draws.astype(np.float64)
    flat = points.reshape(-1, points.shape[-1])
    center, spread = flat.mean(axis=0), flat.std(axis=0)
    density = jax.jit(jax.vmap(jax.vmap(lambda t: posterior.log_density(t, data, gamma))))
    before = np.asarray(density(draws), np.float64)
    found = []
    eye = np.eye(center.size)
    # Scales of all coordinates, both ways, beside maps of random directions.
    maps = [(sign * size * eye, 0 * center) for size in SIZES for sign in (-1.0, 1.0)]
    for index in range(NUM_MAPS):
        size = SIZES[index % len(SIZES)] / math.sqrt(center.size)
        maps.append((size * rng.normal(size=eye.shape), size * rng.normal(size=center.size)))
    for shear, shift in maps:
        move = eye + shear
        moved = center + spread * (((points - center) / spread) @ move.T + shift)
        after = np.asarray(density(moved.astype(draws.dtype)), np.float64)
        of_chain = (before - after).mean(axis=1) - np.linalg.slogdet(move)[1]
        se = of_chain.std(ddof=1) / math.sqrt(of_chain.size)
        found.append(Change(float(of_chain.mean()), float(se)))
    return found


def moved_checks() -> list[Check]:
    """Check the draws of a logistic regression; the change that is lowest for its error is kept."""
    problem = logistic_regression(dim=MOVED_DIM)
    data, _ = problem.population.sample(jax.random.key(1), MOVED_N, 1)
    draws = sample(
        problem.posterior,
        data,
        gamma=GAMMA,
        key=2,
        num_chains=NUM_CHAINS,
        num_samples=NUM_SAMPLES,
        num_warmup=NUM_WARMUP,
        progress=False,
    )
    checks = []
    for change in changes(problem.posterior, data, GAMMA, np.asarray(draws.theta)):
        z = change.value / change.se
        checks.append(
            Check(
                "no move of the draws lowers gamma E L + KL(law || prior)",
                WANG,
                "logistic regression, sampled",
                "<=",
                0.0,
                change.value,
                -change.value,
                change.se,
                -z,
                Z_LIMIT,
                -z <= Z_LIMIT,
                (change.value + Z_LIMIT * change.se) / abs(change.value),
            )
        )
    return checks
