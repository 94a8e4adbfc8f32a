"""An analyst who climbs on a holdout's answers, against a plain holdout and Thresholdout.

Labels are coin tosses, so every classifier is right half of the time. The analyst asks how often
each of ``d`` random attributes agrees with the label, lets all of them vote as their answers
suggest, asks for the accuracy of the vote, and goes on with more attributes. Rows and budget are
the planner's: every question has an answer, and every answer a promise.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int, UInt8

from gibbs_dp.holdout import plan_num_rows, plan_thresholdout, thresholdout_promise
from gibbs_dp.information import checks
from gibbs_dp.papers.reusable_holdout.data import Gate, Gates
from gibbs_dp.papers.reusable_holdout.result import Advance, mean_and_se, uncounted
from gibbs_dp.papers.tables import Row

D, PHASES = 32_768, 4
# An accuracy below what climbing gains on a plain holdout; gaps of single attributes are far
# below the one that must not cost budget, and every vote of an overfitted crowd costs a unit.
TAU, OVERFIT, BETA = 0.35, 0.04, 0.05
ANALYSTS = ("standard", "thresholdout")
BLOCK = 256  # of bits as floats: stays in cache


class Climb(NamedTuple):
    """Answers of each repetition; the second axis is that of `ANALYSTS`.

    Parameters
    ----------
    n, d
        Rows of training set and of holdout, and attributes.
    gate
        Settings of Thresholdout.
    told
        Accuracy of each vote as told, NaN without an answer, ``[repetitions, 2, phases]``.
    truth
        The same on the holdout itself, ``[repetitions, 2, phases]``.
    error
        Largest ``|answer - 1/2|`` over all answers up to each vote, ``[repetitions, 2, phases]``.
    answered
        Answers given, out of ``d + phases`` questions, ``[repetitions, 2]``.
    spent
        Units of the budget, ``[repetitions]``.
    """

    n: int
    d: int
    gate: Gate
    told: Float[np.ndarray, "repetitions 2 phases"]
    truth: Float[np.ndarray, "repetitions 2 phases"]
    error: Float[np.ndarray, "repetitions 2 phases"]
    answered: Int[np.ndarray, "repetitions 2"]
    spent: Int[np.ndarray, " repetitions"]


def planned_rows(d: int, phases: int = PHASES) -> int:
    """Rows at which all of ``d + phases`` answers are promised and ``phases`` may be corrected.

    >>> planned_rows(1024) < planned_rows(32_768) < 14_000
    True
    """
    return plan_num_rows(d + phases, TAU, budget=phases, beta=BETA, overfit=OVERFIT)


def planned_gate(n: int, d: int, phases: int = PHASES) -> Gate:
    """Return the planner's settings, with at least a unit of the budget for every vote.

    Raises
    ------
    ValueError
        If ``n`` is too small for them.
    """
    plan = plan_thresholdout(n, d + phases, TAU, beta=BETA, overfit=OVERFIT)
    if plan.budget < phases:
        raise ValueError(
            f"n: the planner gives {n} rows a budget of {plan.budget}, and {phases} votes need "
            f"one unit each; take at least {planned_rows(d, phases)} rows."
        )
    return Gate(plan.threshold, plan.sigma, plan.budget)


def run_climb(
    *,
    n: int | None = None,
    d: int = D,
    phases: int = PHASES,
    gate: Gate | None = None,
    repetitions: int = 10,
    key: int = 0,
    advance: Advance = uncounted,
) -> Climb:
    """Let the analyst climb, ``repetitions`` times.

    Parameters
    ----------
    n
        Rows of training set and of holdout; as many as `planned_rows` by default.
    d
        Attributes; a multiple of ``phases``.
    phases
        How often the analyst votes; ``d + phases`` queries in all.
    gate
        Settings of Thresholdout; those of `planned_gate` by default.
    repetitions
        Independent repetitions.
    key
        Integer seed.
    advance
        Called with the number of repetitions just done.

    Returns
    -------
    Climb
        Answers, their errors, and what they cost.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    checks.count("repetitions", repetitions, minimum=2)
    if d < 1 or d % checks.count("phases", phases):
        raise ValueError(f"d must be a multiple of {phases} (phases), got {d}.")
    rows = planned_rows(d, phases) if n is None else checks.count("n", n)
    used = planned_gate(rows, d, phases) if gate is None else gate
    found = []
    for r in range(repetitions):
        rng = np.random.default_rng([key, r])
        gates = Gates(jax.random.fold_in(jax.random.key(key), r), used, 1)
        found.append(_one(rng, rows, d // phases, phases, gates))
        advance(1)
    parts = [np.stack(part) for part in zip(*found, strict=True)]
    return Climb(rows, d, used, *parts)


def climb_summary(found: Climb, *, beta: float = BETA) -> list[Row]:
    """Summarize, one dict per analyst: answers, and errors against the promise."""
    phases = found.told.shape[2]
    queries = found.d + phases
    promise = thresholdout_promise(found.n, queries, beta=beta, **found.gate._asdict())
    rows = []
    for a, name in enumerate(ANALYSTS):
        error = found.error[:, a, -1]
        votes = np.isfinite(found.told[:, a])
        row: Row = {
            "analyst": name,
            "n": found.n,
            "queries": queries,
            "repetitions": error.size,
            "answered": float(found.answered[:, a].mean() / queries),
            "votes_answered": float(votes.sum(axis=1).mean()),
        }
        row |= mean_and_se("largest_error", error)
        row |= mean_and_se("last_told_accuracy", found.told[:, a, -1])
        row |= mean_and_se("holdout_true", found.truth[:, a, -1])
        row |= {
            "true_accuracy": 0.5,
            "promised_tau": promise.tau,
            "beta": beta,
            "kept": float((error <= promise.tau).mean()),
        }
        if name == "thresholdout":
            row |= {"budget": found.gate.budget, "budget_spent": float(found.spent.mean())}
        rows.append(row)
    return rows


def climb_rows(found: Climb) -> list[Row]:
    """One dict per analyst, repetition and vote; "told" is left out where no answer was given."""
    repetitions, _, phases = found.told.shape
    queries = found.d + phases
    tau = climb_summary(found)[0]["promised_tau"]
    rows = []
    for a, name in enumerate(ANALYSTS):
        for r in range(repetitions):
            for v in range(phases):
                told = float(found.told[r, a, v])
                rows.append(
                    {
                        "analyst": name,
                        "repetition": r,
                        "vote": v + 1,
                        "n": found.n,
                        "queries": queries,
                        "questions": (v + 1) * (queries // phases),
                    }
                    | ({"told": told} if np.isfinite(told) else {})
                    | {
                        "holdout_true": float(found.truth[r, a, v]),
                        "largest_error": float(found.error[r, a, v]),
                        "answered": int(found.answered[r, a]),
                        "promised_tau": tau,
                    }
                )
    return rows


def _one(
    rng: np.random.Generator, n: int, size: int, phases: int, gates: Gates
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    # Votes so far: of the plain analyst on the holdout, of the other on training set and holdout.
    plain, on_train, on_holdout = np.zeros(n), np.zeros(n), np.zeros(n)
    told, truth, error = (np.full((2, phases), np.nan) for _ in range(3))
    answered, spent = np.zeros(2, dtype=int), 0
    worst = np.zeros(2)
    for phase in range(phases):
        ours, theirs = _coins(rng, size, n), _coins(rng, size, n)
        mean_train, mean_holdout = _means(ours, n), _means(theirs, n)
        given, used = gates.ask(mean_train[None], mean_holdout[None])
        spent += int(used[0])
        # An attribute that does badly votes the other way; one without an answer does not vote.
        heard = np.nan_to_num(given[0], nan=0.5)
        signs = np.sign(np.stack([mean_holdout, heard]) - 0.5)
        both = _votes(theirs, signs, n)
        plain, on_holdout = plain + both[0], on_holdout + both[1]
        on_train = on_train + _votes(ours, signs[1:], n)[0]
        right = [float(np.where(t == 0, 0.5, t > 0).mean()) for t in (plain, on_train, on_holdout)]
        vote, used = gates.ask(np.array([[right[1]]]), np.array([[right[2]]]))
        spent += int(used[0])
        told[:, phase] = right[0], vote[0, 0]
        truth[:, phase] = right[0], right[2]
        for a, means in enumerate((mean_holdout, given[0])):
            answers = np.append(means, told[a, phase])
            known = answers[np.isfinite(answers)]
            answered[a] += known.size
            worst[a] = max(worst[a], np.abs(known - 0.5).max(initial=0.0))
        error[:, phase] = worst
    return told, truth, error, answered, np.array(spent)


def _coins(rng: np.random.Generator, count: int, n: int) -> UInt8[np.ndarray, "count bytes"]:
    """Draw fair bits, 8 to a byte: whether attribute and label agree on each row."""
    packed = rng.integers(0, 256, (count, -(-n // 8)), dtype=np.uint8)
    packed[:, -1] &= np.uint8((0xFF << (-n % 8)) & 0xFF)
    return packed


def _means(packed: UInt8[np.ndarray, "count bytes"], n: int) -> Float[np.ndarray, " count"]:
    return np.asarray(np.bitwise_count(packed).sum(axis=1, dtype=np.int64) / n)


def _votes(
    packed: UInt8[np.ndarray, "count bytes"], signs: Float[np.ndarray, "analysts count"], n: int
) -> Float[np.ndarray, "analysts n"]:
    """Sum votes of +-1 on every row, a block of attributes at a time."""
    total = np.zeros((signs.shape[0], n))
    weights = signs.astype(np.float32)  # sums of +-1: exact
    for begin in range(0, packed.shape[0], BLOCK):
        block = slice(begin, begin + BLOCK)
        bits = np.unpackbits(packed[block], axis=1, count=n).astype(np.float32)
        total += weights[:, block] @ bits
    return 2 * total - signs.sum(axis=1, keepdims=True)
