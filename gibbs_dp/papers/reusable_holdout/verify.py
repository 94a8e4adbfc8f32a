"""Mechanisms of adaptive analysis: exact laws against what they claim, and known-wrong variants."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from scipy.stats import norm

from gibbs_dp.holdout.thresholdout import Thresholdout
from gibbs_dp.papers.bayesian_dp.markov_chain import counting_sensitivity
from gibbs_dp.papers.reusable_holdout.sparse import (
    approximate_rows,
    laplace_noise,
    noisy_max_law,
    sparse_probability,
    sparse_variants,
    uniform_noise,
    worst_loss,
)
from gibbs_dp.papers.verify.check import (
    Check,
    Record,
    counterexample,
    equality,
    exact_checks,
    inequality,
)
from gibbs_dp.privacy.composition import composed_pure_dp
from gibbs_dp.privacy.mechanisms import (
    ExponentialMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    ReportNoisyMax,
    gaussian_for,
)

BOOK = "Dwork & Roth 2014"
REUSABLE = "Dwork et al. 2015, Thresholdout"
EPS = 1.0
# Losses that tend to a claim are compared with it to this.
NEAR = 1e-3


def largest_loss(
    law: Callable[[np.ndarray], np.ndarray],
    values: Iterable[Sequence[float]],
    moves: Iterable[Sequence[float]],
) -> float:
    """Largest log ratio of a finite law over neighbours, nats.

    >>> largest_loss(lambda v: np.array([0.5, 0.5]), [[0.0]], [[1.0]])
    0.0
    """
    steps = [np.asarray(move) for move in moves]
    worst = 0.0
    for v in values:
        here = np.asarray(law(np.asarray(v)))
        for step in steps:
            there = np.asarray(law(np.asarray(v) + step))
            possible = (here > 0) | (there > 0)
            with np.errstate(divide="ignore"):
                ratio = np.log(here[possible]) - np.log(there[possible])
            worst = max(worst, float(np.abs(ratio).max()))
    return worst


def additive_records() -> list[Record]:
    """Laplace, Gaussian and uniform noise, from their densities."""
    y = np.linspace(-20, 20, 4001)

    def loss(scale: float, move: float) -> float:
        return float(np.abs(np.abs(y) - np.abs(y - move)).max()) / scale

    laplace = LaplaceMechanism(3.0, EPS, adjacency="replace-one")
    records = [
        equality("Laplace mechanism: loss = epsilon", BOOK, loss(laplace.scale, 3.0), EPS),
        counterexample(
            "Laplace noise of scale sensitivity_2/epsilon", "wrong noise", loss(5**0.5, 3.0), EPS
        ),
    ]
    wide = uniform_noise(100.0)
    point = np.array([99.5])
    p, q = (0.0 if wide.density is None else float(wide.density(point + m)[0]) for m in (0, 1))
    ratio = math.inf if p > 0 == q else abs(math.log(p / q))
    records.append(counterexample("uniform noise is epsilon-DP", "wrong noise", ratio, 100.0))
    for mechanism in (
        GaussianMechanism(1.0, 2.0, adjacency="replace-one"),
        gaussian_for(1.0, 1e-5, sensitivity=2.0, adjacency="replace-one"),
    ):
        s, sigma = mechanism.sensitivity, mechanism.sigma
        # The log ratio of N(0, sigma^2) to N(s, sigma^2) falls in y: a half-line is worst.
        edge = s / 2 - EPS * sigma**2 / s
        exact = norm.cdf(edge / sigma) - math.exp(EPS) * norm.cdf((edge - s) / sigma)
        records.append(
            equality("Gaussian mechanism: delta(1)", "half-line", mechanism.delta(EPS), exact, 1e-7)
        )
    records.append(equality("gaussian_for: delta = 1e-5", "accountant", exact, 1e-5, 1e-8))
    return records


def selection_records() -> list[Record]:
    """Exponential mechanism and report noisy max, on grids of neighbours."""
    ways = [m for m in itertools.product((-1.0, 0.0, 1.0), repeat=3) if any(m)]
    grid = [(0.0, 0.0, 0.0), (0.0, 1.0, 3.0), (0.0, 15.0, 30.0)]
    right = ExponentialMechanism(1.0, EPS, adjacency="replace-one")
    sharp = ExponentialMechanism(1.0, 2 * EPS, adjacency="replace-one")
    pairs = [(0.0, 0.0), (0.0, 4.0), (0.0, 30.0)]
    both = [(a, b) for a, b in itertools.product((-1.0, 0.0, 1.0), repeat=2) if a or b]
    up = [(0.0, 1.0), (1.0, 0.0), (1.0, 1.0)]

    def top(mechanism: ReportNoisyMax) -> Callable[[np.ndarray], np.ndarray]:
        return lambda v: noisy_max_law(v.tolist(), laplace_noise(mechanism.scale))

    counts = top(ReportNoisyMax(1.0, EPS, adjacency="add-remove", is_monotone=True))
    general = top(ReportNoisyMax(1.0, EPS, adjacency="replace-one"))
    found = largest_loss(right.probabilities, grid, ways)
    one_way = largest_loss(counts, pairs, up)
    doubled = largest_loss(counts, pairs, both)
    louder = largest_loss(sharp.probabilities, grid, ways)
    quieter = largest_loss(general, pairs, both)
    return [
        inequality("exponential mechanism: loss <= epsilon", "McSherry & Talwar 2007", found, EPS),
        equality("exponential mechanism: attained", "limit", found, EPS, NEAR),
        counterexample("exponential mechanism without the 2", "wrong noise", louder, EPS),
        inequality("report noisy max, Lap(1/epsilon), add/remove", BOOK, one_way, EPS),
        counterexample("report noisy max, Lap(1/epsilon), replace-one", BOOK, doubled, EPS),
        inequality("report noisy max, Lap(1/epsilon): twice", BOOK, doubled, 2 * EPS),
        inequality("report noisy max, Lap(2/epsilon), replace-one", BOOK, quieter, EPS),
        *_counting_records(),
    ]


def _counting_records() -> list[Record]:
    """L1 sensitivity of a histogram of two rows, by enumeration."""
    cells = range(3)
    counts = [np.bincount(row, minlength=3) for row in itertools.product(cells, repeat=2)]
    one = [np.bincount([cell], minlength=3) for cell in cells]
    replaced = max(np.abs(a - b).sum() for a in one for b in one)
    added = max(np.abs(c - a).sum() for c in counts for a in one if np.all(c >= a))
    name = "sensitivity of disjoint counts"
    two = counting_sensitivity(3, "replace-one", is_disjoint=True)
    single = counting_sensitivity(3, "add-remove", is_disjoint=True)
    return [
        equality(f"{name}, replace-one", BOOK, float(replaced), two),
        equality(f"{name}, add/remove", BOOK, float(added), single),
    ]


def sparse_records(num_above: int, sensitivity: float) -> list[Record]:
    """Sparse vector and its wrong variants, at the worst neighbours found."""
    records = []
    for variant in sparse_variants(EPS, num_above, sensitivity=sensitivity):
        if num_above == 1 and "scaled" in variant.name:
            continue  # nothing to scale
        loss = worst_loss(variant, 32 * num_above, sensitivity=sensitivity).value
        name = f"sparse vector, {variant.name}"
        if variant.proven_epsilon > EPS:
            records.append(counterexample(f"{name}: epsilon-DP", "wrong variant", loss, EPS))
        if math.isfinite(variant.proven_epsilon):
            bound = variant.proven_epsilon
            records.append(inequality(f"{name}: loss <= proven", BOOK, loss, bound))
            records.append(equality(f"{name}: proven is attained", "limit", loss, bound, NEAR))
    right, *_ = sparse_variants(EPS, num_above, sensitivity=sensitivity)
    more = worst_loss(right, 32 * num_above, sensitivity=2 * sensitivity).value
    name = "sparse vector, queries move twice as far as declared"
    return [*records, counterexample(name, "wrong variant", more, EPS)]


def approximate_records() -> list[Record]:
    """Approximate sparse vector: the printed noise, the accountant's, and what leaks."""
    records = []
    for row in approximate_rows([1.0, 20.0]):
        name = f"approximate sparse vector, sigma of {row['sigma_from']}"
        proven, claimed = row["proven_epsilon"], row["claimed_epsilon"]
        found = row["measured_epsilon"]
        records.append(inequality(f"{name}: leaks less than proven", BOOK, found, proven))
        is_false = row["sigma_from"] == "printed" and claimed > 10
        state = counterexample if is_false else inequality
        tail = ", large epsilon" if is_false else ""
        records.append(state(f"{name}: composes to epsilon{tail}", BOOK, proven, claimed, 1e-6))
    return records


def thresholdout_records() -> list[Record]:
    """Thresholdout: pattern of corrections and noisy answers together, on neighbouring holdouts."""
    n, sigma, budget, threshold = 50, 0.1, 2, 0.3
    rows = np.zeros(n)
    gate = Thresholdout(rows, rows, threshold=threshold, sigma=sigma, budget=budget)
    claimed = gate.guarantee().epsilon

    def loss(rounds: int, query_scale: float, answer_scale: float) -> float:
        noises: dict[str, Any] = {
            "threshold_noise": laplace_noise(2 * sigma),
            "query_noise": laplace_noise(query_scale),
        }
        quiet, far = 12, 8 * sigma  # queries of a round before the corrected one
        p, q = (
            sparse_probability((*(far + move,) * quiet, -far - move), (*(0,) * quiet, 1), **noises)
            for move in (0.0, 1 / n)
        )
        answers = math.inf if answer_scale == 0 else 1 / (n * answer_scale)
        return rounds * (abs(math.log(p / q)) + answers)

    right = loss(budget, 4 * sigma, sigma)
    printed = 2 * math.sqrt(2 * 100 * math.log(2e6))  # 2B = 200 steps of epsilon 1
    steps = {k: composed_pure_dp(200, 1 / k, delta=1e-6) for k in (1, 100)}
    name = "Thresholdout: (2 sqrt(2 B ln(2/delta))/(sigma n), delta)"
    wrong = {
        "that answers past its budget": (budget + 1, 4 * sigma, sigma),
        "with query noise Lap(sigma)": (budget, sigma, sigma),
        "that corrects without noise": (budget, 4 * sigma, 0.0),
    }
    return [
        equality("Thresholdout: 2 B/(sigma n)", REUSABLE, claimed, 2 * budget / (sigma * n)),
        inequality("Thresholdout: loss <= 2 B/(sigma n)", REUSABLE, right, claimed),
        equality("Thresholdout: attained", "limit", right, claimed, NEAR),
        *(
            counterexample(f"Thresholdout {what}", "wrong variant", loss(*settings), claimed)
            for what, settings in wrong.items()
        ),
        inequality(f"{name}, small steps", REUSABLE, steps[100], printed / 100),
        counterexample(f"{name}, large steps", REUSABLE, steps[1], printed),
    ]


def mechanism_checks() -> list[Check]:
    """Run every check of this file."""
    checks = exact_checks([*additive_records(), *selection_records()], "grids of neighbours")
    for num_above, sensitivity in ((1, 1.0), (1, 2.5), (3, 1.0), (3, 2.5)):
        case = f"c = {num_above}, sensitivity {sensitivity:g}"
        checks += exact_checks(sparse_records(num_above, sensitivity), case)
    checks += exact_checks(approximate_records(), "c = 100, delta = 1e-6")
    return checks + exact_checks(thresholdout_records(), "n = 50, B = 2")
