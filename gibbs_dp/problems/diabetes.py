"""The diabetes table of Efron, Hastie, Johnstone & Tibshirani (2004), with scikit-learn."""

from __future__ import annotations

from gibbs_dp.model import losses
from gibbs_dp.problems.base import Problem, scikit_learn_data
from gibbs_dp.problems.columns import standardize
from gibbs_dp.problems.table import table_problem


def diabetes(prior_scale: float | None = 1.0, split: bool = False) -> Problem:
    """Squared loss on 442 patients with 10 measurements; the target is disease progression.

    Parameters
    ----------
    prior_scale
        Standard deviation of the prior on each weight; None or infinity for a flat one.
    split
        Make training rows and ghosts disjoint rows of the table, instead of drawing them with
        replacement.

    Returns
    -------
    Problem
        Ready for ``gibbs_dp.audit``.

    Raises
    ------
    ValueError
        If scikit-learn is missing or the scale is not positive.
    """
    measurements, progression = scikit_learn_data("diabetes", "load_diabetes")
    return table_problem(
        name="diabetes",
        x=standardize(measurements),
        y=standardize(progression),
        loss=losses.squared,
        prior_scale=prior_scale,
        split=split,
        description="Diabetes progression (scikit-learn): 10 standardized measurements.",
        notes=("the target is standardized: risks are in variances of it.",),
    )
