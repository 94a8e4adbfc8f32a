"""Gibbs posteriors are the least of ``gamma E_q L + KL(q || prior)`` over all laws ``q``.

The maximum-entropy reading of Wang, Lei & Fienberg (2016), and the variational one of Catoni: the
least value is minus the log normalizer, and any other law exceeds it by its KL from the posterior.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float
from scipy import integrate, optimize
from scipy.special import log_softmax, logsumexp, xlogy

from gibbs_dp.exact import FiniteProblem
from gibbs_dp.papers.on_average_kl.verify import (
    FIXTURE_GAMMAS,
    FIXTURE_N,
    WANG,
    fixture,
    random_problem,
)
from gibbs_dp.papers.verify.check import Check, exact_checks
from gibbs_dp.papers.verify.record import Record, equality, inequality

NUM_PROBLEMS, NUM_LAWS = 3, 20
# Gaussian mean: examples, prior's standard deviation, inverse temperature.
EXAMPLES, PRIOR_SCALE, GAMMA = (0.3, -1.1, 1.7), 1.5, 0.7

Laws = Float[np.ndarray, "... hypotheses"]


def objective(gamma: float, loss: Laws, prior: Laws, law: Laws) -> Float[np.ndarray, ...]:
    """``gamma E_q L + KL(q || prior)`` of finite laws along the last axis, in nats.

    Parameters
    ----------
    gamma
        Inverse temperature.
    loss
        Total loss of every hypothesis.
    prior, law
        Probabilities; the prior's positive.

    Returns
    -------
    array
        One value a law.

    Examples
    --------
    >>> half = np.array([0.5, 0.5])
    >>> float(objective(2.0, np.array([0.0, 1.0]), half, half))
    1.0
    """
    return (gamma * law * loss + xlogy(law, law) - law * np.log(prior)).sum(axis=-1)


def finite_records(problem: FiniteProblem, gamma: float, n: int, seed: int) -> list[Record]:
    """Check the least value, the excess of other laws, and that no search finds a lower one.

    The other laws are random, point masses, the prior, and posteriors of other datasets; of every
    statement the dataset and law that are furthest off are kept.

    Examples
    --------
    >>> all(record.holds for record in finite_records(fixture(), 1.0, 3, seed=0))
    True
    """
    table, rng = problem.table(gamma, n), np.random.default_rng(seed)
    loss = problem.total_loss(table.counts)[:, problem.kept]
    prior = problem.prior_probs[problem.kept]
    posterior = np.exp(table.log_laws)
    least = -logsumexp(np.log(prior) - gamma * loss, axis=1)
    found = objective(gamma, loss, prior, posterior)
    others = np.concatenate(
        [rng.dirichlet(np.full(prior.size, 0.5), NUM_LAWS), np.eye(prior.size), [prior], posterior]
    )
    excess = objective(gamma, loss[:, None], prior, others) - found[:, None]
    away = (xlogy(others, others) - others * table.log_laws[:, None]).sum(axis=-1)
    row, column = np.unravel_index(np.argmax(np.abs(excess - away)), away.shape)
    worst = int(np.argmax(np.abs(found - least)))
    at = int(rng.integers(loss.shape[0]))

    def of_logits(logits: Float[np.ndarray, " hypotheses"]) -> float:
        return float(objective(gamma, loss[at], prior, np.exp(log_softmax(logits))))

    searched = optimize.minimize(
        of_logits,
        np.zeros(prior.size),
        method="BFGS",
        options={"gtol": 1e-9},
    ).fun
    return [
        equality("gamma E L + KL(q || prior) at the posterior = -log C", WANG, found[worst],
                 least[worst]),
        equality("any other law: KL(q || posterior) above -log C", WANG, excess[row, column],
                 away[row, column]),
        inequality("no law found by search is below -log C", WANG, least[at], searched),
        equality("the least found by search = -log C", WANG, searched, least[at], 1e-6),
    ]  # fmt: skip


def gaussian_records() -> list[Record]:
    """Check the same of a Gaussian mean, over all Gaussian laws; the normalizer by quadrature.

    Examples
    --------
    >>> all(record.holds for record in gaussian_records())
    True
    """
    z = np.array(EXAMPLES)
    precision = z.size * GAMMA + PRIOR_SCALE**-2
    center, scale = GAMMA * z.sum() / precision, precision**-0.5

    def value(m: float, s: float) -> float:
        """Return ``gamma E_q L + KL(q || prior)`` of ``q = N(m, s^2)``, in closed form."""
        loss = 0.5 * float(((m - z) ** 2).sum()) + 0.5 * z.size * s**2
        ratio = (m**2 + s**2) / PRIOR_SCALE**2
        return GAMMA * loss + 0.5 * (ratio - 1.0) - math.log(s / PRIOR_SCALE)

    def joint(theta: float) -> float:
        loss = 0.5 * float(((theta - z) ** 2).sum())
        density = math.exp(-0.5 * (theta / PRIOR_SCALE) ** 2)
        return math.exp(-GAMMA * loss) * density / (PRIOR_SCALE * math.sqrt(2 * math.pi))

    least = -math.log(integrate.quad(joint, -12.0, 12.0, epsabs=1e-14)[0])
    m, s = center + 0.4, 1.3 * scale
    away = 0.5 * ((s / scale) ** 2 - 1 + ((m - center) / scale) ** 2) - math.log(s / scale)

    def of_pair(x: Float[np.ndarray, " 2"]) -> float:
        return value(float(x[0]), math.exp(x[1]))

    found = optimize.minimize(of_pair, np.zeros(2), method="BFGS")
    return [
        equality("gamma E L + KL(q || prior) at the posterior = -log C", WANG,
                 value(center, scale), least),
        equality("any other law: KL(q || posterior) above -log C", WANG, value(m, s) - least, away),
        equality("the least found by search = -log C", WANG, float(found.fun), least, 1e-6),
        equality("mean of the law found by search", WANG, float(found.x[0]), center, 1e-4),
        equality("deviation of the law found by search", WANG, math.exp(found.x[1]), scale, 1e-4),
    ]  # fmt: skip


def max_entropy_checks() -> list[Check]:
    """Check the fixture, random finite problems, and a Gaussian mean.

    Examples
    --------
    >>> all(check.holds for check in max_entropy_checks())
    True
    """
    checks: list[Check] = []
    for gamma in FIXTURE_GAMMAS:
        records = finite_records(fixture(), gamma, FIXTURE_N, seed=0)
        checks += exact_checks(records, f"fixture, gamma = {gamma:g}")
    for seed in range(NUM_PROBLEMS):
        problem, gamma, n, _ = random_problem(seed)
        checks += exact_checks(finite_records(problem, gamma, n, seed), f"random problem {seed}")
    return checks + exact_checks(gaussian_records(), "Gaussian mean")
