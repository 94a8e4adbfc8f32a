"""Maximum entropy: Gibbs posteriors, also where the prior has a density and atoms.

They are the least of ``gamma E_q L + KL(q || prior)`` over all laws ``q``: the maximum-entropy
reading of Wang, Lei & Fienberg (2016), and the variational one of Catoni. The least value is minus
the log normalizer, and any other law exceeds it by its KL from the posterior.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy import integrate, optimize
from scipy.special import log_softmax, logsumexp, xlogy

from gibbs_dp.exact import FiniteProblem, ordered_datasets
from gibbs_dp.information.divergences import gaussian_kl
from gibbs_dp.papers.on_average_kl.verify import (
    FIXTURE_GAMMAS,
    FIXTURE_N,
    WANG,
    fixture,
    random_problem,
)
from gibbs_dp.papers.verify.check import Check, Record, equality, exact_checks, inequality

NUM_PROBLEMS, NUM_LAWS = 3, 20
# Gaussian mean: examples, prior's standard deviation, inverse temperature.
EXAMPLES, PRIOR_SCALE, GAMMA = (0.3, -1.1, 1.7), 1.5, 0.7

Laws = Float[np.ndarray, "... hypotheses"]


def objective(gamma: float, loss: Laws, prior: Laws, law: Laws) -> Float[np.ndarray, ...]:
    """``gamma E_q L + KL(q || prior)`` of finite laws along the last axis, in nats."""
    return (gamma * law * loss + xlogy(law, law) - law * np.log(prior)).sum(axis=-1)


def finite_records(problem: FiniteProblem, gamma: float, n: int, seed: int) -> list[Record]:
    """Check the least value, the excess of other laws, and that no search finds a lower one."""
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
        of_logits, np.zeros(prior.size), method="BFGS", options={"gtol": 1e-9}
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
    """Check the same of a Gaussian mean, over all Gaussian laws; the normalizer by quadrature."""
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


# A prior with atoms and a density (footnote 2 of the paper): posteriors under squared losses have
# masses at the same places, and a normal density.
ATOMS, MASSES = np.array([0.0, 1.0]), np.array([0.3, 0.1, 0.6])
# Law of an example.
VALUES, PROBS = np.array([-1.0, 0.5, 2.0]), np.array([0.3, 0.5, 0.2])
MIXED_N, MIXED_GAMMAS = 3, (0.2, 1.0, 4.0)
FOOTNOTE = f"{WANG}, footnote 2"


@dataclass(frozen=True)
class AtomsAndDensity:
    """A law with masses at `ATOMS`, and the rest spread as ``N(mean, scale^2)``."""

    # The last is that of the density.
    masses: Float[np.ndarray, " parts"]
    mean: float
    scale: float

    def kl(self, other: AtomsAndDensity) -> float:
        """KL by the chain rule, in nats: which part, and where in the density."""
        inside = gaussian_kl(self.mean, self.scale**2, other.mean, other.scale**2)
        parts = xlogy(self.masses, self.masses) - xlogy(self.masses, other.masses)
        return float(parts.sum() + self.masses[-1] * inside)

    def loss(self, z: Float[np.ndarray, " n"]) -> float:
        """Mean of the squared loss of a dataset."""
        places, spread = np.append(ATOMS, self.mean), np.append(0 * ATOMS, z.size * self.scale**2)
        sums = ((places[:, None] - z) ** 2).sum(axis=1)
        return float(self.masses @ (sums + spread)) / 2


PRIOR = AtomsAndDensity(MASSES, 0.0, PRIOR_SCALE)


def mixed_posterior(z: Float[np.ndarray, " n"], gamma: float) -> AtomsAndDensity:
    """Gibbs posterior of a dataset under `PRIOR`, in closed form."""
    precision = z.size * gamma + PRIOR_SCALE**-2
    center = gamma * float(z.sum()) / precision
    log = np.log(MASSES)
    log[:-1] -= gamma / 2 * ((ATOMS[:, None] - z) ** 2).sum(axis=1)
    log[-1] += (precision * center**2 - gamma * float(z @ z)) / 2
    log[-1] -= math.log(precision * PRIOR_SCALE**2) / 2
    return AtomsAndDensity(np.exp(log - logsumexp(log)), center, precision**-0.5)


def under_prior(function: Callable[[float], Float[np.ndarray, ...]]) -> Float[np.ndarray, ...]:
    """Integrate over `PRIOR`: a sum over its atoms and quadrature over its density."""
    atoms = [mass * function(float(x)) for x, mass in zip(ATOMS, MASSES[:-1], strict=True)]

    def spread(x: float) -> Float[np.ndarray, ...]:
        height = math.exp(-0.5 * (x / PRIOR_SCALE) ** 2) / (PRIOR_SCALE * math.sqrt(2 * math.pi))
        return np.asarray(height * function(x))

    found = integrate.quad_vec(spread, -12.0, 12.0, epsabs=1e-13, epsrel=1e-13)[0]
    return np.asarray(sum(atoms) + MASSES[-1] * found)


def mixed_records(gamma: float) -> list[Record]:
    """Check Theorem 4 and Lemma 9 with a density and atoms, over every dataset."""
    index = ordered_datasets(MIXED_N, VALUES.size)
    data, weight = VALUES[index], PROBS[index].prod(axis=1)
    posteriors = [mixed_posterior(z, gamma) for z in data]
    # Dataset ``a`` with its first example replaced by a value is dataset ``moved[a, value]``.
    moved = np.arange(len(data))[:, None] % VALUES.size ** (MIXED_N - 1)
    moved = moved + np.arange(VALUES.size) * VALUES.size ** (MIXED_N - 1)
    kls = [[p.kl(posteriors[b]) for b in row] for p, row in zip(posteriors, moved, strict=True)]
    kl = float(weight @ np.array(kls) @ PROBS)

    def exponents(x: float) -> Float[np.ndarray, " datasets"]:
        return np.asarray(-gamma / 2 * ((x - data) ** 2).sum(axis=1))

    log_total = np.log(under_prior(lambda x: np.exp(exponents(x))))

    def gaps(x: float) -> Float[np.ndarray, " datasets"]:
        fresh = PROBS @ (x - VALUES) ** 2
        return np.asarray(np.exp(exponents(x) - log_total) * (fresh - (x - data[:, 0]) ** 2) / 2)

    def informations(x: float) -> Float[np.ndarray, " datasets"]:
        log_ratio = exponents(x) - log_total
        ratio = np.exp(log_ratio)
        return np.asarray((ratio - weight @ ratio) * log_ratio)

    gen = float(weight @ under_prior(gaps))
    both = float(weight @ under_prior(informations))
    name = "a density and atoms"
    return [
        equality(f"{name}: Theorem 4, eps_KL = gamma gen", FOOTNOTE, kl, gamma * gen, 1e-8),
        equality(f"{name}: Lemma 9, n eps_KL = I + lautum", FOOTNOTE, MIXED_N * kl, both, 1e-8),
    ]


def mixed_entropy_records(gamma: float) -> list[Record]:
    """Check that the posterior is the least with a density and atoms, and what atoms are worth."""
    z = VALUES
    right = mixed_posterior(z, gamma)
    total = under_prior(lambda x: np.exp(-gamma / 2 * ((x - z) ** 2).sum()))
    least = -math.log(float(total))

    def value(law: AtomsAndDensity) -> float:
        return gamma * law.loss(z) + law.kl(PRIOR)

    def of_numbers(x: Float[np.ndarray, " 4"]) -> float:
        masses = np.exp(log_softmax(np.append(x[:2], 0.0)))
        return value(AtomsAndDensity(masses, float(x[2]), math.exp(x[3])))

    def without_atoms(x: Float[np.ndarray, " 2"]) -> float:
        return value(AtomsAndDensity(np.array([0.0, 0.0, 1.0]), float(x[0]), math.exp(x[1])))

    other = AtomsAndDensity(np.array([0.5, 0.2, 0.3]), right.mean - 0.3, 1.4 * right.scale)
    found = optimize.minimize(of_numbers, np.zeros(4), method="BFGS").fun
    bare = optimize.minimize(without_atoms, np.zeros(2), method="BFGS").fun
    name = "a density and atoms"
    return [
        equality(f"{name}: gamma E L + KL(q || prior) at the posterior = -log C", FOOTNOTE,
                 value(right), least),
        equality(f"{name}: any other law, KL(q || posterior) above -log C", FOOTNOTE,
                 value(other) - least, other.kl(right)),
        equality(f"{name}: the least found by search = -log C", FOOTNOTE, found, least, 1e-6),
        equality(f"{name}: the least without atoms", "conditioning", bare - least,
                 -math.log(right.masses[-1]), 1e-6),
    ]  # fmt: skip


def max_entropy_checks() -> list[Check]:
    """Check the fixture, random finite problems, a Gaussian mean, and a density with atoms."""
    checks: list[Check] = []
    for gamma in FIXTURE_GAMMAS:
        records = finite_records(fixture(), gamma, FIXTURE_N, seed=0)
        checks += exact_checks(records, f"fixture, gamma = {gamma:g}")
    for seed in range(NUM_PROBLEMS):
        problem, gamma, n, _ = random_problem(seed)
        checks += exact_checks(finite_records(problem, gamma, n, seed), f"random problem {seed}")
    checks += exact_checks(gaussian_records(), "Gaussian mean")
    for gamma in MIXED_GAMMAS:
        records = mixed_records(gamma) + mixed_entropy_records(gamma)
        checks += exact_checks(records, f"prior with two atoms, gamma = {gamma:g}")
    return checks
