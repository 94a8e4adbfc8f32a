"""How much of their control variates estimates take: fitted over datasets."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from gibbs_dp.estimators.average import fitted_share

# Fewer say nothing about a coefficient.
LEAST_DATASETS = 8


def control_coefficient(
    values: Float[np.ndarray, " datasets"], control: Float[np.ndarray, " datasets"]
) -> float:
    """Coefficient in [0, 1] with which subtracting a control variate leaves least variance.

    Fitted on the datasets that it is used on, which biases an average by ``O(1 / datasets)`` of
    its spread (Glasserman 2003, *Monte Carlo Methods in Financial Engineering*, section 4.1).
    """
    if control.size < LEAST_DATASETS or not np.ptp(control) > 0:
        return 1.0
    return fitted_share(values, control)


def fitted_gap(
    value: Float[Any, " datasets"],
    control: Float[Any, " datasets"],
    is_kept: Bool[np.ndarray, " datasets"],
) -> Float[np.ndarray, " datasets"]:
    """Give back what of the control variate does not reduce noise.

    A block subtracts the gap of the reference's losses whole. That is best where posteriors are
    close to the reference; where they follow their own datasets instead (a KL of some nats) it is
    mostly noise.
    """
    gap, part = np.asarray(value, np.float64), np.asarray(control, np.float64)
    chosen = np.isfinite(gap) & np.isfinite(part) & is_kept
    surplus = 1.0 - control_coefficient((gap + part)[chosen], part[chosen])
    if surplus == 0.0:
        return np.asarray(value)
    return np.asarray(gap + surplus * part, np.asarray(value).dtype)


# Half a variance may fall short of a KL of many nats, and by so much a coefficient is believed.
LARGEST_SHARE = 2.0


def shares_of_others(
    values: Float[np.ndarray, " datasets"], control: Float[np.ndarray, " datasets"]
) -> Float[np.ndarray, " datasets"]:
    """Each dataset's coefficient of a control variate, fitted by least squares on all others.

    A coefficient that has not seen the dataset leaves its mean alone, however skewed the control
    variate is: no bias at all, where one fit for all has ``O(1 / datasets)``. Zero for few
    datasets; kept in [0, 2].
    """
    count = control.size
    if count < LEAST_DATASETS or not np.ptp(control) > 0:
        return np.zeros(count)
    # A sum over the others of products about their own means: about all's, less the dataset's.
    c, v = control - control.mean(), values - values.mean()
    less = count / (count - 1)
    square, product = np.sum(c * c) - less * c * c, np.sum(c * v) - less * c * v
    tiny = np.finfo(np.float64).tiny
    return np.clip(product / np.maximum(square, tiny), 0.0, LARGEST_SHARE)
