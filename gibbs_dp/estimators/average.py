"""Averages over datasets, the only independent units, with standard errors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from gibbs_dp.information.checks import whole_arrays


class Average(NamedTuple):
    """A mean over datasets, its standard error, and the number of datasets."""

    value: float
    se: float
    num_datasets: int


@whole_arrays
def average(
    values: Float[np.ndarray, " datasets"], keep: Bool[np.ndarray, " datasets"] | None = None
) -> Average:
    """Mean and standard error over the kept datasets, accumulated in float64.

    Parameters
    ----------
    values
        One number per dataset.
    keep
        Which datasets count; all by default. The result is conditional on that choice, so callers
        must report how many they drop.

    Returns
    -------
    Average
        NaN error for fewer than two datasets; NaN value for none.

    Examples
    --------
    >>> average(np.array([1.0, 2.0, 3.0]))
    Average(value=2.0, se=0.5773502691896258, num_datasets=3)
    """
    kept = np.asarray(values, dtype=np.float64)
    if keep is not None:
        kept = kept[keep]
    count = kept.shape[0]
    value = float(kept.mean()) if count else float("nan")
    se = float(kept.std(ddof=1) / np.sqrt(count)) if count > 1 else float("nan")
    return Average(value, se, count)


# Largest Hill index, of a ratio's largest twentieth, at which its mean is relied on: at 1/2 the
# variance is infinite, at 1/3 the skewness, and samples look far tamer than they are.
MAX_TAIL_INDEX = 0.25


def is_tame(log_ratio: Float[np.ndarray, " draws"]) -> bool:
    """Whether a ratio's tail is light enough to rely on its mean over draws."""
    threshold = np.quantile(log_ratio, 0.95)
    tail = log_ratio[log_ratio > threshold]
    return not tail.size or float(np.mean(tail - threshold)) <= MAX_TAIL_INDEX


# Standard errors from zero at which a control variate's mean is not what it is taken for.
MAX_CENTRE_Z = 4.0


def is_centred(control: Float[np.ndarray, " datasets"]) -> bool:
    """Whether the mean of a control variate is zero, as far as its datasets tell.

    A ratio may be large only where nothing was drawn: on a finite class whose posteriors sit on
    one candidate each, its mean over draws is far below one, and no tail is seen.
    """
    mean = average(control)
    return not abs(mean.value) > MAX_CENTRE_Z * mean.se


@whole_arrays
def control_share(
    values: Float[np.ndarray, " datasets"],
    control: Float[np.ndarray, " datasets"],
    log_ratio: Float[np.ndarray, " draws"],
) -> float:
    """Coefficient in [0, 1] at which adding a control variate of mean zero reduces noise most.

    The control variate is ``mean exp(log_ratio) - 1`` per dataset, a ratio of two densities. Zero
    where that ratio has heavy tails, or is far from one on average: its sample mean is then biased.
    The coefficient is fitted on the datasets themselves, which biases an average by ``O(1 /
    datasets)`` of its spread.

    Parameters
    ----------
    values, control
        One number per dataset.
    log_ratio
        Logarithm of the ratio at all draws.

    Returns
    -------
    float
        0 where the ratio has heavy tails or another mean.

    Examples
    --------
    >>> control_share(np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.0, -0.5]), np.zeros(100))
    1.0
    """
    is_sound = is_tame(log_ratio) and is_centred(control)
    return fitted_share(values, -control) if is_sound else 0.0


def fitted_share(
    values: Float[np.ndarray, " datasets"], control: Float[np.ndarray, " datasets"]
) -> float:
    """Least-squares coefficient of a control variate to subtract, clipped to [0, 1]."""
    centred = control - control.mean()
    fitted = np.sum(centred * values) / max(float(np.sum(centred**2)), 1e-300)
    return float(np.clip(fitted, 0.0, 1.0))
