"""Sparse vector and its wrong variants: what each claims, and what an attacker really learns.

The variants are those that were published by mistake, as catalogued by Lyu, Su & Li (2017,
*Understanding the sparse vector technique*), with the noise of Dwork & Roth (2014, section 3.6).
Losses are exact for the neighbours that are shown, by integration over the threshold's noise, and
so lower bounds of a variant's epsilon; upper bounds are proven where there is one.

Of the approximate sparse vector, an attacker may ask the same block of queries in every round of
AboveThreshold, so that ``c`` rounds are ``c`` independent draws from one law, whose composition is
exact. What is found so is a loss that occurs, a lower bound of the mechanism's epsilon at delta;
`Sparse.guarantee` is the upper one.

Laws come from numerical integration over any noise, so that a wrong one can be shown to be wrong.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq

from gibbs_dp._progress import Progress
from gibbs_dp.holdout import Sparse, sparse_approximate, sparse_pure
from gibbs_dp.information import checks
from gibbs_dp.papers.channels import composed_privacy_curve
from gibbs_dp.papers.reusable_holdout.data import Found, Sizes
from gibbs_dp.papers.tables import Row

Answers = tuple[int, ...]
Curve = Callable[[np.ndarray], np.ndarray]

NODES, WEIGHTS = np.polynomial.legendre.leggauss(24)
# A Laplace tail beyond this many scales is below 1e-19 of the whole.
SPAN = 44.0
PANEL = 6.0


class Noise(NamedTuple):
    """A law of noise on the line."""

    density: Curve | None
    cdf: Curve
    kinks: tuple[float, ...]
    span: float
    scale: float


def laplace_noise(scale: float) -> Noise:
    """``Lap(scale)``."""
    b = checks.positive("scale", scale)

    def cdf(x: np.ndarray) -> np.ndarray:
        tail = 0.5 * np.exp(-np.abs(x) / b)
        return np.where(x < 0, tail, 1 - tail)

    return Noise(lambda x: np.exp(-np.abs(x) / b) / (2 * b), cdf, (0.0,), SPAN * b, b)


def uniform_noise(half_width: float) -> Noise:
    """Uniform on ``[-half_width, half_width]``: not private at any size."""
    w = checks.positive("half_width", half_width)
    return Noise(
        lambda x: np.where(np.abs(x) <= w, 0.5 / w, 0.0),
        lambda x: np.clip((x + w) / (2 * w), 0.0, 1.0),
        (-w, w),
        w,
        w,
    )


def no_noise() -> Noise:
    """Nothing is added (for queries; a threshold without noise has no density)."""
    return Noise(None, lambda x: np.where(x >= 0, 1.0, 0.0), (0.0,), 0.0, math.inf)


def sparse_probability(
    values: Sequence[float],
    answers: Answers,
    *,
    threshold_noise: Noise,
    query_noise: Noise,
    is_redrawn: bool = True,
) -> float:
    """Probability of one sequence of answers of sparse vector, for vectors too long for its law."""
    cuts = [i + 1 for i, a in enumerate(answers) if a == 1] if is_redrawn else []
    edges = sorted({0, *cuts, len(answers)})
    rounds = Counter(
        (tuple(values[begin:end]), answers[begin:end]) for begin, end in itertools.pairwise(edges)
    )
    probability = 1.0
    for (own, said), count in rounds.items():
        probability *= _round(own, said, threshold_noise, query_noise) ** count
    return probability


def noisy_max_law(values: Sequence[float], noise: Noise) -> Float[np.ndarray, " choices"]:
    """Law of the index of the largest value after noise."""
    v = np.asarray(values, dtype=np.float64)
    law = []
    for k in range(v.size):
        others = np.delete(v, k)
        kinks = [o - v[k] + s for o in others for s in noise.kinks]

        def beaten(x: np.ndarray, others: np.ndarray = others, top: float = v[k]) -> np.ndarray:
            return np.prod([noise.cdf(x + top - o) for o in others], axis=0) * np.ones_like(x)

        law.append(_integral(beaten, noise, kinks))
    return np.array(law)


def released_value_density(
    values: Sequence[float], released: float, *, threshold_noise: Noise, query_noise: Noise
) -> float:
    """Density of halting at the last value and showing the noisy value that was compared.

    Showing it is not private: the threshold noise is then known to lie below.

    >>> noise = laplace_noise(1.0)
    >>> round(released_value_density([0.0], 50.0, threshold_noise=noise, query_noise=noise)
    ...       / float(noise.density(np.full(1, 50.0))[0]), 9)
    1.0
    """
    *before, last = values
    if query_noise.density is None:
        raise ValueError("query_noise must have a density; give it some noise.")

    def below(t: np.ndarray) -> np.ndarray:
        product = np.ones_like(t)
        for v, count in Counter(before).items():
            product = product * query_noise.cdf(t - v) ** count
        return np.where(t < released, product, 0.0)

    kinks = [released, *(v + s for v in set(before) for s in query_noise.kinks)]
    own = float(query_noise.density(np.full(1, released - last))[0])
    return own * _integral(below, threshold_noise, kinks)


def _round(
    values: Sequence[float], answers: Answers, threshold_noise: Noise, query_noise: Noise
) -> float:
    def agree(t: np.ndarray) -> np.ndarray:
        product = np.ones_like(t)
        for (v, a), count in Counter(zip(values, answers, strict=True)).items():
            below = query_noise.cdf(t - v)
            product = product * (1 - below if a else below) ** count
        return product

    kinks = [v + s for v in set(values) for s in query_noise.kinks]
    return _integral(agree, threshold_noise, kinks)


def _integral(function: Curve, noise: Noise, kinks: Sequence[float]) -> float:
    """Mean of a function of the noise, by Gauss quadrature between all kinks."""
    if noise.density is None:
        raise ValueError("threshold_noise must have a density; give it some noise.")
    inside = [k for k in (*kinks, *noise.kinks) if -noise.span < k < noise.span]
    edges = sorted({-noise.span, *inside, noise.span})
    total = 0.0
    for low, high in itertools.pairwise(edges):
        count = max(1, math.ceil((high - low) / (PANEL * noise.scale)))
        panels = np.linspace(low, high, count + 1)
        half = (panels[1:] - panels[:-1])[:, None] / 2
        x = (panels[1:] + panels[:-1])[:, None] / 2 + half * NODES
        total += float((half * WEIGHTS * noise.density(x) * function(x)).sum())
    return total


EPSILON, NUM_ABOVE = 1.0, 3
ROUNDS = (1, 2, 4, 8, 16, 32)  # queries, in units of the number of positives
ROUNDING = 1e-6

RIGHT = "as published"
NOT_REDRAWN = "threshold not redrawn"
NO_QUERY_NOISE = "no query noise"
NOT_SCALED = "query noise not scaled with c"
NEVER_SCALED = "no noise scaled with c"
NO_STOP = "no stop after c"
RELEASED = "releases the compared value"
BOUNDED = "uniform noise"


class Variant(NamedTuple):
    """A sparse vector, right or wrong, that claims to be ``epsilon``-DP."""

    name: str
    threshold_noise: Noise
    query_noise: Noise
    num_above: int | None
    proven_epsilon: float
    levels: tuple[float, ...]
    is_redrawn: bool = True
    is_released: bool = False


class Loss(NamedTuple):
    """A privacy loss, nats, and the neighbours and answers that attain it."""

    value: float
    values: tuple[float, ...]
    other: tuple[float, ...]
    answers: Answers


def sparse_variants(
    epsilon: float = EPSILON, num_above: int = NUM_ABOVE, *, sensitivity: float = 1.0
) -> list[Variant]:
    """List the right sparse vector and its variants, all of them claiming one epsilon."""
    right = sparse_pure(epsilon, num_above, sensitivity=sensitivity, adjacency="replace-one")
    one = sparse_pure(epsilon, 1, sensitivity=sensitivity, adjacency="replace-one")
    threshold, query = laplace_noise(right.sigma), laplace_noise(2 * right.sigma)
    far = tuple(k * right.sigma for k in (-4.0, 4.0))
    width = right.sigma
    c = num_above
    return [
        Variant(RIGHT, threshold, query, c, epsilon, far),
        # The threshold moves once, every positive by twice a query's move.
        Variant(NOT_REDRAWN, threshold, query, c, epsilon * (1 + c) / (2 * c), far, False),
        Variant(NO_QUERY_NOISE, threshold, no_noise(), c, math.inf, (0.0, sensitivity)),
        Variant(NOT_SCALED, threshold, laplace_noise(2 * one.sigma), c, epsilon * (1 + c) / 2, far),
        Variant(
            NEVER_SCALED,
            laplace_noise(one.sigma),
            laplace_noise(2 * one.sigma),
            c,
            c * epsilon,
            tuple(k * one.sigma for k in (-4.0, 4.0)),
        ),
        Variant(NO_STOP, threshold, query, None, math.inf, far),
        Variant(RELEASED, threshold, query, c, math.inf, (0.0,), is_released=True),
        Variant(
            BOUNDED,
            uniform_noise(width),
            uniform_noise(2 * width),
            c,
            math.inf,
            (3 * width - sensitivity / 2,),
        ),
    ]


def worst_loss(variant: Variant, num_queries: int, *, sensitivity: float = 1.0) -> Loss:
    """Find the largest loss over families of neighbours: a lower bound of the variant's epsilon."""
    checks.count("num_queries", num_queries, minimum=variant.num_above or 1)
    checks.positive("sensitivity", sensitivity)
    return max(_losses(variant, num_queries, sensitivity), key=lambda found: found.value)


def _losses(variant: Variant, num_queries: int, sensitivity: float) -> Iterator[Loss]:
    if variant.is_released:
        values, other = (0.0,) * num_queries, (sensitivity,) * num_queries
        noises = {"threshold_noise": variant.threshold_noise, "query_noise": variant.query_noise}
        for far in (0.0, 2.0, 4.0, 8.0):
            shown = -far * variant.query_noise.scale
            p, q = (released_value_density(v, shown, **noises) for v in (values, other))
            yield Loss(_ratio(p, q), values, other, (0,) * (num_queries - 1))
        return
    for answers in _patterns(num_queries, variant.num_above):
        for low, high in itertools.product(variant.levels, repeat=2):
            values = tuple(high if a else low for a in answers)
            other = tuple(
                v - sensitivity if a else v + sensitivity
                for v, a in zip(values, answers, strict=True)
            )
            p, q = (
                sparse_probability(
                    v,
                    answers,
                    threshold_noise=variant.threshold_noise,
                    query_noise=variant.query_noise,
                    is_redrawn=variant.is_redrawn,
                )
                for v in (values, other)
            )
            yield Loss(_ratio(p, q), values, other, answers)


def _patterns(num_queries: int, num_above: int | None) -> Iterator[Answers]:
    """Nothing above; and rounds of equal length, each below until its last."""
    yield (0,) * num_queries
    rounds = num_above or max(1, num_queries // 2)
    edges = [k * num_queries // rounds for k in range(rounds + 1)]
    parts = ((0,) * (b - a - 1) + (1,) for a, b in itertools.pairwise(edges))
    yield tuple(itertools.chain.from_iterable(parts))


def _ratio(p: float, q: float) -> float:
    if p <= 0 or q <= 0:
        return math.inf if p != q else 0.0
    return abs(math.log(p / q))


def variant_rows(
    epsilon: float = EPSILON,
    num_above: int = NUM_ABOVE,
    *,
    sensitivity: float = 1.0,
    rounds: Sequence[int] = ROUNDS,
) -> list[Row]:
    """Claimed epsilon, losses found and the verdict, one dict per variant and number of queries."""
    rows: list[Row] = []
    for variant in sparse_variants(epsilon, num_above, sensitivity=sensitivity):
        for k in rounds:
            loss = worst_loss(variant, k * num_above, sensitivity=sensitivity).value
            rows.append(
                {
                    "variant": variant.name,
                    "claimed_epsilon": epsilon,
                    "positives": num_above,
                    "sensitivity": sensitivity,
                    "queries": k * num_above,
                    "loss": loss,
                    "proven_epsilon": variant.proven_epsilon,
                    "verdict": verdict(loss, variant.proven_epsilon, epsilon),
                }
            )
    return rows


def verdict(loss: float, proven: float, claimed: float) -> str:
    """Say what a loss that occurs, a proven bound and a claim are together.

    >>> verdict(0.9, 1.0, 1.0), verdict(1.2, 2.0, 1.0), verdict(0.9, 2.0, 1.0)
    ('private', 'not private', 'open')
    """
    if loss > claimed * (1 + ROUNDING):
        return "not private"
    return "private" if proven <= claimed * (1 + ROUNDING) else "open"


APPROXIMATE_NUM_ABOVE, DELTA = 100, 1e-6
EPSILONS = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
BLOCK = 10
# Values of the first queries of a block and of its last, in units of sigma.
LEVELS = ((-3.5, 0.3), (-3.5, 0.6), (-3.6, 1.0), (-3.8, 1.6), (-2.0, 0.5), (0.0, 0.0), (2.0, -1.0))


def round_laws(
    mechanism: Sparse, first: float, last: float, *, block: int = BLOCK
) -> Float[np.ndarray, "neighbours outcomes"]:
    """Laws of one round of AboveThreshold on a block of queries, for two neighbours.

    All queries of the block but the last have one value, and move up; the last moves down. The
    outcomes are: above before the last, above at the last, nothing above (after which the attacker
    asks a query that is above for sure, which tells nothing).
    """
    checks.count("block", block, minimum=2)
    noises: dict[str, Any] = {
        "threshold_noise": laplace_noise(mechanism.sigma),
        "query_noise": laplace_noise(2 * mechanism.sigma),
    }
    laws = []
    for move in (0.0, mechanism.sensitivity):
        values = (*(first + move,) * (block - 1), last - move)
        quiet = (0,) * (block - 1)
        none_yet = sparse_probability(values, quiet, **noises)
        at_last = sparse_probability(values, (*quiet, 1), **noises)
        laws.append([1 - none_yet, at_last, none_yet - at_last])
    return np.array(laws)


def measured_epsilon(mechanism: Sparse, delta: float) -> float:
    """Epsilon at ``delta`` that an attacker of `LEVELS` attains: a lower bound, nats."""
    checks.unit_interval("delta", delta, open_left=True)
    laws = [
        round_laws(mechanism, first * mechanism.sigma, last * mechanism.sigma)
        for first, last in LEVELS
    ]
    # The attacker whose rounds tell most on average, in either direction.
    pairs = [pair for p, q in laws for pair in ((p, q), (q, p))]
    p, q = max(pairs, key=lambda pair: float(pair[0] @ np.log(pair[0] / pair[1])))
    return _epsilon_of(p, q, mechanism.num_above, delta)


def _epsilon_of(
    p: Float[np.ndarray, " outcomes"], q: Float[np.ndarray, " outcomes"], c: int, delta: float
) -> float:
    def excess(epsilon: float) -> float:
        curve = composed_privacy_curve(p, q, c, [epsilon])
        return math.log(max(float(curve[0]), 1e-300)) - math.log(delta)

    if excess(0.0) <= 0:
        return 0.0
    most = c * float(np.abs(np.log(p / q)).max())
    return float(brentq(excess, 0.0, most, xtol=1e-6))


def sparse_printed(
    epsilon: float, delta: float, num_above: int, *, sensitivity: float, adjacency: checks.Adjacency
) -> Sparse:
    """**As printed** (Dwork & Roth 2014): ``sigma = 2 sqrt(2 c ln(1/delta)) s / epsilon``.

    It drops ``c epsilon (e^epsilon - 1)`` of the advanced composition and so does not prove
    ``(epsilon, delta)``-DP; ``.guarantee(delta)`` of the result is what holds.

    Parameters are those of `sparse_approximate`.

    >>> printed = sparse_printed(20.0, 0.1, 100, sensitivity=1.0, adjacency="replace-one")
    >>> printed.guarantee(0.1).epsilon > 20.0
    True
    """
    checks.positive("epsilon", epsilon)
    checks.unit_interval("delta", delta, open_left=True)
    count = checks.count("num_above", num_above)
    sigma = 2 * math.sqrt(2 * count * math.log(1 / delta)) * sensitivity / epsilon
    return Sparse(sensitivity, count, sigma, adjacency)


def approximate_rows(epsilons: Sequence[float] = EPSILONS) -> list[Row]:
    """Noise of both calibrations, what is proven of it and what was measured."""
    rows: list[Row] = []
    setting: dict[str, Any] = {"sensitivity": 1.0, "adjacency": "replace-one"}
    for epsilon in epsilons:
        for name, calibrate in (("printed", sparse_printed), ("accountant", sparse_approximate)):
            mechanism = calibrate(epsilon, DELTA, APPROXIMATE_NUM_ABOVE, **setting)
            proven = mechanism.guarantee(DELTA).epsilon
            measured = measured_epsilon(mechanism, DELTA)
            rows.append(
                {
                    "sigma_from": name,
                    "positives": APPROXIMATE_NUM_ABOVE,
                    "delta": DELTA,
                    "claimed_epsilon": epsilon,
                    "sigma": mechanism.sigma,
                    "measured_epsilon": measured,
                    "proven_epsilon": proven,
                    "verdict": verdict(measured, proven, epsilon),
                }
            )
    return rows


REFUSED = ("n", "d", "repetitions")


def run_variants(sizes: Sizes, progress: Progress) -> Found:
    """Tabulate every variant of sparse vector: claimed epsilon, losses found, verdict."""
    sizes.refuse("sparse", *REFUSED)
    progress.expect(1)
    rows = variant_rows()
    progress.advance(1)
    most = max(row["queries"] for row in rows)
    return Found(
        "sparse",
        rows,
        [row for row in rows if row["queries"] == most],
        (
            "loss: exact for the worst neighbours found, so a lower bound of epsilon; inf: some "
            "answers are possible on one of them only.",
            "proven_epsilon: an upper bound for any number of queries; neighbours of any kind, as "
            "the sensitivity is for.",
        ),
    )


def run_approximate(sizes: Sizes, progress: Progress) -> Found:
    """Compare the printed noise of approximate sparse vector with the accountant's."""
    sizes.refuse("sparse-approximate", *REFUSED)
    progress.expect(1)
    rows = approximate_rows()
    progress.advance(1)
    return Found(
        "sparse-approximate",
        rows,
        rows,
        (
            "printed: sigma = 2 sqrt(2 c ln(1/delta)) / epsilon, as printed; accountant: the least "
            "sigma whose exact composition is (epsilon, delta)-DP.",
            "measured_epsilon: of the best attacker that was tried, at delta, exact, so a lower "
            "bound; proven_epsilon: of composition, an upper bound. open: between the two.",
        ),
    )
