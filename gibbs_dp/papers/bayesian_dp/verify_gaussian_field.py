"""Bayesian DP of sums of rows of a Gaussian Markov random field."""

from __future__ import annotations

import numpy as np

from gibbs_dp.papers.bayesian_dp import GaussianField
from gibbs_dp.papers.verify.check import Check, exact_checks
from gibbs_dp.papers.verify.record import Record, counterexample, equality

YANG = "Yang, Sato & Nakagawa 2015"

# Precisions of four rows, a ring: all attract, or one pair repels.
ATTRACTIVE = np.array(
    [[2.0, -0.7, 0.0, -0.2], [-0.7, 1.5, -0.5, 0.0], [0.0, -0.5, 1.2, -0.3], [-0.2, 0.0, -0.3, 1.0]]
)


def field_records() -> list[Record]:
    """Find who learns most of sums of Gaussian rows.

    Examples
    --------
    >>> all(record.holds for record in field_records())
    True
    """
    ones = np.ones(4)
    attract = GaussianField(ATTRACTIVE)
    signs = np.ones((4, 4))
    signs[0, 1] = signs[1, 0] = -1.0
    mixed = GaussianField(ATTRACTIVE * signs)
    covariance = np.linalg.inv(ATTRACTIVE)
    least = float(np.max(covariance @ ones / np.diag(covariance)))
    without = max(abs(mixed.response(ones, i, [])) for i in range(4))
    tried = attract.every_adversary(ones)
    return [
        equality(
            "privacy is poorest for who knows least, rows that attract", YANG, tried.value, least
        ),
        equality("the same, by the rule", YANG, attract.worst_response(ones).value, least),
        counterexample(
            "privacy is poorest for who knows least, any signs",
            YANG,
            mixed.worst_response(ones).value,
            without,
        ),
    ]


def field_checks() -> list[Check]:
    """List the checks of sums of Gaussian rows.

    Examples
    --------
    >>> all(check.holds for check in field_checks())
    True
    """
    return exact_checks(field_records(), "sum of 4 Gaussian rows")
