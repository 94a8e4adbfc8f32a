"""Selecting attributes on a holdout, over and over (Dwork et al. 2015, *The reusable holdout*).

An analyst keeps the attributes whose correlations with the label agree on training set and holdout,
and lets the ``k`` strongest vote. Asked plainly, the holdout is overfitted like a training set.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from gibbs_dp._jaxlib.precision import matmul, traced_exactly
from gibbs_dp.adaptive import thresholdout_scan, thresholdout_start
from gibbs_dp.experiments.holdout_data import ClassifierData
from gibbs_dp.experiments.holdout_result import Advance, uncounted
from gibbs_dp.information import checks

FULL = ClassifierData(10_000, 10_000)
SMALL = ClassifierData(2_000, 2_000)
NUM_SIGNAL, SIGNAL_SHIFT = 20, 6.0  # the shift in units of 1/sqrt(n)
THRESHOLD, TOLERANCE = 4.0, 1.0  # in units of 1/sqrt(n)
UNLIMITED = 2**30
MOST_FLOATS = 32_000_000
ANALYSTS = ("standard", "thresholdout")
SETS = ("train", "holdout", "fresh")


class Gate(NamedTuple):
    """Settings of a Thresholdout, in the unit of the correlations."""

    threshold: float
    sigma: float
    budget: int


class Run(NamedTuple):
    """One repetition; every leading axis is that of `ANALYSTS`.

    Parameters
    ----------
    accuracy
        On training set, holdout (as told to the analyst) and fresh set, ``[analysts, 3, ks]``.
    truth
        Of the holdout itself, ``[analysts, ks]``.
    spent
        Budget units over all queries, ``[analysts]``.
    """

    accuracy: Float[Array, "analysts sets ks"]
    truth: Float[Array, "analysts ks"]
    spent: Int[Array, " analysts"]


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


def one_run(key: PRNGKeyArray, data: ClassifierData, gate: Gate, ks: Sequence[int]) -> Run:
    """Run both analysts on one training set, holdout and fresh set.

    Memory holds one block of columns, or the chosen ones, at a time.

    Parameters
    ----------
    key
        JAX key.
    data, gate, ks
        Law of the data, settings of Thresholdout, and numbers of attributes that vote.

    Returns
    -------
    Run
        Accuracies and spent budget of both analysts.
    """
    parts = jax.random.split(key, 6)
    sign = data.signs(parts[0])
    rows = [data.rows(k) for k in jax.random.split(parts[1], 3)]
    keys = jax.random.split(parts[2], 3)
    train, holdout = (data.correlations(keys[i], *rows[i], sign) for i in range(2))
    settings: dict[str, Any] = {"threshold": gate.threshold, "sigma": gate.sigma}
    # A stream of d correlations, then one accuracy per k: the remaining budget carries over.
    start = thresholdout_start(parts[5], budget=gate.budget, **settings)
    state, asked = thresholdout_scan(start, parts[3], train, holdout, **settings)
    told = jnp.stack([holdout, asked.values])

    def analyse(answers: Float[Array, " d"]) -> tuple[Float[Array, "sets ks"], Float[Array, " ks"]]:
        least = 1 / data.n**0.5
        kept = (train * answers > 0) & (jnp.abs(train) >= least) & (jnp.abs(answers) >= least)
        strength = jnp.where(kept, jnp.abs(train), -1.0)
        best, chosen = jax.lax.top_k(strength, min(max(ks), data.d))
        vote = jnp.where(best > 0, jnp.sign(train[chosen]), 0.0)
        found = [
            _accuracy(data, keys[i], *rows[i], sign[chosen], chosen, vote, ks) for i in range(3)
        ]
        return jnp.stack(found), found[1]

    accuracy, truth = jax.lax.map(analyse, told)
    _, gated = thresholdout_scan(state, parts[4], accuracy[1, 0], accuracy[1, 1], **settings)
    accuracy = accuracy.at[1, 1].set(gated.values)
    spent = asked.from_holdout.sum() + gated.from_holdout.sum()
    return Run(accuracy, truth, jnp.stack([jnp.zeros_like(spent), spent]))


def _accuracy(
    data: ClassifierData,
    key: PRNGKeyArray,
    label: Float[Array, " n"],
    site: Float[Array, " n"],
    sign: Float[Array, " most"],
    chosen: Int[Array, " most"],
    vote: Float[Array, " most"],
    ks: Sequence[int],
) -> Float[Array, " ks"]:
    """Accuracy of the vote of the first ``k`` chosen attributes; a tie counts half."""
    first = jnp.arange(chosen.size)[:, None] < jnp.asarray(ks)  # [chosen, ks]
    total = matmul(data.attributes(key, label, site, sign, chosen), vote[:, None] * first)
    right = jnp.where(total == 0, 0.5, (total * label[:, None] > 0).astype(jnp.float32))
    return right.mean(axis=0)


def run_classifier(
    data: ClassifierData,
    *,
    gate: Gate | None = None,
    ks: Sequence[int] | None = None,
    repetitions: int = 10,
    key: int = 0,
    advance: Advance = uncounted,
) -> Run:
    """Repeat `one_run`, vmapped over the repetitions that fit into memory.

    Parameters
    ----------
    data
        Law of the data.
    gate
        Settings of Thresholdout; by default those of the paper.
    ks
        Numbers of attributes that vote, ascending; `default_ks` by default.
    repetitions
        Independent repetitions, at least 2.
    key
        Integer seed.
    advance
        Called with the number of repetitions just done.

    Returns
    -------
    Run
        Leaves with a leading axis of repetitions.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    checks.count("repetitions", repetitions, minimum=2)
    numbers = tuple(ks or default_ks(data.n))
    if min(numbers) < 1 or list(numbers) != sorted(set(numbers)) or max(numbers) > data.d:
        raise ValueError(f"ks must ascend and lie in 1..{data.d}, got {list(numbers)}.")
    chosen = gate or paper_gate(data.n)
    # Each repetition holds a block of columns; parts of one size share one compiled program.
    most = max(1, min(repetitions, MOST_FLOATS // (data.n * data.columns)))
    together = max(size for size in range(1, most + 1) if repetitions % size == 0)
    run = jax.jit(traced_exactly(jax.vmap(lambda k: one_run(k, data, chosen, numbers))))
    keys = jax.random.split(jax.random.key(key), repetitions)
    found = []
    for begin in range(0, repetitions, together):
        part = jax.block_until_ready(run(keys[begin : begin + together]))
        found.append(jax.tree.map(np.asarray, part))
        advance(part.spent.shape[0])
    return jax.tree.map(lambda *parts: np.concatenate(parts), *found)
