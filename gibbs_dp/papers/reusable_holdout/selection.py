"""Means that were selected because they are large: their bias, with and without noise.

Of ``m`` means ``phi_j ~ N(0, sigma^2)``, all with population mean 0, one is selected by softmax
(the exponential mechanism, which at zero temperature takes the largest): its bias is at most
``sqrt(2 sigma^2 I(W; Phi))`` (Russo & Zou 2016).

Of ``n`` standard normals in ``n/ln n`` subsets of ``ln n``, those in ``sqrt(n/ln n)`` groups, the
largest subset means of all groups are averaged. Each mean is unbiased, those of the chosen are not;
noise before choosing removes the bias.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt8
from scipy.stats import norm

from gibbs_dp._jaxlib.precision import matmul
from gibbs_dp.holdout import plan_num_rows, plan_thresholdout, thresholdout_promise
from gibbs_dp.information import bounds, checks
from gibbs_dp.model.check import as_key
from gibbs_dp.papers.reusable_holdout.data import Advance, Gate, Gates, mean_and_se, uncounted
from gibbs_dp.papers.tables import Row

COUNTS = (10, 100, 1000)
# In standard deviations of a mean; 0 selects the largest.
TEMPERATURES = (0.0, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0)


def one_selection(
    key: PRNGKeyArray, m: int, temperatures: Float[Array, " temperatures"]
) -> Float[Array, "temperatures 2"]:
    """Compute the expected selected mean and the selection's entropy given the means, unit sigma.

    By symmetry ``I(W; Phi) = log m - E H(W | Phi)``, so both are averages of exact conditional
    expectations.
    """
    phi = jax.random.normal(key, (m,))

    def at(temperature: Float[Array, ""]) -> Float[Array, " 2"]:
        log_p = jax.nn.log_softmax(phi / jnp.maximum(temperature, 1e-6))
        p = jnp.exp(log_p)
        return jnp.stack([matmul(p, phi), -jnp.sum(jnp.where(p > 0, p * log_p, 0.0))])

    return jax.vmap(at)(temperatures)


def selection_rows(
    counts: Sequence[int] = COUNTS,
    *,
    sigma: float = 0.01,
    repetitions: int = 2000,
    key: int = 0,
    advance: Advance = uncounted,
) -> list[Row]:
    """Bias and bound, one dict per ``m`` and temperature; errors over repetitions."""
    checks.count("repetitions", repetitions, minimum=2)
    checks.positive("sigma", sigma)
    rows: list[Row] = []
    grid = jnp.asarray(TEMPERATURES)
    for m in counts:
        checks.count("counts", m, minimum=2)
        keys = jax.random.split(jax.random.fold_in(as_key(key), m), repetitions)
        run = jax.jit(
            lambda k, m=m: jax.lax.map(lambda one: one_selection(one, m, grid), k, batch_size=100)
        )
        found = np.asarray(run(keys), dtype=np.float64)
        for i, temperature in enumerate(TEMPERATURES):
            entropy = found[:, i, 1]
            information = max(0.0, math.log(m) - float(entropy.mean()))
            bound = bounds.generalization_from_mutual_information(information, 1, sigma=sigma)
            rows.append(
                {"m": m, "temperature": temperature, "sigma": sigma, "repetitions": repetitions}
                | mean_and_se("bias", sigma * found[:, i, 0])
                | {"information": information}
                | {"information_se": float(entropy.std(ddof=1) / repetitions**0.5)}
                | {"bound": bound, "bound_at_zero": sigma * math.sqrt(2 * math.log(m))}
            )
        advance(repetitions)
    return rows


SIZES = (1_000, 10_000, 100_000)
BETA = 0.05
CLIP = 3.0
NUM_BINS = 60
CHOICES = ("largest mean", "noisy, lecture's heuristic", "noisy, replace-one")


def shape_of(n: int) -> tuple[int, int, int]:
    """Count groups, subsets per group, rows per subset: a product of ``n`` or a little less."""
    size = max(1, round(math.log(checks.count("n", n, minimum=100))))
    groups = math.isqrt(n // size)
    return groups, groups, size


def noise_scales(n: int) -> tuple[float, float]:
    """Laplace scales ``Delta/eps`` of a subset mean, ``eps = sqrt(ln(1/BETA)/(2 ln n))``.

    ``Delta = 3/ln n`` is the lecture's heuristic; replacing one row of ``|x| <= 3`` moves a mean
    by ``6/ln n``.

    >>> [round(scale, 3) for scale in noise_scales(10_000)]
    [0.808, 1.615]
    """
    eps = math.sqrt(math.log(1 / BETA) / (2 * math.log(n)))
    heuristic = CLIP / math.log(n) / eps
    return heuristic, 2 * heuristic


def chosen_means(key: PRNGKeyArray, n: int) -> Float[Array, "choices groups"]:
    """Draw one dataset, and return the own mean of every group's chosen subset."""
    groups, subsets, size = shape_of(n)
    draw, noise = jax.random.split(key)
    rows = jnp.clip(jax.random.normal(draw, (groups, subsets, size)), -CLIP, CLIP)
    means = rows.mean(axis=2)
    unit = jax.random.laplace(noise, means.shape)
    found = []
    for scale in (0.0, *noise_scales(n)):
        chosen = jnp.argmax(means + scale * unit, axis=1)
        found.append(jnp.take_along_axis(means, chosen[:, None], axis=1)[:, 0])
    return jnp.stack(found)


def maxima_draws(
    n: int, *, repetitions: int = 200, key: int = 0
) -> Float[np.ndarray, "repetitions choices groups"]:
    """Repeat `chosen_means`, vmapped."""
    checks.count("repetitions", repetitions, minimum=2)
    keys = jax.random.split(jax.random.fold_in(as_key(key), n), repetitions)
    batch = max(1, min(repetitions, 8_000_000 // n))
    run = jax.jit(lambda k: jax.lax.map(lambda one: chosen_means(one, n), k, batch_size=batch))
    return np.asarray(run(keys), dtype=np.float64)


def maxima_rows(draws: Float[np.ndarray, "repetitions choices groups"], n: int) -> list[Row]:
    """Bias of the average over groups, one dict per way of choosing, errors over repetitions."""
    scales = (0.0, *noise_scales(n))
    averages = draws.mean(axis=2)
    return [
        {"n": n, "choice": name, "noise_scale": scale, "repetitions": draws.shape[0]}
        | mean_and_se("bias", averages[:, i])
        for i, (name, scale) in enumerate(zip(CHOICES, scales, strict=True))
    ]


def running_rows(draws: Float[np.ndarray, "repetitions choices groups"], n: int) -> list[Row]:
    """Accumulate means over the groups, one dict per way of choosing and number of groups."""
    counts = np.arange(1, draws.shape[2] + 1)
    running = np.cumsum(draws, axis=2) / counts
    low, high = np.quantile(running, (0.025, 0.975), axis=0)
    return [
        {"n": n, "choice": name, "groups": int(j + 1), "first": float(running[0, i, j])}
        | mean_and_se("running", running[:, i, j])
        | {"low": float(low[i, j]), "high": float(high[i, j])}
        for i, name in enumerate(CHOICES)
        for j in range(counts.size)
    ]


def density_rows(draws: Float[np.ndarray, "repetitions choices groups"], n: int) -> list[Row]:
    """Density of the chosen subsets' own means, one dict per way of choosing and bin."""
    _, subsets, size = shape_of(n)
    edges = np.linspace(draws.min(), draws.max(), NUM_BINS + 1)
    middles, width = (edges[1:] + edges[:-1]) / 2, edges[1] - edges[0]
    law = norm(scale=size**-0.5)
    one = law.pdf(middles)
    largest = subsets * one * law.cdf(middles) ** (subsets - 1)
    rows: list[Row] = []
    for i, name in enumerate(CHOICES):
        # The unit is a dataset, as everywhere.
        shares = np.array([np.histogram(run[i], edges)[0] / run[i].size for run in draws])
        for j, middle in enumerate(middles):
            row: Row = {"n": n, "choice": name, "mean": float(middle)}
            row |= mean_and_se("density", shares[:, j] / width)
            rows.append(row | {"one": float(one[j]), "largest": float(largest[j])})
    return rows


# An analyst who climbs on a holdout's answers, against a plain holdout and Thresholdout.
#
# Labels are coin tosses, so every classifier is right half of the time. The analyst asks how often
# each of ``d`` random attributes agrees with the label, lets all of them vote as their answers
# suggest, asks for the accuracy of the vote, and goes on with more attributes. Rows and budget are
# the planner's: every question has an answer, and every answer a promise.


D, PHASES = 32_768, 4
# An accuracy below what climbing gains on a plain holdout; gaps of single attributes are far
# below the one that must not cost budget, and every vote of an overfitted crowd costs a unit.
TAU, OVERFIT = 0.35, 0.04
ANALYSTS = ("standard", "thresholdout")
BLOCK = 256  # of bits as floats: stays in cache


class Climb(NamedTuple):
    """Answers of each repetition; the second axis is that of `ANALYSTS`."""

    n: int
    d: int
    gate: Gate
    told: Float[np.ndarray, "repetitions 2 phases"]
    truth: Float[np.ndarray, "repetitions 2 phases"]
    error: Float[np.ndarray, "repetitions 2 phases"]
    answered: Int[np.ndarray, "repetitions 2"]
    spent: Int[np.ndarray, " repetitions"]


def planned_rows(d: int, phases: int = PHASES) -> int:
    """Rows at which all of ``d + phases`` answers are promised and ``phases`` may be corrected."""
    return plan_num_rows(d + phases, TAU, budget=phases, beta=BETA, overfit=OVERFIT)


def planned_gate(n: int, d: int, phases: int = PHASES) -> Gate:
    """Return the planner's settings, with at least a unit of the budget for every vote."""
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
    """Let the analyst climb, ``repetitions`` times."""
    checks.count("repetitions", repetitions, minimum=2)
    if d < 1 or d % checks.count("phases", phases):
        raise ValueError(f"d must be a multiple of {phases} (phases), got {d}.")
    rows = planned_rows(d, phases) if n is None else checks.count("n", n)
    used = planned_gate(rows, d, phases) if gate is None else gate
    found = []
    for r in range(repetitions):
        rng = np.random.default_rng([key, r])
        gates = Gates(jax.random.fold_in(as_key(key), r), used, 1)
        found.append(_one(rng, rows, d // phases, phases, gates))
        advance(1)
    parts = [np.stack(part) for part in zip(*found, strict=True)]
    return Climb(rows, d, used, *parts)


def climb_summary(found: Climb) -> list[Row]:
    """Summarize, one dict per analyst: answers, and errors against the promise."""
    phases = found.told.shape[2]
    queries = found.d + phases
    promise = thresholdout_promise(found.n, queries, beta=BETA, **found.gate._asdict())
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
            "beta": BETA,
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
