"""The holdout experiments by name: what each computes, and its table.

One selects attributes on a holdout, over and over (Dwork et al. 2015, *The reusable holdout*).
An analyst keeps the attributes whose correlations with the label agree on training set and holdout,
and lets the ``k`` strongest vote. Asked plainly, the holdout is overfitted like a training set.

Rows may also form a chain, and attributes be correlated: rows are (label, site, attributes); label
and site are independent two-state chains along the rows, and attributes depend on them alone, so
the row's chain is that of the four pairs (label, site). Thresholdout is then calibrated by DP and
by Bayesian DP.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import brentq

from gibbs_dp._progress import Progress
from gibbs_dp.information import checks
from gibbs_dp.model.check import as_key
from gibbs_dp.papers.bayesian_dp import MarkovChain, quilt_profile
from gibbs_dp.papers.bayesian_dp.bdp import QuiltProfile
from gibbs_dp.papers.bayesian_dp.markov_chain import answerable_queries, counting_error
from gibbs_dp.papers.reusable_holdout import selection, sparse
from gibbs_dp.papers.reusable_holdout.data import (
    Advance,
    ClassifierData,
    Found,
    Gate,
    Gates,
    Sizes,
    mean_and_se,
    uncounted,
)
from gibbs_dp.papers.tables import Row
from gibbs_dp.privacy.composition import RULES, composed_pure_dp

PAPER = ClassifierData(10_000, 10_000)
NUM_SIGNAL, SIGNAL_SHIFT = 20, 6.0  # the shift in units of 1/sqrt(n)
THRESHOLD, TOLERANCE = 4.0, 1.0  # in units of 1/sqrt(n)
UNLIMITED = 2**30
ANALYSTS = ("standard", "thresholdout")
SETS = ("train", "holdout", "fresh")


class Run(NamedTuple):
    """Results of all repetitions; the second axis is that of `ANALYSTS`."""

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
    """``k`` up to ``n / 20``, which is 500 in the paper's setting."""
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
    """Let both analysts choose attributes on independent training sets, holdouts and fresh sets."""
    checks.count("repetitions", repetitions, minimum=2)
    numbers = tuple(ks or default_ks(data.n))
    if min(numbers) < 1 or list(numbers) != sorted(set(numbers)) or max(numbers) > data.d:
        raise ValueError(f"ks must ascend and lie in 1..{data.d}, got {list(numbers)}.")
    rng = np.random.default_rng([key, data.n, data.d])
    signs = [data.signs(rng) for _ in range(repetitions)]
    sets = [[data.sample(rng, sign) for _ in SETS] for sign in signs]
    train, holdout = (np.stack([one[i].correlations() for one in sets]) for i in range(2))
    gated = Gates(as_key(key), gate or paper_gate(data.n), repetitions)
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
    """Attributes that agree on both sets, strongest first, and their votes; 0 for the rest."""
    kept = (train * answers > 0) & (np.abs(train) >= least) & (np.abs(answers) >= least)
    strength = np.where(kept, np.abs(train), -1.0)
    chosen = np.argsort(-strength, kind="stable")[:most]
    return chosen, np.where(strength[chosen] > 0, np.sign(train[chosen]), 0.0)


SITE = 0.1
FLIP = 0.35
BDP_EPSILON = 1.0
BUDGET = 5
# The threshold leaves room for the noise of thousands of answers (query noise is Lap(4 sigma)), and
# for the sampling error of a difference of correlations, in units of 1/sqrt(n).
THRESHOLD_PER_SIGMA, THRESHOLD_PER_ERROR = 32.0, 5.0
CHAIN_N = 10_000
SWEEP = 4  # the sizes around n: n/4, n, 4n


class Calibrated(NamedTuple):
    """A Thresholdout whose whole budget costs ``epsilon``."""

    rows: str
    label: str
    calibration: str
    data: ClassifierData
    gate: Gate
    dp_epsilon: float
    bdp_epsilon: float


def row_chain(flip: float, n: int) -> MarkovChain:
    """Chain of (label, site), each of which changes with probability ``flip``.

    >>> row_chain(0.25, 10).transition
    array([[0.5625, 0.1875, 0.1875, 0.0625],
           [0.1875, 0.5625, 0.0625, 0.1875],
           [0.1875, 0.0625, 0.5625, 0.1875],
           [0.0625, 0.1875, 0.1875, 0.5625]])
    """
    one = np.array([[1 - flip, flip], [flip, 1 - flip]])
    return MarkovChain(np.kron(one, one), n)


def dp_epsilon_for(profile: QuiltProfile, epsilon: float) -> float:
    """Largest DP epsilon whose Bayesian DP is at most ``epsilon``.

    >>> profile = quilt_profile(row_chain(0.25, 200))
    >>> found = dp_epsilon_for(profile, 1.0)
    >>> round(profile.bdp_epsilon(found), 6), found < 0.2
    (1.0, True)
    """
    checks.positive("epsilon", epsilon)
    return float(brentq(lambda e: profile.bdp_epsilon(e) - epsilon, 0.0, epsilon, xtol=1e-14))


def calibrations(n: int, d: int) -> list[Calibrated]:
    """Set up rows of a chain calibrated in both ways, and independent rows to compare with."""
    profile = quilt_profile(row_chain(FLIP, n))
    shares = {"DP": BDP_EPSILON, "BDP": dp_epsilon_for(profile, BDP_EPSILON)}
    found = []
    for rows, own_flip in (("chain", FLIP), ("independent", 0.5)):
        for label, num_signal in (("no signal", 0), ("signal", min(d, NUM_SIGNAL))):
            shift = SIGNAL_SHIFT / n**0.5 if num_signal else 0.0
            data = ClassifierData(n, d, num_signal, shift, site=SITE, flip=own_flip)
            for calibration, dp in shares.items():
                if rows == "independent" and calibration == "BDP":
                    continue  # the same as DP
                sigma = 2 * BUDGET / (n * dp)
                threshold = THRESHOLD_PER_SIGMA * sigma + THRESHOLD_PER_ERROR / n**0.5
                gate = Gate(threshold, sigma, BUDGET)
                real = profile.bdp_epsilon(dp) if rows == "chain" else dp
                found.append(Calibrated(rows, label, calibration, data, gate, dp, real))
    return found


def all_calibrations(n: int, d: int) -> list[Calibrated]:
    """`calibrations`, and those without signal on the chain at a quarter and four times ``n``."""
    found = calibrations(n, d)
    for size, columns in ((n // SWEEP, max(1, d // SWEEP)), (n * SWEEP, d * SWEEP)):
        found += [
            one
            for one in calibrations(size, columns)
            if (one.rows, one.label) == ("chain", "no signal")
        ]
    return found


def asked_ks(data: ClassifierData) -> tuple[int, ...]:
    """Numbers of attributes that vote; each is asked for by an analyst of its own."""
    return tuple(k for k in default_ks(data.n) if k <= data.d)


def run_correlated(
    settings: Sequence[Calibrated],
    *,
    repetitions: int = 20,
    key: int = 0,
    advance: Advance = uncounted,
) -> list[tuple[Calibrated, Run]]:
    """Run the classifier experiment on every setting; settings of one size share their draws."""
    return [
        (
            one,
            run_classifier(
                one.data,
                ks=asked_ks(one.data),
                gate=one.gate,
                asks_one=True,
                repetitions=repetitions,
                key=key,
                advance=advance,
            ),
        )
        for one in settings
    ]


def correlated_rows(found: Sequence[tuple[Calibrated, Run]]) -> list[Row]:
    """One dict per setting, analyst and ``k``, errors over repetitions."""
    rows: list[Row] = []
    for one, run in found:
        for i, analyst in enumerate(("standard", f"thresholdout, {one.calibration}")):
            if i == 0 and one.calibration == "BDP":
                continue  # the same analyst as beside DP
            for j, k in enumerate(asked_ks(one.data)):
                train, told, fresh = (run.accuracy[:, i, s, j] for s in range(3))
                row: Row = {
                    "rows": one.rows,
                    "data": one.label,
                    "analyst": analyst,
                    "n": one.data.n,
                    "d": one.data.d,
                    "k": k,
                    "repetitions": told.size,
                }
                for name, values in (
                    ("train", train),
                    ("holdout", told),
                    ("holdout_true", run.truth[:, i, j]),
                    ("fresh", fresh),
                    ("gap", np.abs(told - fresh)),
                ):
                    row |= mean_and_se(name, values)
                if i == 1:
                    row |= {
                        "sigma": one.gate.sigma,
                        "threshold": one.gate.threshold,
                        "budget": one.gate.budget,
                        "budget_spent": float(run.spent[:, 1].mean()),
                        "dp_epsilon": one.dp_epsilon,
                        "bdp_epsilon": one.bdp_epsilon,
                    }
                rows.append(row)
    return rows


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
    n, d = sizes.n or PAPER.n, sizes.d or PAPER.d
    repetitions = sizes.repetitions or 20
    # Smaller sets show where it breaks; all gates are the paper's for their size.
    small = [(n // s, d // s) for s in SHRUNK if n // s >= LEAST_N and d // s >= 1]
    settings = [("no signal", n, d), ("signal", n, d), *(("no signal", *one) for one in small)]
    progress.expect(len(settings) * repetitions)
    rows: list[Row] = []
    for label, own_n, own_d in settings:
        shift = SIGNAL_SHIFT / own_n**0.5
        signal = (min(own_d, NUM_SIGNAL), shift) if label == "signal" else ()
        gate = paper_gate(own_n)
        ks = [k for k in default_ks(own_n) if k <= own_d]
        run = run_classifier(
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
    label: str, run: Run, ks: Sequence[int], n: int, d: int, gate: Gate
) -> list[Row]:
    rows: list[Row] = []
    for a, analyst in enumerate(ANALYSTS):
        spent = mean_and_se("budget_spent", run.spent[:, a])
        for j, k in enumerate(ks):
            row: Row = {"data": label, "analyst": analyst, "n": n, "d": d, "k": k}
            row["repetitions"] = run.accuracy.shape[0]
            for s, name in enumerate(SETS):
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
    n = sizes.n or CHAIN_N
    repetitions = sizes.repetitions or 20
    settings = all_calibrations(n, sizes.d or n)
    progress.expect(repetitions * len(settings))
    found = run_correlated(
        settings, repetitions=repetitions, key=sizes.key, advance=progress.advance
    )
    rows = correlated_rows(found)
    last = {row["n"]: row["k"] for row in rows}
    return Found(
        "correlated",
        rows,
        [row for row in rows if row["k"] == last[row["n"]]],
        (
            "holdout: as the analyst is told, every k by an analyst of its own; gap: mean of "
            "|told - fresh|; without signal fresh accuracy is 1/2.",
            "thresholdout, DP: noise as for independent rows; thresholdout, BDP: noise for which "
            f"the whole budget has Bayesian DP {BDP_EPSILON:g} on the rows' chain.",
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
