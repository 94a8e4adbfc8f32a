"""Dependent examples: Remark 1 and Lemma 9 with the whole dataset replaced, and sampled audits.

Two datasets: the states of a two-state Markov chain, whose flip probability is learned by its own
likelihood among finitely many candidates, so that everything is enumerated; and a Gaussian process,
which is not a Markov chain, whose mean has a closed form.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from gibbs_dp.auditing import Report, audit
from gibbs_dp.exact import channels
from gibbs_dp.exact.closed_form import ClosedForm, correlated_mean
from gibbs_dp.exact.types import ordered_datasets
from gibbs_dp.model import Flat, GibbsPosterior, losses, populations, supports
from gibbs_dp.papers.on_average_kl.dependent import (
    dependent_identities,
    markov_chain_probs,
    whole_dataset_gibbs,
)
from gibbs_dp.papers.verify.check import Check, exact_checks, sampled_equality
from gibbs_dp.quantities.mutual_information import MutualInformation
from gibbs_dp.quantities.on_average_kl import OnAverageKL
from gibbs_dp.quantities.registry import DEFAULT
from gibbs_dp.sampling.grid import Grid

WANG = "Wang, Lei & Fienberg 2016"
REMARK_1 = "Remark 1, whole dataset replaced: audit against"
NUM_DATASETS = 4096  # whole datasets vary more than single examples

CHAIN_N, CHAIN_GAMMAS, FLIP = 6, (0.5, 1.0), 0.2
CANDIDATES = (0.05, 0.2, 0.5, 0.8)  # flip probabilities

PROCESS_N, PROCESS_GAMMAS, LENGTH = 8, (0.05, 0.2), 2.0


def draw_chain(key: PRNGKeyArray, n: int) -> Float[Array, " n"]:
    """Draw the states of a two-state chain that starts fair and flips with probability `FLIP`."""
    first, later = jax.random.split(key)
    flips = jax.random.bernoulli(later, FLIP, (n,)).at[0].set(jax.random.bernoulli(first))
    return jnp.cumsum(flips).astype(float) % 2


def flip_loss(theta: Float[Array, ""], states: Float[Array, " n"]) -> Float[Array, ""]:
    """Minus the log-likelihood of a flip probability: a loss that depends on order."""
    flipped = states[1:] != states[:-1]
    return -jnp.sum(jnp.where(flipped, jnp.log(theta), jnp.log1p(-theta)))


def chain_law() -> Float[np.ndarray, " datasets"]:
    """Joint law of `draw_chain`, by enumeration.

    Examples
    --------
    >>> round(float(chain_law().sum()), 12)
    1.0
    """
    return markov_chain_probs([0.5, 0.5], [[1 - FLIP, FLIP], [FLIP, 1 - FLIP]], CHAIN_N)


def chain_losses() -> Float[np.ndarray, "datasets hypotheses"]:
    """`flip_loss` of every dataset and candidate, in NumPy.

    Examples
    --------
    >>> chain_losses().shape
    (64, 4)
    """
    states, theta = ordered_datasets(CHAIN_N, 2), np.array(CANDIDATES)
    flips = (states[:, 1:] != states[:, :-1]).sum(axis=1)[:, None]
    return np.asarray(-flips * np.log(theta) - (CHAIN_N - 1 - flips) * np.log1p(-theta))


def chain_truth(gamma: float) -> float:
    """``E KL(A(Z) || A(Z~))`` of the chain, by enumeration.

    Examples
    --------
    >>> 0 < chain_truth(0.5) < chain_truth(1.0)
    True
    """
    prior = np.full(len(CANDIDATES), 1 / len(CANDIDATES))
    return whole_dataset_gibbs(chain_losses(), gamma, chain_law(), prior).on_average_kl()


def process_covariance() -> Float[np.ndarray, "n n"]:
    """Squared exponential covariance at the integers: smooth, and not Markov.

    Examples
    --------
    >>> process_covariance()[0, :3].round(4)
    array([1.    , 0.8825, 0.6065])
    """
    time = np.arange(PROCESS_N)
    return np.asarray(np.exp(-(np.subtract.outer(time, time) ** 2) / (2 * LENGTH**2)))


def draw_process(key: PRNGKeyArray, n: int) -> Float[Array, "n 1"]:
    """Draw one path of the Gaussian process, one number per example."""
    # A jitter of 1e-6 on the diagonal: a smooth covariance is singular to single precision.
    root = np.linalg.cholesky(process_covariance() + 1e-6 * np.eye(n))
    return jnp.asarray(root, float) @ jax.random.normal(key, (n, 1))


def process_truth(gamma: float) -> ClosedForm:
    """Solve the process with a flat prior in closed form.

    Examples
    --------
    >>> process_truth(0.2).on_average_kl > 3 * 0.2  # independent examples would cost gamma
    True
    """
    return correlated_mean(gamma, process_covariance() + 1e-6 * np.eye(PROCESS_N))


def dependent_exact_checks() -> list[Check]:
    """Remark 1 and Lemma 9 by enumeration, for sums and for losses that depend on the order.

    Examples
    --------
    >>> all(check.holds for check in dependent_exact_checks())
    True
    """
    prior = np.full(len(CANDIDATES), 1 / len(CANDIDATES))
    checks = []
    for gamma in CHAIN_GAMMAS:
        records = dependent_identities(chain_losses(), gamma, chain_law(), prior)
        checks += exact_checks(records, f"flips of a Markov chain, gamma = {gamma:g}")
    three = [[0.8, 0.1, 0.1], [0.3, 0.7, 0.0], [0.0, 0.5, 0.5]]  # not reversible
    summed = channels.summed_loss((np.linspace(0, 1, 4)[:, None] - np.array([0, 0.5, 1])) ** 2, 4)
    law = markov_chain_probs([0.5, 0.3, 0.2], three, 4)
    records = dependent_identities(summed, 2.0, law, [0.1, 0.2, 0.3, 0.4])
    return checks + exact_checks(records, "sum loss on a chain of three states")


def dependent_audits() -> dict[str, Callable[[], Report]]:
    """List the audits that `compare_dependent` reads, by name."""
    flat = Flat(supports.box(0.0, 1.0))
    chain = GibbsPosterior(total_loss=flip_loss, prior=flat)
    mean = GibbsPosterior(losses.half_squared_distance, Flat(supports.real(1)))
    return {
        "Markov chain": lambda: audit(
            chain,
            populations.Dependent(draw_chain),
            CHAIN_N,
            CHAIN_GAMMAS,
            num_datasets=NUM_DATASETS,
            learn=[*DEFAULT, OnAverageKL(group_size=CHAIN_N), MutualInformation(0)],
            key=30,
            sampler=Grid(CANDIDATES),
            progress=False,
        ),
        "Gaussian process": lambda: audit(
            mean,
            populations.Dependent(draw_process),
            PROCESS_N,
            PROCESS_GAMMAS,
            num_datasets=NUM_DATASETS,
            learn=[*DEFAULT, OnAverageKL(group_size=PROCESS_N), MutualInformation(0)],
            key=31,
            progress=False,  # the estimator chosen by a pilot: single pairs reach several nats
        ),
    }


def compare_dependent(reports: dict[str, Report]) -> list[Check]:
    """Turn the reports of `dependent_audits` into checks, by both estimators.

    Parameters
    ----------
    reports
        Reports, by the names of `dependent_audits`.

    Returns
    -------
    list of Check
        One per dataset law, gamma and estimator.
    """
    truths = {
        "Markov chain": [chain_truth(gamma) for gamma in CHAIN_GAMMAS],
        "Gaussian process": [process_truth(gamma).on_average_kl for gamma in PROCESS_GAMMAS],
    }
    return [
        sampled_equality(
            f"{REMARK_1} {'enumeration' if name == 'Markov chain' else 'closed form'}, {route}",
            WANG,
            f"{name}, gamma = {row['gamma']:g}",
            row[field],
            truth,
            left_se=row[f"{field}_se"],
        )
        for name, report in reports.items()
        for row, truth in zip(report.rows, truths[name], strict=True)
        for field, route in (
            ("on_average_kl", "direct"),
            ("on_average_kl_ghost", "gamma E[L(Z~) - L(Z)]"),
        )
    ]
