"""Averages over two halves of the datasets: one half measures what the other chooses."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from gibbs_dp.estimators.average import LIMIT_Z, Average, control_share, fitted_share
from gibbs_dp.information.checks import whole_arrays

Fold = Int[np.ndarray, " datasets"]


class Half(NamedTuple):
    """Number, mean, variance and third central moment of one half's datasets."""

    size: int
    mean: float
    variance: float
    third: float

    @property
    def limit(self) -> float:
        """Upper confidence limit of the mean."""
        if self.size < 2:
            return math.inf
        spread = math.sqrt(self.variance / self.size)
        return self.mean + LIMIT_Z * spread * _lengthened(self.third, self.variance, self.size)


class Halves(NamedTuple):
    """A mean over datasets, kept in two halves.

    Examples
    --------
    >>> halves(np.array([1.0, 2.0, 3.0, 4.0]), np.array([0, 1, 0, 1])).value
    2.5
    """

    first: Half
    second: Half

    @property
    def num_datasets(self) -> int:
        """Datasets of both halves."""
        return self.first.size + self.second.size

    @property
    def value(self) -> float:
        """Mean over all datasets."""
        return sum(h.size * h.mean for h in self if h.size) / self.num_datasets

    @property
    def se(self) -> float:
        """Standard error of the mean."""
        if min(h.size for h in self) < 2:
            return math.nan
        return math.sqrt(sum(h.size * h.variance for h in self)) / self.num_datasets

    @property
    def average(self) -> Average:
        """Mean and standard error."""
        return Average(self.value, self.se, self.num_datasets)

    @property
    def upper_se(self) -> float:
        """Standard error for an upper limit: larger where datasets are skewed to the right."""
        third = sum(h.size * h.third for h in self) / self.num_datasets
        variance = sum(h.size * h.variance for h in self) / self.num_datasets
        return self.se * _lengthened(third, variance, self.num_datasets)


def _lengthened(third: float, variance: float, count: int) -> float:
    """Factor by which skewness lengthens the upper end of an interval of ``LIMIT_Z`` errors.

    From Hall's (1992) cubic transformation of Student's statistic, which is monotone: means of
    skewed numbers are too small when their standard errors are too small as well.
    """
    if not variance > 0 or not third > 0:
        return 1.0
    skew = max(third / variance**1.5 / math.sqrt(count), 1e-6)
    root = float(np.cbrt(1.0 - skew * (LIMIT_Z + skew / 6.0)))
    return 3.0 / skew * (1.0 - root) / LIMIT_Z


def fold_of(num_datasets: int) -> Int[np.ndarray, " {num_datasets}"]:
    """Assign datasets to halves 0 and 1, in turn."""
    return np.arange(num_datasets) % 2


@whole_arrays
def halves(values: Float[np.ndarray, " datasets"], fold: Fold) -> Halves:
    """Moments of both halves of the datasets."""
    return Halves(_half(values[fold == 0]), _half(values[fold == 1]))


def constant(value: float, num_datasets: int) -> Halves:
    """Turn a number without error into a candidate."""
    half = Half(max(2, num_datasets // 2), value, 0.0, 0.0)
    return Halves(half, half)


def _half(values: Float[np.ndarray, " datasets"]) -> Half:
    count = values.shape[0]
    if count < 2:
        return Half(count, float(values.mean()) if count else math.nan, math.nan, math.nan)
    centred = values - values.mean()
    return Half(
        count,
        float(values.mean()),
        float(np.sum(centred**2) / (count - 1)),
        float(np.mean(centred**3)),
    )


def least_upper(candidates: Mapping[str, Halves]) -> tuple[str, Average]:
    """Least of several upper bounds: each half of the datasets uses the other half's choice.

    The least of several noisy means is too small on average; a mean over datasets that played no
    part in the choice is not. The lowest upper limit is chosen; if the halves differ, the result is
    the mean of both.
    """
    names = [min(candidates, key=lambda name: candidates[name][other].limit) for other in (1, 0)]
    parts = [candidates[name][i] for i, name in enumerate(names)]
    if names[0] == names[1]:
        chosen = candidates[names[0]]
        return names[0], Average(chosen.value, chosen.upper_se, chosen.num_datasets)
    # Halves count equally, whatever their numbers of datasets.
    spreads = [p.variance / p.size for p in parts]
    thirds = [p.third / p.size**2 for p in parts]
    se = 0.5 * math.sqrt(sum(spreads))
    skewness = sum(thirds) / max(sum(spreads), 1e-300) ** 1.5
    value = 0.5 * (parts[0].mean + parts[1].mean)
    longer = _lengthened(skewness, 1.0, 1)
    return " and ".join(names), Average(value, se * longer, sum(p.size for p in parts))


def crossed(
    values: Float[np.ndarray, " datasets"],
    control: Float[np.ndarray, " datasets"],
    fold: Fold,
    log_ratio: Float[np.ndarray, " draws"] | None = None,
    fold_of_draw: Int[np.ndarray, " draws"] | None = None,
) -> Float[np.ndarray, " datasets"]:
    """Add a control variate of mean zero, each half with the coefficient of the other.

    A coefficient fitted to the numbers it is used on biases their mean, downwards where the
    control variate is left out when it looks heavy-tailed.
    """
    out = values.copy()
    for half in (0, 1):
        mine, other = fold == half, fold != half
        if log_ratio is None:
            share = fitted_share(values[other], -control[other])
        else:
            seen = log_ratio[fold_of_draw != half]
            share = control_share(values[other], control[other], seen)
        out[mine] += share * control[mine]
    return out
