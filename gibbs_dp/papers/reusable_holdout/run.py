"""The holdout experiments by name: what each computes, and its table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gibbs_dp.engine.progress import Progress
from gibbs_dp.information import checks
from gibbs_dp.papers.bayesian_dp.markov_chain import answerable_queries, counting_error
from gibbs_dp.papers.reusable_holdout import classifier, selection, sparse
from gibbs_dp.papers.reusable_holdout.data import ClassifierData, Found, Gate, Sizes, mean_and_se
from gibbs_dp.papers.tables import Row
from gibbs_dp.privacy.composition import RULES, composed_pure_dp

DELTA = 1e-6
TOTAL_EPSILON = 1.0
QUERY_COUNTS = tuple(int(10 ** (k / 4)) for k in range(17))
SHRUNK = (2, 5, 10, 20)
LEAST_N = 200
ROW_COUNTS = (1_000, 10_000, 100_000, 1_000_000)


def run_holdout(name: str, sizes: Sizes, *, is_shown: bool = False) -> Found:
    """Run one experiment."""
    if name not in EXPERIMENTS:
        raise ValueError(f"experiment: must be one of {', '.join(EXPERIMENTS)}, got {name!r}.")
    for size in ("n", "d"):
        if getattr(sizes, size) is not None:
            checks.count(size, getattr(sizes, size))
    with Progress(is_shown) as progress:
        progress.stage(name)
        return EXPERIMENTS[name](sizes, progress)


def _classifier(sizes: Sizes, progress: Progress) -> Found:
    n, d = sizes.n or classifier.PAPER.n, sizes.d or classifier.PAPER.d
    repetitions = sizes.repetitions or 20
    # Smaller sets show where it breaks; all gates are the paper's for their size.
    small = [(n // s, d // s) for s in SHRUNK if n // s >= LEAST_N and d // s >= 1]
    settings = [("no signal", n, d), ("signal", n, d), *(("no signal", *one) for one in small)]
    progress.expect(len(settings) * repetitions)
    rows: list[Row] = []
    for label, own_n, own_d in settings:
        shift = classifier.SIGNAL_SHIFT / own_n**0.5
        signal = (min(own_d, classifier.NUM_SIGNAL), shift) if label == "signal" else ()
        gate = classifier.paper_gate(own_n)
        ks = [k for k in classifier.default_ks(own_n) if k <= own_d]
        run = classifier.run_classifier(
            ClassifierData(own_n, own_d, *signal),
            gate=gate,
            ks=ks,
            repetitions=repetitions,
            key=sizes.key,
            advance=progress.advance,
        )
        rows += _classifier_rows(label, run, ks, own_n, own_d, gate)
    last = {row["n"]: row["k"] for row in rows}
    summary = [row for row in rows if row["k"] == last[row["n"]]]
    return Found(
        "classifier",
        rows,
        summary,
        (
            "holdout: the accuracy that the analyst is told; holdout_true: the holdout's own; "
            "fresh: on new rows; gap: mean of |told - fresh|; errors over repetitions.",
            "Noise and threshold are the paper's, in units of 1/sqrt(n), while the gap that "
            "overfitting leaves stays the same: at small n the noise often hides it, and the "
            "analyst is told the training accuracy.",
            "dp_epsilon, dp_epsilon_at_delta: replace-one privacy of the holdout that the units "
            f"spent amount to, 2B/(sigma n) and at delta = {DELTA:g}, for queries of range 1; "
            "products of normal attributes and labels would have to be clipped to one.",
        ),
    )


def _classifier_rows(
    label: str, run: classifier.Run, ks: Sequence[int], n: int, d: int, gate: Gate
) -> list[Row]:
    rows: list[Row] = []
    for a, analyst in enumerate(classifier.ANALYSTS):
        spent = mean_and_se("budget_spent", run.spent[:, a])
        for j, k in enumerate(ks):
            row: Row = {"data": label, "analyst": analyst, "n": n, "d": d, "k": k}
            row["repetitions"] = run.accuracy.shape[0]
            for s, name in enumerate(classifier.SETS):
                row |= mean_and_se(name, run.accuracy[:, a, s, j])
            row |= mean_and_se("holdout_true", run.truth[:, a, j])
            row |= mean_and_se("gap", np.abs(run.accuracy[:, a, 1, j] - run.accuracy[:, a, 2, j]))
            if analyst == "thresholdout":
                units = max(1, round(spent["budget_spent"]))
                step = 1 / (gate.sigma * n)
                row |= spent | {
                    "queries": d + len(ks),
                    "dp_epsilon": 2 * units * step,
                    "dp_epsilon_at_delta": composed_pure_dp(2 * units, step, delta=DELTA),
                }
            rows.append(row)
    return rows


def _correlated(sizes: Sizes, progress: Progress) -> Found:
    n = sizes.n or classifier.CHAIN_N
    repetitions = sizes.repetitions or 20
    settings = classifier.all_calibrations(n, sizes.d or n)
    progress.expect(repetitions * len(settings))
    found = classifier.run_correlated(
        settings, repetitions=repetitions, key=sizes.key, advance=progress.advance
    )
    rows = classifier.correlated_rows(found)
    last = {row["n"]: row["k"] for row in rows}
    return Found(
        "correlated",
        rows,
        [row for row in rows if row["k"] == last[row["n"]]],
        (
            "holdout: as the analyst is told, every k by an analyst of its own; gap: mean of "
            "|told - fresh|; without signal fresh accuracy is 1/2.",
            "thresholdout, DP: noise as for independent rows; thresholdout, BDP: noise for which "
            f"the whole budget has Bayesian DP {classifier.BDP_EPSILON:g} on the rows' chain.",
            "dp_epsilon: replace-one DP of the whole budget; bdp_epsilon: Bayesian DP on the rows' "
            "chain, exact form of Lemma 4 (equal for independent rows); both proven for queries "
            "of range 1.",
        ),
    )


def _maxima(sizes: Sizes, progress: Progress) -> Found:
    sizes.refuse("maxima", "d")
    counts = (sizes.n,) if sizes.n else selection.SIZES
    repetitions = sizes.repetitions or 200
    progress.expect(repetitions * len(counts))
    rows: list[Row] = []
    for n in counts:
        draws = selection.maxima_draws(n, repetitions=repetitions, key=sizes.key)
        rows += selection.maxima_rows(draws, n)
        progress.advance(repetitions)
    return Found(
        "maxima",
        rows,
        rows,
        ("bias: of the chosen subsets' own means; it should be 0.",),
        {"density": selection.density_rows(draws, n), "running": selection.running_rows(draws, n)},
    )


def _selection(sizes: Sizes, progress: Progress) -> Found:
    sizes.refuse("selection", "d")
    repetitions = sizes.repetitions or 2000
    sigma = 1 / (sizes.n or 10_000) ** 0.5
    progress.expect(repetitions * len(selection.COUNTS))
    rows = selection.selection_rows(
        sigma=sigma, repetitions=repetitions, key=sizes.key, advance=progress.advance
    )
    summary = [row for row in rows if row["temperature"] in (0.0, 0.5, 1.0, 2.0)]
    return Found(
        "selection",
        rows,
        summary,
        ("bound: sqrt(2 sigma^2 I), I the estimated information of the selection, nats.",),
    )


def _climb(sizes: Sizes, progress: Progress) -> Found:
    d = sizes.d or selection.D
    n = sizes.n or selection.planned_rows(d)
    repetitions = sizes.repetitions or 10
    progress.expect(repetitions)
    run = selection.run_climb(
        n=n, d=d, repetitions=repetitions, key=sizes.key, advance=progress.advance
    )
    summary = selection.climb_summary(run)
    return Found(
        "climb",
        selection.climb_rows(run),
        summary,
        (
            "promised_tau: proven for independent rows, with probability 1 - beta; kept: share of "
            "repetitions in which every answer was within it; answered: share of the questions "
            "that got an answer.",
        ),
    )


def _accuracy(sizes: Sizes, progress: Progress) -> Found:
    sizes.refuse("accuracy", "d", "repetitions")
    n = sizes.n or 10_000
    rows: list[Row] = []
    progress.expect(len(QUERY_COUNTS))
    for m in QUERY_COUNTS:
        row: Row = {"n": n, "queries": m, "epsilon": TOTAL_EPSILON, "delta": DELTA}
        for rule in RULES:
            budget: dict[str, Any] = {"epsilon": TOTAL_EPSILON, "delta": DELTA, "rule": rule}
            row[f"mean_error_{rule}"] = counting_error(m, n, **budget)
            row[f"worst_error_{rule}"] = counting_error(m, n, **budget, worst=True)
        row["sampling_error"] = 0.5 / n**0.5
        rows.append(row)
        progress.advance(1)
    summary: list[Row] = [
        {"n": size, "epsilon": TOTAL_EPSILON, "delta": DELTA}
        | {
            f"answerable_{rule}": answerable_queries(
                size, epsilon=TOTAL_EPSILON, delta=DELTA, rule=rule
            )
            for rule in RULES
        }
        for size in ROW_COUNTS
    ]
    return Found(
        "accuracy",
        rows,
        summary,
        (
            "answerable: counting queries until the noise's deviation exceeds the sampling "
            "error's; replace-one, proven.",
        ),
    )


EXPERIMENTS: dict[str, Callable[[Sizes, Progress], Found]] = {
    "classifier": _classifier,
    "correlated": _correlated,
    "maxima": _maxima,
    "selection": _selection,
    "climb": _climb,
    "accuracy": _accuracy,
    "sparse": sparse.run_variants,
    "sparse-approximate": sparse.run_approximate,
}
