"""The holdout experiments by name: what each computes, and its table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gibbs_dp.adaptive import answerable_queries, composed_pure_dp, counting_error
from gibbs_dp.adaptive.composition import RULES
from gibbs_dp.engine.progress import Progress
from gibbs_dp.experiments import holdout_classifier as classifier
from gibbs_dp.experiments import holdout_climb as climb
from gibbs_dp.experiments import holdout_correlated as correlated
from gibbs_dp.experiments import holdout_maxima as maxima
from gibbs_dp.experiments import holdout_selection as selection
from gibbs_dp.experiments.holdout_data import ClassifierData
from gibbs_dp.experiments.holdout_result import Found, Sizes, mean_and_se
from gibbs_dp.experiments.tables import Row
from gibbs_dp.information import checks

DELTA = 1e-6
TOTAL_EPSILON = 1.0
QUERY_COUNTS = tuple(int(10 ** (k / 4)) for k in range(17))
ROW_COUNTS = (1_000, 10_000, 100_000, 1_000_000)


def run_holdout(name: str, sizes: Sizes, *, is_shown: bool = False) -> Found:
    """Run one experiment.

    Parameters
    ----------
    name
        One of `EXPERIMENTS`.
    sizes
        How large to run it.
    is_shown
        Whether to tell on stderr what is done.

    Returns
    -------
    Found
        Its rows, the table to read, and what the numbers rest on.

    Raises
    ------
    ValueError
        For an unknown name, or sizes out of range.

    Examples
    --------
    >>> run_holdout("accuracy", Sizes()).summary[0]["n"]
    1000
    """
    if name not in EXPERIMENTS:
        raise ValueError(f"experiment: must be one of {', '.join(EXPERIMENTS)}, got {name!r}.")
    for size in ("n", "d"):
        if getattr(sizes, size) is not None:
            checks.count(size, getattr(sizes, size))
    with Progress(is_shown) as progress:
        progress.stage(name)
        return EXPERIMENTS[name](sizes, progress)


def _classifier(sizes: Sizes, progress: Progress) -> Found:
    base = classifier.FULL if sizes.is_full else classifier.SMALL
    n, d = sizes.n or base.n, sizes.d or base.d
    repetitions = sizes.repetitions or (30 if sizes.is_full else 20)
    gate = classifier.paper_gate(n)
    shift = classifier.SIGNAL_SHIFT / n**0.5
    data = {
        "no signal": ClassifierData(n, d),
        "signal": ClassifierData(n, d, min(d, classifier.NUM_SIGNAL), shift),
    }
    progress.expect(2 * repetitions)
    ks = [k for k in classifier.default_ks(n) if k <= d]
    rows: list[Row] = []
    for i, (label, one) in enumerate(data.items()):
        run = classifier.run_classifier(
            one,
            gate=gate,
            ks=ks,
            repetitions=repetitions,
            key=sizes.key + i,
            advance=progress.advance,
        )
        rows += _classifier_rows(label, run, ks, n, d, gate)
    summary = [row for row in rows if row["k"] == ks[-1]]
    return Found(
        "classifier",
        rows,
        summary,
        (
            "holdout: the accuracy that the analyst is told; fresh: on new rows; errors over "
            "repetitions.",
            "dp_epsilon, dp_epsilon_at_delta: replace-one privacy of the holdout that the units "
            f"spent amount to, 2B/(sigma n) and at delta = {DELTA:g}, for queries of range 1; "
            "products of normal attributes and labels would have to be clipped to one.",
        ),
    )


def _classifier_rows(
    label: str, run: classifier.Run, ks: Sequence[int], n: int, d: int, gate: classifier.Gate
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
    base = classifier.FULL if sizes.is_full else correlated.SMALL
    repetitions = sizes.repetitions or 10
    settings = correlated.calibrations(sizes.n or base.n, sizes.d or base.d)
    progress.expect(repetitions * len(settings))
    found = correlated.run_correlated(
        settings, repetitions=repetitions, key=sizes.key, advance=progress.advance
    )
    rows = correlated.correlated_rows(found)
    return Found(
        "correlated",
        rows,
        rows,
        (
            "no signal: fresh accuracy is 1/2; gap: mean of |holdout - fresh|, as the analyst is "
            "told it.",
            "dp_epsilon: replace-one DP of the whole budget; bdp_epsilon: Bayesian DP on the rows' "
            "chain, exact form of Lemma 4 (equal for independent rows); both proven for queries "
            "of range 1.",
        ),
    )


def _maxima(sizes: Sizes, progress: Progress) -> Found:
    sizes.refuse("maxima", "d")
    counts = (sizes.n,) if sizes.n else maxima.SIZES + ((1_000_000,) if sizes.is_full else ())
    progress.expect((sizes.repetitions or 200) * len(counts))
    rows = maxima.maxima_rows(
        counts, repetitions=sizes.repetitions or 200, key=sizes.key, advance=progress.advance
    )
    return Found("maxima", rows, rows, ("bias: of the chosen subsets' own means; it should be 0.",))


def _selection(sizes: Sizes, progress: Progress) -> Found:
    sizes.refuse("selection", "d", "is_full")
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
    sizes.refuse("climb", "is_full")
    n, d = sizes.n or climb.N, sizes.d or climb.D
    repetitions = sizes.repetitions or 20
    progress.expect(repetitions)
    run = climb.run_climb(
        n=n, d=d, repetitions=repetitions, key=sizes.key, advance=progress.advance
    )
    summary = climb.climb_rows(run, n=n, d=d)
    rows = [
        {
            "analyst": analyst,
            "repetition": i,
            "largest_error": float(e),
            "last_told": float(last),
            "promised_tau": summary[0]["promised_tau"],
        }
        for analyst, errors, lasts in (
            ("standard", run.plain_error, run.plain_last),
            ("thresholdout", run.gated_error, run.gated_last),
        )
        for i, (e, last) in enumerate(zip(errors, lasts, strict=True))
    ]
    return Found(
        "climb",
        rows,
        summary,
        (
            "promised_tau: proven for independent rows, with probability 1 - beta; kept: share of "
            "repetitions in which every answer was within it.",
        ),
    )


def _accuracy(sizes: Sizes, progress: Progress) -> Found:
    sizes.refuse("accuracy", "d", "repetitions", "is_full")
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
}
