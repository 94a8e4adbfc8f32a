"""The Wisconsin breast-cancer table that comes with scikit-learn."""

from __future__ import annotations

from gibbs_dp.model import losses
from gibbs_dp.problems.base import Problem, scikit_learn_data
from gibbs_dp.problems.columns import standardize
from gibbs_dp.problems.table import table_problem


def breast_cancer(prior_scale: float | None = 1.0, split: bool = False) -> Problem:
    """Logistic regression on 569 tumours with 30 measurements; label 1 is benign.

    Parameters
    ----------
    prior_scale
        Standard deviation of the prior on each weight (None or infinity: flat, improper here).
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
    measurements, labels = scikit_learn_data("breast-cancer", "load_breast_cancer")
    return table_problem(
        name="breast-cancer",
        x=standardize(measurements),
        y=labels.astype(float),
        loss=losses.logistic,
        prior_scale=prior_scale,
        split=split,
        description="Wisconsin breast cancer (scikit-learn): 30 standardized measurements.",
    )
