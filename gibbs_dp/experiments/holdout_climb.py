"""An analyst who climbs on a holdout's answers, against a plain holdout and Thresholdout.

Labels are coin tosses, so every classifier is right half of the time. The analyst asks how often
each of ``d`` random attributes agrees with the label, lets those that did well vote, asks for the
accuracy of the vote, and repeats.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from gibbs_dp._jaxlib.precision import matmul, traced_exactly
from gibbs_dp.adaptive import thresholdout_promise, thresholdout_scan, thresholdout_start
from gibbs_dp.experiments.holdout_classifier import Gate
from gibbs_dp.experiments.holdout_result import Advance, uncounted
from gibbs_dp.experiments.tables import Row
from gibbs_dp.information import checks

N, D, PHASES = 2_000, 16_000, 4
# Settings whose promise is below what climbing gains on a plain holdout.
GATE = Gate(threshold=0.06, sigma=0.0024, budget=1)
BITS = 32


class Climb(NamedTuple):
    """Largest errors and last accuracies of each repetition.

    Parameters
    ----------
    plain_error, gated_error
        Largest ``|answer - 1/2|`` over all answers, ``[repetitions]``.
    plain_last, gated_last
        The last accuracy told, ``[repetitions]``.
    spent
        Units of the budget, ``[repetitions]``.
    """

    plain_error: Float[np.ndarray, " repetitions"]
    gated_error: Float[np.ndarray, " repetitions"]
    plain_last: Float[np.ndarray, " repetitions"]
    gated_last: Float[np.ndarray, " repetitions"]
    spent: Float[np.ndarray, " repetitions"]


def run_climb(
    *,
    n: int = N,
    d: int = D,
    phases: int = PHASES,
    gate: Gate = GATE,
    repetitions: int = 20,
    key: int = 0,
    advance: Advance = uncounted,
) -> Climb:
    """Let the analyst climb, ``repetitions`` times.

    Parameters
    ----------
    n
        Rows of training set and of holdout.
    d
        Attributes; a multiple of ``32 phases``.
    phases
        How often the analyst votes; ``d + phases`` queries in all.
    gate
        Settings of Thresholdout.
    repetitions
        Independent repetitions.
    key
        Integer seed.
    advance
        Called with the number of repetitions just done.

    Returns
    -------
    Climb
        Errors, last accuracies and spent budgets, one entry a repetition.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    checks.count("repetitions", repetitions, minimum=2)
    if d % (BITS * checks.count("phases", phases)) or d < 1:
        raise ValueError(f"d must be a multiple of {BITS * phases} (32 phases), got {d}.")
    run = jax.jit(traced_exactly(lambda k: _one(k, n, d, phases, gate)))
    found = []
    for k in jax.random.split(jax.random.key(key), repetitions):
        found.append(jax.tree.map(np.asarray, run(k)))
        advance(1)
    return Climb(*(np.array([one[i] for one in found], dtype=np.float64) for i in range(5)))


def climb_rows(
    found: Climb,
    *,
    n: int = N,
    d: int = D,
    phases: int = PHASES,
    gate: Gate = GATE,
    beta: float = 0.05,
) -> list[Row]:
    """Summarize, one dict per analyst: errors against the promise, and how often it was kept."""
    promise = thresholdout_promise(n, d + phases, beta=beta, **gate._asdict())
    rows = []
    for name, error, last in (
        ("standard", found.plain_error, found.plain_last),
        ("thresholdout", found.gated_error, found.gated_last),
    ):
        rows.append(
            {
                "analyst": name,
                "n": n,
                "queries": d + phases,
                "repetitions": error.size,
                "largest_error": float(error.mean()),
                "largest_error_se": float(error.std(ddof=1) / error.size**0.5),
                "last_told_accuracy": float(last.mean()),
                "true_accuracy": 0.5,
                "promised_tau": promise.tau,
                "beta": beta,
                "kept": float((error <= promise.tau).mean()),
            }
            | ({"budget_spent": float(found.spent.mean())} if name == "thresholdout" else {})
        )
    return rows


def _one(
    key: PRNGKeyArray, n: int, d: int, phases: int, gate: Gate
) -> tuple[Array, Array, Array, Array, Array]:
    parts = jax.random.split(key, 3 + phases)
    train, holdout = (_coins(k, n, d) for k in parts[:2])
    settings: dict[str, Any] = {"threshold": gate.threshold, "sigma": gate.sigma}
    state = thresholdout_start(parts[2], budget=gate.budget, **settings)
    size = d // phases
    # Votes so far on [plain on the holdout, gated on train, gated on the holdout].
    totals = jnp.zeros((3, n))
    plain, gated = [], []
    for phase in range(phases):
        block = slice(phase * size, (phase + 1) * size)
        ours, theirs = train[:, block], holdout[:, block]
        mean_train, mean_holdout = (0.5 + 0.5 * a.mean(axis=0) for a in (ours, theirs))
        keys = jax.random.split(parts[3 + phase])
        state, answers = thresholdout_scan(state, keys[0], mean_train, mean_holdout, **settings)
        # An attribute that does badly votes the other way; one without an answer does not vote.
        told = jnp.sign(jnp.nan_to_num(answers.values, nan=0.5) - 0.5)
        totals = totals + jnp.stack(
            [
                matmul(a, b)
                for a, b in ((theirs, jnp.sign(mean_holdout - 0.5)), (ours, told), (theirs, told))
            ]
        )
        right = jnp.where(totals == 0, 0.5, (totals > 0).astype(jnp.float32)).mean(axis=1)
        state, vote = thresholdout_scan(state, keys[1], right[1:2], right[2:], **settings)
        plain += [mean_holdout, right[:1]]
        gated += [answers.values, vote.values]
    all_plain, all_gated = jnp.concatenate(plain), jnp.concatenate(gated)
    given = jnp.where(jnp.isnan(all_gated), 0.5, all_gated)
    last = jnp.max(jnp.where(jnp.isnan(all_gated), -1, jnp.arange(all_gated.size)))
    return (
        jnp.abs(all_plain - 0.5).max(),
        jnp.abs(given - 0.5).max(),
        all_plain[-1],
        given[last],
        gate.budget - state.left,
    )


def _coins(key: PRNGKeyArray, n: int, d: int) -> Float[Array, "n d"]:
    """Draw fair +-1, 32 per random word: whether attribute and label agree."""
    words = jax.random.bits(key, (n, d // BITS), jnp.uint32)
    bits = (words[:, :, None] >> jnp.arange(BITS, dtype=jnp.uint32)) & 1
    return 2.0 * bits.reshape(n, d).astype(jnp.float32) - 1.0
