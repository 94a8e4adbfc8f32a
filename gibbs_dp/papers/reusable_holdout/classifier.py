"""Selecting attributes on a holdout, over and over (Dwork et al. 2015, *The reusable holdout*).

An analyst keeps the attributes whose correlations with the label agree on training set and holdout,
and lets the ``k`` strongest vote. Asked plainly, the holdout is overfitted like a training set.

Rows may also form a chain, and attributes be correlated: rows are (label, site, attributes); label
and site are independent two-state chains along the rows, and attributes depend on them alone, so
the row's chain is that of the four pairs (label, site). Thresholdout is then calibrated by DP and
by Bayesian DP.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import brentq

from gibbs_dp.information import checks
from gibbs_dp.papers.bayesian_dp import MarkovChain, quilt_profile
from gibbs_dp.papers.bayesian_dp.bdp import QuiltProfile
from gibbs_dp.papers.reusable_holdout.data import (
    Advance,
    ClassifierData,
    Gate,
    Gates,
    mean_and_se,
    uncounted,
)
from gibbs_dp.papers.tables import Row

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
    """Let both analysts choose attributes on independent training sets, holdouts and fresh sets.

    Each analyst's own law is exact; the two share their correlations, and what those leave open is
    drawn for each apart.
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
    """Set up rows of a chain calibrated in both ways, and independent rows to compare with.

    ``sigma`` makes ``2 B/(sigma n)`` the DP epsilon: `BDP_EPSILON`, as for independent rows, or
    the one at which the Bayesian DP on the rows' chain is that. Attributes show the site,
    so that they are correlated; in "signal" some depend on the label too.
    """
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
