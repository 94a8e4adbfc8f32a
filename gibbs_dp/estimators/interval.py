"""Confidence intervals of means of skewed numbers."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import special

from gibbs_dp.information.checks import whole_arrays


class Interval(NamedTuple):
    """Ends of an interval for a mean, and the sample skewness they allow for."""

    low: float
    high: float
    skewness: float


@whole_arrays
def mean_interval(values: Float[np.ndarray, " datasets"], level: float = 0.95) -> Interval:
    """Interval for the mean of independent numbers that may be skewed.

    The mean of right-skewed numbers tends to be too small when its standard error is, so the upper
    end of Student's interval is too low. Each end here is the farther of Student's and that of
    Hall's cubic transformation, which removes the skewness (Hall 1992, *On the removal of skewness
    by transformation*, J. R. Stat. Soc. B 54). Its nearer end would rely on a skewness that samples
    with heavy tails understate.

    Parameters
    ----------
    values
        One number per dataset, at least two, all finite.
    level
        Coverage, in (0, 1).

    Returns
    -------
    Interval
        Its ends, and the skewness.

    Raises
    ------
    ValueError
        If there are too few values, or the level is not a probability.

    Examples
    --------
    >>> low, high, skewness = mean_interval(np.array([1.0, 2.0, 2.0, 3.0]))
    >>> round(low, 3), round(high, 3), skewness
    (0.701, 3.299, 0.0)
    """
    count = values.shape[0]
    if count < 2:
        raise ValueError(f"values: an interval needs at least two, got {count}.")
    if not 0 < level < 1:
        raise ValueError(f"level: must be between 0 and 1, got {level:g}.")
    mean = float(np.mean(values))
    centred = np.asarray(values, np.float64) - mean
    square = float(np.mean(centred**2))
    error = math.sqrt(square / (count - 1))
    if not square > 0:
        return Interval(mean, mean, 0.0)
    skewness = float(np.mean(centred**3)) / square**1.5
    student = float(special.stdtrit(count - 1, 0.5 + 0.5 * level))
    ends = [_untransformed(y, skewness, count) for y in (student, -student)]
    return Interval(
        mean - error * max(student, ends[0]), mean + error * max(student, -ends[1]), skewness
    )


def _untransformed(y: float, skewness: float, count: int) -> float:
    """Value of Student's ``T`` whose transform ``T + a T^2 + a^2 T^3 / 3 + b`` is ``y``."""
    a, b = skewness / (3 * math.sqrt(count)), skewness / (6 * math.sqrt(count))
    if abs(a) < 1e-6:
        return y - b
    return (float(np.cbrt(1 + 3 * a * (y - b))) - 1) / a
