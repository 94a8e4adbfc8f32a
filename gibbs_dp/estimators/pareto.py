"""Pareto-smoothed importance weights, for many examples at once."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr

from gibbs_dp.information.checks import whole_arrays

# Fewest draws of a tail that a generalized Pareto distribution is fitted to.
FEWEST = 5
# The estimator's prior: shapes are pulled to 1/2 as if by this many more draws (Vehtari et al.).
PRIOR_DRAWS, PRIOR_SHAPE = 10, 0.5
# The prior of Zhang & Stephens (2009) for the fit itself.
_PRIOR_SCALE = 3
# Shapes, one standard error up, of tails whose error counts not at all, and fully: below, weights
# have a variance that draws show; above, hardly any.
LIGHT, HEAVY = 0.45, 0.65
# Draws expected where the second moment of weights lies, if their logarithms are normal: with few,
# leaving out draws shows too little whatever the fitted shape; with many, what there is.
FEW, MANY = 8.0, 80.0
# Of heavier weights, whose largest raw one is 0: far above it nothing is known anyway.
MOST_LOG = 20.0
_LEAST_LOG = math.log(np.finfo(np.float64).tiny)
_EPS = float(np.finfo(np.float64).eps)


class ParetoSmoothed(NamedTuple):
    """Weights whose largest are replaced by what a fitted tail expects."""

    # Logarithms of weights, the largest raw one of each example at most 0: not normalized.
    log_weights: Float[np.ndarray, "examples draws"]
    # Shape of the fitted tail, an example each; infinite where a tail has too few distinct
    # draws to fit one, and 0 where all ratios are equal.
    k_hat: Float[np.ndarray, " examples"]
    # The same weights if the tail is one standard error of its shape heavier, and not cut:
    # what they may miss, which leaving out draws does not show. Fades where that shape is
    # below 0.65 and is gone at 0.45, unless logarithms of weights spread so much that few
    # draws lie where the second moment of weights is.
    log_heavier: Float[np.ndarray, "examples draws"]


def k_hat_limit(num_draws: int) -> float:
    """Shape above which smoothed weights of so many draws are not relied on.

    ``min(1 - 1 / log10(draws), 0.7)`` (Vehtari, Simpson, Gelman, Yao & Gabry 2024, *Pareto
    smoothed importance sampling*, JMLR 25(72), section 3.2.4).
    """
    return min(1.0 - 1.0 / math.log10(num_draws), 0.7) if num_draws > 1 else -math.inf


def tail_length(num_draws: int, relative_efficiency: float = 1.0) -> int:
    """Count the draws that a tail is fitted to.

    >>> tail_length(4000), tail_length(4000, 0.5), tail_length(100)
    (190, 269, 20)
    """
    return math.ceil(min(num_draws / 5, 3 * math.sqrt(num_draws / relative_efficiency)))


@whole_arrays
def pareto_smooth(
    log_ratios: Float[np.ndarray, "examples draws"], relative_efficiency: float = 1.0
) -> ParetoSmoothed:
    """Smooth the largest importance ratios of every example.

    The largest ratios are replaced by the quantiles of a generalized Pareto distribution that is
    fitted to them, and cut at the largest raw one (Vehtari et al. 2024, algorithm 1; the fit is
    that of Zhang & Stephens 2009, *Technometrics* 51).
    """
    x = log_ratios - log_ratios.max(axis=1, keepdims=True)
    num_examples, num_draws = x.shape
    k_hat = np.full(num_examples, np.inf)
    k_hat[x.min(axis=1) == 0.0] = 0.0
    length = tail_length(num_draws, relative_efficiency)
    if length >= num_draws:
        return ParetoSmoothed(x, k_hat, x)
    unseen = _unseen(x, relative_efficiency)
    heavier = x.copy()
    places = np.argpartition(x, num_draws - length - 1, axis=1)[:, num_draws - length - 1 :]
    cut = np.maximum(np.take_along_axis(x, places[:, :1], axis=1), _LEAST_LOG)
    top = np.take_along_axis(x, places[:, 1:], axis=1)
    order = np.argsort(top, axis=1)
    places = np.take_along_axis(places[:, 1:], order, axis=1)
    top = np.take_along_axis(top, order, axis=1)
    # Ratios that equal the cut are no tail: with ties, tails of several lengths.
    lengths = (top > cut).sum(axis=1)
    for size in np.unique(lengths[lengths >= FEWEST]).tolist():
        rows = np.flatnonzero(lengths == size)
        first = length - size
        least = np.exp(cut[rows])
        shape, scale = _fit(np.exp(top[rows, first:]) - least)
        k_hat[rows] = np.where(np.isfinite(shape), shape, np.inf)
        smoothed = np.log(_quantiles(size, shape, scale) + least)
        # The error of a shape by maximum likelihood (Smith 1987, Annals of Statistics 15).
        high = shape + (1 + shape) / math.sqrt(size)
        more = np.log(_quantiles(size, high, scale) + least)
        more = np.minimum(more, MOST_LOG)
        is_fitted = np.isfinite(smoothed).all(axis=1)
        rows, more = rows[is_fitted], more[is_fitted]
        smoothed = np.minimum(smoothed[is_fitted], 0.0)
        share = np.clip((high[is_fitted] - LIGHT) / (HEAVY - LIGHT), 0.0, 1.0)
        share = np.maximum(share, unseen[rows])[:, None]
        x[rows[:, None], places[rows, first:]] = smoothed
        heavier[rows[:, None], places[rows, first:]] = smoothed + share * (more - smoothed)
    return ParetoSmoothed(x, k_hat, heavier)


def _unseen(
    x: Float[np.ndarray, "examples draws"], relative_efficiency: float
) -> Float[np.ndarray, " examples"]:
    """Say how little draws show of the second moment of weights, from 0 to 1.

    Were logarithms normal with standard deviation ``s``, it would lie ``2 s`` standard deviations
    out, where few draws are.
    """
    spread = x.std(axis=1)
    count = np.maximum(relative_efficiency * x.shape[1] * ndtr(-2.0 * spread), 1e-300)
    return np.clip(np.log(MANY / count) / math.log(MANY / FEW), 0.0, 1.0)


def _fit(
    tails: Float[np.ndarray, "examples tail"],
) -> tuple[Float[np.ndarray, " examples"], Float[np.ndarray, " examples"]]:
    """Shape and scale of generalized Pareto distributions, of sorted draws above zero."""
    size = tails.shape[1]
    grid = 30 + math.isqrt(size)
    steps = 1 - np.sqrt(grid / (np.arange(1, grid + 1) - 0.5))
    quartile = tails[:, int(size / 4 + 0.5) - 1, None]
    with np.errstate(all="ignore"):  # a tail that cannot be fitted becomes NaN
        b = steps / (_PRIOR_SCALE * quartile) + 1 / tails[:, -1:]
        k = np.log1p(-b[:, :, None] * tails[:, None, :]).mean(axis=2)
        length_scale = size * (np.log(-b / k) - k - 1)
        weights = np.exp(length_scale - length_scale.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        weights = np.where(weights >= 10 * _EPS, weights, 0.0)
        weights /= weights.sum(axis=1, keepdims=True)
        b_mean = np.sum(b * weights, axis=1)
        k_mean = np.log1p(-b_mean[:, None] * tails).mean(axis=1)
        scale = -k_mean / b_mean
    shape = (size * k_mean + PRIOR_DRAWS * PRIOR_SHAPE) / (size + PRIOR_DRAWS)
    return shape, scale


def _quantiles(
    size: int, shape: Float[np.ndarray, " examples"], scale: Float[np.ndarray, " examples"]
) -> Float[np.ndarray, "examples tail"]:
    """Return what to expect of sorted draws of generalized Pareto laws; NaN without a fit."""
    exponential = -np.log1p(-(np.arange(size) + 0.5) / size)
    with np.errstate(all="ignore"):
        k = np.where(np.abs(shape) < _EPS, np.nan, shape)[:, None]
        grown = np.where(np.isnan(k), exponential, np.expm1(k * exponential) / k)
        found = np.where((scale > 0) & np.isfinite(shape), scale, np.nan)[:, None] * grown
    return np.asarray(found)
