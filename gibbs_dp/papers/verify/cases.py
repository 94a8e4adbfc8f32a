"""Cases that attain a bound, and the laws that push bounds to their limits."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.stats import binom

from gibbs_dp.exact.finite_channel import FiniteChannel
from gibbs_dp.exact.finite_problem import FiniteProblem
from gibbs_dp.information import dependence as dep
from gibbs_dp.information.divergences import batched
from gibbs_dp.information.divergences.finite import approximate_max_divergence_of_logs

Sides = Callable[[], tuple[float, float]]


class Case(NamedTuple):
    """``sides()`` computes ``left <= right``, calling one bound through ``bounds.<name>``.

    The statement is false once the bound's value (its entry ``part``, if it returns several
    numbers) is multiplied by ``factor``: below 1 for upper bounds, above 1 for lower bounds and for
    numbers that are spent, such as the eps of one release. Where no known case comes close,
    ``loose`` says why, and the factor is the tightest known.
    """

    sides: Sides
    factor: float
    part: int | None = None
    loose: str = ""

    def scale(self, bound: Callable[..., Any], factor: float | None = None) -> Callable[..., Any]:
        """Change the bound's constant, by the case's own factor unless another is given."""
        by = self.factor if factor is None else factor

        def scaled(*args: Any, **kwargs: Any) -> Any:
            value = bound(*args, **kwargs)
            if self.part is None:
                return by * value
            parts = list(value)
            parts[self.part] *= by
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)

        return scaled

    @property
    def is_near(self) -> bool:
        """Whether a change of a few percent makes the statement false."""
        return 0.9 < self.factor < 1.11


def equal(sides: Sides) -> list[Case]:
    """Return the cases of an equality: the right side may be neither too small nor too large."""

    def swapped() -> tuple[float, float]:
        left, right = sides()
        return right, left

    return [Case(sides, 0.999), Case(swapped, 1.001)]


def single(sides: Sides, factor: float = 0.999, loose: str = "") -> list[Case]:
    """Return the only case of a bound."""
    return [Case(sides, factor, loose=loose)]


Table = Float[np.ndarray, "..."]
Pair = tuple[list[float], list[float]]

REPLACE: dict[str, Any] = {"adjacency": "replace-one"}
AGREE = [[0, 1], [1, 0]]  # loss of guessing a bit
# Two hypotheses and two values that disagree; loss range 1, R = 2.
COIN = FiniteProblem(np.array(AGREE, float), [0.5, 0.5], [0.5, 0.5])
# A rare example that makes a rare hypothesis likely: KL one way only, so lautum << I.
RARE = FiniteProblem([[0.0, 0.0], [0.0, math.log(1e-15)]], [1 - 1e-20, 1e-20], [1 - 1e-15, 1e-15])
# The log-ratio of a rare hypothesis reaches eta.
EXTREME = FiniteProblem([[0.0, 1.0], [1.0, 0.0]], [0.5, 0.5], [1 - 1e-6, 1e-6])
# Losses of mean zero: dropping an example is averaging over it, to first order.
CENTERED = FiniteProblem([[0.5, -0.5], [-0.5, 0.5]], [0.5, 0.5], [0.5, 0.5])


def response(eps: float) -> Table:
    """Binary randomized response: the two output laws."""
    p = np.array([math.exp(eps), 1.0]) / (1 + math.exp(eps))
    return np.array([p, p[::-1]])


def hidden(delta: float) -> Table:
    """Say one's bit with probability delta, else nothing: the two output laws, (0, delta)-DP."""
    return np.array([[delta, 0.0, 1 - delta], [0.0, delta, 1 - delta]])


def revealing(num: int, delta: float) -> FiniteChannel:
    """Say which of many values one has with probability delta, else nothing."""
    table = np.column_stack([delta * np.eye(num), np.full(num, 1 - delta)])
    return FiniteChannel(table, np.full(num, 1 / num), 1)


def revealed(num: int | float, delta: float) -> Pair:
    """Joint and product law of `revealing`, lumped: right, wrong, nothing."""
    return [delta, 0.0, 1 - delta], [delta / num, delta * (1 - 1 / num), 1 - delta]


def report(num: int | float, keep: float) -> Pair:
    """Laws of a report kept with some probability, on two of many values, lumped."""
    other = (1 - keep) / (num - 1)
    return [keep, other, 1 - keep - other], [other, keep, 1 - keep - other]


def report_information(num: int | float, keep: float) -> Pair:
    """Joint and product law of a uniform value and its report, lumped: kept or not."""
    return [keep, 1 - keep], [1 / num, 1 - 1 / num]


def subset_mechanism(num: int, size: int, eps: float) -> Table:
    """Report a subset, e^eps likelier if it holds the value: the extreme eps-DP channel."""
    inside = np.array([[v in s for v in range(num)] for s in combinations(range(num), size)])
    law = np.exp(eps * inside)
    return law / law.sum(axis=0) / num


def two_point(eta: float, t: Float[np.ndarray, " t"]) -> tuple[Table, Table]:
    """Logarithms of the pairs of laws with log-ratio t or t - eta, one row per t."""
    log_q = np.stack([np.log(-np.expm1(t - eta)) - t, np.log(-np.expm1(-t))], axis=1)
    log_q -= np.log(-np.expm1(-eta))
    return log_q + np.stack([t, t - eta], axis=1), log_q


def worst_two_point(divergence: batched.Divergence, eta: float, num: int = 2000) -> float:
    """Largest divergence between two-point laws of range eta."""
    # Ever finer towards t = eta, where high orders of Renyi divergence are largest.
    t = eta * (1 - np.concatenate([np.geomspace(1e-5, 0.02, 400), np.linspace(0.02, 0.999, num)]))
    return float(divergence(*two_point(eta, t)).max())


def fit_sign(h: float) -> tuple[float, float]:
    """Take a Gaussian statistic and its negative, with a slight preference for the larger."""
    x, weight = np.polynomial.hermite_e.hermegauss(64)
    mass = weight / weight.sum()
    plus = 1 / (1 + np.exp(-2 * h * x))
    joint = np.stack([mass * plus, mass * (1 - plus)])
    return float(joint[0] @ x - joint[1] @ x), dep.mutual_information(joint)


def weak_sign(h: float = 1e-3) -> Table:
    """Joint law of a fair bit and a guess that is slightly right."""
    return np.array([[0.25 + h / 2, 0.25 - h / 2], [0.25 - h / 2, 0.25 + h / 2]])


def weak_gap() -> float:
    """Generalization error of the slightly right guess."""
    return FiniteChannel(2 * weak_sign(), [0.5, 0.5], 1).generalization_error(AGREE)


def agreement_bits(n: int, kept: float, by_chance: float, beta: float) -> float:
    """Approximate max-information of n reports that agree with their examples above chance."""
    k = np.arange(n + 1)
    law = binom.logpmf(k, n, kept), binom.logpmf(k, n, by_chance)
    return approximate_max_divergence_of_logs(*law, beta) / math.log(2)


def response_bits(n: int, eps: float, beta: float) -> float:
    """Approximate max-information of randomized response of n fair bits."""
    return agreement_bits(n, math.exp(eps) / (1 + math.exp(eps)), 0.5, beta)


def matched_guess(n: int, eps: float, wins: Callable[[Int[np.ndarray, " k"]], np.ndarray]) -> float:
    """Probability that randomized response agrees with a winning number of n fair bits."""
    k = np.arange(n + 1)
    return float(binom.pmf(k, n, math.exp(eps) / (1 + math.exp(eps)))[wins(k)].sum())
