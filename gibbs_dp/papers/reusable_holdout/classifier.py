"""Selecting attributes on a holdout, over and over (Dwork et al. 2015, *The reusable holdout*).

An analyst keeps the attributes whose correlations with the label agree on training set and holdout,
and lets the ``k`` strongest vote. Asked plainly, the holdout is overfitted like a training set.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from gibbs_dp.information import checks
from gibbs_dp.papers.reusable_holdout.data import ClassifierData
from gibbs_dp.papers.reusable_holdout.gates import Gate, Gates
from gibbs_dp.papers.reusable_holdout.result import Advance, uncounted

PAPER = ClassifierData(10_000, 10_000)
NUM_SIGNAL, SIGNAL_SHIFT = 20, 6.0  # the shift in units of 1/sqrt(n)
THRESHOLD, TOLERANCE = 4.0, 1.0  # in units of 1/sqrt(n)
UNLIMITED = 2**30
ANALYSTS = ("standard", "thresholdout")
SETS = ("train", "holdout", "fresh")


class Run(NamedTuple):
    """Results of all repetitions; the second axis is that of `ANALYSTS`.

    Parameters
    ----------
    accuracy
        On training set, holdout (as told to the analyst) and fresh set; NaN where there was no
        answer, ``[repetitions, analysts, 3, ks]``.
    truth
        Of the holdout itself, ``[repetitions, analysts, ks]``.
    spent
        Budget units over all queries; where every ``k`` is asked for by an analyst of its own, by
        the one who spent most, ``[repetitions, analysts]``.
    """

    accuracy: Float[np.ndarray, "repetitions analysts sets ks"]
    truth: Float[np.ndarray, "repetitions analysts ks"]
    spent: Int[np.ndarray, "repetitions analysts"]


def paper_gate(n: int) -> Gate:
    """Return the paper's setting: threshold ``4/sqrt(n)``, tolerance ``1/sqrt(n)``, no limit.

    >>> paper_gate(10_000)[:2]
    (0.04, 0.01)
    """
    return Gate(THRESHOLD / n**0.5, TOLERANCE / n**0.5, UNLIMITED)


def default_ks(n: int) -> tuple[int, ...]:
    """``k`` up to ``n / 20``, which is 500 in the paper's setting.

    >>> default_ks(10_000)
    (10, 25, 50, 100, 150, 200, 250, 300, 350, 400, 450, 500)
    """
    shares = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    return tuple(sorted({max(1, round(s * n / 20)) for s in shares}))


def run_classifier(
    data: ClassifierData,
    *,
    gate: Gate | None = None,
    ks: Sequence[int] | None = None,
    asks_one: bool = False,
    repetitions: int = 10,
    key: int = 0,
    advance: Advance = uncounted,
) -> Run:
    """Let both analysts choose attributes on independent training sets, holdouts and fresh sets.

    Each analyst's own law is exact; the two share their correlations, and what those leave open is
    drawn for each apart.

    Parameters
    ----------
    data
        Law of the data.
    gate
        Settings of Thresholdout; by default those of the paper.
    ks
        Numbers of attributes that vote, ascending; `default_ks` by default.
    asks_one
        Whether an analyst asks for the accuracy of one classifier alone, so that every ``k`` is
        another analyst's; otherwise one analyst asks for all, one after the other.
    repetitions
        Independent repetitions, at least 2.
    key
        Integer seed.
    advance
        Called with the number of repetitions just done.

    Returns
    -------
    Run
        Accuracies and spent budgets.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    checks.count("repetitions", repetitions, minimum=2)
    numbers = tuple(ks or default_ks(data.n))
    if min(numbers) < 1 or list(numbers) != sorted(set(numbers)) or max(numbers) > data.d:
        raise ValueError(f"ks must ascend and lie in 1..{data.d}, got {list(numbers)}.")
    rng = np.random.default_rng([key, data.n, data.d])
    signs = [data.signs(rng) for _ in range(repetitions)]
    sets = [[data.sample(rng, sign) for _ in SETS] for sign in signs]
    train, holdout = (np.stack([one[i].correlations() for one in sets]) for i in range(2))
    gated = Gates(jax.random.key(key), gate or paper_gate(data.n), repetitions)
    told, spent = gated.ask(train, holdout)
    accuracy = np.empty((repetitions, len(ANALYSTS), len(SETS), len(numbers)))
    for r, own in enumerate(sets):
        for a, answers in enumerate((holdout[r], told[r])):
            chosen, vote = _choose(train[r], answers, 1 / data.n**0.5, numbers[-1])
            accuracy[r, a] = [one.accuracy(rng, chosen, vote, numbers) for one in own]
        advance(1)
    truth = accuracy[:, :, 1].copy()
    if asks_one:
        # Every k begins where the correlations ended.
        begin = jax.tree.map(lambda leaf: jnp.repeat(leaf, len(numbers)), gated.state)
        on_train, on_holdout = (accuracy[:, 1, i].reshape(-1, 1) for i in range(2))
        answered, corrected = gated.ask(on_train, on_holdout, state=begin)
        spent = spent + corrected.reshape(repetitions, -1).max(axis=1)
    else:
        answered, corrected = gated.ask(accuracy[:, 1, 0], accuracy[:, 1, 1])
        spent = spent + corrected
    accuracy[:, 1, 1] = answered.reshape(repetitions, -1)
    return Run(accuracy, truth, np.stack([np.zeros_like(spent), spent], axis=1))


def _choose(
    train: Float[np.ndarray, " d"], answers: Float[np.ndarray, " d"], least: float, most: int
) -> tuple[Int[np.ndarray, " most"], Float[np.ndarray, " most"]]:
    """Attributes that agree on both sets, strongest on the training set first, and their votes.

    Where too few agree, or were answered, the last of them do not vote.
    """
    kept = (train * answers > 0) & (np.abs(train) >= least) & (np.abs(answers) >= least)
    strength = np.where(kept, np.abs(train), -1.0)
    chosen = np.argsort(-strength, kind="stable")[:most]
    return chosen, np.where(strength[chosen] > 0, np.sign(train[chosen]), 0.0)
