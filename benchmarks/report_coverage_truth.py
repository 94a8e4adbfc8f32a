"""True figures of the mean of ``N`` numbers: a normal posterior around their average.

Two datasets that differ in one number have posteriors ``mu = |z - z'| sqrt(gamma / N)`` standard
deviations apart; all that an attacker sees is the mean over the law of ``mu``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from scipy import stats
from scipy.special import logsumexp

from gibbs_dp.exact import laws

N = 20
E = math.e


@dataclass(frozen=True)
class Law:
    """A law of numbers of mean 0 and variance 1.

    ``population(key, n)``: an array ``[n, 1]``. ``values``, ``probs``: the law, or a rule for it.
    ``information(gamma)``: of dataset and draw, and of one number and draw, in nats; None where it
    is not known.
    """

    population: Callable[[Any, int], Any]
    values: np.ndarray
    probs: np.ndarray
    information: Callable[[float], tuple[float, float]] | None


def normal_information(gamma: float) -> tuple[float, float]:
    """Of dataset and draw, and of one number and draw: all are normal."""
    return 0.5 * math.log1p(gamma), -0.5 * math.log1p(-gamma / (1 + gamma) / N)


RATE, MOST = 0.2, 40


def poisson_sums(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Values and probabilities of a sum of standardized Poisson numbers."""
    total = np.arange(MOST)
    probs = stats.poisson.pmf(total, RATE * count)
    total, probs = total[probs > 1e-14], probs[probs > 1e-14]
    return (total - RATE * count) / math.sqrt(RATE), probs / probs.sum()


def poisson_information(gamma: float) -> tuple[float, float]:
    """Sum over what a dataset, or one number, can be, and integrate over the draw."""

    def of(known: int) -> float:
        values, probs = poisson_sums(known)
        others, shares = poisson_sums(N - known) if known < N else (np.zeros(1), np.ones(1))
        spread = 1 / math.sqrt(N * gamma)
        reach = (abs(values).max() + abs(others).max()) / N + 9 * spread
        theta = np.linspace(-reach, reach, 40_001)
        logs = [
            logsumexp(
                stats.norm.logpdf(theta, (value + others[:, None]) / N, spread),
                axis=0,
                b=shares[:, None],
            )
            for value in values
        ]
        masses = np.array(logs) + np.log(theta[1] - theta[0])
        return laws.mutual_information(np.log(probs), masses)

    return of(N), of(1)


def _normal(key: Any, n: int) -> Any:
    return jax.random.normal(key, (n, 1))


def _poisson(key: Any, n: int) -> Any:
    return (jax.random.poisson(key, RATE, (n, 1)) - RATE) / RATE**0.5


def _lognormal(key: Any, n: int) -> Any:
    numbers = jax.numpy.exp(jax.random.normal(key, (n, 1)))
    return (numbers - E**0.5) / (E * (E - 1.0)) ** 0.5


# A rule for smooth functions of a normal number, as exact as floats are.
_NORMAL = np.linspace(-8.0, 8.0, 1601)
_PROBS = stats.norm.pdf(_NORMAL) / stats.norm.pdf(_NORMAL).sum()
_LOGNORMAL = (np.exp(_NORMAL) - E**0.5) / (E * (E - 1.0)) ** 0.5
LAWS = {
    "normal": Law(_normal, _NORMAL, _PROBS, normal_information),
    "Poisson 0.2": Law(_poisson, *poisson_sums(1), poisson_information),
    "lognormal": Law(_lognormal, _LOGNORMAL, _PROBS, None),
}


def truth(law: Law, gamma: float, is_informed: bool) -> dict[str, float]:
    """Every column of an audit that is known."""
    return information(law, gamma) if is_informed else means(gamma) | attacker(law, gamma)


def means(gamma: float) -> dict[str, float]:
    """KL and risks: of the law only its variance, which is 1, matters."""
    kl = gamma / N
    spread = 1 / (N * gamma)
    return {
        "on_average_kl": kl,
        "on_average_kl_ghost": kl,
        "generalization_error": 1 / N,
        "empirical_risk": 0.5 * (1 - 1 / N + spread),
        "population_risk": 0.5 * (1 + 1 / N + spread),
        # Above the risk of the law's own mean.
        "excess_risk": 0.5 * (1 / N + spread),
        "on_average_renyi_2": 2 * kl,
        "on_average_renyi_8": 8 * kl,
    }


def attacker(law: Law, gamma: float) -> dict[str, float]:
    """Return what the attacker who knows all other numbers sees."""
    apart = np.abs(law.values[:, None] - law.values).ravel() * math.sqrt(gamma / N)
    weight = (law.probs[:, None] * law.probs).ravel()
    # A histogram of distances, each bin at its mean: errors are of the order of a width squared.
    top = apart.max()
    bins = np.minimum((np.sqrt(apart / top) * 4000).astype(int), 3999)
    mass = np.bincount(bins, weight, 4000)
    filled = mass > 0
    mu = np.bincount(bins, weight * apart, 4000)[filled] / mass[filled]
    mass = mass[filled] / mass.sum()
    moving = mu > 0
    tie, m, w = mass[~moving].sum(), mu[moving], mass[moving]

    def rates(level: float) -> tuple[float, float]:
        """Take false and true positive rates of losses above a level."""
        below = level < 0
        false, true = (
            float(w @ stats.norm.cdf((s * m * m / 2 - level) / m) + (tie if below else 0.0))
            for s in (-1, 1)
        )
        return false, true

    # Rates change over losses of all sizes.
    reach = np.geomspace(1e-9, max(40.0, top * top), 3000)
    levels = np.concatenate([reach[::-1], -reach])
    false, true = np.array([rates(level) for level in levels]).T
    false, true = np.concatenate([[0], false, [1]]), np.concatenate([[0], true, [1]])
    return {
        "on_average_tv": float(w @ (2 * stats.norm.cdf(m / 2) - 1)),
        "attack_auc_per_pair": float(w @ stats.norm.cdf(m / math.sqrt(2)) + tie / 2),
        "attack_auc": float(np.trapezoid(true, false)),
        "attack_tpr_1pct": float(np.interp(0.01, false, true)),
        "attack_tpr_01pct": float(np.interp(0.001, false, true)),
    }


def information(law: Law, gamma: float) -> dict[str, float]:
    """Mutual and lautum information of dataset and draw, and that of a single number."""
    assert law.information is not None
    mutual, single = law.information(gamma)
    return {
        "mutual_information_lower": mutual,
        "mutual_information_upper": mutual,
        # The KL both ways of two normal laws adds up to their squared distance.
        "lautum_information": gamma - mutual,
        "individual_information": single,
        "generalization_lower": 1 / N,
    }
