"""What implies what: one bound per arrow, checked on random channels."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gibbs_dp.exact import FiniteChannel
from gibbs_dp.information import bounds
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
    Arrow(
        "tv",
        "generalization",
        "gen <= TV",
        "Rakhlin, lecture 20",
        lambda tv, n: bounds.generalization_from_erasure_t_information(
            bounds.erasure_t_information_from_tv_stability(n, tv), n
        ),
    ),
    Arrow("kl", "on_average", "mean <= sup", "Wang et al. 2016", lambda kl, n: kl),
    Arrow(
        "on_average",
        "mutual",
        "I <= n eps_KL",
        "Wang et al. 2016, Lemma 9",
        lambda kl, n: bounds.mutual_information_from_on_average_kl(n, kl) / n,
    ),
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
        lambda eps, n: bounds.pure_dp_max_information_bits(n, eps) * math.log(2) / n,
    ),
    Arrow(
        "max",
        "mutual",
        "I <= I_inf",
        "Dwork et al. 2015",
        lambda rate, n: bounds.mutual_information_from_max_information(n * rate / math.log(2)) / n,
    ),
)


def random_channels() -> list[FiniteChannel]:
    """Draw channels from nearly private to nearly deterministic, one to three examples.

    Examples
    --------
    >>> len(random_channels()) == NUM_CHANNELS
    True
    """
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
