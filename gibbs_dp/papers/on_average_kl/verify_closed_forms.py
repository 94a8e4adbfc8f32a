"""Closed forms against each other, against enumeration, and against their reference values.

Dependent examples are those of Remark 1 and Lemma 9, with the whole dataset replaced: the states of
a two-state Markov chain, whose flip probability is learned by its own likelihood among finitely
many candidates, so that everything is enumerated; and a Gaussian process, which is not a Markov
chain, whose mean has a closed form.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from gibbs_dp.auditing.audit import audit
from gibbs_dp.auditing.report import Report
from gibbs_dp.exact import FiniteProblem
from gibbs_dp.exact.types import ordered_datasets
from gibbs_dp.information.divergences.continuous import laplace_renyi
from gibbs_dp.model import Flat, GibbsPosterior, losses, populations, supports
from gibbs_dp.papers import channels
from gibbs_dp.papers.on_average_kl.closed_forms import (
    ClosedForm,
    beta_bernoulli,
    correlated_mean,
    gaussian_mean,
    linear_regression_averaged,
    linear_regression_fixed_design,
    linear_regression_kl,
    private_mean,
    private_mean_dp_epsilon,
    private_mean_on_average_kl,
    truncated_normal_mean_law,
)
from gibbs_dp.papers.on_average_kl.counterexamples import (
    dependent_identities,
    markov_chain_probs,
    whole_dataset_gibbs,
)
from gibbs_dp.papers.on_average_kl.figure2 import (
    linear_regression_figure2b,
    linear_regression_figure2b_exact,
)
from gibbs_dp.papers.verify.check import Check, Record, equality, exact_checks, sampled_equality
from gibbs_dp.quantities.on_average_kl import OnAverageKL
from gibbs_dp.quantities.risks import Risks
from gibbs_dp.sampling.grid import Grid

WANG = "Wang, Lei & Fienberg 2016"
CONJUGATE = "conjugacy"

# gamma: on-average KL of Figure 2a as printed; DP eps is gamma / 25.
FIGURE_2A = {0.1: 7.7325e-07, 1.0: 7.68858e-05, 10.0: 0.00727199, 100.0: 0.461411, 1000.0: 9.12594}
# Gammas of Figure 2b at which random datasets are compared with integrals: (gamma, prior's ends).
FIGURE_2B: tuple[tuple[float, tuple[float, float] | None], ...] = (
    (0.1, None),
    (1.0, None),
    (10.0, None),
    (0.01, (-2.0, 2.0)),
)


def gaussian_records() -> list[Record]:
    """Gaussian mean as a regression on a constant, and Lemma 9 in both."""
    records = []
    gamma, n, variance = 0.7, 12, 1.8
    for prior_variance in (math.inf, 0.6):
        mean = gaussian_mean(gamma, n, 1, variance, prior_variance)
        # (z - theta)^2 / 2 is the squared loss of y = z / sqrt 2 on x = 1 / sqrt 2.
        design = np.full((n, 1), math.sqrt(0.5))
        fit = linear_regression_fixed_design(design, gamma, variance / 2, 1 / prior_variance)
        prior = "flat" if math.isinf(prior_variance) else "proper"
        for field in mean._fields:
            name = f"Gaussian mean is a regression: {field.replace('_', ' ')}"
            left, right = float(getattr(mean, field)), float(getattr(fit, field))
            records.append(equality(f"{name}, {prior} prior", CONJUGATE, left, right))
        total = mean.mutual_information + mean.lautum_information
        name = f"Lemma 9 of the Gaussian mean, {prior} prior"
        records.append(equality(name, WANG, total, n * mean.on_average_kl))
    flat = gaussian_mean(gamma, n, 3, variance).on_average_kl
    name = "Gaussian mean, flat prior: eps_KL = gamma v d / n"
    return [*records, equality(name, WANG, flat, gamma * variance * 3 / n)]


def regression_records() -> list[Record]:
    """Linear regression: averages over designs, and one replaced response."""
    rng = np.random.default_rng(3)
    designs = rng.normal(size=(5, 8, 2))
    gamma, noise = 0.5, 1.3
    mean, _ = linear_regression_averaged(designs, gamma, noise)
    x = designs[0]
    fixed = linear_regression_fixed_design(x, gamma, noise, 0.4)
    # eps_KL of a fixed design: E over y_i and its ghost, a difference of variance 2 s^2; the KL
    # is a square of that difference, so one value of it gives the mean.
    y = rng.normal(size=8)
    kls = []
    for i in range(8):
        other = y.copy()
        other[i] += math.sqrt(2 * noise)
        kls.append(linear_regression_kl(x, y, x, other, gamma, 0.4))
    average = float(np.mean(kls))
    figure = linear_regression_figure2b(1.0, 100, 200, 5)
    wide = linear_regression_figure2b(1.0, 100, 200, 5, support=(-50.0, 50.0))
    flat_name = "regression, flat prior: eps_KL = 2 gamma d s^2 / n"
    kl, interval = figure.on_average_kl, wide.on_average_kl
    return [
        equality(flat_name, CONJUGATE, mean.on_average_kl, 2 * gamma * 2 * noise / 8),
        equality("regression: eps_KL is a mean of Gaussian KLs", CONJUGATE, average, fixed[0]),
        equality("Figure 2b: flat prior is a wide interval", CONJUGATE, kl, interval, 1e-6),
    ]


def private_mean_records() -> list[Record]:
    """Figure 2a: reference values, a lattice sum, Lemma 9, and its DP."""
    records = []
    for gamma, value in FIGURE_2A.items():
        found = private_mean_on_average_kl(gamma, 100)
        name = f"Figure 2a: eps_KL at gamma = {gamma:g}"
        records.append(equality(name, WANG, found, value, 1e-5))  # six digits
        largest = laplace_renyi(0.0, 4 / 100, 1 / gamma, math.inf)
        eps = private_mean_dp_epsilon(gamma, 100)
        name = f"Figure 2a: DP eps at gamma = {gamma:g}"
        records.append(equality(name, "Dwork et al. 2006", eps, largest))
    # One example on a lattice: KL of Laplace laws D + e^-D - 1, summed over pairs.
    values, probs = truncated_normal_mean_law(1, 2.0, 1024)
    d = 50.0 * np.abs(values[:, None] - values) / 100
    lattice = float(probs @ (d + np.expm1(-d)) @ probs)
    smooth = private_mean_on_average_kl(50.0, 100)
    one = private_mean(20.0, 1)
    single = one.mutual_information + one.lautum_information
    return [
        *records,
        equality("private mean: lattice against integral", WANG, lattice, smooth, 1e-5),
        equality("Lemma 9: private mean of one", WANG, single, one.on_average_kl, 1e-4),
    ]


def beta_bernoulli_records() -> list[Record]:
    """Beta-Bernoulli: Theorem 4, Lemma 9, and a finite problem on quadrature nodes."""
    gamma, n, probability = 0.8, 6, 0.35
    answer = beta_bernoulli(gamma, n, probability, 2.0, 3.0)
    nodes, weights = np.polynomial.legendre.leggauss(300)
    theta = (nodes + 1) / 2
    prior = weights * theta * (1 - theta) ** 2
    loss = -np.log(np.column_stack([1 - theta, theta]))
    grid = FiniteProblem(loss, [1 - probability, probability], prior / prior.sum())
    exact = grid.quantities(gamma, n, 0.0)
    kl, total = answer.on_average_kl, answer.mutual_information + answer.lautum_information
    records = [
        equality("Theorem 4: Beta-Bernoulli", WANG, kl, gamma * answer.generalization_error),
        equality("Lemma 9: Beta-Bernoulli", WANG, total, n * kl),
    ]
    for field in answer._fields:
        name = f"Beta-Bernoulli against enumeration: {field.replace('_', ' ')}"
        found = float(getattr(answer, field))
        records.append(equality(name, "enumeration", found, exact[field], 1e-6))
    return records


def figure_2b_checks() -> list[Check]:
    """Figure 2b by integrals, against a Monte Carlo average of closed-form KLs."""
    checks = []
    for gamma, ends in FIGURE_2B:
        found = linear_regression_figure2b(gamma, 100, num_datasets=4000, seed=11, support=ends)
        exact = linear_regression_figure2b_exact(gamma, 100, support=ends)
        where = "" if ends is None else f", theta in [{ends[0]:g}, {ends[1]:g}]"
        checks.append(
            sampled_equality(
                f"Figure 2b: eps_KL at gamma = {gamma:g}{where}",
                WANG,
                "closed form, 4000 datasets",
                found.on_average_kl,
                exact.on_average_kl,
                left_se=found.on_average_kl_se,
                right_se=exact.on_average_kl_se,
                independent=True,
            )
        )
    return checks


def closed_form_checks() -> list[Check]:
    """Run every check of this file."""
    records = [
        *gaussian_records(),
        *regression_records(),
        *private_mean_records(),
        *beta_bernoulli_records(),
    ]
    return [*exact_checks(records, "closed form"), *figure_2b_checks()]


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
    """Joint law of `draw_chain`, by enumeration."""
    return markov_chain_probs([0.5, 0.5], [[1 - FLIP, FLIP], [FLIP, 1 - FLIP]], CHAIN_N)


def chain_losses() -> Float[np.ndarray, "datasets hypotheses"]:
    """`flip_loss` of every dataset and candidate, in NumPy."""
    states, theta = ordered_datasets(CHAIN_N, 2), np.array(CANDIDATES)
    flips = (states[:, 1:] != states[:, :-1]).sum(axis=1)[:, None]
    return np.asarray(-flips * np.log(theta) - (CHAIN_N - 1 - flips) * np.log1p(-theta))


def chain_truth(gamma: float) -> float:
    """``E KL(A(Z) || A(Z~))`` of the chain, by enumeration."""
    prior = np.full(len(CANDIDATES), 1 / len(CANDIDATES))
    return whole_dataset_gibbs(chain_losses(), gamma, chain_law(), prior).on_average_kl()


def process_covariance() -> Float[np.ndarray, "n n"]:
    """Squared exponential covariance at the integers: smooth, and not Markov."""
    time = np.arange(PROCESS_N)
    return np.asarray(np.exp(-(np.subtract.outer(time, time) ** 2) / (2 * LENGTH**2)))


def draw_process(key: PRNGKeyArray, n: int) -> Float[Array, "n 1"]:
    """Draw one path of the Gaussian process, one number per example."""
    # A jitter of 1e-6 on the diagonal: a smooth covariance is singular to single precision.
    root = np.linalg.cholesky(process_covariance() + 1e-6 * np.eye(n))
    return jnp.asarray(root, float) @ jax.random.normal(key, (n, 1))


def process_truth(gamma: float) -> ClosedForm:
    """Solve the process with a flat prior in closed form."""
    return correlated_mean(gamma, process_covariance() + 1e-6 * np.eye(PROCESS_N))


def dependent_exact_checks() -> list[Check]:
    """Remark 1 and Lemma 9 by enumeration, for sums and for losses that depend on the order."""
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
            learn=[OnAverageKL(group_size=CHAIN_N), Risks()],
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
            learn=[OnAverageKL(group_size=PROCESS_N), Risks()],
            key=31,
            progress=False,  # the estimator chosen by a pilot: single pairs reach several nats
        ),
    }


def compare_dependent(reports: dict[str, Report]) -> list[Check]:
    """Turn the reports of `dependent_audits` into checks, by both estimators."""
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
