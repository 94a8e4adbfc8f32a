"""Notions of privacy, each as one number of a finite channel (0 is perfect), and over gamma."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from gibbs_dp.exact import FiniteChannel, FiniteProblem, notions
from gibbs_dp.papers.verify.check import Record, inequality

Measure = Callable[[FiniteChannel], float]


class Notion(NamedTuple):
    """A notion, its measure, and its properties."""

    title: str
    measure: Measure
    is_probability: bool
    over_datasets: str
    over_outputs: str
    composition: str
    post_processing: str
    groups: str
    generalization: str


def smallest_crossing(tail: Callable[[float], float]) -> float:
    """Smallest ``c`` with ``tail(c) <= c``, for a decreasing tail with values in ``[0, 1]``."""
    low, high = 0.0, 1.0
    if tail(0.0) <= 1e-15:
        return 0.0
    for _ in range(45):
        middle = (low + high) / 2
        low, high = (low, middle) if tail(middle) <= middle else (middle, high)
    return high


def approximate_dp(channel: FiniteChannel) -> float:
    """Smallest ``c`` for which the channel is ``(c, c)``-DP, replace-one.

    >>> round(approximate_dp(FiniteChannel([[0.75, 0.25], [0.25, 0.75]], [0.5, 0.5], 1)), 4)
    0.3832
    """
    pairs = [pair for i in range(channel.n) for pair in channel.replacements([i])]
    return smallest_crossing(lambda c: float(notions.privacy_curve(pairs, [c])[0]))


def _mass_beyond(
    loss: Float[np.ndarray, " pairs"], mass: Float[np.ndarray, " pairs"], c: float
) -> float:
    return float(mass[loss > c].sum())


def random_dp(channel: FiniteChannel) -> float:
    """Smallest ``c`` with privacy loss at most ``c`` for all but a fraction ``c`` of ``(Z, z')``.

    >>> random_dp(FiniteChannel([[0.75, 0.25], [0.25, 0.75]], [0.5, 0.5], 1))  # half of the pairs
    0.5
    """
    worst = 0.0
    for i in range(channel.n):
        loss, mass = notions.random_dp_law(channel.replacements([i]))
        worst = max(worst, smallest_crossing(partial(_mass_beyond, loss, mass)))
    return round(worst, 12)


def mean_personalized_epsilon(channel: FiniteChannel) -> float:
    """Mean over people of ``eps(z)``, a person ``z`` against the default value 0, nats.

    Against any other value instead, ``eps(z)`` is at least half of the worst case for *every*
    ``z`` (by the triangle inequality), so only a fixed default makes the notion personal.

    >>> channel = FiniteChannel([[0.75, 0.25], [0.25, 0.75]], [0.5, 0.5], 1)
    >>> round(mean_personalized_epsilon(channel), 6)  # half of the people are the default
    0.549306
    """
    eps = np.zeros(channel.data_probs.size)
    for i in range(channel.n):
        for pair in channel.replacements([i]):
            if pair.other == 0:
                eps[pair.value] = max(eps[pair.value], float(notions.privacy_loss(pair).max()))
    seen = channel.data_probs > 0
    return float(channel.data_probs[seen] @ eps[seen])


def worst_generalization(channel: FiniteChannel) -> float:
    """Largest ``|gen|`` over all losses with values in ``[0, 1]``.

    It is the total variation between ``(W, Z_J)``, ``J`` uniform, and the product of its
    marginals, since ``gen`` is linear in the loss.

    >>> channel = FiniteChannel([[0.75, 0.25], [0.25, 0.75]], [0.5, 0.5], 1)
    >>> round(worst_generalization(channel), 9), channel.generalization_error([[0, 1], [1, 0]])
    (0.25, 0.25)
    """
    joint = channel.joint()
    axes = range(1, channel.n + 1)
    pairs = [joint.sum(axis=tuple(a for a in axes if a != i)) for i in axes]
    pair = np.mean(pairs, axis=0)
    product = pair.sum(axis=1)[:, None] * channel.data_probs
    return 0.5 * float(np.abs(pair - product).sum())


NOTIONS: dict[str, Notion] = {
    "dp": Notion(
        "pure DP (eps)",
        lambda a: a.dp_epsilon(),
        False,
        "worst",
        "worst",
        "adds, adaptively",
        "yes",
        "k eps",
        "gen <= e^eps - 1",
    ),
    "zcdp": Notion(
        "zCDP (rho)",
        lambda a: a.zcdp(),
        False,
        "worst",
        "all Renyi orders",
        "adds, adaptively",
        "yes",
        "k^2 rho",
        "through KL",
    ),
    "renyi": Notion(
        "Renyi DP (order 2)",
        lambda a: float(a.renyi_curve([2.0])[0]),
        False,
        "worst",
        "Renyi mean",
        "adds, adaptively",
        "yes",
        "at higher orders",
        "through KL",
    ),
    "kl": Notion(
        "KL-privacy",
        lambda a: a.kl_privacy(),
        False,
        "worst",
        "mean",
        "adds, adaptively",
        "yes",
        "no bound",
        "gen <= sqrt(KL / 2)",
    ),
    "approx": Notion(
        "(eps, delta)-DP",
        approximate_dp,
        True,
        "worst",
        "all but delta",
        "adds, adaptively",
        "yes",
        "k eps, delta (e^(k eps) - 1)/(e^eps - 1)",
        "gen <= e^eps - 1 + delta",
    ),
    "tv": Notion(
        "TV-privacy",
        lambda a: a.tv_privacy(),
        True,
        "worst",
        "total variation",
        "adds, adaptively",
        "yes",
        "k TV",
        "gen <= TV",
    ),
    "personalized": Notion(
        "personalized DP",
        mean_personalized_epsilon,
        False,
        "mean over people",
        "worst",
        "adds, adaptively",
        "yes",
        "sum of eps(z)",
        "through random DP",
    ),
    "random": Notion(
        "random DP",
        random_dp,
        True,
        "all but omega",
        "worst",
        "adds; adaptively not",
        "yes",
        "k eps, k omega",
        "gen <= omega + tanh(eps/2)",
    ),
    "on_average": Notion(
        "on-average KL",
        lambda a: a.on_average_kl(),
        False,
        "mean",
        "mean",
        "adds, over theta ~ A(Z)",
        "yes",
        "k eps (Gibbs, sums)",
        "gen = eps / gamma (Gibbs)",
    ),
    "max": Notion(
        "max-information / n",
        lambda a: a.max_information_bits() * math.log(2) / a.n,
        False,
        "worst",
        "worst",
        "not for a fixed law",
        "yes",
        "all n at once",
        "any event",
    ),
    "mutual": Notion(
        "mutual information / n",
        lambda a: a.mutual_information() / a.n,
        False,
        "mean",
        "mean",
        "adds, over theta ~ A(Z)",
        "yes",
        "all n at once",
        "gen <= sqrt(I / 2n)",
    ),
    "generalization": Notion(
        "generalization",
        worst_generalization,
        True,
        "mean",
        "worst loss in [0, 1]",
        "no",
        "yes",
        "-",
        "is it",
    ),
}


OMEGA, DELTA, BETA = 0.05, 0.01, 0.05

Curves = dict[str, Float[np.ndarray, " gammas"]]

# Smaller, larger, why: what the theory says for every gamma.
ORDER = (
    ("on_average_kl", "kl_privacy", "a mean is at most the supremum"),
    ("kl_privacy", "zcdp", "order 1 of the Renyi orders"),
    ("kl_privacy", "renyi_2", "Renyi orders increase"),
    ("renyi_2", "renyi_8", "Renyi orders increase"),
    ("renyi_8", "dp_epsilon", "order infinity is DP"),
    ("zcdp", "dp_epsilon", "D_alpha <= eps"),
    ("twice_squared_tv", "kl_privacy", "Pinsker"),
    ("random_dp", "dp_epsilon", "a quantile is at most the supremum"),
    ("approximate_dp", "dp_epsilon", "delta buys eps"),
    ("personalized_dp_least", "dp_epsilon", "the worst person is the worst case"),
    ("mutual_information_per_example", "erasure_information_per_example", "I <= I^-"),
    ("individual_information", "mutual_information_per_example", "sum_i I(W; Z_i) <= I(W; S)"),
    ("erasure_information_per_example", "on_average_kl", "I^- <= n eps_KL"),
    ("mutual_information_per_example", "max_information_per_example", "I <= I_inf"),
    ("max_information_per_example", "dp_epsilon", "I_inf <= n eps"),
    ("approx_max_information_per_example", "max_information_per_example", "beta buys bits"),
)


def _epsilon_at_delta(problem: FiniteProblem, gamma: float, n: int, high: float) -> float:
    """Least ``eps`` with ``delta(eps) <= DELTA``, by bisection below the pure ``eps``."""
    pairs = list(problem.neighbours(gamma, n, adjacency="replace-one"))
    low = 0.0
    if float(notions.privacy_curve(pairs, [0.0])[0]) <= DELTA:
        return 0.0
    for _ in range(40):
        middle = (low + high) / 2
        if float(notions.privacy_curve(pairs, [middle])[0]) <= DELTA:
            high = middle
        else:
            low = middle
    return high


def values_at(problem: FiniteProblem, gamma: float, n: int) -> dict[str, float]:
    """Evaluate every notion at one gamma, nats; informations in nats per example."""
    q = problem.quantities(gamma, n, BETA)
    renyi = problem.renyi_curve(gamma, n, [2.0, 8.0], adjacency="replace-one")
    eps, nats = q["dp_epsilon"], math.log(2) / n
    return {
        "dp_epsilon": eps,
        "personalized_dp_least": float(
            problem.personalized_dp(gamma, n, adjacency="replace-one").min()
        ),
        "random_dp": problem.random_dp_epsilon(gamma, n, OMEGA),
        "approximate_dp": _epsilon_at_delta(problem, gamma, n, eps),
        "renyi_8": float(renyi[1]),
        "renyi_2": float(renyi[0]),
        "zcdp": problem.zcdp(gamma, n, adjacency="replace-one"),
        "kl_privacy": q["kl_privacy"],
        "twice_squared_tv": 2 * q["tv_privacy"] ** 2,
        "on_average_kl": q["on_average_kl"],
        "max_information_per_example": nats * q["max_information_bits"],
        "approx_max_information_per_example": nats * q["approx_max_information_bits"],
        "erasure_information_per_example": q["erasure_mutual_information"] / n,
        "mutual_information_per_example": q["mutual_information"] / n,
        "individual_information": problem.individual_information(gamma, n),
    }


def curves(problem: FiniteProblem, gammas: Sequence[float], n: int) -> Curves:
    """Evaluate every notion over a grid of gamma."""
    rows = [values_at(problem, gamma, n) for gamma in gammas]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def order_records(found: Curves, gammas: Sequence[float]) -> list[Record]:
    """Check `ORDER` at every gamma, one record per pair: its closest case."""
    records = []
    for smaller, larger, why in ORDER:
        cases = [
            inequality(f"{smaller} <= {larger}", f"{why}; gamma = {gamma:g}", float(low), float(up))
            for gamma, low, up in zip(gammas, found[smaller], found[larger], strict=True)
        ]
        records.append(min(cases, key=lambda r: (r.holds, (r.right - r.left) / abs(r.right))))
    return records
