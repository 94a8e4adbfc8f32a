"""What implies what: a bound per arrow, a counterexample per missing one, found by search."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from gibbs_dp.exact import FiniteChannel, ordered_datasets
from gibbs_dp.information import bounds
from gibbs_dp.papers import channels
from gibbs_dp.papers.notions.measures import NOTIONS

NUM_CHANNELS = 36


class Arrow(NamedTuple):
    """``measure(end) <= bound(measure(start), n)`` for every algorithm on ``n`` examples."""

    start: str
    end: str
    formula: str
    source: str
    bound: Callable[[float, int], float]


class ArrowRecord(NamedTuple):
    """The closest case of one arrow: the channel that leaves the bound the least room."""

    start: str
    end: str
    formula: str
    source: str
    start_value: float
    end_value: float
    bound: float
    num_channels: int
    holds: bool


ARROWS = (
    Arrow(
        "dp",
        "zcdp",
        "rho <= eps^2 / 2",
        "Bun & Steinke 2016",
        # eps-DP pairs have a log-ratio of range at most 2 eps.
        lambda eps, n: bounds.zcdp_from_range(2 * eps),
    ),
    Arrow("zcdp", "renyi", "D_2 <= 2 rho", "Bun & Steinke 2016", lambda rho, n: 2 * rho),
    Arrow("renyi", "kl", "KL <= D_2", "Renyi orders increase", lambda value, n: value),
    Arrow(
        "kl", "tv", "TV <= sqrt(KL/2)", "Pinsker", lambda kl, n: bounds.total_variation_from_kl(kl)
    ),
    Arrow("tv", "approx", "(0, TV)-DP", "definition", lambda tv, n: tv),
    Arrow(
        "approx",
        "tv",
        "TV <= tanh(eps/2) + 2 delta/(e^eps+1)",
        "Kairouz et al. 2015",
        lambda c, n: math.tanh(c / 2) + 2 * c / (math.exp(c) + 1),
    ),
    Arrow("tv", "generalization", "gen <= TV", "Rakhlin, lecture 20", lambda tv, n: tv),
    Arrow("kl", "on_average", "mean <= sup", "Wang et al. 2016", lambda kl, n: kl),
    Arrow("on_average", "mutual", "I <= n eps_KL", "Wang et al. 2016, Lemma 9", lambda kl, n: kl),
    Arrow(
        "mutual",
        "generalization",
        "gen <= sqrt(I/2n)",
        "Xu & Raginsky 2017",
        lambda rate, n: bounds.generalization_from_mutual_information(n * rate, n, sigma=0.5),
    ),
    Arrow("dp", "personalized", "eps(z) <= eps", "definition", lambda eps, n: eps),
    Arrow(
        "personalized",
        "on_average",
        "KL <= eps(z) + eps(z')",
        "triangle inequality",
        lambda eps, n: 2 * eps,
    ),
    Arrow(
        "personalized",
        "random",
        "c <= 2 sqrt(E eps(z))",
        "Markov's inequality",
        lambda eps, n: 2 * math.sqrt(eps),
    ),
    Arrow(
        "random",
        "generalization",
        "gen <= omega + tanh(eps/2)",
        "TV of eps-DP pairs",
        lambda c, n: c + (1 - c) * math.tanh(c / 2),
    ),
    Arrow(
        "dp",
        "max",
        "I_inf <= n eps",
        "Dwork et al. 2015",
        lambda eps, n: bounds.max_information_bits(n, eps) * math.log(2) / n,
    ),
    Arrow("max", "mutual", "I <= I_inf", "Dwork et al. 2015", lambda rate, n: rate),
)


def random_channels() -> list[FiniteChannel]:
    """Draw channels from nearly private to nearly deterministic, one to three examples."""
    rng = np.random.default_rng(0)
    drawn = []
    for i in range(NUM_CHANNELS):
        n, values, outputs = 1 + i % 3, int(rng.integers(2, 4)), int(rng.integers(2, 5))
        scale = 10 ** rng.uniform(-1.5, 0.9)
        logits = scale * rng.normal(size=(values**n, outputs)) + rng.normal(size=outputs)
        weight = np.exp(logits - logits.max(axis=1, keepdims=True))
        law = weight / weight.sum(axis=1, keepdims=True)
        drawn.append(FiniteChannel(law, rng.dirichlet(np.ones(values)), n))
    return drawn


def check_arrows() -> list[ArrowRecord]:
    """Check every arrow on every random channel and keep its closest case."""
    channels = random_channels()
    values = [{name: notion.measure(a) for name, notion in NOTIONS.items()} for a in channels]
    records = []
    for arrow in ARROWS:
        cases = [
            (found[arrow.start], found[arrow.end], arrow.bound(found[arrow.start], channel.n))
            for channel, found in zip(channels, values, strict=True)
        ]
        tight = max(cases, key=lambda case: case[1] / case[2] if case[2] > 0 else math.inf)
        holds = all(end <= limit * (1 + 1e-9) + 1e-12 for _, end, limit in cases)
        text = (arrow.start, arrow.end, arrow.formula, arrow.source)
        records.append(ArrowRecord(*text, *tight, len(cases), holds))
    return records


SMALL = 0.2  # largest value of a premise
LARGE_NATS, LARGE_PROBABILITY = 0.75, 0.45  # smallest value of a conclusion


class Missing(NamedTuple):
    """A family of channels on which ``start`` is small and ``end`` is not."""

    start: str
    end: str
    family: str


class MissingRecord(NamedTuple):
    """The first channel of the family that separates the two notions."""

    start: str
    end: str
    family: str
    parameter: float
    start_value: float
    end_value: float
    holds: bool


def _gaussian(probs: Sequence[float], width: int) -> FiniteChannel:
    outputs = np.arange(-width, width + 1)
    law = np.exp(-((outputs - np.arange(3)[:, None]) ** 2) / 24.0)
    return FiniteChannel(law / law.sum(axis=1, keepdims=True), probs, 1)


def gaussian_noise(width: float) -> FiniteChannel:
    """Add Gaussian noise of variance 12, cut at ``width``, to a value in {0, 1, 2}."""
    return _gaussian([1 / 3, 1 / 3, 1 / 3], int(width))


def rare_gaussian_noise(width: float) -> FiniteChannel:
    """Add the same noise where one value in a hundred is a 2."""
    return _gaussian([0.98, 0.01, 0.01], int(width))


def _binary(p: float, q: float, probs: Sequence[float]) -> FiniteChannel:
    return FiniteChannel([[p, 1 - p], [q, 1 - q]], probs, 1)


def rare_output(exponent: float) -> FiniteChannel:
    """Release a token with probability ``d`` or ``5 d^2``, ``d = 10^-exponent``."""
    d = 10.0**-exponent
    return _binary(d, 5 * d * d, [0.5, 0.5])


def rarer_output(exponent: float) -> FiniteChannel:
    """Release a token with probability 0.01 or ``10^-exponent``."""
    return _binary(0.01, 10.0**-exponent, [0.5, 0.5])


def rare_person(exponent: float) -> FiniteChannel:
    """Recognize a person who is one in ``10^exponent``, with one error in a million."""
    p = 10.0**-exponent
    return _binary(1 - 1e-6, 1e-6, [1 - p, p])


def bounded_noise(half_width: float) -> FiniteChannel:
    """Add uniform noise to a value in {0, 1, 2, 3}."""
    return channels.uniform_noise(np.arange(4), 1, int(half_width), np.full(4, 0.25))


def lottery(num: float) -> FiniteChannel:
    """Publish the one example, of ``num`` values, with probability 1/5, else nothing."""
    size = int(num)
    table = np.column_stack([0.2 * np.eye(size), np.full(size, 0.8)])
    return FiniteChannel(table, np.full(size, 1 / size), 1)


def loud_minority(num: float) -> FiniteChannel:
    """Publish the example of one person in ten, of ``num`` kinds; reveal nothing of the others."""
    size = int(num)
    table: Float[np.ndarray, "values outputs"] = np.eye(size + 1)
    return FiniteChannel(table, np.concatenate([[0.9], np.full(size, 0.1 / size)]), 1)


def parity(n: float) -> FiniteChannel:
    """Release the parity of ``n`` fair bits."""
    size = int(n)
    return FiniteChannel(np.eye(2)[ordered_datasets(size, 2).sum(axis=1) % 2], [0.5, 0.5], size)


def difference(num: float) -> FiniteChannel:
    """Release the difference, modulo ``num``, of two uniform values."""
    size = int(num)
    pairs = ordered_datasets(2, size)
    law = np.eye(size)[(pairs[:, 0] - pairs[:, 1]) % size]
    return FiniteChannel(law, np.full(size, 1 / size), 2)


# Family -> (constructor, parameters in the order of the search, what happens along it).
FAMILIES: dict[str, tuple[Callable[[float], FiniteChannel], tuple[float, ...], str]] = {
    "Gaussian noise": (gaussian_noise, (5.0, 10.0, 20.0, 40.0), "the tail is unbounded"),
    "Gaussian noise, rare value": (
        rare_gaussian_noise,
        (20.0, 40.0, 80.0, 120.0),
        "an output in the tail gives the rare value away",
    ),
    "rare output": (rare_output, (2.0, 4.0, 6.0, 8.0, 10.0), "higher orders see rarer outputs"),
    "rarer output": (rarer_output, (3.0, 4.0, 5.0, 6.0), "a mean of logs forgives rare outputs"),
    "bounded noise": (bounded_noise, (2.0, 5.0, 10.0), "supports differ at the ends"),
    "lottery": (lottery, (5.0, 20.0, 50.0, 100.0), "the information of the lost is unbounded"),
    "loud minority": (loud_minority, (5.0, 20.0, 50.0, 100.0), "what they reveal is unbounded"),
    "rare person": (rare_person, (1.0, 2.0, 3.0), "averages forget rare people"),
    "parity": (parity, (1.0, 2.0, 3.0, 4.0), "one bit about everyone, nothing about anyone"),
    "difference": (difference, (2.0, 4.0, 8.0), "each example is uniform given the output"),
}

MISSING = (
    Missing("zcdp", "dp", "Gaussian noise"),
    Missing("zcdp", "random", "Gaussian noise"),
    Missing("zcdp", "max", "Gaussian noise, rare value"),
    Missing("renyi", "zcdp", "rare output"),
    Missing("kl", "renyi", "rarer output"),
    Missing("tv", "on_average", "bounded noise"),
    Missing("tv", "random", "bounded noise"),
    Missing("tv", "mutual", "lottery"),
    Missing("on_average", "tv", "rare person"),
    Missing("personalized", "tv", "rare person"),
    Missing("personalized", "max", "rare person"),
    Missing("random", "tv", "rare person"),
    Missing("random", "mutual", "loud minority"),
    Missing("mutual", "tv", "parity"),
    Missing("mutual", "random", "parity"),
    Missing("mutual", "max", "rare person"),
    Missing("mutual", "on_average", "parity"),
    Missing("max", "tv", "parity"),
    Missing("max", "random", "parity"),
    Missing("max", "on_average", "parity"),
    Missing("generalization", "tv", "parity"),
    Missing("generalization", "random", "parity"),
    Missing("generalization", "mutual", "difference"),
)


def find_counterexample(missing: Missing) -> MissingRecord:
    """Go through a family until the premise is small and the conclusion is not."""
    build, parameters, _ = FAMILIES[missing.family]
    start, end = NOTIONS[missing.start], NOTIONS[missing.end]
    large = LARGE_PROBABILITY if end.is_probability else LARGE_NATS
    for parameter in parameters:
        channel = build(parameter)
        premise, conclusion = start.measure(channel), end.measure(channel)
        holds = premise <= SMALL * (1 + 1e-9) and conclusion >= large
        if holds:
            break
    return MissingRecord(*missing, parameter, premise, conclusion, holds)


def check_missing() -> list[MissingRecord]:
    """Search for every counterexample of `MISSING`."""
    return [find_counterexample(missing) for missing in MISSING]
