"""Exact output laws of sparse vector and report noisy max, by numerical integration.

For any noise, so that a wrong one can be shown to be wrong: the laws of a mechanism on two
neighbouring vectors of answers give its exact epsilon there.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from gibbs_dp.information import checks

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
