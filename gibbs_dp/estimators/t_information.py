"""Bounds of the T-information between dataset and draw, from densities of draws."""

from __future__ import annotations

import numpy as np

from gibbs_dp.estimators.average import Average, is_tame
from gibbs_dp.estimators.group_sums import Grouped
from gibbs_dp.estimators.left_out import left_out

_LARGEST_LOG = 300.0


def t_information_upper(sums: Grouped) -> Average:
    """Upper bound in mean of ``T(theta; Z)``, the total variation from the product of the laws.

    ``T = E (1 - p(theta) / p(theta|Z))_+``, convex in the marginal density, in whose place is the
    mean of the other datasets' densities: unbiased, so that the bound is too large on average
    (Jensen). That ratio less one has mean zero and is the control variate, with half as
    coefficient: ``abs(1 - p(theta) / p(theta|Z)) / 2``; left out where it has heavy tails.

    Parameters
    ----------
    sums
        Of power 1.

    Returns
    -------
    Average
        A total variation.
    """
    log_ratio = sums.log_sum(1.0) - np.log(sums.size() - 1.0)
    control = np.expm1(np.minimum(log_ratio, _LARGEST_LOG))
    values = np.maximum(-control, 0.0)
    if is_tame(log_ratio[:, 0]):
        values = values + 0.5 * control
    return left_out(sums.mean(values), sums.num_datasets)


def t_information_lower(sums: Grouped) -> Average:
    """Lower bound in mean of ``T(theta; Z)``: how well one half's test works on the other half.

    The test says that a draw belongs to a dataset where the dataset's posterior is denser than
    the mean of the other half's posteriors. Its advantage, right where it does belong less wrong
    where it does not, is at most ``T``, whatever the test. Draws of a half's ``K`` datasets are
    draws of their mixture ``q``, under which the advantage is the mean over these datasets of
    ``(p(theta|Z_k) / q - 1)`` where the test says yes, times ``K / (K - 1)`` for ``theta`` that
    was drawn for ``Z_k`` itself. The test is nearly the best one, so that what the other half's
    luck does to the advantage is of second order, and not in the error.

    Parameters
    ----------
    sums
        Of power 1.

    Returns
    -------
    Average
        A total variation, about 0 where there is nothing to see.
    """
    found = []
    for half in (0, 1):
        is_mine = (sums.own_fold == half).astype(np.float64)
        size, fold = sums.size(half), sums.groups.fold(half)
        log_mixture = np.logaddexp(sums.log_sum(1.0, half), 0.0) - np.log(size)
        mean = sums.log_sum(1.0, 1 - half)[:, :1] - np.log(sums.size(1 - half)[0])
        own = (mean < 0.0).astype(np.float64)
        with np.errstate(divide="ignore"):
            hit = np.logaddexp(
                sums.top[:, half, None] + np.log(sums.hit_density @ fold), np.log(own)
            )
        gained = np.exp(hit - log_mixture) - (sums.hits @ fold + own)
        found.append(sums.mean(gained, is_mine) / (size - 1.0))
    return left_out(0.5 * (found[0] + found[1]), sums.num_datasets)
