"""The classifier with correlated attributes and rows that form a chain, calibrated by DP and BDP.

Rows are (label, site, attributes); label and site are independent two-state chains along the rows,
and attributes depend on them alone, so the row's chain is that of the four pairs (label, site).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from gibbs_dp.adaptive import MarkovChain, QuiltProfile, quilt_profile
from gibbs_dp.experiments.holdout_classifier import Gate, Run, default_ks, run_classifier
from gibbs_dp.experiments.holdout_data import ClassifierData
from gibbs_dp.experiments.holdout_result import Advance, mean_and_se, uncounted
from gibbs_dp.experiments.tables import Row
from gibbs_dp.information import checks

SMALL = ClassifierData(4_000, 4_000)
SITE = 0.4
FLIP = 0.35
EPSILON = 4.0
BUDGET = 5
# The threshold leaves room for the noise of thousands of answers (query noise is Lap(4 sigma)), and
# for the sampling error of a difference of correlations, in units of 1/sqrt(n).
THRESHOLD_PER_SIGMA, THRESHOLD_PER_ERROR = 32.0, 5.0


class Calibrated(NamedTuple):
    """A Thresholdout whose whole budget costs ``epsilon``.

    Parameters
    ----------
    rows, attributes, calibration
        Description of the setting.
    data
        Law of the data.
    gate
        Settings of Thresholdout.
    dp_epsilon, bdp_epsilon
        Cost of the whole budget, replace-one, nats: for independent rows, and for these rows.
    """

    rows: str
    attributes: str
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

    Examples
    --------
    >>> profile = quilt_profile(row_chain(0.25, 200))
    >>> found = dp_epsilon_for(profile, 1.0)
    >>> round(profile.bdp_epsilon(found), 6), found < 0.2
    (1.0, True)
    """
    checks.positive("epsilon", epsilon)
    return float(brentq(lambda e: profile.bdp_epsilon(e) - epsilon, 0.0, epsilon, xtol=1e-14))


def calibrations(
    n: int, d: int, *, flip: float = FLIP, site: float = SITE, epsilon: float = EPSILON
) -> list[Calibrated]:
    """Set up independent and dependent rows, separate and correlated attributes, both calibrations.

    ``sigma`` makes ``2 B/(sigma n)`` the DP epsilon: ``epsilon`` itself, or the one at which the
    Bayesian DP on the rows' chain is ``epsilon``.

    Parameters
    ----------
    n, d
        Rows and attributes.
    flip
        Probability that label or site change from row to row, where rows are dependent.
    site
        How strongly attributes show the site, where they are correlated.
    epsilon
        Target, nats.

    Returns
    -------
    list of Calibrated
        A Thresholdout for every combination.
    """
    profile = quilt_profile(row_chain(flip, n))
    bayes = dp_epsilon_for(profile, epsilon)
    found = []
    for rows, own_flip in (("independent", 0.5), ("chain", flip)):
        for attributes, own_site in (("separate", 0.0), ("correlated", site)):
            data = ClassifierData(n, d, site=own_site, flip=own_flip)
            for calibration, dp in (("DP", epsilon), ("BDP", bayes)):
                if rows == "independent" and calibration == "BDP":
                    continue  # the same as DP
                sigma = 2 * BUDGET / (n * dp)
                threshold = THRESHOLD_PER_SIGMA * sigma + THRESHOLD_PER_ERROR / n**0.5
                gate = Gate(threshold, sigma, BUDGET)
                real = profile.bdp_epsilon(dp) if rows == "chain" else dp
                found.append(Calibrated(rows, attributes, calibration, data, gate, dp, real))
    return found


def largest_k(data: ClassifierData) -> int:
    """Attributes that vote in a repetition's one classifier, so that a budget of 5 lasts."""
    return min(default_ks(data.n)[-1], data.d)


def run_correlated(
    settings: Sequence[Calibrated],
    *,
    repetitions: int = 20,
    key: int = 0,
    advance: Advance = uncounted,
) -> list[tuple[Calibrated, Run]]:
    """Run the classifier experiment on every setting; see `run_classifier`."""
    return [
        (
            one,
            run_classifier(
                one.data,
                ks=(largest_k(one.data),),
                gate=one.gate,
                repetitions=repetitions,
                key=key + i,
                advance=advance,
            ),
        )
        for i, one in enumerate(settings)
    ]


def correlated_rows(found: Sequence[tuple[Calibrated, Run]]) -> list[Row]:
    """Summarize at the largest ``k``: one dict per setting and analyst, errors over repetitions."""
    rows: list[Row] = []
    for one, run in found:
        k = largest_k(one.data)
        for i, analyst in enumerate(("standard", f"thresholdout, {one.calibration}")):
            if i == 0 and one.calibration == "BDP":
                continue  # the same analyst as beside DP
            last = np.asarray(run.accuracy[:, i, :, -1], dtype=np.float64)
            gap = np.abs(last[:, 1] - last[:, 2])
            row: Row = {
                "rows": one.rows,
                "attributes": one.attributes,
                "analyst": analyst,
                "k": k,
                "repetitions": last.shape[0],
            }
            for name, values in (
                ("train", last[:, 0]),
                ("holdout", last[:, 1]),
                ("fresh", last[:, 2]),
                ("gap", gap),
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
