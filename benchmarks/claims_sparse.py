"""Sparse vector: whole transcripts, scored by the exact ratio of their probabilities."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache, partial
from typing import Any

import numpy as np
from claims_case import Case, patched, quieter
from lower_bounds import Runs, Score, all_of, counted, known, straight

from gibbs_dp import holdout
from gibbs_dp.holdout import sparse_vector
from gibbs_dp.holdout.sparse_vector import SparseRun
from gibbs_dp.papers.reusable_holdout import sparse

QUARTER = 4.0
Values = tuple[float, ...]


def transcripts(mechanism: holdout.Sparse, values: Values, count: int) -> Runs:
    """Run it on answers minus threshold: 1 above, 0 below, NaN when it has halted."""
    said = np.full((count, len(values)), math.nan)
    for row in said:
        run = mechanism.start(0.0)
        for k, value in enumerate(values):
            if run.num_left == 0:
                break
            row[k] = run.is_above(value)
    return said


def log_ratio(mechanism: holdout.Sparse, first: Values, second: Values) -> Score:
    """Exact score of a transcript, by integration over the threshold's noise."""

    @cache
    def of(answers: tuple[int, ...]) -> float:
        p, q = (
            sparse.sparse_probability(
                values,
                answers,
                threshold_noise=sparse.laplace_noise(mechanism.sigma),
                query_noise=sparse.laplace_noise(2 * mechanism.sigma),
            )
            for values in (first, second)
        )
        return math.log(p / q)

    def score(runs: Runs) -> np.ndarray:
        return np.array([of(tuple(int(a) for a in row if not math.isnan(a))) for row in runs])

    return score


def neighbours(answers: Sequence[int], low: float, high: float) -> tuple[Values, Values]:
    """Move what is found below up, and what is found above down: all of epsilon is used then."""
    first = tuple(high if a else low for a in answers)
    return first, tuple(v - 1 if a else v + 1 for v, a in zip(first, answers, strict=True))


# -- broken copies ---------------------------------------------------------------------------------


def kept_query_noise(self: Any, value: float) -> bool:
    """`SparseRun.is_above`, with one noise for all queries of a run."""
    held = self._held
    if not hasattr(self, "_kept"):
        self._kept = sparse_vector.add_laplace(0.0, 2 * self.mechanism.sigma)
    if Fraction(value) + self._kept <= held.open[-1]:
        return False
    held.open.pop()
    return True


def refunding(real: Callable[[Any, float], bool]) -> Callable[[Any, float], bool]:
    """`SparseRun.is_above`, giving back what a positive answer cost."""

    def is_above(self: Any, value: float) -> bool:
        found = real(self, value)
        if found:
            self._held.open.append(self._noisy_threshold())
        return found

    return is_above


def kept_threshold(real: Callable[[Any], Fraction]) -> Callable[[Any], Fraction]:
    """`SparseRun._noisy_threshold`, drawn once a run."""

    def noisy(self: Any) -> Fraction:
        self._first = getattr(self, "_first", None) or real(self)
        return self._first

    return noisy


NO_REDRAW = patched((SparseRun, "is_above", kept_query_noise))
REFUND = patched((SparseRun, "is_above", refunding(SparseRun.is_above)))
QUIETER = {"weaker": partial(quieter, sparse_vector)}
QUIET = {"noise / 4": partial(quieter, sparse_vector, QUARTER)}
ONE_THRESHOLD = patched((SparseRun, "_noisy_threshold", kept_threshold(SparseRun._noisy_threshold)))


def case(
    name: str,
    path: str,
    mechanism: holdout.Sparse,
    values: tuple[Values, Values],
    delta: float = 0.0,
    **more: Any,
) -> Case:
    """Make one case of settings and two neighbours."""
    first, second = values

    def run(count: int) -> tuple[Runs, Runs]:
        return transcripts(mechanism, first, count), transcripts(mechanism, second, count)

    return Case(
        name,
        path,
        f"{len(first)} queries around the threshold, moved by 1 the way they are answered",
        mechanism.guarantee(delta).epsilon,
        run,
        delta=delta,
        scores=all_of(known(log_ratio(mechanism, first, second)), counted, straight),
        **more,
    )


def cases() -> Iterator[Case]:
    """Levels of the queries, in units of sigma, are those where the attack has most power."""
    one = holdout.sparse_pure(4.0, 1, sensitivity=1.0, adjacency="replace-one")
    yield case(
        "above threshold",
        "sparse_pure, SparseRun.is_above",
        one,
        neighbours((0,) * 7 + (1,), -one.sigma, one.sigma),
        **QUIETER,
        broken=QUIET | {"no redraw of query noise": NO_REDRAW},
    )
    two = holdout.sparse_pure(6.0, 2, sensitivity=1.0, adjacency="replace-one")
    yield case(
        "sparse, pure",
        "sparse_pure, SparseRun.is_above",
        two,
        neighbours((0, 0, 0, 1) * 2, -two.sigma / 2, two.sigma),
        **QUIETER,
        broken=QUIET | {"no redraw of query noise": NO_REDRAW},
        harmless={"no redraw of the threshold": ONE_THRESHOLD},
    )
    asked_on = holdout.sparse_pure(2.0, 1, sensitivity=1.0, adjacency="replace-one")
    yield case(
        "sparse, one question again and again",
        "sparse_pure, SparseRun.is_above",
        asked_on,
        ((-0.5,) * 20, (0.5,) * 20),
        broken={"refund of positives": REFUND},
    )
    delta = 0.01
    many = holdout.sparse_approximate(6.0, delta, 3, sensitivity=1.0, adjacency="replace-one")
    yield case(
        "sparse, approximate",
        "sparse_approximate, SparseRun.is_above",
        many,
        neighbours((0, 0, 0, 1) * 3, -many.sigma / 2, many.sigma),
        delta,
        **QUIETER,
        broken=QUIET,
    )
