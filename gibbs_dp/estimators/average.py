"""Averages over datasets, the only independent units, with standard errors."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import special

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
    """Mean and standard error over the kept datasets, in float64, given these; NaN for too few."""
    kept = np.asarray(values, dtype=np.float64)
    if keep is not None:
        kept = kept[keep]
    count = kept.shape[0]
    value = float(kept.mean()) if count else float("nan")
    se = float(kept.std(ddof=1) / np.sqrt(count)) if count > 1 else float("nan")
    return Average(value, se, count)


def students(z: float, num_datasets: int) -> float:
    """Return how many standard errors a mean over datasets keeps to as often as to ``z`` known.

    Errors that are themselves estimated, from few datasets, are too small now and then: Student's
    quantile. Infinite for fewer than two datasets.

    >>> [round(students(4.0, num_datasets), 1) for num_datasets in (4, 8, 16, 1024)]
    [32.6, 8.5, 5.5, 4.0]
    """
    if num_datasets < 2:
        return math.inf
    return float(special.stdtrit(num_datasets - 1, special.ndtr(z)))


# Largest Hill index, of a ratio's largest twentieth, at which its mean is relied on: at 1/2 the
# variance is infinite, at 1/3 the skewness, and samples look far tamer than they are.
MAX_TAIL_INDEX = 0.25


def is_tame(log_ratio: Float[np.ndarray, " draws"]) -> bool:
    """Whether a ratio's tail is light enough to rely on its mean over draws."""
    threshold = np.quantile(log_ratio, 0.95)
    tail = log_ratio[log_ratio > threshold]
    return not tail.size or float(np.mean(tail - threshold)) <= MAX_TAIL_INDEX


# Standard errors from zero at which a control variate's mean is not what it is taken for; more of
# few datasets (`students`).
MAX_CENTRE_Z = 4.0


def is_centred(control: Float[np.ndarray, " datasets"]) -> bool:
    """Whether the mean of a control variate is zero, as far as its datasets tell.

    A ratio may be large only where nothing was drawn: on a finite class whose posteriors sit on
    one candidate each, its mean over draws is far below one, and no tail is seen.
    """
    mean = average(control)
    return not abs(mean.value) > students(MAX_CENTRE_Z, mean.num_datasets) * mean.se


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


# Averages over the datasets that hold a row of a table, for every row.


# Examples that are sorted at a time.
_CHUNK = 2**22


class RowAverages(NamedTuple):
    """A mean for every row, its standard error, and the number of datasets that hold the row."""

    value: Float[np.ndarray, " rows"]
    se: Float[np.ndarray, " rows"]
    num_datasets: Int[np.ndarray, " rows"]


@whole_arrays
def average_by_row(
    values: Float[np.ndarray, "datasets places"],
    rows: Int[np.ndarray, "datasets places"],
    num_rows: int,
) -> RowAverages:
    """Mean and standard error of what examples are worth, by the row that they are.

    A dataset may hold a row several times. All of its examples count, so that the rows' means,
    weighted by how often rows are drawn, are the mean over examples; but they are one unit. The
    mean is a ratio of two sums over datasets (Cochran 1977, *Sampling Techniques*, section 2.11:
    linearized variance), with the number of datasets less one below.
    """
    height = max(1, _CHUNK // max(1, values.shape[1]))
    sums = np.zeros((5, num_rows))  # of the count and the total of a row in a dataset: N, S
    held = np.zeros(num_rows, np.int64)
    for first in range(0, values.shape[0], height):
        some, where = values[first : first + height], rows[first : first + height]
        keys = where + np.arange(some.shape[0], dtype=np.int64)[:, None] * num_rows
        found, place = np.unique(keys, return_inverse=True)
        place = place.reshape(-1)
        count = np.bincount(place).astype(np.float64)
        total = np.bincount(place, some.astype(np.float64).reshape(-1))
        row = found % num_rows
        held += np.bincount(row, minlength=num_rows)
        for line, term in zip(sums, (count, total, total**2, total * count, count**2), strict=True):
            line += np.bincount(row, term, num_rows)
    of_count, of_total, of_square, of_product, of_count_square = sums
    with np.errstate(divide="ignore", invalid="ignore"):
        value = of_total / of_count
        square = of_square - 2.0 * value * of_product + value**2 * of_count_square
        error = np.sqrt(np.maximum(square, 0.0) * held / (held - 1.0)) / of_count
    return RowAverages(value, np.where(held > 1, error, np.nan), held)


# Confidence intervals of means of skewed numbers.


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
    """
    count = values.shape[0]
    if count < 2:
        raise ValueError(f"values: an interval needs at least two, got {count}.")
    if not 0 < level < 1:
        raise ValueError(f"level: must be between 0 and 1, got {level:g}.")
    return _interval(np.asarray(values, np.float64), level, count - 1.0)


# Standard errors between an estimate and its limits: 97.5% each.
LIMIT_Z = 1.96


def average_of_products(values: Float[np.ndarray, " datasets"]) -> Average:
    """Mean, and an error of which 1.96 reach the farther end of the mean's interval.

    For influences of datasets that are nearly squares and products: their mean is too small
    just when its error is, and that error is itself poorly known. Student's degrees of freedom
    are those of the variance, ``2 M / (kurtosis - 1)`` (Satterthwaite 1946), M - 1 at most.
    """
    found = average(values)
    centred = np.asarray(values, np.float64) - found.value
    square = float(np.mean(centred**2)) if found.num_datasets > 1 else 0.0
    if not square > 0:
        return found
    kurtosis = float(np.mean((centred / math.sqrt(square)) ** 4))
    count = found.num_datasets
    freedom = min(count - 1.0, 2.0 * count / max(kurtosis - 1.0, 1e-9))
    low, high, _ = _interval(np.asarray(values, np.float64), 0.95, freedom)
    return found._replace(se=max(high - found.value, found.value - low) / LIMIT_Z)


def _interval(values: Float[np.ndarray, " datasets"], level: float, freedom: float) -> Interval:
    count, mean = values.shape[0], float(np.mean(values))
    centred = values - mean
    square = float(np.mean(centred**2))
    error = math.sqrt(square / (count - 1))
    if not square > 0:
        return Interval(mean, mean, 0.0)
    skewness = float(np.mean(centred**3)) / square**1.5
    student = float(special.stdtrit(freedom, 0.5 + 0.5 * level))
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
