"""Thresholdout: whole transcripts of answers, with and without a ledger that outlives processes."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from claims_case import Case, patched, quieter
from lower_bounds import Runs, Score, all_of, known, straight

from gibbs_dp import Ledger, Thresholdout
from gibbs_dp.holdout import HoldoutSpentError, thresholdout
from gibbs_dp.papers.reusable_holdout import sparse

QUARTER = 4.0
NUM_ROWS, THRESHOLD = 10, 0.5
# The last row of the holdout is one of two people; all others, and the training rows, are alike.
OTHERS = list(range(NUM_ROWS - 1))
PEOPLE = [np.array([*OTHERS, person]) for person in (100, 101)]
TRAIN = np.array([-1])


class Questions:
    """Queries whose means on the holdout are given for the first person, and one row more or less.

    Parameters
    ----------
    means
        On the holdout with the first person; those on the training set are 0.
    moves
        1 or -1: which way the second person moves each, by one row.
    """

    def __init__(self, means: list[float], moves: list[int]) -> None:
        self.first = np.array(means)
        self.second = self.first + np.array(moves) / NUM_ROWS
        self.own = (1 - np.array(moves)) / 2  # of the first person
        self.rest = (NUM_ROWS * self.first - self.own) / len(OTHERS)

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Values of all queries on rows."""
        named = {-1: 0 * self.rest, 100: self.own, 101: 1 - self.own}
        return np.array([named.get(int(row), self.rest) for row in rows])


def transcripts(questions: Questions, budget: int, sigma: float, rows: np.ndarray) -> np.ndarray:
    """One run: the answers that the holdout gave, NaN for others."""
    gate = Thresholdout(TRAIN, rows, threshold=THRESHOLD, sigma=sigma, budget=budget)
    try:
        given = gate.query_batch(questions)
    except HoldoutSpentError as spent:
        given = spent.answers
    said = np.full(len(questions.first), math.nan)
    said[: len(given.values)][given.from_holdout] = given.values[given.from_holdout]
    return said


def log_ratio(questions: Questions, budget: int, sigma: float) -> Score:
    """Exact score: a sparse vector's, and Laplace noise on every answer of the holdout."""

    @cache
    def of(answers: tuple[int, ...]) -> float:
        p, q = (
            sparse.sparse_probability(
                tuple(means - THRESHOLD),
                answers,
                threshold_noise=sparse.laplace_noise(2 * sigma),
                query_noise=sparse.laplace_noise(4 * sigma),
            )
            for means in (questions.first, questions.second)
        )
        return math.log(p / q)

    def score(runs: Runs) -> np.ndarray:
        shown = ~np.isnan(runs)
        away = np.abs(runs - questions.second) - np.abs(runs - questions.first)
        found = np.where(shown, away / sigma, 0.0).sum(axis=1)
        last = np.where(shown.cumsum(axis=1) >= budget, np.arange(runs.shape[1]), runs.shape[1])
        # After its last answer it halts, but for a copy that gives more than it has.
        ends = np.where(shown.sum(axis=1) > budget, runs.shape[1], last.min(axis=1))
        for k, end in enumerate(ends):
            found[k] += of(tuple(shown[k, : end + 1].astype(int).tolist()))
        return found

    return score


def of_answers(questions: Questions) -> Score:
    """Score by the numbers alone that the holdout gave."""

    def score(runs: Runs) -> np.ndarray:
        away = np.abs(runs - questions.second) - np.abs(runs - questions.first)
        return np.nansum(away, axis=1)

    return score


# -- broken copies ---------------------------------------------------------------------------------


def kept_noise(
    self: Any, held: Any, mean_train: float, mean_holdout: Fraction
) -> tuple[float, bool]:
    """`Thresholdout._one`, with one noise for the gaps of all queries."""
    noisy_threshold = self._paid_round(held)
    if not hasattr(self, "_kept"):
        self._kept = thresholdout.add_laplace(0.0, 4 * self.sigma)
    if abs(mean_holdout - Fraction(mean_train)) + self._kept <= noisy_threshold:
        held.open.append(noisy_threshold)
        return mean_train, False
    return float(thresholdout.add_laplace(mean_holdout, self.sigma)), True


def refunding(real: Callable[..., tuple[float, bool]]) -> Callable[..., tuple[float, bool]]:
    """`Thresholdout._one`, where a question that was asked before costs nothing."""

    def one(self: Any, held: Any, mean_train: float, mean_holdout: Fraction) -> tuple[float, bool]:
        found = real(self, held, mean_train, mean_holdout)
        asked = self.__dict__.setdefault("_asked", set())
        held.num_started -= found[1] and (mean_train, mean_holdout) in asked
        asked.add((mean_train, mean_holdout))
        return found

    return one


def kept_threshold(real: Callable[[Any, Any], Fraction]) -> Callable[[Any, Any], Fraction]:
    """`Thresholdout._paid_round`, with one noisy threshold for all rounds."""

    def paid_round(self: Any, held: Any) -> Fraction:
        noisy_threshold = real(self, held)
        self._first = getattr(self, "_first", noisy_threshold)
        return self._first

    return paid_round


def charged_late(self: Any, held: Any) -> Fraction:
    """`Thresholdout._paid_round`, which charges a round when the next one begins."""
    found = held.take()
    if found is not None:
        return found
    if self.rounds_started >= self.budget:
        raise self._spent()
    if getattr(self, "_is_due", False):
        self._ledger.charge(purpose=self._purpose, **self._cost(self._ledger))
    self._is_due = True
    return thresholdout.add_laplace(self.threshold, 2 * self.sigma)


NO_REDRAW = patched((Thresholdout, "_one", kept_noise))
ONE_THRESHOLD = patched((Thresholdout, "_paid_round", kept_threshold(Thresholdout._paid_round)))
REPEATED = patched((Thresholdout, "_one", refunding(Thresholdout._one)))
QUIETER = {"weaker": partial(quieter, thresholdout)}
QUIET = {"noise / 4": partial(quieter, thresholdout, QUARTER)}
LATE = patched((Thresholdout, "_paid_round", charged_late))


def killed(questions: Questions, budget: int, sigma: float, rows: np.ndarray) -> np.ndarray:
    """One run: every question is asked by a process that dies after its answer."""
    said = np.full(len(questions.first), math.nan)
    # A folder in memory where there is one: a ledger waits for its disk.
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        path = Path(folder) / "ledger"
        Ledger.create(path, epsilon=100.0, adjacency="replace-one")
        for k in range(len(said)):
            gate = Thresholdout(
                TRAIN, rows, threshold=THRESHOLD, sigma=sigma, budget=budget, ledger=Ledger(path)
            )
            try:
                given = gate.query_batch(lambda r, k=k: questions(r)[:, k : k + 1])
            except HoldoutSpentError:
                break
            if given.from_holdout[0]:
                said[k] = given.values[0]
    return said


def case(
    name: str,
    words: str,
    questions: Questions,
    budget: int,
    epsilon: float,
    delta: float = 0.0,
    one: Callable[..., np.ndarray] = transcripts,
    **more: Any,
) -> Case:
    """Make one case; sigma is what makes the claim epsilon at delta."""
    low, high = 1e-4, 1e2
    while high / low > 1 + 1e-12:
        sigma = math.sqrt(low * high)
        gate = Thresholdout(TRAIN, PEOPLE[0], threshold=THRESHOLD, sigma=sigma, budget=budget)
        claim = gate.guarantee(delta=delta).epsilon
        low, high = (sigma, high) if claim > epsilon else (low, sigma)

    def run(count: int) -> tuple[Runs, Runs]:
        first, second = (
            np.array([one(questions, budget, high, rows) for _ in range(count)]) for rows in PEOPLE
        )
        return first, second

    exact = log_ratio(questions, budget, high) if one is transcripts else of_answers(questions)
    return Case(
        name,
        "Thresholdout.query_batch" + (", with a ledger" if one is killed else ""),
        words,
        Thresholdout(TRAIN, PEOPLE[0], threshold=THRESHOLD, sigma=high, budget=budget)
        .guarantee(delta=delta)
        .epsilon,
        run,
        delta=delta,
        scores=all_of(known(exact), straight),
        **more,
    )


def cases() -> Iterator[Case]:
    """Means are around the threshold by about the noise of a gap's comparison."""
    below, above = THRESHOLD - 0.05, THRESHOLD + 0.05
    yield case(
        "Thresholdout, one round",
        "a row of ten; six gaps below the threshold rise, one above it falls",
        Questions([below] * 6 + [above], [1] * 6 + [-1]),
        1,
        4.0,
        **QUIETER,
        broken=QUIET | {"no redraw of query noise": NO_REDRAW},
    )
    yield case(
        "Thresholdout, two rounds",
        "a row of ten; two gaps below the threshold rise, one above it falls, twice",
        Questions(([below] * 2 + [above]) * 2, [1, 1, -1] * 2),
        2,
        6.0,
        **QUIETER,
        broken=QUIET | {"no redraw of query noise": NO_REDRAW},
        harmless={"no redraw of the threshold": ONE_THRESHOLD},
    )
    yield case(
        "Thresholdout, approximate",
        "a row of ten; five gaps above the threshold fall",
        Questions([0.9] * 5, [-1] * 5),
        5,
        3.0,
        delta=0.01,
        **QUIETER,
        broken=QUIET,
    )
    yield case(
        "Thresholdout, one question again and again",
        "a row of ten; a gap above the threshold falls, asked eight times",
        Questions([0.9] * 8, [-1] * 8),
        1,
        2.0,
        broken={"refund of a repeated question": REPEATED},
    )
    yield case(
        "Thresholdout, a process killed after every answer",
        "a row of ten; three gaps above the threshold fall, each asked by a new process",
        Questions([0.9] * 3, [-1] * 3),
        1,
        2.0,
        one=killed,
        broken={"refund after a crash": LATE},
    )
